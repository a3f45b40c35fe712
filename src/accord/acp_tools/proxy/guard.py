"""Decide about every line between an editor and an agent: pass it, answer it, or rewrite it. Pure."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, assert_never

import msgspec

from accord.acp_tools.proxy.degrade import Save, degrade_prompt, tell_user
from accord.acp_tools.proxy.shape import BEFORE, SHAPE_ONLY, Handshake, first_odd, read_handshake, shape_faults
from accord.acp_tools.trace.writer import ProxyFinding, Severity, Side
from accord.core.prompt import Verdict
from accord.core.rpc import (
    Id,
    MalformedMessage,
    RpcFailure,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    error_line,
    read_frames,
)
from accord.errors import RpcCode

# Which calls of one side have no answer yet. Knows ids and methods, and nothing of what was asked.

MAX_WAITING: Final = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits; whether it should not have been let in."""

    method: str
    violates: bool = False


class Waiting:
    """The calls of one side; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._asked: Final[OrderedDict[Id, Asked]] = OrderedDict()
        self._has_forgotten = False

    def ask(self, own: Id, asked: Asked) -> bool:
        """Remember a call; False if another of this id still waits."""
        is_new = own not in self._asked
        self._asked[own] = asked
        if len(self._asked) > MAX_WAITING:
            self._asked.popitem(last=False)
            self._has_forgotten = True
        return is_new

    def settle(self, own: Id) -> Asked | None:
        """The call that this answers, if there is one; after some were forgotten, any id may be right."""
        found = self._asked.pop(own, None)
        return Asked("") if found is None and self._has_forgotten else found


# Decides about every line between an editor and an agent: it passes as it is, is answered instead, or is rewritten.
#
# Three modes. *observe* only looks. *guard* answers a prompt with content that the agent did not declare, or that is
# malformed, with the exact error (decision 17), so that the agent never sees it. *adapt* sends down the ladder what
# was not declared, says so to the user, and still refuses what is malformed. Both refuse a line that is no JSON-RPC
# message, since an agent might still read a prompt in it; every other message passes untouched. What the agent sends
# always passes; it is looked at, and findings say what is wrong. No I/O and no clock: files that have to be saved and
# lines that have to be written are told in a `Step`.

PROMPT: Final = "session/prompt"
MAX_FINDINGS: Final = 50
REFUSED: Final = "a session/prompt carries only what the agent declared (ACP, prompt capabilities)"
SHAPE: Final = "messages have the shape that the protocol gives them (ACP, schema)"
RPC: Final = "a line is one JSON-RPC 2.0 message"
IDS: Final = "an answer has the id of one call (JSON-RPC 2.0, 5)"
LADDER: Final = "never silently degrade (Accord)"

BAD_JSON: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_read_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_batch: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_any: Final = msgspec.json.Decoder().decode
_write: Final = msgspec.json.Encoder().encode


class Mode(StrEnum):
    """How much the proxy does."""

    GUARD = "guard"
    ADAPT = "adapt"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one line of the editor's: what goes on to the agent, what goes back, and what was noticed.

    `saves` must be done first; if they cannot be, `otherwise` is the step to take instead, with findings of its own.
    """

    forward: bytes
    back: bytes = b""
    saves: tuple[Save, ...] = ()
    otherwise: "Step | None" = None
    findings: tuple[ProxyFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of some lines of the agent's, the first of which has this number.

    Plain ones are updates that are in order; any other line is alone.
    """

    number: int
    lines: list[bytes]
    is_plain: bool = False
    findings: tuple[ProxyFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Fate:
    """What becomes of one message: it goes on in some form, or is refused; `otherwise` is for saves that fail."""

    forward: bytes = b""
    reply: bytes = b""
    notice: bytes = b""
    saves: tuple[Save, ...] = ()
    findings: tuple[ProxyFinding, ...] = ()
    otherwise: "_Fate | None" = None


class Guard:
    """One conversation. Feed it what each side says, in the order in which it comes."""

    def __init__(self, mode: Mode = Mode.GUARD, *, folder: str | None = None) -> None:
        self.mode: Final = mode
        self.handshake: Handshake = BEFORE
        self.number = 0
        """How many messages were seen so far; the latest has this number."""
        self._folder: Final = folder
        self._editor_waits: Final = Waiting()
        self._agent_waits: Final = Waiting()
        self._findings: list[ProxyFinding] = []
        self._side = Side.EDITOR

    def from_editor(self, line: bytes) -> Step:
        """What to do with this line, which may have its end."""
        message = line.strip()
        if not message:
            return Step(line)
        self.number += 1
        self._side, self._findings = Side.EDITOR, []
        step = self._batch(message) if message[:1] == b"[" else _as_step([self._fate(message)])
        otherwise = None if step.otherwise is None else self._whole(step.otherwise, line, message)
        return replace(self._whole(step, line, message), otherwise=otherwise)

    def _whole(self, step: Step, line: bytes, message: bytes) -> Step:
        """The step for the line as it came, with its end, and with everything that was noticed about it."""
        forward = line if step.forward == message else step.forward and step.forward + _end_of(line)
        return replace(step, forward=forward, findings=(*self._findings, *step.findings)[:MAX_FINDINGS])

    def from_agent(self, lines: list[bytes]) -> list[ProxyFinding]:
        """What is to be noticed about these lines, without their ends; they pass in any case."""
        self._side, self._findings = Side.AGENT, []
        start = 0
        while (odd := first_odd(lines, start, self.handshake.version)) < len(lines):
            self.number += odd - start
            if lines[odd].strip():
                self.number += 1
                self._look(lines[odd])
            start = odd + 1
        self.number += odd - start
        return self._findings

    def looks_at_agent(self, lines: list[bytes]) -> Iterator[Look]:
        """What `from_agent` notices, told apart by the lines that it is about."""
        start = 0
        while start < len(lines):
            odd = first_odd(lines, start, self.handshake.version)
            if odd > start:
                yield Look(self.number + 1, lines[start:odd], is_plain=True)
                self.number += odd - start
            if odd < len(lines) and lines[odd].strip():
                self.number += 1
                self._side, self._findings = Side.AGENT, []
                self._look(lines[odd])
                yield Look(self.number, [lines[odd]], findings=tuple(self._findings))
            start = odd + 1

    def too_long(self, side: Side) -> Step:
        """What to do about a line that is too long to be looked at: the agent's passes, the editor's is answered."""
        self.number += 1
        self._side, self._findings = side, []
        if side is Side.AGENT or self.mode is Mode.OBSERVE:
            self._note(Severity.WARNING, RPC, "The line is too long to be looked at and passes as it is")
            return Step(b"", findings=tuple(self._findings))
        told = "The line is too long to be looked at"
        self._note(Severity.ERROR, RPC, f"{told} and is refused")
        back = error_line(None, {"code": RpcCode.INVALID_REQUEST, "message": told})
        return Step(b"", back, findings=tuple(self._findings))

    def _note(self, severity: Severity, clause: str, sentence: str) -> None:
        if len(self._findings) < MAX_FINDINGS:
            self._findings.append(ProxyFinding(self.number, self._side, severity, clause, sentence))

    # What the editor says.

    def _batch(self, line: bytes) -> Step:
        try:
            messages = [bytes(raw) for raw in _read_batch(line)]
        except BAD_JSON:
            messages = []
        if not messages:
            return _as_step([self._fate(line)])
        if self.handshake.version < 2:
            self._note(Severity.WARNING, RPC, "A batch, which version 1 of the protocol does not know")
        fates = [self._fate(message) for message in messages]
        if [fate.forward for fate in fates] == messages:
            return Step(line)
        return _as_step(fates, is_batch=True)

    def _fate(self, message: bytes) -> _Fate:
        (frame,) = read_frames(message)
        match frame:
            case MalformedMessage():
                return self._broken(frame, message)
            case RpcRequest() | RpcNotification():
                if frame.method == PROMPT:
                    return self._prompt(frame, message)
                if isinstance(frame, RpcRequest):
                    self._ask(self._editor_waits, frame)
            case RpcResult() | RpcFailure():
                self._settle(self._agent_waits, frame)
            case _:
                assert_never(frame)
        return _Fate(message)

    def _broken(self, frame: MalformedMessage, message: bytes) -> _Fate:
        self._note(Severity.ERROR, RPC, f"This is no message: {frame.message}")
        if self.mode is Mode.OBSERVE:
            return _Fate(message)
        # Agents read more than JSON-RPC allows. Which of these lines hides a prompt cannot be told by looking for its
        # name: JSON can spell it `session\\/prompt`.
        return _Fate(reply=error_line(frame.id, {"code": frame.code, "message": frame.message}))

    def _prompt(self, frame: RpcRequest | RpcNotification, message: bytes) -> _Fate:
        raw = _blocks_of(frame)
        verdict = self.handshake.validator.validate_json(raw)
        shape = verdict if verdict.valid or self.mode is not Mode.ADAPT else SHAPE_ONLY.validate_json(raw)
        if not verdict.valid:
            self._note_refused(verdict if shape.valid else shape)
        if verdict.valid or self.mode is Mode.OBSERVE:
            self._ask(self._editor_waits, frame, violates=not verdict.valid)
            return _Fate(message)
        # A notice has no id to answer to: it ends here, and the finding says so.
        refused = _Fate(reply=_refusal(frame, shape if not shape.valid else verdict))
        fate = self._adapt(frame, message, raw, self._folder) if shape.valid else None
        if fate is None:
            return refused
        self._ask(self._editor_waits, frame)
        if not fate.saves:
            return fate
        return replace(fate, otherwise=self._adapt(frame, message, raw, None) or refused)

    def _note_refused(self, verdict: Verdict) -> None:
        if not self.handshake.is_done:
            self._note(Severity.WARNING, REFUSED, "The prompt came before the agent declared anything")
        if verdict.unreadable is not None:
            self._note(Severity.ERROR, RPC, "The content is not JSON")
        for violation in verdict.violations[:MAX_FINDINGS]:
            clause = SHAPE if violation.is_malformed else REFUSED
            self._note(Severity.ERROR, clause, f"Block {violation.index}: {violation.message}")

    def _adapt(
        self, frame: RpcRequest | RpcNotification, message: bytes, raw: bytes, folder: str | None
    ) -> _Fate | None:
        """The prompt as this agent can take it, with files in this folder; None if some block has no way down."""
        try:
            blocks: list[Any] = _read_any(raw)
            account = degrade_prompt(
                blocks, self.handshake.validator.declaration, folder=folder, prefix=f"prompt-{self.number}"
            )
            if account is None:
                return None
            kept = _read_batch(raw)
            for index, degraded in account.items():
                kept[index] = msgspec.Raw(_write(degraded.block))
            members, params = _read_members(message), _read_members(frame.raw)
            params["prompt"] = msgspec.Raw(_write(kept))
            members["params"] = msgspec.Raw(_write(params))
        except (*BAD_JSON, OverflowError):
            return None
        findings = tuple(
            ProxyFinding(self.number, Side.EDITOR, Severity.INFO, LADDER, f"{degraded.rung}: {degraded.sentence}")
            for degraded in account.values()
        )
        notice = tell_user(account.values(), params.get("sessionId"), self.handshake.version, self.number)
        saves = tuple(degraded.save for degraded in account.values() if degraded.save is not None)
        return _Fate(_write(members), b"", notice, saves, findings)

    # What the agent says.

    def _look(self, line: bytes) -> None:
        for frame in read_frames(line, batches=True):
            match frame:
                case MalformedMessage():
                    self._note(Severity.ERROR, RPC, f"This is no message: {frame.message}")
                case RpcRequest() | RpcNotification():
                    self._ask(self._agent_waits, frame)
                    for fault in shape_faults(frame.method, frame.raw, self.handshake.version):
                        self._note(Severity.WARNING, SHAPE, fault)
                case RpcResult() | RpcFailure():
                    self._settle_agent(frame)
                case _:
                    assert_never(frame)

    def _settle_agent(self, frame: RpcResult | RpcFailure) -> None:
        asked = self._settle(self._editor_waits, frame)
        if asked is None or isinstance(frame, RpcFailure):
            return
        if asked.method == "initialize":
            self.handshake = read_handshake(_value(frame))
        if asked.violates:
            self._note(Severity.ERROR, REFUSED, "The agent took a prompt that it should have refused with -32602")

    # Both.

    def _ask(self, waits: Waiting, frame: RpcRequest | RpcNotification, *, violates: bool = False) -> None:
        if isinstance(frame, RpcRequest) and not waits.ask(frame.id, Asked(frame.method, violates)):
            self._note(Severity.WARNING, IDS, "Another call with this id still waits for its answer")

    def _settle(self, waits: Waiting, frame: RpcResult | RpcFailure) -> Asked | None:
        asked = waits.settle(frame.id)
        if asked is None:
            self._note(Severity.WARNING, IDS, "Nobody waits for an answer with this id")
        return asked


def _as_step(fates: list[_Fate], *, is_batch: bool = False) -> Step:
    step = _sum(fates, is_batch=is_batch)
    if not step.saves:
        return step
    return replace(step, otherwise=_sum([fate.otherwise or fate for fate in fates], is_batch=is_batch))


def _sum(fates: list[_Fate], *, is_batch: bool) -> Step:
    going = [fate.forward for fate in fates if fate.forward]
    replies = [fate.reply for fate in fates if fate.reply]
    saves = tuple(save for fate in fates for save in fate.saves)
    findings = tuple(finding for fate in fates for finding in fate.findings)
    notices = b"".join(fate.notice for fate in fates)
    if not is_batch:
        return Step(b"".join(going), notices + b"".join(replies), saves, findings=findings)
    forward = b"[" + b",".join(going) + b"]" if going else b""
    back = b"[" + b",".join(reply.rstrip() for reply in replies) + b"]\n" if replies else b""
    return Step(forward, notices + back, saves, findings=findings)


def _end_of(line: bytes) -> bytes:
    return line[len(line.rstrip()) :]


def _blocks_of(frame: RpcRequest | RpcNotification) -> bytes:
    """The content of a prompt as it was written; `null`, which is no content, if there is none."""
    try:
        return bytes(_read_members(frame.raw).get("prompt", b"null"))
    except BAD_JSON:
        return b"null"


def _refusal(frame: RpcRequest | RpcNotification, verdict: Verdict) -> bytes:
    return error_line(frame.id, verdict.error or {}) if isinstance(frame, RpcRequest) else b""


def _value(frame: RpcMessage) -> Any:
    try:
        return None if isinstance(frame, MalformedMessage) else frame.value()
    except BAD_JSON:
        return None
