"""The handshake: which version is spoken, what the agent is said to take, and what the client can show.

A client that says nothing of Accord reads markdown and shows thoughts, progress, plans and tool calls, as editors do;
everything else is told to it in words. No connection and no session is known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from accord.core.prompt import Declaration
from accord.servers.acp.sessions import ITEM_METHOD
from accord.wire.acp.content import ContentType
from accord.wire.acp.initialize import (
    AgentCapabilities,
    DraftAgentCapabilities,
    DraftInitializeResponse,
    DraftPromptCapabilities,
    DraftSessionCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    PromptCapabilities,
    SessionCapabilities,
)
from accord.wire.agent_work import PLAN, TOOL_CALL
from accord.wire.event import PresentationEventType
from accord.wire.message import invalid_message
from accord.wire.request import ClientCapabilities

STABLE: Final = 1
DRAFT: Final = 2
DECLARED_AT: Final = "accord.capabilities"
"""The key of `_meta` under which a client may say what it can show."""

METHODS_AT: Final = "accord.methods"
"""The key of `_meta` under which the agent names methods of our own."""

AN_EDITOR: Final = ClientCapabilities(
    supported_events=[
        str(PresentationEventType.THOUGHT_TRACE),
        str(PresentationEventType.PROGRESS_INDICATOR),
        PLAN,
        TOOL_CALL,
    ],
    prefers_markdown=True,
)
"""Who said nothing of what it can show is taken for this one."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What both sides know after the handshake."""

    version: int
    capabilities: ClientCapabilities

    @property
    def is_draft(self) -> bool:
        """Whether the version 2 draft is spoken."""
        return self.version >= DRAFT


def agree(raw: bytes) -> Agreed:
    """What follows from a client's `initialize`; raises `InvalidMessageError` for one that cannot be read.

    The capabilities are looked for where either version has them: who asks for the draft may still write as before.
    """
    asked = InitializeRequest.parse(raw)
    extra: Mapping[str, Any] = asked.model_extra or {}
    draft = extra.get("capabilities")
    metas = [
        cast("Mapping[str, Any]", draft).get("_meta") if isinstance(draft, Mapping) else None,
        asked.client_capabilities.meta,
    ]
    declared = [cast("Mapping[str, Any]", meta).get(DECLARED_AT) for meta in metas if isinstance(meta, Mapping)]
    found = next((given for given in declared if given is not None), None)
    version = DRAFT if asked.protocol_version >= DRAFT else STABLE
    return Agreed(version, AN_EDITOR if found is None else _declared(found))


def _declared(given: Any) -> ClientCapabilities:
    try:
        return ClientCapabilities.model_validate(given)
    except ValidationError as error:
        raise invalid_message(f"_meta[{DECLARED_AT!r}]", error) from None


def introduce(
    agreed: Agreed, name: str, version: str, takes: Declaration
) -> InitializeResponse | DraftInitializeResponse:
    """The agent's side of the handshake."""
    image, audio, embedded = (
        takes.accepts(kind) for kind in (ContentType.IMAGE, ContentType.AUDIO, ContentType.RESOURCE)
    )
    info = Implementation(name=name, version=version, title=name)
    own = {METHODS_AT: [ITEM_METHOD]}
    if agreed.is_draft:
        flags = {"image": image, "audio": audio, "embeddedContext": embedded}
        prompt = DraftPromptCapabilities.model_validate({flag: {} for flag, says_yes in flags.items() if says_yes})
        able = DraftAgentCapabilities(session=DraftSessionCapabilities(prompt=prompt), _meta=own)
        return DraftInitializeResponse(protocol_version=DRAFT, info=info, capabilities=able, auth_methods=[])
    return InitializeResponse(
        protocol_version=STABLE,
        agent_capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=image, audio=audio, embedded_context=embedded),
            session_capabilities=SessionCapabilities.model_validate({"list": {}, "resume": {}, "close": {}}),
            _meta=own,
        ),
        agent_info=info,
        auth_methods=[],
    )
