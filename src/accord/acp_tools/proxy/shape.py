"""Check what an agent sends against the negotiated protocol version: a sentence for each fault. Pure.

Nearly everything that an agent sends is a text chunk or a tool call update. Compiled code verifies those quickly;
whatever it does not accept is checked with the wire models, which say what is wrong. What a foreign agent
sends is checked for shape only; the declared prompt capabilities do not apply to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from accord.core.prompt import EVERY_TYPE, ContentValidator, ValidationContext
from accord.errors import InvalidMessageError
from accord.wire.acp.base import AcpMessage
from accord.wire.acp.draft_update import DraftSessionNotification
from accord.wire.acp.tool import DraftRequestPermissionRequest, RequestPermissionRequest
from accord.wire.acp.update import SessionNotification

V1_PATH: Final = ("agentCapabilities", "promptCapabilities")
DRAFT_PATH: Final = ("capabilities", "session", "prompt")


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the `initialize` exchange settled: the version and the declared prompt content."""

    validator: ContentValidator
    version: int = 1
    is_done: bool = False


BEFORE_HANDSHAKE: Final = Handshake(ContentValidator(None))
"""Omitted means unsupported, and before the handshake everything is omitted."""
SHAPE_ONLY: Final = ContentValidator(EVERY_TYPE)
"""Accepts every content type, so that only malformed content is found; use it `in_version` of the handshake."""


def read_handshake(result: Any) -> Handshake:
    """The handshake in this result of `initialize`, which may have any shape."""
    members = _as_object(result)
    received = members.get("protocolVersion")
    version = received if isinstance(received, int) and not isinstance(received, bool) else 1
    for key in DRAFT_PATH if version >= 2 else V1_PATH:
        members = _as_object(members.get(key))
    return Handshake(ContentValidator(members, protocol_version=version), version, is_done=True)


def _as_object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


UPDATE: Final = "session/update"
PERMISSION: Final = "session/request_permission"
MAX_FAULTS: Final = 20

MODELS: Final[Mapping[str, tuple[type[AcpMessage], type[AcpMessage]]]] = {
    UPDATE: (SessionNotification, DraftSessionNotification),
    PERMISSION: (RequestPermissionRequest, DraftRequestPermissionRequest),
}
"""The parameters of an agent's methods, in version 1 and in the draft."""


class _TextContent(msgspec.Struct, gc=False):
    type: Literal["text"]
    text: str


class _ToolContent(msgspec.Struct, tag_field="type", tag="content", gc=False):
    content: "_ShortTextContent"


class _ShortTextContent(msgspec.Struct, gc=False):
    """Far below the size limits that the wire models check."""

    type: Literal["text"]
    text: Annotated[str, msgspec.Meta(max_length=1024 * 1024)]


class _DiffContent(msgspec.Struct, tag_field="type", tag="diff", gc=False):
    path: str
    newText: str  # noqa: N815 - names of the wire format, here and below


class _TerminalContent(msgspec.Struct, tag_field="type", tag="terminal", gc=False):
    terminalId: str  # noqa: N815


class _UpdateKind(msgspec.Struct, tag_field="sessionUpdate", gc=False):
    pass


class _MessageChunk(_UpdateKind, tag="agent_message_chunk", gc=False):
    content: _TextContent


class _ThoughtChunk(_UpdateKind, tag="agent_thought_chunk", gc=False):
    content: _TextContent


class _UserChunk(_UpdateKind, tag="user_message_chunk", gc=False):
    content: _TextContent


class _ToolUpdate(_UpdateKind, tag="tool_call_update", gc=False):
    toolCallId: str  # noqa: N815
    content: list[_ToolContent | _DiffContent | _TerminalContent] | None = None


class _DraftMessageChunk(_MessageChunk, tag="agent_message_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftThoughtChunk(_ThoughtChunk, tag="agent_thought_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftUserChunk(_UserChunk, tag="user_message_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftToolUpdate(_UpdateKind, tag="tool_call_update", gc=False):
    toolCallId: str  # noqa: N815
    content: list[_ToolContent | _TerminalContent] | None = None


class _UpdateParams(msgspec.Struct, gc=False):
    sessionId: str  # noqa: N815
    update: _MessageChunk | _ThoughtChunk | _UserChunk | _ToolUpdate


class _DraftUpdateParams(msgspec.Struct, gc=False):
    sessionId: str  # noqa: N815
    update: _DraftMessageChunk | _DraftThoughtChunk | _DraftUserChunk | _DraftToolUpdate


class _UpdateLine(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _UpdateParams
    id: msgspec.UnsetType = msgspec.UNSET


class _DraftUpdateLine(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _DraftUpdateParams
    id: msgspec.UnsetType = msgspec.UNSET


_read_params: Final = msgspec.json.Decoder(dict[str, Any]).decode
_read_update: Final = msgspec.json.Decoder(_UpdateLine).decode
_read_draft_update: Final = msgspec.json.Decoder(_DraftUpdateLine).decode


def first_unverified(lines: list[bytes], start: int, version: int) -> int:
    """The index of the first line from `start` on that is not certainly valid, or the number of lines."""
    read = _read_draft_update if version >= 2 else _read_update
    index = start
    # One `try` for all lines: this loop runs for every update that passes the proxy.
    try:
        for index in range(start, len(lines)):
            read(lines[index])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return index
    return len(lines)


def shape_faults(method: str, raw: bytes, version: int) -> list[str]:
    """What is wrong with the parameters of this method of an agent; empty if nothing is, or the method is unknown."""
    models = MODELS.get(method)
    if models is None:
        return []
    try:
        models[version >= 2].parse(raw or b"{}")
        params = _read_params(raw)
    except InvalidMessageError as error:
        return [error.message]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ["The parameters cannot be read"]
    content = _as_object(params.get("update", params.get("toolCall"))).get("content")
    if isinstance(content, list):
        return _content_faults(cast("list[Any]", content), ValidationContext.TOOL_RESULT, version)
    if isinstance(content, Mapping):
        return _content_faults([content], ValidationContext.SESSION_UPDATE, version)
    return []


def _content_faults(content: list[Any], context: ValidationContext, version: int) -> list[str]:
    """The faults of the content blocks; diffs and terminals were checked with the models already."""
    blocks: list[Any] = []
    for item in content:
        if isinstance(item, Mapping):
            fields = cast("Mapping[str, Any]", item)
            blocks += [fields["content"]] if fields.get("type") == "content" and "content" in fields else []
            blocks += [fields] if fields.get("type") in SHAPE_ONLY.declaration.accepted else []
    faults: list[str] = []
    for violation in SHAPE_ONLY.in_version(version).validate(blocks, context).violations[:MAX_FAULTS]:
        details = violation.data.get("details")
        faults.append(f"{violation.message}: {details}" if isinstance(details, str) else violation.message)
    return faults
