"""The client's messages, parsed, and the agent's answers to them: `initialize`, `session/prompt`, errors. Pure.

A client may declare Accord's `ClientCapabilities` in the `_meta` of `initialize`. Without it the client is treated as
an editor: markdown, thoughts, progress, plans and tool calls; every other event reaches it as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from pydantic import TypeAdapter, ValidationError

from accord.acp import schema_v2
from accord.acp.content import ContentType, prompt_text
from accord.acp.draft import VERSION as DRAFT
from accord.acp.draft import draft_initialize_response
from accord.acp.schema_parts import ContentBlock, PromptCapabilities, TextContent
from accord.acp.schema_v1 import (
    AgentCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    SessionCapabilities,
)
from accord.core.prompt import Declaration
from accord.errors import ERROR_FACTS, AccordError, ErrorCode, InvalidMessageError, Problem, RpcCode
from accord.run import SentContent
from accord.servers.acp.updates import DraftWriter, StableWriter
from accord.stdio import RpcError
from accord.wire.agent_work import PLAN, TOOL_CALL
from accord.wire.event import PresentationEventType
from accord.wire.message import invalid_message
from accord.wire.packet import StreamError
from accord.wire.problem import stream_error
from accord.wire.request import ClientCapabilities

STABLE: Final = 1
CAPABILITIES_KEY: Final = "accord.capabilities"
"""The key of `_meta` under which a client may declare its `ClientCapabilities`."""

ITEM_METHOD: Final = "_accord/item"
"""An extension method, which ACP marks by an underscore: get an event that was kept because it could not be shown."""

METHODS_KEY: Final = "accord.methods"
"""The key of `_meta` under which the agent lists Accord's extension methods."""

DEFAULT_EDITOR: Final = ClientCapabilities(
    supported_events=[
        str(PresentationEventType.THOUGHT_TRACE),
        str(PresentationEventType.PROGRESS_INDICATOR),
        PLAN,
        TOOL_CALL,
    ],
    prefers_markdown=True,
)
"""The capabilities of a client that declares none."""


@dataclass(frozen=True, slots=True)
class ClientHandshake:
    """The result of the handshake: the negotiated version and the client's capabilities."""

    version: int
    capabilities: ClientCapabilities

    @property
    def is_draft(self) -> bool:
        """Whether the version 2 draft was negotiated."""
        return self.version >= DRAFT

    def writer(self, session_id: str) -> StableWriter:
        """What writes the messages of a session."""
        return DraftWriter(session_id) if self.is_draft else StableWriter(session_id)


def read_initialize(raw: bytes) -> ClientHandshake:
    """Negotiate the version and read the client's capabilities; raises `InvalidMessageError` if they are malformed."""
    request = InitializeRequest.parse(raw)
    extra: Mapping[str, Any] = request.model_extra or {}
    draft = extra.get("capabilities")
    # A client that offers the draft may still declare where version 1 has it, so both places are read.
    metas = [
        cast("Mapping[str, Any]", draft).get("_meta") if isinstance(draft, Mapping) else None,
        request.client_capabilities.meta,
    ]
    declared = [cast("Mapping[str, Any]", meta).get(CAPABILITIES_KEY) for meta in metas if isinstance(meta, Mapping)]
    found = next((given for given in declared if given is not None), None)
    version = DRAFT if request.protocol_version >= DRAFT else STABLE
    if found is None:
        return ClientHandshake(version, DEFAULT_EDITOR)
    try:
        return ClientHandshake(version, ClientCapabilities.model_validate(found))
    except ValidationError as error:
        raise invalid_message(f"_meta[{CAPABILITIES_KEY!r}]", error) from None


def initialize_response(
    handshake: ClientHandshake, name: str, version: str, declaration: Declaration
) -> InitializeResponse | schema_v2.InitializeResponse:
    """The response to `initialize`, with the content types that the agent declares."""
    image, audio, embedded = (
        declaration.accepts(kind) for kind in (ContentType.IMAGE, ContentType.AUDIO, ContentType.RESOURCE)
    )
    response = InitializeResponse(
        protocol_version=STABLE,
        agent_capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=image, audio=audio, embedded_context=embedded),
            session_capabilities=SessionCapabilities.model_validate({"list": {}, "resume": {}, "close": {}}),
            _meta={METHODS_KEY: [ITEM_METHOD]},
        ),
        agent_info=Implementation(name=name, version=version, title=name),
        auth_methods=[],
    )
    return draft_initialize_response(response) if handshake.is_draft else response


PROMPT_REQUEST: Final = "PromptRequest"
CONTENT_CODES: Final = frozenset({ErrorCode.CONTENT_INVALID, ErrorCode.CONTENT_UNSUPPORTED, ErrorCode.PARSE_ERROR})
"""Errors of content, whose `data` the protocol specifies to the letter."""
_ERROR_CODES: Final = frozenset(map(str, ErrorCode))


def to_rpc_error(error: Exception) -> RpcError:
    """The JSON-RPC error for an exception; one that is not Accord's own becomes an internal error without details."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, InvalidMessageError):
        return RpcError(RpcCode.INVALID_PARAMS, error.message, dict(error.details) or None)
    if isinstance(error, AccordError) and error.code in CONTENT_CODES:
        return RpcError(error.facts.jsonrpc, error.message, dict(error.details))
    if isinstance(error, AccordError):
        return stream_rpc_error(stream_error(error))
    return RpcError(RpcCode.INTERNAL_ERROR, ERROR_FACTS[ErrorCode.INTERNAL].title)


def stream_rpc_error(error: StreamError) -> RpcError:
    """The JSON-RPC error for the error packet of a stream; Accord's own code is in `data`."""
    number = ERROR_FACTS[ErrorCode(error.code)].jsonrpc if error.code in _ERROR_CODES else RpcCode.INTERNAL_ERROR
    data: dict[str, Any] = {**(error.details or {}), "code": error.code, "severity": str(error.severity)}
    return RpcError(number, error.message, data)


class _PromptFields(msgspec.Struct, rename="camel"):
    session_id: str
    prompt: msgspec.Raw


@dataclass(frozen=True, slots=True)
class PromptParams:
    """The parameters of `session/prompt`; `prompt` is JSON whose content has not been checked."""

    session_id: str
    prompt: bytes


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """A prompt: the texts, joined by line ends, its other blocks in their order, and all of them as they were sent.

    `query` and `content` are empty if the blocks could not be parsed; what is wrong with them is decided at admission.
    """

    query: str
    content: list[ContentBlock]
    sent: SentContent


_read = msgspec.json.Decoder(_PromptFields).decode
_read_values = msgspec.json.Decoder().decode
_blocks: Final = TypeAdapter(list[ContentBlock])


def read_prompt(raw: bytes) -> PromptParams:
    """Parse the parameters; raises `InvalidMessageError` if the session id or the prompt is missing."""
    try:
        params = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        field = "prompt" if "`prompt`" in str(error) else "sessionId"
        expected = "expected an object with the text sessionId and the array prompt"
        raise InvalidMessageError(PROMPT_REQUEST, [Problem(field, expected)]) from None
    return PromptParams(params.session_id, bytes(params.prompt))


def parse_prompt(prompt: bytes, version: int) -> ReadPrompt:
    """Parse the content blocks of a prompt, once: every reader of a long text or media shares what was read."""
    values: Any = None
    try:
        values = _read_values(prompt)
        blocks = _blocks.validate_python(values)
    except ValidationError as error:
        sent = SentContent(prompt, version, invalid_message(PROMPT_REQUEST, error), values)
        return ReadPrompt("", [], sent)
    except (ValueError, RecursionError):
        problem = Problem("prompt", "expected JSON")
        return ReadPrompt("", [], SentContent(prompt, version, InvalidMessageError(PROMPT_REQUEST, [problem])))
    content = [block for block in blocks if not isinstance(block, TextContent)]
    return ReadPrompt(prompt_text(values), content, SentContent(prompt, version, None, values))
