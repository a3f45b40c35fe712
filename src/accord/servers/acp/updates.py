"""Turn the packets of a turn into `session/update` lines, in either protocol version. Pure: packets in, bytes out.

Text is passed on as the JSON that it is already, without decoding it. Progress becomes a tool call, which ends with
its turn at the latest. An event without an ACP counterpart travels in `_meta` to the clients that declared it. An event
that cannot be parsed becomes a line of text.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec
from pydantic import BaseModel, ValidationError

from accord.core.rpc import notification_line
from accord.errors import ErrorCode, InvalidMessageError
from accord.servers.acp.event_meta import THOUGHT_KEYS, build_event_meta
from accord.wire.acp.content import ContentBlock, TextBlock
from accord.wire.acp.draft_update import (
    DraftAgentMessageChunk,
    DraftAgentThoughtChunk,
    DraftPlanUpdate,
    DraftSessionNotification,
    DraftToolCallChanged,
    PlanItems,
    SessionState,
    StateUpdate,
)
from accord.wire.acp.rpc import Method, RpcErrorObject
from accord.wire.acp.session import StopReason
from accord.wire.acp.tool import (
    DiffPart,
    DiffPatch,
    DraftDiffPart,
    DraftRequestPermissionRequest,
    DraftToolCallContent,
    DraftToolCallUpdate,
    PathChange,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallContent,
    ToolCallStatus,
    ToolCallSubject,
    ToolCallUpdate,
    ToolKind,
)
from accord.wire.acp.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    DraftSessionUpdate,
    PlanUpdate,
    SessionNotification,
    SessionUpdate,
    ToolCallChanged,
    ToolCallStarted,
)
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
from accord.wire.packet import ErrorPacket, EventPacket, StreamError, StreamPacket

NO_FINAL_NEWLINE: Final = "\\ No newline at end of file\n"
PROGRESS_STATUS: Final[Mapping[str, ToolCallStatus]] = {
    "running": ToolCallStatus.IN_PROGRESS,
    "complete": ToolCallStatus.COMPLETED,
    "failed": ToolCallStatus.FAILED,
}
RESERVED: Final = ("sessionUpdate", "session_update", "_meta")
"""Members of an update that the event of a tool call cannot set."""
FINAL_STATUSES: Final = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
UNREADABLE: Final = "(The agent sent a {} that cannot be read.)\n"
STATUS_AT_END: Final[Mapping[StopReason, ToolCallStatus]] = {
    StopReason.END_TURN: ToolCallStatus.COMPLETED,
    StopReason.CANCELLED: ToolCallStatus.FAILED,
    StopReason.ERROR: ToolCallStatus.FAILED,
}
"""The status that progress and calls get which are still open when their turn ends."""

Update = SessionUpdate | DraftSessionUpdate
Model = TypeVar("Model", bound=BaseModel)


class _Packet(msgspec.Struct):
    op: str
    p: msgspec.Raw = msgspec.Raw(b"null")


_read = msgspec.json.Decoder(_Packet).decode
_read_blocks = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class PermissionMessage:
    """A permission request, the id of its tool call, and the lines that are sent before it."""

    call_id: str
    request: RequestPermissionRequest | DraftRequestPermissionRequest
    before: bytes = b""


class PromptUpdates:
    """The updates of one turn; `turn_id` prefixes its message and call ids. `error` is the error packet, if any."""

    def __init__(self, session_id: str, turn_id: str, *, is_draft: bool) -> None:
        self.error: StreamError | None = None
        self._session_id: Final = session_id
        self._turn_id: Final = turn_id
        self._is_draft: Final = is_draft
        self._progress_ids: Final[dict[str, str]] = {}
        """The call id of each progress label."""
        self._calls: Final[set[str]] = set()
        self._open: Final[dict[str, None]] = {}
        """Calls that have not ended, in their order."""
        self._denied: Final[set[str]] = set()
        """Calls whose permission was denied. Their own updates may come later: some wait for the end of a paragraph."""
        self._event_updates: Final[Mapping[str, Callable[[dict[str, Any]], Update]]] = {
            PresentationEventType.THOUGHT_TRACE: self._thought_update,
            PresentationEventType.PROGRESS_INDICATOR: self._progress_update,
            PLAN: self._plan_update,
            TOOL_CALL: self._call_update,
        }
        chunk: dict[str, Any] = {"sessionUpdate": "agent_message_chunk"} | ({"messageId": turn_id} if is_draft else {})
        chunk["content"] = {"type": "text", "text": ""}
        # Everything around the text is the same for every delta, so it is written once.
        self._before, self._after = update_line(session_id, _write(chunk)).split(b'"text":""')

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
        status = STATUS_AT_END[stop]
        if self._is_draft and stop is StopReason.CANCELLED:
            status = ToolCallStatus.CANCELLED
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
        if not self._is_draft:
            call = ToolCallUpdate.model_validate(fields)
            request = RequestPermissionRequest(session_id=self._session_id, tool_call=call, options=options)
            if not is_new:
                return PermissionMessage(call_id, request)
            started = ToolCallStarted.model_validate({"status": ToolCallStatus.PENDING, **fields})
            return PermissionMessage(call_id, request, self._line(started))
        if question.call.content is not None:
            fields["content"] = [_draft_part(part) for part in question.call.content]
        if not is_new:
            del fields["title"]  # the draft's request has its own title; the call keeps the one it has
        subject = ToolCallSubject(tool_call=DraftToolCallUpdate.model_validate(fields))
        draft_request = DraftRequestPermissionRequest(
            session_id=self._session_id, title=question.title, subject=subject, options=options
        )
        return PermissionMessage(call_id, draft_request, state_line(self._session_id, SessionState.REQUIRES_ACTION))

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
        is_new = self._call_id(call) not in self._calls
        message = self.request_permission(PermissionRequest(title=record.title, call=call, options=record.options))
        self.resolve_permission(message.call_id, is_allowed=record.status is PermissionStatus.ALLOWED)
        if not self._is_draft:
            return message.before
        return self._line(self._changed(message.call_id, title=record.title)) if is_new else b""

    def _packet_line(self, packet: StreamPacket) -> bytes:
        if isinstance(packet, ErrorPacket):
            self.error = packet.p
            return b""
        event = cast("EventPacket", packet).p
        make_update = self._event_updates.get(str(event.get("type", "")).lower())
        update = self._message_update() if make_update is None else make_update(event)
        meta = build_event_meta(event, update.dump(), is_draft=self._is_draft)
        return self._line(update.model_copy(update={"meta": meta}))

    def _thought_update(self, event: dict[str, Any]) -> Update:
        data: Any = event.get("data")
        members: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
        text = next((found for key in THOUGHT_KEYS if isinstance(found := members.get(key), str)), None)
        content = TextBlock(text=_write(data).decode() if text is None else text)
        if self._is_draft:
            return DraftAgentThoughtChunk(message_id=self._turn_id, content=content)
        return AgentThoughtChunk(content=content)

    def _message_update(self, text: str = "") -> Update:
        content = TextBlock(text=text)
        if self._is_draft:
            return DraftAgentMessageChunk(message_id=self._turn_id, content=content)
        return AgentMessageChunk(content=content)

    def _plan_update(self, event: dict[str, Any]) -> Update:
        plan = _parse(PlanPayload, event.get("data"))
        if plan is None:
            return self._message_update(UNREADABLE.format("plan"))
        if self._is_draft:  # there a plan has an id, and a turn has one plan
            items = PlanItems(plan_id=f"{self._turn_id}-plan", entries=plan.entries)
            return DraftPlanUpdate(plan=items)
        return PlanUpdate(entries=plan.entries)

    def _call_update(self, event: dict[str, Any]) -> Update:
        call = _parse(ToolCallPayload, event.get("data"))
        if call is None:
            return self._message_update(UNREADABLE.format("tool call"))
        call_id = self._call_id(call)
        is_new = call_id not in self._calls
        self._calls.add(call_id)
        self._set_open(call_id, is_open=str(call.status) not in FINAL_STATUSES)
        fields = {name: value for name, value in call.dump().items() if name not in RESERVED} | {"toolCallId": call_id}
        if not self._is_draft:
            return (ToolCallStarted if is_new else ToolCallChanged).model_validate(fields)
        if call.content is not None:
            fields["content"] = [_draft_part(part) for part in call.content]
        return DraftToolCallChanged.model_validate(fields)

    def _progress_update(self, event: dict[str, Any]) -> Update:
        progress = _parse(ProgressUpdate, event.get("data"))
        if progress is None:
            return self._message_update(UNREADABLE.format("report of progress"))
        status, label = PROGRESS_STATUS[progress.status], progress.label
        share = progress.progress_percent
        title = label if share is None or status is not ToolCallStatus.IN_PROGRESS else f"{label} ({share:.0%})"
        is_new = label not in self._progress_ids
        call_id = self._progress_ids.setdefault(label, f"{self._turn_id}-{len(self._progress_ids) + 1}")
        self._set_open(call_id, is_open=status is ToolCallStatus.IN_PROGRESS)
        fields: dict[str, Any] = {"title": title, "status": status}
        if not is_new:
            return self._changed(call_id, **fields)
        if self._is_draft:
            return DraftToolCallChanged(tool_call_id=call_id, kind=ToolKind.OTHER, **fields)
        return ToolCallStarted(tool_call_id=call_id, kind=ToolKind.OTHER, **fields)

    def _call_id(self, call: ToolCallPayload) -> str:
        """An id that is unique in the session: agents may use the same ids in every turn."""
        return f"{self._turn_id}-call-{call.tool_call_id}"

    def _set_open(self, call_id: str, *, is_open: bool) -> None:
        if is_open:
            self._open[call_id] = None
        else:
            self._open.pop(call_id, None)

    def _changed(self, call_id: str, **fields: Any) -> Update:
        return (DraftToolCallChanged if self._is_draft else ToolCallChanged)(tool_call_id=call_id, **fields)

    def _line(self, update: Update) -> bytes:
        return session_update_line(self._session_id, update)


def _parse(model: type[Model], data: Any) -> Model | None:
    try:
        return model.model_validate(data)
    except ValidationError:
        return None


def _draft_part(part: ToolCallContent) -> DraftToolCallContent:
    match part:
        case DiffPart():
            operation = "add" if part.old_text is None else "modify"
            change = PathChange(operation=operation, path=part.path)
            return DraftDiffPart(changes=[change], patch=DiffPatch(format="git_patch", text=_git_patch(part)))
        case _:
            return DraftToolCallContent.model_validate(part.dump())


def _git_patch(part: DiffPart) -> str:
    """A patch that removes the whole old text and adds the whole new one: exact, and linear in their length."""
    before = "/dev/null" if part.old_text is None else f"a/{part.path.lstrip('/')}"
    old, new = _patch_lines(part.old_text or ""), _patch_lines(part.new_text)
    spans = " ".join(f"{sign}{1 if lines else 0},{len(lines)}" for sign, lines in (("-", old), ("+", new)))
    removed, added = "".join(f"-{line}" for line in old), "".join(f"+{line}" for line in new)
    return f"--- {before}\n+++ b/{part.path.lstrip('/')}\n@@ {spans} @@\n{removed}{added}"


def _patch_lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    if text.endswith("\n") or not text:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + NO_FINAL_NEWLINE]


def update_line(session_id: str, update: bytes) -> bytes:
    """The `session/update` line for an update that is JSON already."""
    return notification_line(
        Method.SESSION_UPDATE.value, b'{"sessionId":' + _write(session_id) + b',"update":' + update + b"}"
    )


def session_update_line(session_id: str, update: Update) -> bytes:
    """The `session/update` line for an update."""
    if isinstance(update, SessionUpdate):
        return notification_line(Method.SESSION_UPDATE.value, SessionNotification(session_id=session_id, update=update))
    return notification_line(
        Method.SESSION_UPDATE.value, DraftSessionNotification(session_id=session_id, update=update)
    )


def echo_pieces(session_id: str, message_id: str, prompt: bytes) -> list[bytes]:
    """The line of the user's message, which the draft requires to be echoed, in pieces; `prompt` is JSON as sent."""
    update = b'{"sessionUpdate":"user_message","messageId":' + _write(message_id) + b',"content":\0}'
    before, after = update_line(session_id, update).split(b"\0")
    return [before, prompt, after]


def state_line(session_id: str, state: SessionState = SessionState.RUNNING) -> bytes:
    """The state of a session (draft)."""
    return session_update_line(session_id, StateUpdate(state=state))


def stopped_line(session_id: str, stop: StopReason, error: Mapping[str, Any] | None = None) -> bytes:
    """The state idle with the reason why the turn stopped (draft)."""
    rpc_error = None if error is None else RpcErrorObject.model_validate(error)
    return session_update_line(session_id, StateUpdate(state=SessionState.IDLE, stop_reason=stop, error=rpc_error))


def statement_line(session_id: str, message_id: str, text: str, *, is_draft: bool) -> bytes:
    """A text of Accord itself in a replayed conversation, as a message of the agent."""
    content = TextBlock(text=text)
    if is_draft:
        return session_update_line(session_id, DraftAgentMessageChunk(message_id=message_id, content=content))
    return session_update_line(session_id, AgentMessageChunk(content=content))


def user_lines(session_id: str, message_id: str, prompt: bytes, *, is_draft: bool) -> list[bytes]:
    """The lines of a stored prompt in pieces, each of its blocks as it was sent."""
    if is_draft:
        return echo_pieces(session_id, message_id, prompt)
    before, after = update_line(session_id, b'{"sessionUpdate":"user_message_chunk","content":\0}').split(b"\0")
    return [piece for block in _read_blocks(prompt) for piece in (before, bytes(block), after)]


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
