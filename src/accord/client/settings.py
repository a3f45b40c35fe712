"""The settings of a client, and the requests that it builds. It decides nothing, and knows nothing of HTTP."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, TypedDict, Unpack
from uuid import UUID, uuid4

from aiohttp import Fingerprint
from pydantic import ValidationError

from accord.acp.schema_parts import ContentBlock
from accord.core.backoff import Jitter
from accord.core.prompt import EVERY_TYPE, ContentValidator
from accord.core.sse import MAX_EVENT_BYTES
from accord.core.vocabulary import unknown_name
from accord.errors import RefusedError, UsageError
from accord.wire.manifest import CapabilityRequirements
from accord.wire.message import as_model, invalid_message
from accord.wire.request import AgentRequest, ClientCapabilities, Identity, ServiceRequest, SessionContext

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

USER_EXAMPLE: Final = """{"id": "ann", "name": "Ann"}"""
CAPABILITIES_EXAMPLE: Final = """{"supported_events": [], "prefers_markdown": False}"""

Wait = Callable[[float], Awaitable[None]]
"""Waits so many seconds, as `asyncio.sleep` does."""


class Options(TypedDict, total=False):
    """The settings as keywords of both clients; `ClientSettings` says what each means."""

    token: str | None
    session_id: str | None
    agent: str | None
    capabilities: ClientCapabilities | dict[str, Any] | None
    ssl: SSLContext | Fingerprint | bool
    use_proxy: bool
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
    """The options of a client, with their defaults."""

    token: str | None = None
    """Sent as a bearer token."""
    session_id: str | None = None
    """The session of every request; a new one by default."""
    agent: str | None = None
    """The name of the agent that must answer; by default the one that the service serves."""
    capabilities: ClientCapabilities | dict[str, Any] | None = None
    """What this client can display; by default that of the standard client."""
    ssl: SSLContext | Fingerprint | bool = True
    """How the service's certificate is verified, as aiohttp takes it."""
    use_proxy: bool = True
    """Whether to connect through the proxy that the environment names."""
    timeout_s: float = 600.0
    """Time limit of everything but streams, with all attempts."""
    connect_s: float = 10.0
    """Time limit of connecting."""
    idle_s: float = 45.0
    """Time limit of silence, without even a heartbeat, after which a connection is given up and the request repeated.

    It applies to each piece of a request, to the headers of a stream, and to each piece of an answer.
    """
    patience_s: float = 300.0
    """The longest Retry-After of a service that is waited for; a longer one fails the request."""
    max_attempts: int | None = 8
    """How many attempts in a row may fail; 8 take about a minute. None: no limit."""
    retry_connect: bool = False
    """Whether to try again when no connection can be made (nothing listens, unknown host), instead of failing at once.

    A request that has reached the service before is repeated in any case: the service is probably restarting.
    """
    max_answer_bytes: int = MAX_ANSWER_BYTES
    max_event_bytes: int = MAX_EVENT_BYTES
    wait: Wait = asyncio.sleep
    """Waits between two attempts."""
    jitter: Jitter | None = None
    """Random numbers from 0 to 1 that spread the attempts of many clients (full jitter), such as `random.random`."""

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token):
            raise UsageError("token: expected printable ASCII text")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise UsageError("max_attempts: expected at least 1, or None for no limit")
        for name in ("timeout_s", "connect_s", "idle_s", "max_answer_bytes", "max_event_bytes"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}: expected more than 0")


def make_settings(client: str, **options: Unpack[Options]) -> ClientSettings:
    """The settings of these options; raises `UsageError` for an unknown one."""
    for name in options.keys() - Options.__annotations__.keys():
        raise UsageError(f"{client}: {unknown_name('option', name, ('user', *Options.__annotations__))}")
    return ClientSettings(**options)


class Payload(TypedDict, total=False):
    """What a request may contain beside the query: the fields of an `AgentRequest`, and the request id."""

    files: list[str]
    conversation_id: str | None
    meta: dict[str, Any]
    content: Sequence[ContentBlock | dict[str, Any]] | None
    requirements: CapabilityRequirements | dict[str, Any] | None
    capabilities: ClientCapabilities | dict[str, Any] | None
    request_id: UUID | None


@dataclass(frozen=True, slots=True)
class Sender:
    """The user, session, agent and capabilities of a client's requests."""

    user: Identity
    session_id: str
    agent: Identity | None
    capabilities: ClientCapabilities | None

    def make_request(self, query: str, payload: Payload) -> ServiceRequest:
        """A request with this query; capabilities of the payload replace the sender's.

        Raises `InvalidMessageError`, and `RefusedError` for content that no service accepts.
        """
        for name in payload.keys() - Payload.__annotations__.keys():
            raise UsageError(f"request: {unknown_name('keyword', name, Payload.__annotations__)}")
        fields: dict[str, Any] = {"capabilities": self.capabilities, **payload}
        request_id = fields.pop("request_id", None) or uuid4()
        try:
            context = SessionContext(session_id=self.session_id, user=self.user, agent=self.agent)
            return ServiceRequest(request_id=request_id, context=context, payload=AgentRequest(query=query, **fields))
        except ValidationError as error:
            wrong = invalid_message("ServiceRequest", error)
        if all(problem.field.startswith("content") for problem in wrong.problems):
            # As the service refuses such content, whatever its agent accepts.
            verdict = ContentValidator(EVERY_TYPE).validate(fields["content"])
            if verdict.error is not None and verdict.code is not None:
                raise RefusedError(verdict.error["message"], verdict.code, verdict.error["data"])
        raise wrong


ReadAs = ClientCapabilities | dict[str, Any] | str | None
"""The capabilities of a client that reads an earlier request, or its name, such as "voice". None: as it was sent."""


def declaration_text(declared: ReadAs) -> str | None:
    """The capabilities as the text of a header, which is ASCII."""
    if declared is None or isinstance(declared, str):
        return declared
    return json.dumps(as_model(ClientCapabilities, declared, "capabilities", CAPABILITIES_EXAMPLE).dump())


def make_sender(user: Identity | dict[str, Any] | str, settings: ClientSettings) -> Sender:
    """A sender. A user given as text has this text as id and name."""
    if isinstance(user, str):
        user = {"id": user, "name": user}
    identity = as_model(Identity, user, "user", USER_EXAMPLE)
    capabilities = settings.capabilities
    if capabilities is not None:
        capabilities = as_model(ClientCapabilities, capabilities, "capabilities", CAPABILITIES_EXAMPLE)
    agent = None if settings.agent is None else Identity(id=settings.agent, name=settings.agent)
    return Sender(identity, settings.session_id or str(uuid4()), agent, capabilities)
