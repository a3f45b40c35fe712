"""The settings of a client, and the request that a question becomes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID, uuid4

from aiohttp import Fingerprint
from pydantic import ValidationError

from accord.core.backoff import Jitter
from accord.core.sse import MAX_EVENT_BYTES
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError
from accord.wire.acp.content import ContentBlock
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import as_model, invalid_message
from accord.wire.request import AgentRequest, ClientCapabilities, Identity, ServiceRequest, SessionContext

# What a client may be told: who asks and what it can show, how long it waits, how often it tries. No decisions.

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

Wait = Callable[[float], Awaitable[None]]
"""Waits so many seconds, as `asyncio.sleep` does."""


class Options(TypedDict, total=False):
    """The settings as keywords of both clients; `ClientSettings` says what each means."""

    token: str | None
    session_id: str | None
    capabilities: ClientCapabilities | dict[str, Any] | None
    ssl: SSLContext | Fingerprint | bool
    timeout_s: float
    connect_s: float
    idle_s: float
    patience_s: float
    max_attempts: int | None
    retry_connect: bool
    max_answer_bytes: int
    max_event_bytes: int
    wait: Wait
    jitter: Jitter | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client behaves."""

    token: str | None = None
    """Sent as a bearer token."""
    session_id: str | None = None
    """The session of every request; a new one if none is named."""
    capabilities: ClientCapabilities | dict[str, Any] | None = None
    """What this client can show; silence means the standard client."""
    ssl: SSLContext | Fingerprint | bool = True
    """How the service's certificate is checked, as aiohttp takes it."""
    timeout_s: float = 600.0
    """The longest that anything but a stream may take, with all its attempts."""
    connect_s: float = 10.0
    """The longest that one connection may take to be made."""
    idle_s: float = 45.0
    """The longest silence, without even a heartbeat, before an answer is taken to be dead and asked for again.

    It bounds the waits for a piece of a question to be taken, for a stream's head, and for each piece of an answer.
    """
    patience_s: float = 300.0
    """A service that asks for a longer wait than this is not waited for."""
    max_attempts: int | None = 8
    """How many attempts in a row may fail, which is about a minute; None for no end."""
    retry_connect: bool = False
    """Try again when no connection can be made (nothing listens, unknown host); otherwise that fails at once.

    A call that has reached the service before is tried again in any case: the service is probably restarting.
    """
    max_answer_bytes: int = MAX_ANSWER_BYTES
    max_event_bytes: int = MAX_EVENT_BYTES
    wait: Wait = asyncio.sleep
    """How the time between two attempts is spent."""
    jitter: Jitter | None = None
    """Spreads the attempts of many clients (full jitter): `random.random`."""

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token):
            raise UsageError("token: expected printable ASCII text")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise UsageError("max_attempts: expected at least 1, or None for no end")
        for name in ("timeout_s", "connect_s", "idle_s", "max_answer_bytes", "max_event_bytes"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}: expected more than 0")


def make_settings(client: str, **options: Unpack[Options]) -> ClientSettings:
    """The settings for these keywords of a client; raises `UsageError` for one that does not exist."""
    for name in options.keys() - Options.__annotations__.keys():
        raise UsageError(f"{client}: {unknown_name('option', name, ('user', *Options.__annotations__))}")
    return ClientSettings(**options)


# Builds the request that a question becomes. Pure but for the ids it makes up; knows nothing of HTTP.

USER: Final = """{"id": "ann", "name": "Ann"}"""
CAPABILITIES: Final = """{"supported_events": [], "prefers_markdown": False}"""


class Payload(TypedDict, total=False):
    """What may be said beside the question: the fields of an `AgentRequest`, and the request's own id."""

    files: list[str]
    conversation_id: str | None
    meta: dict[str, Any]
    content: Sequence[ContentBlock | dict[str, Any]] | None
    requirements: CapabilityRequirements | dict[str, Any] | None
    capabilities: ClientCapabilities | dict[str, Any] | None
    request_id: UUID | None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who asks, in which session, and what they can show."""

    user: Identity
    session_id: str
    capabilities: ClientCapabilities | None

    def request(self, query: str, said: Payload) -> ServiceRequest:
        """This question as a request; capabilities said here go before the sender's. Raises `InvalidMessageError`."""
        for name in said.keys() - Payload.__annotations__.keys():
            raise UsageError(f"question: {unknown_name('keyword', name, Payload.__annotations__)}")
        fields: dict[str, Any] = {"capabilities": self.capabilities, **said}
        request_id = fields.pop("request_id", None) or uuid4()
        try:
            payload = AgentRequest(query=query, **fields)
            return ServiceRequest(request_id=request_id, context=self._context(), payload=payload)
        except ValidationError as error:
            raise invalid_message("ServiceRequest", error) from None

    def _context(self) -> SessionContext:
        return SessionContext(session_id=self.session_id, user=self.user)


def make_sender(
    user: Identity | dict[str, Any] | str,
    session_id: str | None,
    capabilities: ClientCapabilities | dict[str, Any] | None,
) -> Sender:
    """A sender; a plain text is the id and the name of a user."""
    named = {"id": user, "name": user} if isinstance(user, str) else user
    shows = None if capabilities is None else as_model(ClientCapabilities, capabilities, "capabilities", CAPABILITIES)
    return Sender(as_model(Identity, named, "user", USER), session_id or str(uuid4()), shows)
