"""Turn the packets of a turn into `session/update` lines, in either protocol version. Pure: packets in, bytes out.

Updates are made in version 1; a writer of the negotiated version writes them. Text is passed on as the JSON that it is
already, without decoding it. Progress becomes a tool call, which ends with its turn at the latest. An event without an
ACP counterpart travels in `_meta` to the clients that declared it. An event that cannot be parsed becomes a line of
text.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec
from pydantic import BaseModel, ValidationError

from accord.acp import schema_v1, schema_v2
from accord.acp.draft import draft_permission_request, draft_update
from accord.acp.jsonrpc import RpcErrorObject
from accord.acp.methods import Method
from accord.acp.schema_parts import (
    ContentBlock,
    PermissionOption,
    RequestPermissionRequest,
    TextContent,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)
from accord.acp.schema_v1 import ContentChunk, SessionUpdate, ToolCallChanged
from accord.acp.schema_v2 import SessionState, StopReason
from accord.core.rpc import notification_line
from accord.errors import ErrorCode, InvalidMessageError
from accord.servers.acp.event_meta import THOUGHT_KEYS, build_event_meta
from accord.wire.agent_work import (
    PLAN,
    TOOL_CALL,
    PermissionRecord,
    PermissionRequest,
    PermissionStatus,
    PlanPayload,
    ToolCallPayload,
)
from accord.wire.event import PresentationEventType, ProgressUpdate
from accord.wire.message import Message
from accord.wire.packet import ErrorPacket, EventPacket, StreamError, StreamPacket

PROGRESS_STATUS: Final[Mapping[str, ToolCallStatus]] = {
    "running": ToolCallStatus.IN_PROGRESS,
    "complete": ToolCallStatus.COMPLETED,
    "failed": ToolCallStatus.FAILED,
}
RESERVED: Final = ("sessionUpdate", "session_update", "_meta")
"""Members of an update that the event of a tool call cannot set."""
FINAL_STATUSES: Final = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
UNREADABLE: Final = "(The agent sent a {} that cannot be read.)\n"

Model = TypeVar("Model", bound=BaseModel)


class _Packet(msgspec.Struct):
    op: str
    p: msgspec.Raw = msgspec.Raw(b"null")


_read = msgspec.json.Decoder(_Packet).decode
_read_blocks = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PermissionMessage:
    """A permission request, the id of its tool call, its line if no update showed it, and what is sent before it."""

    call_id: str
    request: Message
    started: bytes
    before: bytes


class StableWriter:
    """Writes the messages of a session in version 1."""

    status_at_end: ClassVar[Mapping[StopReason, ToolCallStatus]] = {
        StopReason.END_TURN: ToolCallStatus.COMPLETED,
        StopReason.CANCELLED: ToolCallStatus.FAILED,
        StopReason.ERROR: ToolCallStatus.FAILED,
    }
    """The status that progress and calls get which are still open when their turn ends."""

    def __init__(self, session_id: str) -> None:
        self.session_id: Final = session_id

    def update(self, update: SessionUpdate, message_id: str) -> Message:
        """The update as this version has it."""
        del message_id
        return update

    def permission(self, request: RequestPermissionRequest, title: str, started: bytes) -> tuple[Message, bytes]:
        """The request as this version has it, and the line before it; `started` is the line of a new tool call."""
        del title
        return request, started

    def state(
        self, state: SessionState, stop: StopReason | None = None, error: Mapping[str, Any] | None = None
    ) -> bytes:
        """The state of the session, which version 1 does not have."""
        del state, stop, error
        return b""

    def user_message(self, message_id: str, prompt: bytes) -> list[bytes]:
        """The lines of a prompt in pieces, each of its blocks as it was sent; `prompt` is JSON."""
        del message_id
        before, after = self.line(b'{"sessionUpdate":"user_message_chunk","content":\0}').split(b"\0")
        return [piece for block in _read_blocks(prompt) for piece in (before, bytes(block), after)]

    def agent_message(self, message_id: str, text: str) -> bytes:
        """A text as a message of the agent."""
        return self.line(self.update(_message(text), message_id))

    def line(self, update: Message | bytes) -> bytes:
        """The `session/update` line for an update, which may be JSON already."""
        body = update if isinstance(update, bytes) else update.to_json().encode()
        params = b'{"sessionId":' + _write(self.session_id) + b',"update":' + body + b"}"
        return notification_line(Method.SESSION_UPDATE.value, params)


class DraftWriter(StableWriter):
    """Writes the messages of a session in the draft of version 2."""

    status_at_end: ClassVar = {**StableWriter.status_at_end, StopReason.CANCELLED: ToolCallStatus.CANCELLED}

    def update(self, update: SessionUpdate, message_id: str) -> Message:
        """The update as the draft has it."""
        return draft_update(update, message_id)

    def permission(self, request: RequestPermissionRequest, title: str, started: bytes) -> tuple[Message, bytes]:
        """The request as the draft has it, which shows a new tool call itself."""
        draft = draft_permission_request(request, title, is_new_call=bool(started))
        return draft, self.state(SessionState.REQUIRES_ACTION)

    def state(
        self, state: SessionState, stop: StopReason | None = None, error: Mapping[str, Any] | None = None
    ) -> bytes:
        """The state of the session; a turn that ended gives its reason."""
        rpc_error = None if error is None else RpcErrorObject.model_validate(error)
        return self.line(schema_v2.StateUpdate(state=state, stop_reason=stop, error=rpc_error))

    def user_message(self, message_id: str, prompt: bytes) -> list[bytes]:
        """The line of a prompt in pieces, which the draft requires to be echoed."""
        update = b'{"sessionUpdate":"user_message","messageId":' + _write(message_id) + b',"content":\0}'
        before, after = self.line(update).split(b"\0")
        return [before, prompt, after]


class PromptUpdates:
    """The updates of one turn; `turn_id` prefixes its message and call ids. `error` is the error packet, if any."""

    def __init__(self, writer: StableWriter, turn_id: str) -> None:
        self.error: StreamError | None = None
        self._writer: Final = writer
        self._turn_id: Final = turn_id
        self._progress_ids: Final[dict[str, str]] = {}
        """The call id of each progress label."""
        self._calls: Final[set[str]] = set()
        self._open: Final[dict[str, None]] = {}
        """Calls that have not ended, in their order."""
        self._denied: Final[set[str]] = set()
        """Calls whose permission was denied. Their own updates may come later: some wait for the end of a paragraph."""
        self._event_updates: Final[Mapping[str, Callable[[dict[str, Any]], SessionUpdate]]] = {
            PresentationEventType.THOUGHT_TRACE: self._thought_update,
            PresentationEventType.PROGRESS_INDICATOR: self._progress_update,
            PLAN: self._plan_update,
            TOOL_CALL: self._call_update,
        }
        # Everything around the text is the same for every delta, so it is written once.
        self._before, self._after = writer.agent_message(turn_id, "").split(b'"text":""')

    @property
    def stop_reason(self) -> StopReason:
        """Why the turn ended, once all of its packets were seen."""
        if self.error is None:
            return StopReason.END_TURN
        return StopReason.CANCELLED if self.error.code == ErrorCode.CANCELLED else StopReason.ERROR

    def lines(self, bodies: Iterable[str]) -> bytes:
        """The lines for these packets."""
        found: list[bytes] = []
        for body in bodies:
            packet = _read(body)
            if packet.op == "delta":
                found += (self._before, b'"text":', bytes(packet.p), self._after)
            elif packet.op != "close":
                found.append(self._packet_line(StreamPacket.parse(body)))
        return b"".join(found)

    def ending(self, stop: StopReason) -> bytes:
        """The lines that end the calls that are still open."""
        status = self._writer.status_at_end[stop]
        unfinished = dict(self._open)
        self._open.clear()
        return b"".join(
            self._line(self._changed(call_id, status=ToolCallStatus.FAILED if call_id in self._denied else status))
            for call_id in unfinished
        )

    def request_permission(self, question: PermissionRequest) -> PermissionMessage:
        """The request for this permission; the tool call that it is about counts as open from now on."""
        call_id = self._call_id(question.call)
        is_new = call_id not in self._calls
        self._calls.add(call_id)
        self._open.setdefault(call_id)
        options = [
            PermissionOption(option_id=option.id, name=option.name, kind=option.kind) for option in question.options
        ]
        fields: dict[str, Any] = {**question.call.dump(), "toolCallId": call_id}
        call = ToolCallUpdate.model_validate(fields)
        request = RequestPermissionRequest(session_id=self._writer.session_id, tool_call=call, options=options)
        pending = {"status": ToolCallStatus.PENDING, **fields}
        started = self._line(schema_v1.ToolCall.model_validate(pending)) if is_new else b""
        sent, before = self._writer.permission(request, question.title, started)
        return PermissionMessage(call_id, sent, started, before)

    def resolve_permission(self, call_id: str, *, is_allowed: bool) -> None:
        """Note the outcome: a call that was not allowed and that the agent does not end has failed."""
        if is_allowed:
            self._denied.discard(call_id)
        else:
            self._denied.add(call_id)

    def replay_permission(self, record: PermissionRecord) -> bytes:
        """The line of a tool call that only a permission request has shown; notes the outcome."""
        if record.tool_call_id is None or record.status is PermissionStatus.NO_CLIENT:
            return b""
        call = ToolCallPayload(tool_call_id=record.tool_call_id, title=record.title)
        message = self.request_permission(PermissionRequest(title=record.title, call=call, options=record.options))
        self.resolve_permission(message.call_id, is_allowed=record.status is PermissionStatus.ALLOWED)
        return message.started

    def _packet_line(self, packet: StreamPacket) -> bytes:
        if isinstance(packet, ErrorPacket):
            self.error = packet.p
            return b""
        event = cast("EventPacket", packet).p
        make_update = self._event_updates.get(str(event.get("type", "")).lower())
        update = _message() if make_update is None else make_update(event)
        sent = self._writer.update(update, self._turn_id)
        return self._writer.line(sent.model_copy(update={"meta": build_event_meta(event, sent.dump())}))

    def _thought_update(self, event: dict[str, Any]) -> SessionUpdate:
        data: Any = event.get("data")
        members: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
        text = next((found for key in THOUGHT_KEYS if isinstance(found := members.get(key), str)), None)
        thought = TextContent(text=_write(data).decode() if text is None else text)
        return ContentChunk(session_update="agent_thought_chunk", content=thought)

    def _plan_update(self, event: dict[str, Any]) -> SessionUpdate:
        plan = _parse(PlanPayload, event.get("data"))
        if plan is None:
            return _message(UNREADABLE.format("plan"))
        return schema_v1.Plan(entries=plan.entries)

    def _call_update(self, event: dict[str, Any]) -> SessionUpdate:
        call = _parse(ToolCallPayload, event.get("data"))
        if call is None:
            return _message(UNREADABLE.format("tool call"))
        call_id = self._call_id(call)
        is_new = call_id not in self._calls
        self._calls.add(call_id)
        self._set_open(call_id, is_open=str(call.status) not in FINAL_STATUSES)
        fields = {name: value for name, value in call.dump().items() if name not in RESERVED} | {"toolCallId": call_id}
        return (schema_v1.ToolCall if is_new else ToolCallChanged).model_validate(fields)

    def _progress_update(self, event: dict[str, Any]) -> SessionUpdate:
        progress = _parse(ProgressUpdate, event.get("data"))
        if progress is None:
            return _message(UNREADABLE.format("report of progress"))
        status, label = PROGRESS_STATUS[progress.status], progress.label
        share = progress.progress_percent
        title = label if share is None or status is not ToolCallStatus.IN_PROGRESS else f"{label} ({share:.0%})"
        is_new = label not in self._progress_ids
        call_id = self._progress_ids.setdefault(label, f"{self._turn_id}-{len(self._progress_ids) + 1}")
        self._set_open(call_id, is_open=status is ToolCallStatus.IN_PROGRESS)
        fields: dict[str, Any] = {"title": title, "status": status}
        if not is_new:
            return self._changed(call_id, **fields)
        return schema_v1.ToolCall(tool_call_id=call_id, kind=ToolKind.OTHER, **fields)

    def _call_id(self, call: ToolCallPayload) -> str:
        """An id that is unique in the session: agents may use the same ids in every turn."""
        return f"{self._turn_id}-call-{call.tool_call_id}"

    def _set_open(self, call_id: str, *, is_open: bool) -> None:
        if is_open:
            self._open[call_id] = None
        else:
            self._open.pop(call_id, None)

    def _changed(self, call_id: str, **fields: Any) -> SessionUpdate:
        return ToolCallChanged(tool_call_id=call_id, **fields)

    def _line(self, update: SessionUpdate) -> bytes:
        return self._writer.line(self._writer.update(update, self._turn_id))


def _message(text: str = "") -> SessionUpdate:
    return ContentChunk(session_update="agent_message_chunk", content=TextContent(text=text))


def _parse(model: type[Model], data: Any) -> Model | None:
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def without_malformed(prompt: bytes) -> tuple[bytes, int]:
    """A prompt that was refused, without its malformed blocks, which would break a client; and how many these are."""
    blocks = _read_blocks(prompt)
    valid = [block for block in blocks if _is_content(block)]
    return _write(valid), len(blocks) - len(valid)


def _is_content(block: msgspec.Raw) -> bool:
    try:
        ContentBlock.parse(bytes(block))
    except InvalidMessageError:
        return False
    return True
