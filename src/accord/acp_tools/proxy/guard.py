"""Decide about every line between an editor and an agent: pass it on, answer it, or rewrite it.

Pure: no I/O and no clock. A `LineDecision` names the files to save and the lines to write; `pump` does that.

- *observe* changes nothing.
- *guard* answers a prompt whose content is malformed or was not declared with the exact error, so the
  agent never gets it.
- *adapt* replaces undeclared content, tells the user so, and still refuses malformed content. So that editors send such
  content at all, it declares it in the agent's answer to `initialize`; the guard itself keeps what the agent declared.

Both guard and adapt refuse a line that is not a JSON-RPC message, because an agent might read a prompt in it. Every
other message passes unchanged. What the agent sends always passes; it is checked, and faults become findings.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, assert_never

import msgspec

from accord.acp_tools.proxy.declare import raise_flags
from accord.acp_tools.proxy.degrade import MAX_TEXT_CHARS, FileToSave, degrade_prompt, user_notice
from accord.acp_tools.proxy.long_lines import read_beginning
from accord.acp_tools.proxy.pending import PendingCall, PendingCalls
from accord.acp_tools.shape import (
    BEFORE_HANDSHAKE,
    Handshake,
    first_unverified,
    read_handshake,
    shape_faults,
)
from accord.core.prompt import EVERY_TYPE, ContentLimits, ContentValidator, Verdict
from accord.core.rpc import (
    MAX_LINE_BYTES,
    MalformedMessage,
    RpcFailure,
    RpcNotification,
    RpcRequest,
    RpcResult,
    error_line,
    read_frames,
)
from accord.core.rpc_repair import replace_half_pairs
from accord.errors import RpcCode

PROMPT: Final = "session/prompt"
MAX_FINDINGS: Final = 50
NOT_RAISED: Final = "Nothing can be declared for the agent in this answer, so editors send only text and links"
NOT_SAVED: Final = "The content could not be saved, so the prompt is refused"
HALF_PAIR: Final = "Half of a surrogate pair, which strict JSON parsers refuse"

# The clauses that findings refer to.
REFUSED: Final = "a session/prompt carries only what the agent declared (ACP, prompt capabilities)"
SHAPE: Final = "messages match the schema of the protocol (ACP, schema)"
RPC: Final = "a line is one JSON-RPC 2.0 message"
IDS: Final = "an answer has the id of one call (JSON-RPC 2.0, 5)"
LADDER: Final = "never silently degrade (Accord)"

BAD_JSON: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_read_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_batch: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_any: Final = msgspec.json.Decoder().decode
_write: Final = msgspec.json.Encoder().encode


class Mode(StrEnum):
    """What the proxy does with content that the agent did not declare."""

    GUARD = "guard"
    ADAPT = "adapt"
    OBSERVE = "observe"


class Side(StrEnum):
    """The sender of a message; `accord` for messages of the proxy itself."""

    EDITOR = "editor"
    AGENT = "agent"
    ACCORD = "accord"


class Severity(StrEnum):
    """How much a finding matters: a record of what was done, something unusual, a broken contract."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ProxyFinding:
    """One finding: the number and side of its message, the clause, and a sentence without content of the message."""

    number: int
    side: Side
    severity: Severity
    clause: str
    sentence: str


UNLIMITED: Final = ContentLimits(sys.maxsize, sys.maxsize, sys.maxsize)
"""What an agent takes is its own decision, so the proxy limits content only if it is configured to."""


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Sizes beyond which the editor's lines are refused.

    `max_line_bytes` and `max_values` bound the memory of the proxy itself. Embedded text of more than
    `max_text_chars` is not sent as text by adapt.
    """

    content: ContentLimits = UNLIMITED
    max_line_bytes: int = MAX_LINE_BYTES
    max_values: int = 2_000_000
    max_text_chars: int = MAX_TEXT_CHARS


DEFAULT_LIMITS: Final = ProxyLimits()


@dataclass(frozen=True, slots=True)
class LineDecision:
    """What to do with a line of the editor: what to send to the agent and to the editor, and the findings.

    `files` must be saved first; if that fails, `if_not_saved` is the decision instead, with findings of its own.
    """

    forward: bytes
    reply: bytes = b""
    files: tuple[FileToSave, ...] = ()
    if_not_saved: "LineDecision | None" = None
    findings: tuple[ProxyFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedBlock:
    """The findings about several lines of the agent, and the lines to send instead, by their index."""

    findings: list[ProxyFinding]
    rewritten: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class _MessageDecision:
    """What to do with one message of a line, which may be a batch."""

    forward: bytes = b""
    reply: bytes = b""
    notice: bytes = b""
    files: tuple[FileToSave, ...] = ()
    findings: tuple[ProxyFinding, ...] = ()
    if_not_saved: "_MessageDecision | None" = None


class Guard:
    """The state of one conversation. Give it the lines of both sides in the order in which they arrive."""

    def __init__(
        self, mode: Mode = Mode.GUARD, *, folder: str | None = None, limits: ProxyLimits = DEFAULT_LIMITS
    ) -> None:
        self.mode: Final = mode
        self.limits: Final = limits
        self.handshake: Handshake = BEFORE_HANDSHAKE
        self.number = 0
        """How many messages were read so far, which is the number of the latest."""
        self._folder: Final = folder
        self._editor_calls: Final = PendingCalls()
        self._agent_calls: Final = PendingCalls()
        self._findings: list[ProxyFinding] = []
        self._side = Side.EDITOR

    def decide(self, line: bytes) -> LineDecision:
        """What to do with this line of the editor, which may include its line end."""
        message = line.strip()
        if not message:
            return LineDecision(line)
        if len(message) > self.limits.max_line_bytes:
            return self.decide_oversized(Side.EDITOR, line)
        self.number += 1
        self._side, self._findings = Side.EDITOR, []
        decision = self._decide_batch(message) if message[:1] == b"[" else _combine([self._decide_message(message)])
        fallback = None if decision.if_not_saved is None else self._complete(decision.if_not_saved, line, message)
        return replace(self._complete(decision, line, message), if_not_saved=fallback)

    def _complete(self, decision: LineDecision, line: bytes, message: bytes) -> LineDecision:
        """Add the original line end, and the findings about the whole line."""
        if decision.forward == message:
            forward = line
        else:
            forward = decision.forward and decision.forward + line[len(line.rstrip()) :]
        return replace(decision, forward=forward, findings=(*self._findings, *decision.findings)[:MAX_FINDINGS])

    def check_agent(self, lines: list[bytes]) -> CheckedBlock:
        """Check these lines of the agent, given without their line ends."""
        findings: list[ProxyFinding] = []
        rewritten: dict[int, bytes] = {}
        start = 0
        while (index := first_unverified(lines, start, self.handshake.version)) < len(lines):
            self.number += index - start
            if lines[index].strip():
                self.number += 1
                self._side, self._findings = Side.AGENT, []
                if changed := self._check_agent_line(lines[index]):
                    rewritten[index] = changed
                findings += self._findings
            start = index + 1
        self.number += index - start
        return CheckedBlock(findings, rewritten)

    def decide_oversized(self, side: Side, beginning: bytes) -> LineDecision:
        """What to do with a line that is too long to be parsed: refuse it if it may be a prompt, else pass it.

        If it is refused, its sender gets an error with the id of the request. If it is a response, the agent that waits
        for it gets the error.
        """
        self.number += 1
        self._side, self._findings = side, []
        members = read_beginning(beginning)
        call_id = members.get("id")
        has_id = isinstance(call_id, int | str) and not isinstance(call_id, bool)
        is_response = "result" in members or "error" in members
        passes = side is Side.AGENT or self.mode is Mode.OBSERVE
        if has_id and is_response:
            (self._editor_calls if side is Side.AGENT else self._agent_calls).pop(call_id)
        elif has_id and passes:
            (self._agent_calls if side is Side.AGENT else self._editor_calls).add(call_id, PendingCall(""))
        too_long = f"The line is longer than {self.limits.max_line_bytes} bytes"
        if passes:
            self._add_finding(Severity.WARNING, RPC, f"{too_long} and passes unchecked")
            return LineDecision(beginning, findings=tuple(self._findings))
        self._add_finding(Severity.ERROR, RPC, f"{too_long} and is refused")
        error = error_line(call_id if has_id else None, {"code": RpcCode.INVALID_REQUEST, "message": too_long})
        forward, reply = (error if has_id else b"", b"") if is_response else (b"", error)
        return LineDecision(forward, reply, findings=tuple(self._findings))

    def forget_refused(self, reply: bytes) -> None:
        """Requests that were to be sent, and were refused with these lines instead, have their response."""
        for line in reply.splitlines():
            for frame in read_frames(line, batches=True):
                if isinstance(frame, RpcFailure):
                    self._editor_calls.pop(frame.id)

    def fail_pending(self, message: str) -> bytes:
        """An error, as a line, for each request of the editor that has no response yet; observe adds no line."""
        error = {"code": RpcCode.INTERNAL_ERROR, "message": message}
        ids = [] if self.mode is Mode.OBSERVE else self._editor_calls.pop_all()
        return b"".join(error_line(call_id, error) for call_id in ids)

    def _add_finding(self, severity: Severity, clause: str, sentence: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(ProxyFinding(self.number, self._side, severity, clause, sentence))

    def _decide_batch(self, line: bytes) -> LineDecision:
        if (readable := replace_half_pairs(line)) != line:
            self._add_finding(Severity.WARNING, RPC, HALF_PAIR)
            decision = self._decide_batch(readable)
            return LineDecision(line) if decision.forward == readable else decision
        try:
            messages = [bytes(raw) for raw in _read_batch(line)]
        except BAD_JSON:
            messages = []
        if not messages:
            return _combine([self._decide_message(line)])
        if self.handshake.version < 2:
            self._add_finding(Severity.WARNING, RPC, "A batch, which protocol version 1 does not support")
        decisions = [self._decide_message(message) for message in messages]
        if [decision.forward for decision in decisions] == messages:
            return LineDecision(line)
        return _combine(decisions, is_batch=True)

    def _decide_message(self, message: bytes) -> _MessageDecision:
        if (readable := replace_half_pairs(message)) != message:
            # Decided with the readable copy. What is not changed passes as it came.
            self._add_finding(Severity.WARNING, RPC, HALF_PAIR)
            decision = self._decide_message(readable)
            return replace(decision, forward=message) if decision.forward == readable else decision
        (frame,) = read_frames(message, max_values=self.limits.max_values)
        match frame:
            case MalformedMessage():
                self._add_finding(Severity.ERROR, RPC, f"Not a JSON-RPC message: {frame.message}")
                if self.mode is not Mode.OBSERVE:
                    # Agents read more than JSON-RPC allows, and searching the bytes for the method would not find every
                    # prompt: JSON can also spell it `session\/prompt`.
                    return _MessageDecision(reply=error_line(frame.id, {"code": frame.code, "message": frame.message}))
            case RpcRequest() | RpcNotification():
                if frame.method == PROMPT:
                    return self._decide_prompt(frame, message)
                self._add_call(self._editor_calls, frame)
            case RpcResult() | RpcFailure():
                self._pop_call(self._agent_calls, frame)
            case _:
                assert_never(frame)
        return _MessageDecision(message)

    def _decide_prompt(self, frame: RpcRequest | RpcNotification, message: bytes) -> _MessageDecision:
        try:
            raw = bytes(_read_members(frame.raw).get("prompt", b"null"))
        except BAD_JSON:
            raw = b"null"  # which the validator refuses
        declaration, limits = self.handshake.validator.declaration, self.limits.content
        version = declaration.protocol_version
        verdict = ContentValidator(declaration, protocol_version=version, limits=limits).validate_json(raw)
        shape = verdict
        if not verdict.valid and self.mode is Mode.ADAPT:
            shape = ContentValidator(EVERY_TYPE, limits=limits).in_version(version).validate_json(raw)
        error = verdict if shape.valid else shape
        if verdict.valid or self.mode is Mode.OBSERVE:
            if not verdict.valid:
                self._add_content_findings(error, Severity.ERROR)
            self._add_call(self._editor_calls, frame, violates=not verdict.valid)
            return _MessageDecision(message)
        # A notification has no id to reply to: it is dropped, and the finding says so.
        refusal = _MessageDecision(
            reply=error_line(frame.id, error.error or {}) if isinstance(frame, RpcRequest) else b""
        )
        adapted = self._adapt(frame, message, raw, self._folder) if shape.valid else None
        # The editor may send what adapt declared to it.
        self._add_content_findings(error, Severity.ERROR if adapted is None else Severity.INFO)
        if adapted is None:
            return refusal
        self._add_call(self._editor_calls, frame)
        if not adapted.files:
            return adapted
        unsaved = ProxyFinding(self.number, Side.EDITOR, Severity.ERROR, REFUSED, NOT_SAVED)
        fallback = self._adapt(frame, message, raw, None) or replace(refusal, findings=(unsaved,))
        return replace(adapted, if_not_saved=fallback)

    def _add_content_findings(self, verdict: Verdict, severity: Severity) -> None:
        if not self.handshake.is_done:
            self._add_finding(Severity.WARNING, REFUSED, "The prompt came before the agent declared anything")
        if verdict.unreadable is not None:
            self._add_finding(Severity.ERROR, RPC, "The content is not JSON")
        for violation in verdict.violations[:MAX_FINDINGS]:
            clause = SHAPE if violation.is_malformed else REFUSED
            self._add_finding(severity, clause, f"Block {violation.index}: {violation.message}")

    def _adapt(
        self, frame: RpcRequest | RpcNotification, message: bytes, raw: bytes, folder: str | None
    ) -> _MessageDecision | None:
        """The prompt with its undeclared content replaced, files in this folder; None if a block has no replacement."""
        try:
            blocks: list[Any] = _read_any(raw)
            replacements = degrade_prompt(
                blocks,
                self.handshake.validator.declaration,
                folder=folder,
                prefix=f"prompt-{self.number}",
                max_text_chars=self.limits.max_text_chars,
            )
            if replacements is None:
                return None
            prompt = _read_batch(raw)
            for index, replacement in replacements.items():
                prompt[index] = msgspec.Raw(_write(replacement.block))
            members, params = _read_members(message), _read_members(frame.raw)
            params["prompt"] = msgspec.Raw(_write(prompt))
            members["params"] = msgspec.Raw(_write(params))
        except (*BAD_JSON, OverflowError):
            return None
        degraded = replacements.values()
        findings = tuple(
            ProxyFinding(self.number, Side.EDITOR, Severity.INFO, LADDER, f"{block.rung}: {block.sentence}")
            for block in degraded
        )
        notice = user_notice(degraded, params.get("sessionId"), self.handshake.version, self.number)
        files = tuple(block.file for block in degraded if block.file is not None)
        return _MessageDecision(_write(members), b"", notice, files, findings)

    def _check_agent_line(self, line: bytes) -> bytes:
        """Check this line; returns the line to send instead, or nothing."""
        if (readable := replace_half_pairs(line)) != line:
            self._add_finding(Severity.WARNING, RPC, HALF_PAIR)
            return self._check_agent_line(readable)
        frames = read_frames(line, batches=True, max_values=self.limits.max_values)
        results: dict[int, bytes] = {}
        for index, frame in enumerate(frames):
            match frame:
                case MalformedMessage():
                    self._add_finding(Severity.ERROR, RPC, f"Not a JSON-RPC message: {frame.message}")
                case RpcRequest() | RpcNotification():
                    self._add_call(self._agent_calls, frame)
                    for fault in shape_faults(frame.method, frame.raw, self.handshake.version):
                        self._add_finding(Severity.WARNING, SHAPE, fault)
                case RpcResult() | RpcFailure():
                    if (result := self._check_agent_response(frame)) is not None:
                        results[index] = result
                case _:
                    assert_never(frame)
        return _replace_results(line, results) if results else b""

    def _check_agent_response(self, frame: RpcResult | RpcFailure) -> bytes | None:
        """Check this response; returns the result to send instead, if there is one."""
        call = self._pop_call(self._editor_calls, frame)
        if call is None or isinstance(frame, RpcFailure):
            return None
        if call.violates:
            sentence = "The agent accepted a prompt that it should have refused with -32602"
            self._add_finding(Severity.ERROR, REFUSED, sentence)
        return self._take_handshake(frame) if call.method == "initialize" else None

    def _take_handshake(self, frame: RpcResult) -> bytes | None:
        """Keep what the agent declared; returns the result that declares what adapt can adapt, if that is more."""
        try:
            self.handshake = read_handshake(frame.value())
            raised = raise_flags(frame.raw, self.handshake.validator.declaration)
        except BAD_JSON:
            self.handshake, raised = read_handshake(None), None
        if self.mode is not Mode.ADAPT:
            return None
        if raised is None:
            self._add_finding(Severity.WARNING, LADDER, NOT_RAISED)
            return None
        if not raised.flags:
            return None
        self._add_finding(Severity.INFO, LADDER, f"declared for the agent, to be adapted: {', '.join(raised.flags)}")
        return raised.result

    def _add_call(self, calls: PendingCalls, frame: RpcRequest | RpcNotification, *, violates: bool = False) -> None:
        if isinstance(frame, RpcRequest) and not calls.add(frame.id, PendingCall(frame.method, violates)):
            self._add_finding(Severity.WARNING, IDS, "Another call with this id has no answer yet")

    def _pop_call(self, calls: PendingCalls, frame: RpcResult | RpcFailure) -> PendingCall | None:
        call = calls.pop(frame.id)
        if call is None:
            self._add_finding(Severity.WARNING, IDS, "No call with this id waits for an answer")
        return call


def _replace_results(line: bytes, results: Mapping[int, bytes]) -> bytes:
    """The line with these results instead of its own; everything else of its messages is kept."""
    message = line.strip()
    is_batch = message[:1] == b"["
    messages = _read_batch(message) if is_batch else [msgspec.Raw(message)]
    for index, result in results.items():
        messages[index] = msgspec.Raw(_write({**_read_members(messages[index]), "result": msgspec.Raw(result)}))
    return (_write(messages) if is_batch else bytes(messages[0])) + line[len(line.rstrip()) :]


def _combine(decisions: list[_MessageDecision], *, is_batch: bool = False) -> LineDecision:
    decision = _join(decisions, is_batch=is_batch)
    if not decision.files:
        return decision
    return replace(decision, if_not_saved=_join([each.if_not_saved or each for each in decisions], is_batch=is_batch))


def _join(decisions: list[_MessageDecision], *, is_batch: bool) -> LineDecision:
    forwarded = [decision.forward for decision in decisions if decision.forward]
    replies = [decision.reply for decision in decisions if decision.reply]
    files = tuple(file for decision in decisions for file in decision.files)
    findings = tuple(finding for decision in decisions for finding in decision.findings)
    notices = b"".join(decision.notice for decision in decisions)
    if not is_batch:
        return LineDecision(b"".join(forwarded), notices + b"".join(replies), files, findings=findings)
    forward = b"[" + b",".join(forwarded) + b"]" if forwarded else b""
    reply = b"[" + b",".join(reply.rstrip() for reply in replies) + b"]\n" if replies else b""
    return LineDecision(forward, notices + reply, files, findings=findings)
