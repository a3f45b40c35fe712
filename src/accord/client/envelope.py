"""Builds the request that a question becomes. Pure but for the ids it makes up; knows nothing of HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict
from uuid import UUID, uuid4

from pydantic import ValidationError

from accord.core.suggest import unknown_name
from accord.errors import UsageError
from accord.wire.acp.content import ContentBlock
from accord.wire.client import ClientCapabilities
from accord.wire.message import as_model, invalid_message
from accord.wire.request import AgentRequest, Identity, ServiceRequest, SessionContext
from accord.wire.requirement import CapabilityRequirements

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


def sender_of(
    user: Identity | dict[str, Any] | str,
    session_id: str | None,
    capabilities: ClientCapabilities | dict[str, Any] | None,
) -> Sender:
    """A sender; a plain text is the id and the name of a user."""
    named = {"id": user, "name": user} if isinstance(user, str) else user
    shows = None if capabilities is None else as_model(ClientCapabilities, capabilities, "capabilities", CAPABILITIES)
    return Sender(as_model(Identity, named, "user", USER), session_id or str(uuid4()), shows)
