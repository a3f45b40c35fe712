"""A turn's packets as `session/update` lines, in either protocol version. Pure: packets in, bytes out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from pydantic import ValidationError

from accord.core.rpc import notice_line
from accord.wire.acp.content import TextBlock
from accord.wire.acp.draft_update import (
    AgentMessage,
    DraftAgentMessageChunk,
    DraftAgentThoughtChunk,
    DraftPlanUpdate,
    DraftSessionNotification,
    DraftToolCallChanged,
    PlanItems,
    SessionState,
    StateUpdate,
    UserMessage,
)
from accord.wire.acp.rpc import Method, RpcError
from accord.wire.acp.session import StopReason
from accord.wire.acp.tool import (
    ContentPart,
    DiffPart,
    DiffPatch,
    DraftContentPart,
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
    UserMessageChunk,
)
from accord.wire.agent_work import PLAN, TOOL_CALL, PermissionQuestion, PlanShown, ToolCallShown
from accord.wire.conversation import ChatMessage, Role
from accord.wire.event import PresentationEventType, ProgressUpdate
from accord.wire.packet import ErrorPacket, EventPacket, StreamError, StreamPacket

# An agent's plans, tool calls and requests for permission, in either version's messages.
#
# Pure. Which calls are open is not known here.

NO_END = "\\ No newline at end of file\n"


def read_plan(data: Any) -> PlanShown | None:
    """The plan in an event, if it is one."""
    try:
        return PlanShown.model_validate(data)
    except ValidationError:
        return None


def read_call(data: Any) -> ToolCallShown | None:
    """The tool call in an event, if it is one."""
    try:
        return ToolCallShown.model_validate(data)
    except ValidationError:
        return None


def plan_update(
    plan: PlanShown, own: str, meta: Mapping[str, Any], *, is_draft: bool
) -> SessionUpdate | DraftSessionUpdate:
    """The plan as it is now; in the draft it has an id, and a turn has one plan."""
    if is_draft:
        return DraftPlanUpdate(plan=PlanItems(plan_id=f"{own}-plan", entries=plan.entries), _meta=dict(meta))
    return PlanUpdate(entries=plan.entries, _meta=dict(meta))


def call_update(
    call: ToolCallShown, call_id: str, meta: Mapping[str, Any], *, is_new: bool, is_draft: bool
) -> SessionUpdate | DraftSessionUpdate:
    """A call that begins or goes on, with what it has given so far."""
    told = {**call.dump(), "toolCallId": call_id, "_meta": dict(meta)}
    if is_draft:
        content = None if call.content is None else [_draft_part(part) for part in call.content]
        return DraftToolCallChanged.model_validate(told | ({} if content is None else {"content": content}))
    return (ToolCallStarted if is_new else ToolCallChanged).model_validate(told)


def permission_request(
    question: PermissionQuestion, session_id: str, call_id: str, *, is_new: bool, is_draft: bool
) -> RequestPermissionRequest | DraftRequestPermissionRequest:
    """The request for this permission. The draft has a title of its own for it: that of a call that is shown stays."""
    options = [PermissionOption(option_id=option.id, name=option.name, kind=option.kind) for option in question.options]
    told: dict[str, Any] = {**question.call.dump(), "toolCallId": call_id}
    if not is_draft:
        call = ToolCallUpdate.model_validate(told)
        return RequestPermissionRequest(session_id=session_id, tool_call=call, options=options)
    if question.call.content is not None:
        told["content"] = [_draft_part(part) for part in question.call.content]
    if not is_new:
        del told["title"]
    subject = ToolCallSubject(tool_call=DraftToolCallUpdate.model_validate(told))
    return DraftRequestPermissionRequest(session_id=session_id, title=question.title, subject=subject, options=options)


def _draft_part(part: ToolCallContent) -> DraftToolCallContent:
    match part:
        case ContentPart():
            return DraftContentPart.model_validate({"content": part.content.dump()})
        case DiffPart():
            operation = "add" if part.old_text is None else "modify"
            change = PathChange(operation=operation, path=part.path)
            return DraftDiffPart(changes=[change], patch=DiffPatch(format="git_patch", text=_patch(part)))
        case _:
            return DraftToolCallContent.model_validate(part.dump())


def _patch(part: DiffPart) -> str:
    """The whole file out and the whole file in: exact, and linear in their length."""
    before = "/dev/null" if part.old_text is None else f"a/{part.path.lstrip('/')}"
    old, new = _lines(part.old_text or ""), _lines(part.new_text)
    spans = f"@@ -{_span(old)} +{_span(new)} @@\n"
    gone, come = "".join(f"-{line}" for line in old), "".join(f"+{line}" for line in new)
    return f"--- {before}\n+++ b/{part.path.lstrip('/')}\n{spans}{gone}{come}"


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    if text.endswith("\n") or not text:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + NO_END]


def _span(lines: list[str]) -> str:
    return f"{1 if lines else 0},{len(lines)}"


# A turn's packets as `session/update` lines, in either version. Pure: packets in, bytes out.
#
# Text is passed on as the JSON that it is already, without being read. A thought is a thought chunk, a plan is a
# plan, progress is a tool call that goes on and ends with its turn, as tool calls do. Any other event reaches only
# clients that declared it: it travels in `_meta`. What cannot be read is told in words.

EVENT_AT: Final = "accord.event"
"""The key of `_meta` under which an update carries the event that it was made from."""

THOUGHT_KEYS: Final = ("thought", "text", "content")
STATUSES: Final[Mapping[str, ToolCallStatus]] = {
    "running": ToolCallStatus.IN_PROGRESS,
    "complete": ToolCallStatus.COMPLETED,
    "failed": ToolCallStatus.FAILED,
}
ENDED: Final = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
UNREADABLE: Final = "(A {} that cannot be read.)\n"
LEFT_OPEN: Final[Mapping[StopReason, ToolCallStatus]] = {
    StopReason.END_TURN: ToolCallStatus.COMPLETED,
    StopReason.CANCELLED: ToolCallStatus.FAILED,
    StopReason.ERROR: ToolCallStatus.FAILED,
}
"""What becomes of progress and calls that nobody ended, when their turn ends."""


class _Packet(msgspec.Struct):
    op: str
    p: msgspec.Raw = msgspec.Raw(b"null")


_read = msgspec.json.Decoder(_Packet).decode
_write = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Asking:
    """A request for permission, the call that it is about, and the lines that go before it."""

    call_id: str
    request: RequestPermissionRequest | DraftRequestPermissionRequest
    before: bytes = b""


class TurnUpdates:
    """The updates of one turn; `own` names its messages. `error` is what broke its stream, if anything did."""

    def __init__(self, session_id: str, own: str, *, is_draft: bool) -> None:
        self.error: StreamError | None = None
        self._session_id: Final = session_id
        self._own: Final = own
        self._is_draft: Final = is_draft
        self._labels: Final[dict[str, str]] = {}
        self._calls: Final[set[str]] = set()
        self._open: Final[dict[str, ToolCallStatus | None]] = {}
        self._kinds: Final[Mapping[str, Callable[[dict[str, Any]], SessionUpdate | DraftSessionUpdate]]] = {
            PresentationEventType.THOUGHT_TRACE: self._thought,
            PresentationEventType.PROGRESS_INDICATOR: self._progressed,
            PLAN: self._planned,
            TOOL_CALL: self._called,
        }
        chunk: dict[str, Any] = {"sessionUpdate": "agent_message_chunk"} | ({"messageId": own} if is_draft else {})
        chunk["content"] = {"type": "text", "text": ""}
        # Everything around the text is the same for every piece of it.
        self._before, self._after = update_line(session_id, _write(chunk)).split(b'"text":""')

    def lines(self, bodies: Iterable[str]) -> bytes:
        """The lines for these packets."""
        found: list[bytes] = []
        for body in bodies:
            packet = _read(body)
            if packet.op == "delta":
                found += (self._before, b'"text":', bytes(packet.p), self._after)
            elif packet.op != "close":
                found.append(self._line(StreamPacket.parse(body)))
        return b"".join(found)

    def ending(self, stop: StopReason) -> bytes:
        """The lines that end what was left open."""
        status = LEFT_OPEN[stop]
        if self._is_draft and stop is StopReason.CANCELLED:
            status = ToolCallStatus.CANCELLED
        left = dict(self._open)
        self._open.clear()
        return b"".join(self._told(self._changed(call_id, status=own or status)) for call_id, own in left.items())

    def asking(self, question: PermissionQuestion) -> Asking:
        """What goes out to ask for this permission. The call that it is about is open from now on."""
        call_id = self._call_id(question.call)
        is_new = call_id not in self._calls
        self._calls.add(call_id)
        self._open.setdefault(call_id)
        request = permission_request(question, self._session_id, call_id, is_new=is_new, is_draft=self._is_draft)
        if self._is_draft:
            return Asking(call_id, request, state_line(self._session_id, SessionState.REQUIRES_ACTION))
        if not is_new:
            return Asking(call_id, request)
        shown = {"status": ToolCallStatus.PENDING, **question.call.dump(), "toolCallId": call_id}
        return Asking(call_id, request, self._told(ToolCallStarted.model_validate(shown)))

    def answered(self, call_id: str, *, is_allowed: bool) -> None:
        """What came of asking for this call: unless its agent ends it, one that was not allowed has failed."""
        if not is_allowed and call_id in self._open:
            self._open[call_id] = ToolCallStatus.FAILED

    def _line(self, packet: StreamPacket) -> bytes:
        if isinstance(packet, ErrorPacket):
            self.error = packet.p
            return b""
        event = cast("EventPacket", packet).p
        return self._told(self._kinds.get(str(event.get("type", "")).lower(), self._shown)(event))

    def _thought(self, event: dict[str, Any]) -> SessionUpdate | DraftSessionUpdate:
        content = TextBlock(text=_thought_text(event.get("data")))
        if self._is_draft:
            return DraftAgentThoughtChunk(message_id=self._own, content=content, _meta={EVENT_AT: event})
        return AgentThoughtChunk(content=content, _meta={EVENT_AT: event})

    def _shown(self, event: dict[str, Any], words: str = "") -> SessionUpdate | DraftSessionUpdate:
        content = TextBlock(text=words)
        if self._is_draft:
            return DraftAgentMessageChunk(message_id=self._own, content=content, _meta={EVENT_AT: event})
        return AgentMessageChunk(content=content, _meta={EVENT_AT: event})

    def _planned(self, event: dict[str, Any]) -> SessionUpdate | DraftSessionUpdate:
        plan = read_plan(event.get("data"))
        if plan is None:
            return self._shown(event, UNREADABLE.format("plan"))
        return plan_update(plan, self._own, {EVENT_AT: event}, is_draft=self._is_draft)

    def _called(self, event: dict[str, Any]) -> SessionUpdate | DraftSessionUpdate:
        call = read_call(event.get("data"))
        if call is None:
            return self._shown(event, UNREADABLE.format("tool call"))
        call_id = self._call_id(call)
        is_new = call_id not in self._calls
        self._calls.add(call_id)
        self._note(call_id, is_open=str(call.status) not in ENDED)
        return call_update(call, call_id, {EVENT_AT: event}, is_new=is_new, is_draft=self._is_draft)

    def _progressed(self, event: dict[str, Any]) -> SessionUpdate | DraftSessionUpdate:
        update = _progress(event)
        if update is None:
            return self._shown(event, UNREADABLE.format("report of progress"))
        status, label = STATUSES[update.status], update.label
        share = update.progress_percent
        title = label if share is None or status is not ToolCallStatus.IN_PROGRESS else f"{label} ({share:.0%})"
        known = self._labels.get(label)
        call_id = self._labels.setdefault(label, f"{self._own}-{len(self._labels) + 1}")
        self._note(call_id, is_open=status is ToolCallStatus.IN_PROGRESS)
        told: dict[str, Any] = {"title": title, "status": status, "_meta": {EVENT_AT: event}}
        if known:
            return self._changed(call_id, **told)
        if self._is_draft:
            return DraftToolCallChanged(tool_call_id=call_id, kind=ToolKind.OTHER, **told)
        return ToolCallStarted(tool_call_id=call_id, kind=ToolKind.OTHER, **told)

    def _call_id(self, call: ToolCallShown) -> str:
        """The agent's ids are its own; a session's have to differ from turn to turn."""
        return f"{self._own}-call-{call.tool_call_id}"

    def _note(self, call_id: str, *, is_open: bool) -> None:
        if is_open:
            self._open[call_id] = None
        else:
            self._open.pop(call_id, None)

    def _changed(self, call_id: str, **told: Any) -> SessionUpdate | DraftSessionUpdate:
        changed = DraftToolCallChanged if self._is_draft else ToolCallChanged
        return changed(tool_call_id=call_id, **told)

    def _told(self, update: SessionUpdate | DraftSessionUpdate) -> bytes:
        return told_line(self._session_id, update)


def _progress(event: dict[str, Any]) -> ProgressUpdate | None:
    try:
        return ProgressUpdate.model_validate(event.get("data"))
    except ValidationError:
        return None


def _thought_text(data: Any) -> str:
    """The words of a thought, in whatever form the agent has them."""
    if isinstance(data, Mapping):
        members = cast("Mapping[str, Any]", data)
        for key in THOUGHT_KEYS:
            if isinstance(text := members.get(key), str):
                return text
    return _write(data).decode()


def update_line(session_id: str, update: bytes) -> bytes:
    """An update that is JSON already, as a line."""
    return notice_line(
        Method.SESSION_UPDATE.value, b'{"sessionId":' + _write(session_id) + b',"update":' + update + b"}"
    )


def told_line(session_id: str, update: SessionUpdate | DraftSessionUpdate) -> bytes:
    """An update as a line."""
    if isinstance(update, SessionUpdate):
        return notice_line(Method.SESSION_UPDATE.value, SessionNotification(session_id=session_id, update=update))
    return notice_line(Method.SESSION_UPDATE.value, DraftSessionNotification(session_id=session_id, update=update))


def echo_line(session_id: str, message_id: str, prompt: bytes) -> bytes:
    """What the user said, as the draft wants it told back: the blocks as they came."""
    update = b'{"sessionUpdate":"user_message","messageId":' + _write(message_id) + b',"content":' + prompt + b"}"
    return update_line(session_id, update)


def state_line(session_id: str, state: SessionState = SessionState.RUNNING) -> bytes:
    """What goes on in a session (draft)."""
    return told_line(session_id, StateUpdate(state=state))


def stopped_line(session_id: str, stop: StopReason, error: Mapping[str, Any] | None = None) -> bytes:
    """That the agent is idle again, and why it stopped (draft)."""
    told = None if error is None else RpcError.model_validate(error)
    return told_line(session_id, StateUpdate(state=SessionState.IDLE, stop_reason=stop, error=told))


def replay_lines(session_id: str, history: Iterable[ChatMessage], *, is_draft: bool) -> bytes:
    """What was said in a session, told again."""
    spoken = [said for said in history if said.role in (Role.USER, Role.ASSISTANT) and said.content]
    return b"".join(
        told_line(session_id, _said_again(said, f"{session_id}-{number}", is_draft=is_draft))
        for number, said in enumerate(spoken, start=1)
    )


def _said_again(said: ChatMessage, message_id: str, *, is_draft: bool) -> SessionUpdate | DraftSessionUpdate:
    block, by_user = TextBlock(text=said.content), said.role is Role.USER
    if is_draft:
        return (UserMessage if by_user else AgentMessage)(message_id=message_id, content=[block])
    return (UserMessageChunk if by_user else AgentMessageChunk)(content=block)
