"""Judge every message that an agent sends: its shape, its place in the conversation, and whether it may be sent. Pure.

`Conduct` follows one connection. Give it each message of both sides in the order in which they were sent; it records a
`RuleViolation` for each message of the agent that breaks a rule, under the id of the check that reports it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final, cast

from accord.acp import schema_v1, schema_v2
from accord.acp.methods import Method
from accord.acp.schema_parts import ToolCallStatus
from accord.acp_tools.json_values import as_object
from accord.acp_tools.shape import (
    PERMISSION,
    UNSTABLE_UPDATES,
    UPDATE,
    is_known_update,
    result_faults,
    strict_faults,
)
from accord.core.rpc import Id, RpcFailure, RpcNotification, RpcRequest, RpcResult

FILE_METHODS: Final = {Method.FS_READ_TEXT_FILE: "readTextFile", Method.FS_WRITE_TEXT_FILE: "writeTextFile"}
TERMINAL_METHODS: Final = frozenset(
    {
        Method.TERMINAL_CREATE,
        Method.TERMINAL_OUTPUT,
        Method.TERMINAL_RELEASE,
        Method.TERMINAL_WAIT_FOR_EXIT,
        Method.TERMINAL_KILL,
    }
)
UNSTABLE_METHODS: Final = frozenset(
    {"elicitation/create", "elicitation/complete", "mcp/connect", "mcp/message", "mcp/disconnect"}
)
"""Methods of a client that need a declaration the inspector does not make, or are in the unstable schema only."""
TURN_UPDATES: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "user_message_chunk"}
)
"""Updates that belong to a turn, or to the replay of one; others may come at any time."""
OUTPUT: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "tool_call", "plan"})
REOPENING: Final = frozenset({Method.SESSION_LOAD, Method.SESSION_RESUME})
STOP_REASONS: Final[frozenset[str]] = frozenset(schema_v1.StopReason)
FINAL: Final = frozenset({ToolCallStatus.COMPLETED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
MAX_VIOLATIONS: Final = 100
MAX_HELD: Final = 1_000


class Rule(StrEnum):
    """The rules for messages, named after the checks that report them."""

    RESULT_SHAPE = "result-shape"
    STOP_REASON = "stop-reason"
    ERROR_SHAPE = "error-shape"
    ONE_ANSWER = "one-answer"
    UPDATE_SHAPE = "update-shape"
    UPDATE_SESSION = "update-session"
    UPDATE_LATE = "update-late"
    UPDATE_OUTSIDE = "update-outside"
    TURN_OUTPUT = "turn-output"
    CALLS_FINISH = "tool-calls-finish"
    UNDECLARED_FS = "undeclared-fs"
    UNDECLARED_TERMINAL = "undeclared-terminal"
    PERMISSION_SHAPE = "permission-shape"
    CLIENT_SHAPE = "client-request-shape"
    CLIENT_METHODS = "client-methods"
    ABSOLUTE_PATHS = "absolute-paths"
    VERSION_BODY = "version-body"
    UNSTABLE = "unstable-members"


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A message that breaks a rule."""

    rule: Rule
    sentence: str
    lines: tuple[int, ...]
    """The numbers of the lines that show it, in the log of the connection."""


@dataclass(slots=True)
class PromptTurn:
    """A prompt without an answer."""

    has_text: bool = True
    """Whether the prompt has text; only then output is expected."""
    outputs: int = 0
    calls: dict[str, bool] = field(default_factory=dict[str, bool])
    """The tool calls of the turn, and whether each has ended."""


@dataclass(frozen=True, slots=True)
class SentCall:
    """A request of the inspector; `line` is its number in the log."""

    method: str
    session: str | None
    line: int


class Conduct:
    """What one agent has done so far; `client_capabilities` is what the inspector declared to it."""

    def __init__(self, client_capabilities: Mapping[str, Any] | None = None) -> None:
        self.violations: Final[list[RuleViolation]] = []
        self.judged: Final[set[Rule]] = set()
        """The rules for which there was a message to judge."""
        self.version = 1
        self._client: Final = client_capabilities or {}
        self._pending: Final[dict[Id, SentCall]] = {}
        self._answered: Final[dict[Id, SentCall]] = {}
        self._sessions: Final[set[str]] = set()
        self._turns: Final[dict[str, PromptTurn]] = {}
        self._ended: Final[set[str]] = set()
        """Sessions that had a turn which is over."""
        self._held: Final[list[tuple[str, str, int]]] = []
        """Messages about sessions whose `session/new` is not answered yet: session, what it was, line."""

    def sent(self, message: RpcRequest | RpcNotification, line: int) -> None:
        """Take a message of the inspector."""
        if not isinstance(message, RpcRequest):
            return
        session = _session_of(message.value())
        self._pending[message.id] = SentCall(message.method, session, line)
        if session is not None and message.method in REOPENING:
            self._sessions.add(session)
        if session is not None and message.method == Method.SESSION_PROMPT:
            blocks = as_object(message.value()).get("prompt")
            self._turns[session] = PromptTurn(has_text=_has_text(blocks))
            # Also a session that does not exist: what the agent answers there is judged by the check that prompts it.
            self._sessions.add(session)

    def received(self, message: RpcRequest | RpcNotification | RpcResult | RpcFailure, line: int) -> None:
        """Judge a message of the agent."""
        match message:
            case RpcResult() | RpcFailure():
                self._judge_answer(message, line)
            case RpcRequest() | RpcNotification():
                self._judge_call(message, line)

    def close(self) -> None:
        """Judge what was held back until the end: updates of sessions that were never opened."""
        self._release_held()

    def _violate(self, rule: Rule, sentence: str, *lines: int) -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(RuleViolation(rule, sentence, lines))

    def _judge_answer(self, answer: RpcResult | RpcFailure, line: int) -> None:
        self.judged.add(Rule.ONE_ANSWER)
        call = self._pending.pop(answer.id, None)
        if call is None:
            self._judge_unexpected(answer, line)
            return
        self._answered[answer.id] = call
        turn = self._turns.pop(call.session, None) if call.session and call.method == Method.SESSION_PROMPT else None
        if turn is not None and call.session is not None and self.version < 2:
            self._ended.add(call.session)
        if isinstance(answer, RpcFailure):
            self._judge_error(answer, call, line)
        else:
            self._judge_result(answer, call, turn, line)
        if call.method == Method.SESSION_NEW:
            self._release_held()

    def _judge_unexpected(self, answer: RpcResult | RpcFailure, line: int) -> None:
        if answer.id is None and isinstance(answer, RpcFailure):
            return  # the answer to a line whose id cannot be read
        earlier = self._answered.get(answer.id)
        if earlier is None:
            self._violate(Rule.ONE_ANSWER, f"An answer has the id {answer.id!r}, which no request has", line)
        else:
            sentence = f"The request {earlier.method} with the id {answer.id!r} was answered twice"
            self._violate(Rule.ONE_ANSWER, sentence, earlier.line, line)

    def _judge_error(self, answer: RpcFailure, call: SentCall, line: int) -> None:
        self.judged.add(Rule.ERROR_SHAPE)
        error = as_object(answer.value())
        code, message = error.get("code"), error.get("message")
        if not isinstance(code, int) or isinstance(code, bool):
            self._violate(Rule.ERROR_SHAPE, f"The error of {call.method} has no code that is a number", call.line, line)
        elif not isinstance(message, str):
            self._violate(Rule.ERROR_SHAPE, f"The error of {call.method} has no message", call.line, line)

    def _judge_result(self, answer: RpcResult, call: SentCall, turn: PromptTurn | None, line: int) -> None:
        result = answer.value()
        if call.method == Method.INITIALIZE and self._judge_version_body(as_object(result), call.line, line):
            return
        members, is_draft = as_object(result), self.version >= 2
        if call.method == Method.SESSION_PROMPT and members and not is_draft:
            self._judge_turn(members, turn, call.line, line)
            return
        self.judged.add(Rule.RESULT_SHAPE)
        for fault in result_faults(call.method, answer.raw, self.version):
            self._violate(Rule.RESULT_SHAPE, f"The result of {call.method}: {fault}", call.line, line)
        session = members.get("sessionId")
        if call.method == Method.SESSION_NEW and isinstance(session, str):
            self._sessions.add(session)
        if call.method == Method.SESSION_NEW and not is_draft and "models" in members:
            self._violate(Rule.UNSTABLE, "session/new: the member models is in the unstable schema only", line)

    def _judge_version_body(self, members: Mapping[str, Any], *lines: int) -> bool:
        """Read the version; whether the body is that of another version, which is judged under its own rule."""
        version = members.get("protocolVersion")
        if not isinstance(version, int) or isinstance(version, bool):
            return False
        self.version = version
        self.judged.add(Rule.VERSION_BODY)
        stable, draft = "agentCapabilities" in members or "agentInfo" in members, "capabilities" in members
        draft = draft or "info" in members
        if version >= 2 and stable and not draft:
            text = f"protocolVersion is {version}, but agentCapabilities and agentInfo are members of version 1"
            self.version = 1  # what such an agent most likely speaks
        elif version < 2 and draft and not stable:
            text = f"protocolVersion is {version}, but capabilities and info are members of version 2"
        else:
            return False
        self._violate(Rule.VERSION_BODY, text, *lines)
        return True

    def _judge_turn(self, result: Mapping[str, Any], turn: PromptTurn | None, *lines: int) -> None:
        """Judge the end of a turn of version 1; a stop reason that is no text is the fault of the result."""
        self.judged.update((Rule.STOP_REASON, Rule.RESULT_SHAPE))
        reason = result.get("stopReason")
        if reason not in STOP_REASONS:
            named = repr(reason) if "stopReason" in result else "missing"
            self._violate(
                Rule.STOP_REASON, f"The stop reason is {named}; use {', '.join(sorted(STOP_REASONS))}", *lines
            )
        if turn is None or reason != schema_v2.StopReason.END_TURN:
            return
        if turn.has_text:
            self.judged.add(Rule.TURN_OUTPUT)
        if turn.has_text and not turn.outputs:
            self._violate(Rule.TURN_OUTPUT, "A turn ended as end_turn without any output", *lines)
        if turn.calls:
            self.judged.add(Rule.CALLS_FINISH)
        if unfinished := [call for call, has_ended in turn.calls.items() if not has_ended]:
            text = f"{len(unfinished)} of {len(turn.calls)} tool calls had no final status when the turn ended"
            self._violate(Rule.CALLS_FINISH, f"{text}: {unfinished[0]}", *lines)

    def _judge_call(self, call: RpcRequest | RpcNotification, line: int) -> None:
        method, params = call.method, as_object(_value_or_none(call))
        if method.startswith(("_", "$/")):
            return
        self.judged.add(Rule.CLIENT_METHODS)
        if method == UPDATE:
            self._judge_update(call, params, line)
            return
        self._judge_session(_session_of(params), method, line)
        if method == PERMISSION:
            self._judge_permission(call, params, line)
        elif method in FILE_METHODS:
            self._judge_file(call, params, line)
        elif method in TERMINAL_METHODS:
            self._judge_terminal(call, params, line)
        else:
            is_known = method in UNSTABLE_METHODS
            why = "which the client did not declare" if is_known else "which is no method of a client"
            self._violate(Rule.CLIENT_METHODS, f"The agent calls {method}, {why}", line)
            return
        if isinstance(call, RpcNotification):
            self._violate(Rule.CLIENT_SHAPE, f"{method} is a request, but was sent without an id", line)

    def _judge_update(self, call: RpcRequest | RpcNotification, params: Mapping[str, Any], line: int) -> None:
        self.judged.update((Rule.UPDATE_SHAPE, Rule.UPDATE_SESSION))
        if isinstance(call, RpcRequest):
            self._violate(Rule.UPDATE_SHAPE, "session/update is a notification, but was sent with an id", line)
        for fault in strict_faults(UPDATE, call.raw, self.version):
            self._violate(Rule.UPDATE_SHAPE, fault, line)
        session, update = _session_of(params), as_object(params.get("update"))
        kind = update.get("sessionUpdate")
        if self.version < 2 and not is_known_update(kind) and kind in UNSTABLE_UPDATES:
            self._violate(Rule.UNSTABLE, f"The update {kind} is in the unstable schema only", line)
        if session is None or not self._judge_session(session, "an update", line) or self.version >= 2:
            return
        turn = self._turns.get(session)
        if kind in TURN_UPDATES and turn is None and not self._is_reopening(session):
            is_late = session in self._ended
            when = "after its turn had ended" if is_late else "before any turn"
            self._violate(
                Rule.UPDATE_LATE if is_late else Rule.UPDATE_OUTSIDE, f"The update {kind} was sent {when}", line
            )
        elif turn is not None:
            self.judged.update((Rule.UPDATE_LATE, Rule.UPDATE_OUTSIDE))
            turn.outputs += kind in OUTPUT
            if kind in ("tool_call", "tool_call_update") and isinstance(call_id := update.get("toolCallId"), str):
                status = update.get("status")
                turn.calls[call_id] = status in FINAL if status is not None else turn.calls.get(call_id, False)

    def _is_reopening(self, session: str) -> bool:
        return any(call.session == session and call.method in REOPENING for call in self._pending.values())

    def _judge_session(self, session: str | None, what: str, line: int) -> bool:
        """Whether the message is about a session that was opened; judged later if one is being opened."""
        if session is None:
            return True  # the fault of the shape
        if session in self._sessions:
            return True
        if any(call.method == Method.SESSION_NEW for call in self._pending.values()):
            if len(self._held) < MAX_HELD:
                self._held.append((session, what, line))
            return False
        self._violate_session(session, what, line)
        return False

    def _release_held(self) -> None:
        held, self._held[:] = list(self._held), []
        for session, what, line in held:
            if session not in self._sessions:
                self._violate_session(session, what, line)

    def _violate_session(self, session: str, what: str, line: int) -> None:
        sentence = f"The agent sent {what} for the session {session!r}, which was never opened"
        self._violate(Rule.UPDATE_SESSION, sentence, line)

    def _judge_permission(self, call: RpcRequest | RpcNotification, params: Mapping[str, Any], line: int) -> None:
        self.judged.add(Rule.PERMISSION_SHAPE)
        for fault in strict_faults(PERMISSION, call.raw, self.version):
            self._violate(Rule.PERMISSION_SHAPE, fault, line)
        options = params.get("options")
        ids = [as_object(option).get("optionId") for option in cast("list[Any]", options)] if _is_list(options) else []
        if not ids:
            self._violate(Rule.PERMISSION_SHAPE, "A permission request has no options to choose from", line)
        elif len(set(map(repr, ids))) < len(ids):
            self._violate(Rule.PERMISSION_SHAPE, "Two options of a permission request have the same optionId", line)

    def _judge_file(self, call: RpcRequest | RpcNotification, params: Mapping[str, Any], line: int) -> None:
        flag = FILE_METHODS[Method(call.method)]
        self.judged.add(Rule.UNDECLARED_FS)
        if as_object(self._client.get("fs")).get(flag) is not True:
            sentence = f"The agent called {call.method}, but the client declared no {flag}"
            self._violate(Rule.UNDECLARED_FS, sentence, line)
            return
        self._judge_client_shape(call, line)
        self._judge_path(call.method, params.get("path"), line)

    def _judge_terminal(self, call: RpcRequest | RpcNotification, params: Mapping[str, Any], line: int) -> None:
        self.judged.add(Rule.UNDECLARED_TERMINAL)
        if self._client.get("terminal") is not True:
            sentence = f"The agent called {call.method}, but the client declared no terminal"
            self._violate(Rule.UNDECLARED_TERMINAL, sentence, line)
            return
        self._judge_client_shape(call, line)
        self._judge_path(call.method, params.get("cwd"), line)

    def _judge_client_shape(self, call: RpcRequest | RpcNotification, line: int) -> None:
        self.judged.add(Rule.CLIENT_SHAPE)
        for fault in strict_faults(call.method, call.raw, self.version):
            self._violate(Rule.CLIENT_SHAPE, f"{call.method}: {fault}", line)

    def _judge_path(self, method: str, path: Any, line: int) -> None:
        if not isinstance(path, str):
            return
        self.judged.add(Rule.ABSOLUTE_PATHS)
        if not PurePosixPath(path).is_absolute() and not PureWindowsPath(path).is_absolute():
            self._violate(Rule.ABSOLUTE_PATHS, f"{method} has the path {path!r}, which is not absolute", line)


def _value_or_none(call: RpcRequest | RpcNotification) -> Any:
    try:
        return call.value()
    except (ValueError, RecursionError):
        return None


def _session_of(params: Any) -> str | None:
    session = as_object(params).get("sessionId")
    return session if isinstance(session, str) else None


def _has_text(blocks: Any) -> bool:
    return _is_list(blocks) and any(isinstance(as_object(block).get("text"), str) for block in blocks)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
