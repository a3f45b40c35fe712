"""Check what an agent sends against the negotiated protocol version: a sentence for each fault. Pure.

Nearly everything that an agent sends is a text chunk or a tool call update. Compiled code verifies those quickly;
whatever it does not accept is checked with the wire models, which say what is wrong. What a foreign agent
sends is checked for shape only; the declared prompt capabilities do not apply to it.

The proxy reports what a client could not read (`shape_faults`). The inspector also reports what a client reads only
because the protocol requires it to be lenient: malformed optional members, malformed items of lists, unknown words
(`strict_faults`), and the results of requests (`result_faults`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

import msgspec

from accord.acp import schema_v1, schema_v2
from accord.acp.base import AcpMessage
from accord.acp.methods import Method
from accord.acp.schema_parts import PermissionOptionKind, PlanEntryPriority, PlanEntryStatus, ToolCallStatus, ToolKind
from accord.acp.schema_v1 import (
    AuthenticateResponse,
    CloseSessionResponse,
    CreateTerminalRequest,
    DeleteSessionResponse,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    LogoutResponse,
    NewSessionResponse,
    PromptResponse,
    ReadTextFileRequest,
    RequestPermissionRequest,
    ResumeSessionResponse,
    SessionNotification,
    SessionUpdate,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    WriteTextFileRequest,
)
from accord.acp_tools.json_values import as_object
from accord.core.prompt import EVERY_TYPE, ContentValidator, ValidationContext
from accord.errors import InvalidMessageError

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
    members = as_object(result)
    received = members.get("protocolVersion")
    version = received if isinstance(received, int) and not isinstance(received, bool) else 1
    for key in DRAFT_PATH if version >= 2 else V1_PATH:
        members = as_object(members.get(key))
    return Handshake(ContentValidator(members, protocol_version=version), version, is_done=True)


UPDATE: Final = "session/update"
PERMISSION: Final = "session/request_permission"
MAX_FAULTS: Final = 20

Models = tuple[type[AcpMessage], type[AcpMessage]]
"""A model of version 1 and its counterpart in the draft."""

MODELS: Final[Mapping[str, Models]] = {
    UPDATE: (SessionNotification, schema_v2.UpdateSessionNotification),
    PERMISSION: (RequestPermissionRequest, schema_v2.RequestPermissionRequest),
    Method.FS_READ_TEXT_FILE: (ReadTextFileRequest, ReadTextFileRequest),
    Method.FS_WRITE_TEXT_FILE: (WriteTextFileRequest, WriteTextFileRequest),
    Method.TERMINAL_CREATE: (CreateTerminalRequest, CreateTerminalRequest),
    Method.TERMINAL_OUTPUT: (schema_v1.TerminalOutputRequest, schema_v1.TerminalOutputRequest),
    Method.TERMINAL_RELEASE: (schema_v1.TerminalOutputRequest, schema_v1.TerminalOutputRequest),
    Method.TERMINAL_WAIT_FOR_EXIT: (schema_v1.TerminalOutputRequest, schema_v1.TerminalOutputRequest),
    Method.TERMINAL_KILL: (schema_v1.TerminalOutputRequest, schema_v1.TerminalOutputRequest),
}
"""The parameters of an agent's methods."""

RESULTS: Final[Mapping[str, Models]] = {
    Method.INITIALIZE: (InitializeResponse, schema_v2.InitializeResponse),
    Method.AUTHENTICATE: (AuthenticateResponse, AuthenticateResponse),
    Method.LOGOUT: (LogoutResponse, LogoutResponse),
    Method.AUTH_LOGIN: (AuthenticateResponse, AuthenticateResponse),
    Method.AUTH_LOGOUT: (LogoutResponse, LogoutResponse),
    Method.SESSION_NEW: (NewSessionResponse, schema_v2.NewSessionResponse),
    Method.SESSION_LOAD: (LoadSessionResponse, LoadSessionResponse),
    Method.SESSION_RESUME: (ResumeSessionResponse, schema_v2.ResumeSessionResponse),
    Method.SESSION_LIST: (ListSessionsResponse, ListSessionsResponse),
    Method.SESSION_CLOSE: (CloseSessionResponse, CloseSessionResponse),
    Method.SESSION_DELETE: (DeleteSessionResponse, DeleteSessionResponse),
    Method.SESSION_SET_MODE: (SetSessionModeResponse, SetSessionModeResponse),
    Method.SESSION_SET_CONFIG_OPTION: (SetSessionConfigOptionResponse, schema_v2.SetSessionConfigOptionResponse),
    Method.SESSION_PROMPT: (PromptResponse, schema_v2.PromptResponse),
}
"""The results of a client's methods."""

CALL_STATUSES: Final = frozenset(ToolCallStatus) - {ToolCallStatus.PAUSED, ToolCallStatus.CANCELLED}
WORDS: Final[Mapping[tuple[str, ...], frozenset[str]]] = {
    ("tool_call", "status"): CALL_STATUSES,
    ("tool_call", "kind"): frozenset(ToolKind),
    ("tool_call_update", "status"): CALL_STATUSES,
    ("tool_call_update", "kind"): frozenset(ToolKind),
    ("plan", "entries", "status"): frozenset(PlanEntryStatus) - {PlanEntryStatus.CANCELLED},
    ("plan", "entries", "priority"): frozenset(PlanEntryPriority),
    (PERMISSION, "options", "kind"): frozenset(PermissionOptionKind),
    (PERMISSION, "toolCall", "status"): CALL_STATUSES,
    (PERMISSION, "toolCall", "kind"): frozenset(ToolKind),
}
"""The words that version 1 allows at these places; the draft allows any."""

UNSTABLE_UPDATES: Final = frozenset({"plan_update", "plan_removed", "tool_call_content_chunk", "terminal_update"})
"""Kinds of updates that are in the unstable schema of version 1, or in the draft, and not in version 1."""


_Content = TypeVar("_Content")
_Update = TypeVar("_Update")

CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")


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


class _ToolUpdate(msgspec.Struct, Generic[_Content], tag_field="sessionUpdate", tag="tool_call_update", gc=False):
    toolCallId: str  # noqa: N815
    content: list[_Content] | None = None


class _UpdateParams(msgspec.Struct, Generic[_Update], gc=False):
    sessionId: str  # noqa: N815
    update: _Update


class _UpdateLine(msgspec.Struct, Generic[_Update], gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _UpdateParams[_Update]
    id: msgspec.UnsetType = msgspec.UNSET


def _reader(tool_update: Any, **members: type) -> Callable[[bytes], object]:
    """What reads a line with such a tool update, or a chunk of text that has these members as well."""
    fields = [("content", _TextContent), *members.items()]
    chunks = [msgspec.defstruct(kind, fields, tag_field="sessionUpdate", tag=kind, gc=False) for kind in CHUNKS]
    line: Any = _UpdateLine[reduce(lambda union, chunk: union | chunk, chunks, tool_update)]
    return msgspec.json.Decoder(line).decode


_read_params: Final = msgspec.json.Decoder(dict[str, Any]).decode
_read_update: Final = _reader(_ToolUpdate[_ToolContent | _DiffContent | _TerminalContent])
_read_draft_update: Final = _reader(_ToolUpdate[_ToolContent | _TerminalContent], messageId=str)


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
    content = as_object(params.get("update", params.get("toolCall"))).get("content")
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


def strict_faults(method: str, raw: bytes, version: int) -> list[str]:
    """What is wrong with the parameters of this method of an agent, where clients are lenient as well."""
    faults = shape_faults(method, raw, version)
    if faults or method not in MODELS:
        return faults
    faults = _tolerated(MODELS[method][version >= 2], raw)
    if version >= 2:
        return faults
    params = _read_params(raw)
    update = as_object(params.get("update"))
    kind = update.get("sessionUpdate")
    if method == UPDATE and not is_known_update(kind) and kind not in UNSTABLE_UPDATES:
        return [f"update.sessionUpdate: {kind!r} is no update of version 1"]
    top, place = (update, kind) if method == UPDATE else (params, method)
    for (where, *path), words in WORDS.items():
        if where == place:
            faults += [
                f"{'.'.join(path)}: {word!r} is none of {', '.join(sorted(words))}"
                for word in _values_at(top, path)
                if isinstance(word, str) and word not in words
            ]
    return faults[:MAX_FAULTS]


def is_known_update(kind: Any) -> bool:
    """Whether version 1 has this kind of update; one that begins with an underscore is an extension."""
    return isinstance(kind, str) and (kind in SessionUpdate.kinds or kind.startswith("_"))


def result_faults(method: str, raw: bytes, version: int) -> list[str]:
    """What is wrong with the result of this method of a client; null counts as empty where nothing is required."""
    models = RESULTS.get(method)
    if models is None:
        return []
    model = models[version >= 2]
    if raw.strip() == b"null" and not any(field.is_required() for field in model.model_fields.values()):
        return []
    try:
        model.parse(raw)
    except InvalidMessageError as error:
        return [error.message]
    # The flags of `initialize` have a table and a check of their own.
    return [] if method == Method.INITIALIZE else _tolerated(model, raw)


def _tolerated(model: type[AcpMessage], raw: bytes) -> list[str]:
    """The members that a client leaves out because they are malformed."""
    read: Any = model.parse(raw).dump()
    return [f"{path}: malformed" for path in _lost(_read_params(raw), read, "")][:MAX_FAULTS]


def _lost(sent: Any, read: Any, path: str) -> list[str]:
    if isinstance(sent, Mapping) and isinstance(read, Mapping):
        members, kept = cast("Mapping[str, Any]", sent), cast("Mapping[str, Any]", read)
        lost: list[str] = []
        for name, value in members.items():
            where = f"{path}.{name}" if path else name
            if name not in kept:
                lost += [where] if value is not None else []
            elif name != "_meta":
                lost += _lost(value, kept[name], where)
        return lost
    if isinstance(sent, list) and isinstance(read, list):
        items, kept_items = cast("list[Any]", sent), cast("list[Any]", read)
        if len(items) != len(kept_items):
            return [path]
        return [each for pair in zip(items, kept_items, strict=True) for each in _lost(*pair, path)]
    return [path] if isinstance(sent, list | Mapping) != isinstance(read, list | Mapping) else []


def _values_at(value: Any, path: list[str]) -> list[Any]:
    if isinstance(value, list):
        return [found for item in cast("list[Any]", value) for found in _values_at(item, path)]
    if not path:
        return [value]
    return _values_at(as_object(value).get(path[0]), path[1:])
