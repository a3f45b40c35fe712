"""Judge what an agent replied: from replies to an outcome with its sentence. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from accord.wire.inspection import Result

# What can become of a call, and how it is told in few words without secrets. How calls are made is not known here.

MAX_CHARS: Final = 160
MAX_READ: Final = 10_000
MIN_SECRET: Final = 6
HIDDEN: Final = "[hidden]"
ECHOES: Final = "the program sends back what it is sent"
_KEY_LIKE: Final = re.compile(r"\b(?:sk|pk|key|tok|token|ghp|xox\w?|Bearer)[-_ ][\w.-]{8,}|[A-Za-z0-9+/_=-]{40,}")


@dataclass(frozen=True, slots=True)
class Answered:
    """The agent gave a result."""

    result: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent gave an error."""

    code: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing came within the time that was given."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gone:
    """The agent ended, or closed its output, instead of answering."""

    status: int | None


Reply = Answered | Refused | Silent | Gone


def shorten(text: str, secrets: Iterable[str] = ()) -> str:
    """The text in one short line; what was given in secret, and what looks like a key, is hidden."""
    text = text[:MAX_READ]
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    line = " ".join(_KEY_LIKE.sub(HIDDEN, text).split())
    # What an agent says ends on terminals and in XML: no escape sequences, no control characters.
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"


def tell(reply: Reply) -> str:
    """The reply in few words."""
    match reply:
        case Answered():
            return f"answered ({stop_reason(reply)})" if stop_reason(reply) else "answered"
        case Refused(code=None):
            return shorten(reply.message) or "an error without a code"
        case Refused():
            return f"error {reply.code}: {shorten(reply.message)}" if reply.message else f"error {reply.code}"
        case Silent():
            return f"no answer within {reply.seconds:g} s"
        case Gone():
            return "the agent ended" if reply.status is None else f"the agent ended with status {reply.status}"


def stop_reason(reply: Reply) -> str | None:
    """Why the turn ended, if the reply says so."""
    if not isinstance(reply, Answered) or not isinstance(reply.result, dict):
        return None
    said: Any = reply.result.get("stopReason")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return said if isinstance(said, str) else None


# Judges what an agent did: one function a question, each from replies to an outcome with its sentence.
#
# An agent that cannot work here, for want of a key say, is not blamed for it: what it answers to plain text is the
# yardstick, and an error of its own there means that other prompts cannot be judged. How replies came is not known
# here.

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
PARSE_ERROR: Final = -32700
AUTH_REQUIRED: Final = -32000
VERSION_UNSUPPORTED: Final = -32022
REFUSAL: Final = "refusal"
RACE_S: Final = 2.0
NO_RESULT: Final = "initialize was not answered with a result"
CALLERS_FAULT: Final = frozenset({INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, PARSE_ERROR})


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How a check ended, and why."""

    result: Result
    sentence: str
    observed: str | None = None


def passed(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """The agent did as it should."""
    return CheckOutcome(Result.PASS, sentence, None if reply is None else tell(reply))


def failed(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """The agent did not."""
    return CheckOutcome(Result.FAIL, sentence, None if reply is None else tell(reply))


def skipped(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """It cannot be told."""
    return CheckOutcome(Result.SKIPPED, sentence, None if reply is None else tell(reply))


def sentence(what: str) -> str:
    """The words as the beginning of a sentence."""
    return what[:1].upper() + what[1:]


def why_no_session(reply: Reply) -> str:
    """Why there is no session to try prompts in."""
    if isinstance(reply, Refused) and reply.code == AUTH_REQUIRED:
        return "needs authentication"
    return f"there is no session: {tell(reply)}"


def own_error(reply: Reply) -> bool:
    """Whether the agent refused for a reason of its own, such as a missing key, rather than for what was asked."""
    return isinstance(reply, Refused) and reply.code not in CALLERS_FAULT


def _cannot_be_told(reply: Reply, baseline: Reply) -> CheckOutcome | None:
    """An agent that does the same with plain text may have no key, no network or a slow model: it is not to blame."""
    if isinstance(reply, Silent) and isinstance(baseline, Silent):
        why = f"Not even text is answered within {reply.seconds:g} s: a slow model needs a longer --timeout"
    elif own_error(reply) and own_error(baseline):
        why = f"The agent answers every prompt with an error of its own: {tell(reply)}"
    elif stop_reason(reply) == REFUSAL == stop_reason(baseline):
        why = "The agent refuses to work on any prompt, even on plain text"
    else:
        return None
    return skipped(why, reply)


def _unanswered(reply: Silent | Gone) -> CheckOutcome:
    return failed("The agent crashed" if isinstance(reply, Gone) else "The agent did not answer in time", reply)


def judge_session(reply: Reply) -> CheckOutcome:
    """Whether `session/new` works, as far as that can be told without a key."""
    match reply:
        case Answered():
            has_id = isinstance(reply.result, dict) and isinstance(reply.result.get("sessionId"), str)  # pyright: ignore[reportUnknownMemberType]
            return passed("A session was made", reply) if has_id else failed("The answer has no sessionId", reply)
        case Refused(code=code) if code == AUTH_REQUIRED:
            return skipped("needs authentication", reply)
        case Refused() if own_error(reply):
            return skipped(f"The agent answered with an error of its own: {tell(reply)}", reply)
        case Refused():
            return failed("A well-formed session/new was refused", reply)
        case _:
            return _unanswered(reply)


def judge_accepted(reply: Reply, baseline: Reply, what: str) -> CheckOutcome:
    """Whether a prompt that the agent has to take was taken; `baseline` is its answer to plain text."""
    match reply:
        case Refused(code=code) if code == AUTH_REQUIRED:
            return skipped("needs authentication", reply)
        case Refused() if own_error(reply):
            return skipped(f"The agent answered with an error of its own: {tell(reply)}", reply)
        case Refused():
            return failed(f"{what} was refused", reply)
        case Answered() if stop_reason(reply) != REFUSAL:
            return passed(f"{what} was accepted", reply)
        case Answered():
            return skipped("The agent refuses to work on it, for whatever reason", reply)
        case _:
            return _cannot_be_told(reply, baseline) or _unanswered(reply)


def judge_rejected(reply: Reply, baseline: Reply, what: str) -> CheckOutcome:
    """Whether a prompt that the agent has to reject was, with -32602; `baseline` is its answer to plain text."""
    if untold := _cannot_be_told(reply, baseline):
        return untold
    match reply:
        case Refused(code=code) if code == INVALID_PARAMS:
            if isinstance(baseline, Refused) and baseline.code == INVALID_PARAMS:
                return skipped(f"Plain text is refused with {INVALID_PARAMS} as well", reply)
            return passed(f"{what} was rejected with {INVALID_PARAMS}", reply)
        case Refused():
            return failed(f"{what} was rejected with the wrong code, {reply.code} instead of {INVALID_PARAMS}", reply)
        case Answered() if stop_reason(reply) == REFUSAL:
            return failed(f"{what} ended the turn as {REFUSAL} instead of with error {INVALID_PARAMS}", reply)
        case Answered():
            return failed(f"{what} was accepted or silently dropped", reply)
        case _:
            return _unanswered(reply)


def judge_empty(reply: Reply, baseline: Reply) -> CheckOutcome:
    """An empty prompt may be answered or rejected, as long as something is said."""
    match reply:
        case Answered():
            return passed("The empty prompt was answered", reply)
        case Refused():
            return passed("The empty prompt was rejected", reply)
        case _:
            return _cannot_be_told(reply, baseline) or _unanswered(reply)


def judge_error(reply: Reply, code: int | None, what: str) -> CheckOutcome:
    """Whether a call that cannot succeed got an error, of this code if one is given."""
    match reply:
        case Refused() if code in (None, reply.code):
            return passed(f"{what} got error {reply.code}", reply)
        case Refused():
            return failed(f"{what} got error {reply.code} instead of {code}", reply)
        case Answered():
            return failed(f"{what} got a result instead of an error", reply)
        case _:
            return _unanswered(reply)


def judge_version(reply: Reply, asked: int, *, supported: int) -> CheckOutcome:
    """Whether the agent settled on a version; `supported` is the one that it settled on in the first handshake."""
    if isinstance(reply, Refused) and reply.code == VERSION_UNSUPPORTED and asked < supported:
        return passed(f"Nothing at or below version {asked} is spoken, and the error says so", reply)
    if isinstance(reply, Refused):
        return failed(f"Asked for version {asked}, the agent gave an error instead of a version", reply)
    if not isinstance(reply, Answered):
        return _unanswered(reply)
    version = reply.result.get("protocolVersion") if isinstance(reply.result, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(version, int) or isinstance(version, bool):
        return failed("The answer has no protocolVersion that is a whole number", reply)
    if version == 65535:
        return failed("The agent claims to speak version 65535: it repeats whatever it is asked for", reply)
    return passed(f"Asked for version {asked}, the agent speaks {version}", reply)


def judge_next(reply: Reply, strays: int, what: str, *, lines: int = 1) -> CheckOutcome:
    """Whether a bad line cost one reply at most, and the next good request was answered."""
    if isinstance(reply, Gone):
        return failed(f"{sentence(what)} ended the agent", reply)
    if isinstance(reply, Silent):
        return failed(f"After {what} the next request is not answered", reply)
    if strays > lines:
        return failed(f"{sentence(what)} cost {strays} replies", reply)
    return passed(f"After {what} the next request is answered", reply)


def judge_told(codes: Sequence[int | None], wanted: int, what: str, *, lacks_id: bool = False) -> CheckOutcome:
    """Whether the sender of a bad line was told so, in a reply whose id is null; `codes` are the errors that came."""
    if not codes:
        return failed(f"{sentence(what)} got no reply")
    told = ", ".join(str(code) for code in codes)
    if wanted in codes and lacks_id:
        return CheckOutcome(Result.FAIL, f"The sender of {what} was told {wanted} without the id null", f"error {told}")
    if wanted in codes:
        return CheckOutcome(Result.PASS, f"The sender of {what} was told {wanted}", f"error {told}")
    return CheckOutcome(Result.FAIL, f"The sender of {what} was told {told} instead of {wanted}", f"error {told}")


def judge_answered(reply: Reply, what: str) -> CheckOutcome:
    """Whether there was an answer at all."""
    return _unanswered(reply) if isinstance(reply, Silent | Gone) else passed(f"{what} was answered", reply)


def judge_cancelled(reply: Reply, baseline: Reply, after_s: float) -> CheckOutcome:
    """Whether a cancelled turn ended as cancelled; the reply came so many seconds after the cancelling."""
    if stop_reason(reply) == "cancelled":
        return passed("The turn ended as cancelled", reply)
    if isinstance(reply, Answered) and after_s < RACE_S:
        # The two may have crossed: the turn was over before the agent heard of the cancelling.
        return skipped(f"The turn ended as {stop_reason(reply)} at about the time it was cancelled", reply)
    if isinstance(reply, Answered):
        return failed(f"The turn ended as {stop_reason(reply)}, not as cancelled", reply)
    if isinstance(reply, Refused) and (untold := _cannot_be_told(reply, baseline)):
        return untold
    if isinstance(reply, Refused):
        return failed("The cancelled turn ended with an error instead of the stop reason cancelled", reply)
    return _unanswered(reply) if isinstance(reply, Gone) else failed("The turn went on after session/cancel", reply)


def judge_noise(lines: Sequence[str]) -> CheckOutcome:
    """Whether the agent's output held nothing but messages."""
    if not lines:
        return passed("Every line on stdout was a message")
    told = "1 line on stdout was no message" if len(lines) == 1 else f"{len(lines)} lines on stdout were no messages"
    return CheckOutcome(Result.FAIL, told, f"the first: {lines[0]}")
