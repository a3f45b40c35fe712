"""Check what an agent sends against the protocol version that the handshake settled: a finding for each fault."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from accord.core.prompt import ContentValidator, ValidationContext
from accord.errors import InvalidMessageError
from accord.wire.acp.base import AcpMessage
from accord.wire.acp.draft_update import DraftSessionNotification
from accord.wire.acp.tool import DraftRequestPermissionRequest, RequestPermissionRequest
from accord.wire.acp.update import SessionNotification

# What the `initialize` exchange settles: the version, and what a prompt may carry.
#
# Until the agent has answered, nothing is declared: omitted means unsupported (decision 16), and an agent that has
# said nothing yet has omitted everything. A later answer replaces an earlier one.

V1_PATH = ("agentCapabilities", "promptCapabilities")
DRAFT_PATH = ("capabilities", "session", "prompt")
EVERYTHING = {1: {"image": True, "audio": True, "embeddedContext": True}}


@dataclass(frozen=True, slots=True)
class Handshake:
    """What is known of the agent."""

    validator: ContentValidator
    version: int = 1
    is_done: bool = False


BEFORE = Handshake(ContentValidator(None))
SHAPE_ONLY = ContentValidator(EVERYTHING[1])
"""Takes every type of content, so that only what is malformed is found."""


def read_handshake(result: Any) -> Handshake:
    """What this answer to `initialize` settles, however odd it is."""
    said = result.get("protocolVersion") if isinstance(result, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    version = said if isinstance(said, int) and not isinstance(said, bool) else 1
    declared = _at(result, DRAFT_PATH if version >= 2 else V1_PATH)
    return Handshake(ContentValidator(declared, protocol_version=version), version, is_done=True)


def _at(value: Any, path: tuple[str, ...]) -> Mapping[str, Any] | None:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(key)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


# Is what an agent sends shaped as the protocol says? A sentence for each thing that is not; nothing is ever held
# back.
#
# Nearly everything that an agent sends is a piece of text, or what a tool gave, in a `session/update`. Compiled code
# says "in order" to those at a glance; whatever gives it pause is read with the wire models, which say what is wrong.
# Decision 18: what a foreign agent sends is checked for shape and warned about; the declared prompt capabilities do
# not apply to it.

UPDATE: Final = "session/update"
PERMISSION: Final = "session/request_permission"
MAX_TOLD: Final = 20

MODELS: Final[Mapping[str, tuple[type[AcpMessage], type[AcpMessage]]]] = {
    UPDATE: (SessionNotification, DraftSessionNotification),
    PERMISSION: (RequestPermissionRequest, DraftRequestPermissionRequest),
}
"""What an agent's method carries, in version 1 and in the draft."""


class _Text(msgspec.Struct, gc=False):
    type: Literal["text"]
    text: str


class _Given(msgspec.Struct, tag_field="type", tag="content", gc=False):
    content: "_ShortText"


class _ShortText(msgspec.Struct, gc=False):
    """Short enough for no limit to be near."""

    type: Literal["text"]
    text: Annotated[str, msgspec.Meta(max_length=1024 * 1024)]


class _Diff(msgspec.Struct, tag_field="type", tag="diff", gc=False):
    path: str
    newText: str  # noqa: N815 - the wire's, here and below


class _Terminal(msgspec.Struct, tag_field="type", tag="terminal", gc=False):
    terminalId: str  # noqa: N815


class _Update(msgspec.Struct, tag_field="sessionUpdate", gc=False):
    pass


class _Message(_Update, tag="agent_message_chunk", gc=False):
    content: _Text


class _Thought(_Update, tag="agent_thought_chunk", gc=False):
    content: _Text


class _Replayed(_Update, tag="user_message_chunk", gc=False):
    content: _Text


class _Tool(_Update, tag="tool_call_update", gc=False):
    toolCallId: str  # noqa: N815
    content: list[_Given | _Diff | _Terminal] | None = None


class _DraftMessage(_Message, tag="agent_message_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftThought(_Thought, tag="agent_thought_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftReplayed(_Replayed, tag="user_message_chunk", gc=False, kw_only=True):
    messageId: str  # noqa: N815


class _DraftTool(_Update, tag="tool_call_update", gc=False):
    toolCallId: str  # noqa: N815
    content: list[_Given | _Terminal] | None = None


class _Params(msgspec.Struct, gc=False):
    sessionId: str  # noqa: N815
    update: _Message | _Thought | _Replayed | _Tool


class _DraftParams(msgspec.Struct, gc=False):
    sessionId: str  # noqa: N815
    update: _DraftMessage | _DraftThought | _DraftReplayed | _DraftTool


class _Spoken(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _Params
    id: msgspec.UnsetType = msgspec.UNSET


class _DraftSpoken(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: _DraftParams
    id: msgspec.UnsetType = msgspec.UNSET


_read_params: Final = msgspec.json.Decoder(dict[str, Any]).decode
_read_spoken: Final = msgspec.json.Decoder(_Spoken).decode
_read_draft_spoken: Final = msgspec.json.Decoder(_DraftSpoken).decode


def first_odd(lines: list[bytes], start: int, version: int) -> int:
    """The index of the first line from `start` on that is not in order beyond doubt, or the number of lines."""
    read = _read_draft_spoken if version >= 2 else _read_spoken
    index = start
    try:
        for index in range(start, len(lines)):
            read(lines[index])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return index
    return len(lines)


def shape_faults(method: str, raw: bytes, version: int) -> list[str]:
    """What is wrong with what an agent sends under this method, in sentences; empty if nothing is, or it is unknown."""
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
    return list(_content_faults(params))[:MAX_TOLD]


def _content_faults(params: Mapping[str, Any]) -> Iterator[str]:
    update = params.get("update", params.get("toolCall"))
    if not isinstance(update, Mapping):
        return
    content = cast("Mapping[str, Any]", update).get("content")
    if isinstance(content, list):
        yield from _told(_inner(cast("list[Any]", content)), ValidationContext.TOOL_RESULT)
    elif isinstance(content, Mapping):
        yield from _told(_inner([content]), ValidationContext.SESSION_UPDATE)


def _inner(content: list[Any]) -> list[Any]:
    """The content blocks among what a tool gave; its diffs and terminals are the models' business."""
    found: list[Any] = []
    for item in content:
        if isinstance(item, Mapping):
            fields = cast("Mapping[str, Any]", item)
            found += [fields["content"]] if fields.get("type") == "content" and "content" in fields else []
            found += [fields] if fields.get("type") in SHAPE_ONLY.declaration.accepted else []
    return found


def _told(blocks: list[Any], context: ValidationContext) -> Iterator[str]:
    for violation in SHAPE_ONLY.validate(blocks, context).violations:
        details = violation.data.get("details")
        yield f"{violation.message}: {details}" if isinstance(details, str) else violation.message
