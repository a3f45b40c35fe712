"""Judge the replies of an agent: one function per question, from replies to an outcome with a sentence. Pure.

An agent that cannot work here, for example because it has no key, does not fail for that: its reply to plain text is
the baseline, and if that is an error unrelated to the request, other prompts are not judged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from accord.errors import RpcCode
from accord.wire.inspection import ContentFate, InspectedLine, Level, Result

MAX_CHARS: Final = 160
MAX_READ: Final = 10_000
MIN_SECRET: Final = 6
HIDDEN: Final = "[hidden]"
ECHOES: Final = "the program echoes its input"
_KEY_LIKE: Final = re.compile(r"\b(?:sk|pk|key|tok|token|ghp|xox\w?|Bearer)[-_ ][\w.-]{8,}|[A-Za-z0-9+/_=-]{40,}")


@dataclass(frozen=True, slots=True)
class Answered:
    """The agent replied with a result."""

    result: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent replied with an error."""

    code: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Silent:
    """No reply came within the time limit."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gone:
    """The agent exited or closed its output without a reply."""

    status: int | None


Reply = Answered | Refused | Silent | Gone


def shorten(text: str, secrets: Iterable[str] = (), *, max_chars: int = MAX_CHARS, hides_keys: bool = True) -> str:
    """The text as one short line; the given secrets, and whatever looks like a key, are hidden."""
    text = text[:MAX_READ]
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    line = " ".join((_KEY_LIKE.sub(HIDDEN, text) if hides_keys else text).split())
    # The text of an agent is printed on terminals and written to XML: no escape sequences, no control characters.
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def describe(reply: Reply) -> str:
    """The reply in a few words."""
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
    reason: Any = reply.result.get("stopReason")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return reason if isinstance(reason, str) else None


REFUSAL: Final = "refusal"
KNOWN_VERSIONS: Final = (0, 1, 2)
"""The versions of the protocol; 2 is the draft."""
RACE_S: Final = 2.0
"""A turn that ends this soon after session/cancel may have ended before the agent read the cancellation."""
NO_RESULT: Final = "initialize was not answered with a result"
REQUEST_ERRORS: Final = frozenset(
    {RpcCode.INVALID_REQUEST, RpcCode.METHOD_NOT_FOUND, RpcCode.INVALID_PARAMS, RpcCode.PARSE_ERROR}
)
"""Codes that blame the request; any other error is a problem on the agent's side."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of a check with its sentence; `observed` is what the agent did.

    `level` is given where it depends on what was found, `lines` where other lines than those of the check show it.
    """

    result: Result
    sentence: str
    observed: str | None = None
    content: ContentFate | None = None
    level: Level | None = None
    lines: tuple[InspectedLine, ...] = ()


def passed(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """A check that the agent passed."""
    return CheckOutcome(Result.PASS, sentence, None if reply is None else describe(reply))


def failed(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """A check that the agent failed."""
    return CheckOutcome(Result.FAIL, sentence, None if reply is None else describe(reply))


def not_judged(sentence: str, reply: Reply | None = None) -> CheckOutcome:
    """A check that something else prevented, such as a missing login."""
    return CheckOutcome(Result.NOT_JUDGED, sentence, None if reply is None else describe(reply))


def not_applicable(sentence: str) -> CheckOutcome:
    """A check about something that the agent does not declare."""
    return CheckOutcome(Result.NOT_APPLICABLE, sentence)


def capitalize(what: str) -> str:
    """The words with a capital first letter, for the beginning of a sentence."""
    return what[:1].upper() + what[1:]


def why_no_session(reply: Reply) -> str:
    """Why prompts cannot be checked."""
    if isinstance(reply, Refused) and reply.code == RpcCode.AUTH_REQUIRED:
        return "needs authentication"
    return f"there is no session: {describe(reply)}"


def is_agent_error(reply: Reply) -> bool:
    """Whether the reply is an error on the agent's side, such as a missing key, and not about the request."""
    return isinstance(reply, Refused) and reply.code not in REQUEST_ERRORS


def _not_judged_as_baseline(reply: Reply, baseline: Reply) -> CheckOutcome | None:
    """Not judged if plain text gets the same reply: the agent may have no key, no network or a slow model."""
    if isinstance(reply, Silent) and isinstance(baseline, Silent):
        why = silent_text(baseline)
    elif is_agent_error(reply) and is_agent_error(baseline):
        why = f"The agent answers every prompt with an unrelated error: {describe(reply)}"
    elif stop_reason(reply) == REFUSAL == stop_reason(baseline):
        why = "The agent refuses to work on any prompt, even on plain text"
    else:
        return None
    return not_judged(why, reply)


def silent_text(baseline: Silent) -> str:
    """Why nothing can be said about prompts if plain text is not answered."""
    return f"Plain text is not answered within {baseline.seconds:g} s either: a slow model needs a longer --timeout"


def _unanswered(reply: Silent | Gone) -> CheckOutcome:
    return failed("The agent crashed" if isinstance(reply, Gone) else "The agent did not answer in time", reply)


def judge_session(reply: Reply) -> CheckOutcome:
    """Whether `session/new` works, as far as that can be judged without a key."""
    match reply:
        case Answered():
            has_id = isinstance(reply.result, dict) and isinstance(reply.result.get("sessionId"), str)  # pyright: ignore[reportUnknownMemberType]
            return passed("A session was created", reply) if has_id else failed("The result has no sessionId", reply)
        case Refused(code=code) if code == RpcCode.AUTH_REQUIRED:
            return not_judged("needs authentication", reply)
        case Refused() if is_agent_error(reply):
            return not_judged(f"The agent answered with an unrelated error: {describe(reply)}", reply)
        case Refused():
            return failed("A well-formed session/new was refused", reply)
        case _:
            return _unanswered(reply)


DROPPED: Final = "did not reach the model: it was silently dropped"
PLACEHOLDER: Final = "did not reach the model: it was replaced by a placeholder"
IF_DECLARED: Final[Mapping[ContentFate | None, str]] = {
    ContentFate.ACCEPTED: "was accepted and reached the model",
    ContentFate.DROPPED: DROPPED,
    ContentFate.PLACEHOLDER: PLACEHOLDER,
}
IF_UNDECLARED: Final[Mapping[ContentFate | None, str]] = {
    ContentFate.ACCEPTED: "was accepted although it was not declared, and reached the model",
    ContentFate.DROPPED: DROPPED,
    ContentFate.PLACEHOLDER: PLACEHOLDER,
}
"""What the fake model shows; without it, accepting and dropping look the same from outside."""


def judge_accepted(reply: Reply, baseline: Reply, what: str, fate: ContentFate | None = None) -> CheckOutcome:
    """Whether a prompt that the agent must accept was accepted; `baseline` is its reply to plain text.

    `fate` is what the fake model received of the content, if it was used.
    """
    match reply:
        case Refused(code=code) if code == RpcCode.AUTH_REQUIRED:
            return not_judged("needs authentication", reply)
        case Refused() if is_agent_error(reply):
            return not_judged(f"The agent answered with an unrelated error: {describe(reply)}", reply)
        case Refused():
            return replace(failed(f"{what} was refused", reply), content=ContentFate.REJECTED)
        case Answered() if fate in (ContentFate.DROPPED, ContentFate.PLACEHOLDER):
            return replace(failed(f"{what} {IF_DECLARED[fate]}", reply), content=fate)
        case Answered() if stop_reason(reply) != REFUSAL:
            sentence = f"{what} {IF_DECLARED.get(fate, 'was accepted')}"
            return replace(passed(sentence, reply), content=fate)
        case Answered():
            return not_judged("The agent refused to work on it, for an unknown reason", reply)
        case _:
            return _not_judged_as_baseline(reply, baseline) or _unanswered(reply)


def judge_rejected(reply: Reply, baseline: Reply, what: str, fate: ContentFate | None = None) -> CheckOutcome:
    """Whether a prompt that the agent must reject was rejected with -32602; `baseline` is its reply to plain text.

    `fate` is what the fake model received of the content, if it was used.
    """
    if known := _not_judged_as_baseline(reply, baseline):
        return known
    match reply:
        case Refused(code=code) if code == RpcCode.INVALID_PARAMS:
            if isinstance(baseline, Refused) and baseline.code == RpcCode.INVALID_PARAMS:
                return not_judged(f"Plain text is refused with {RpcCode.INVALID_PARAMS} as well", reply)
            outcome = passed(f"{what} was rejected with {RpcCode.INVALID_PARAMS}", reply)
            return replace(outcome, content=ContentFate.REJECTED)
        case Refused():
            wrong = f"{what} was rejected with the wrong code, {reply.code} instead of {RpcCode.INVALID_PARAMS}"
            return replace(failed(wrong, reply), content=ContentFate.REJECTED)
        case Answered() if stop_reason(reply) == REFUSAL:
            wrong = f"{what} ended the turn as {REFUSAL} instead of with error {RpcCode.INVALID_PARAMS}"
            return replace(failed(wrong, reply), content=ContentFate.REJECTED)
        case Answered():
            wrong = f"{what} {IF_UNDECLARED.get(fate, 'was accepted or silently dropped')}"
            return replace(failed(wrong, reply), content=fate or ContentFate.UNKNOWN)
        case _:
            return _unanswered(reply)


def judge_empty(reply: Reply, baseline: Reply) -> CheckOutcome:
    """Whether an empty prompt got a reply: either a result or an error is right."""
    match reply:
        case Answered():
            return passed("The empty prompt was answered", reply)
        case Refused():
            return passed("The empty prompt was rejected", reply)
        case _:
            return _not_judged_as_baseline(reply, baseline) or _unanswered(reply)


def judge_error(reply: Reply, code: int | None, what: str) -> CheckOutcome:
    """Whether a call that must fail got an error, with this code if one is given."""
    match reply:
        case Refused() if code in (None, reply.code):
            return passed(f"{what} got error {reply.code}", reply)
        case Refused():
            return failed(f"{what} got error {reply.code} instead of {code}", reply)
        case Answered():
            return failed(f"{what} got a result instead of an error", reply)
        case _:
            return _unanswered(reply)


def judge_request_error(reply: Reply, what: str, *, baseline: Reply | None = None) -> CheckOutcome:
    """Whether a wrong request got an error that blames the request; a crash of its handler is no such error.

    `baseline` is the reply to the same request without its fault: the same error there says nothing.
    """
    if isinstance(reply, Refused) and is_agent_error(reply) and reply.code != RpcCode.NOT_FOUND:
        if isinstance(baseline, Refused) and baseline.code == reply.code:
            return not_judged(f"The agent answered with an unrelated error: {describe(reply)}", reply)
        return failed(f"{what} got error {reply.code}, which does not say what is wrong with the request", reply)
    return judge_error(reply, None, what)


def judge_version(reply: Reply, offered: int, *, supported: int) -> CheckOutcome:
    """Whether the agent chose a version that it has; `supported` is the one that it chose in the first handshake."""
    if isinstance(reply, Refused) and reply.code == RpcCode.VERSION_UNSUPPORTED and offered < supported:
        return passed(f"The agent supports no version up to {offered}, and its error says so", reply)
    if isinstance(reply, Refused):
        return failed(f"Offered version {offered}, the agent answered with an error instead of a version", reply)
    if not isinstance(reply, Answered):
        return _unanswered(reply)
    version = reply.result.get("protocolVersion") if isinstance(reply.result, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(version, int) or isinstance(version, bool):
        return failed("The result has no protocolVersion that is a whole number", reply)
    if version == offered and offered not in KNOWN_VERSIONS:
        return failed(f"The agent claims to support version {offered}: it repeats the offered version", reply)
    if version not in KNOWN_VERSIONS:
        return failed(f"Offered version {offered}, the agent chose {version}, which does not exist", reply)
    return passed(f"Offered version {offered}, the agent chose {version}", reply)


def judge_next(reply: Reply, replies: int, what: str, *, lines: int = 1) -> CheckOutcome:
    """Whether a bad line got at most one reply per line, and the next request was answered."""
    if isinstance(reply, Gone):
        return failed(f"{capitalize(what)} ended the agent", reply)
    if isinstance(reply, Silent):
        return failed(f"After {what} the next request is not answered", reply)
    if replies > lines:
        return failed(f"{capitalize(what)} got {replies} replies", reply)
    return passed(f"After {what} the next request is answered", reply)


def judge_error_reply(codes: Sequence[int | None], wanted: int, what: str, *, lacks_id: bool = False) -> CheckOutcome:
    """Whether a bad line got the wanted error with the id null; `codes` are the codes of the errors that came."""
    if not codes:
        return failed(f"{capitalize(what)} got no reply")
    received = ", ".join(str(code) for code in codes)
    if wanted not in codes:
        text = f"{capitalize(what)} got error {received} instead of {wanted}"
        return CheckOutcome(Result.FAIL, text, f"error {received}")
    if lacks_id:
        return CheckOutcome(
            Result.FAIL, f"{capitalize(what)} got error {wanted} without the id null", f"error {received}"
        )
    return CheckOutcome(Result.PASS, f"{capitalize(what)} got error {wanted}", f"error {received}")


def judge_answered(reply: Reply, what: str) -> CheckOutcome:
    """Whether there was any reply."""
    return _unanswered(reply) if isinstance(reply, Silent | Gone) else passed(f"{what} was answered", reply)


def judge_cancelled(reply: Reply, baseline: Reply, after_s: float) -> CheckOutcome:
    """Whether a cancelled turn ended as cancelled; the reply came `after_s` seconds after session/cancel."""
    if stop_reason(reply) == "cancelled":
        return passed("The turn ended as cancelled", reply)
    if isinstance(reply, Answered) and after_s < RACE_S:
        # The two may have crossed: the turn may have ended before the agent read the cancellation.
        return not_judged(f"The turn ended as {stop_reason(reply)} at about the time it was cancelled", reply)
    if isinstance(reply, Answered):
        return failed(f"The turn ended as {stop_reason(reply)}, not as cancelled", reply)
    if isinstance(reply, Refused) and (known := _not_judged_as_baseline(reply, baseline)):
        return known
    if isinstance(reply, Refused):
        return failed("The cancelled turn ended with an error instead of the stop reason cancelled", reply)
    return _unanswered(reply) if isinstance(reply, Gone) else failed("The turn went on after session/cancel", reply)


def judge_noise(lines: Sequence[str]) -> CheckOutcome:
    """Whether the agent wrote nothing but messages to stdout."""
    if not lines:
        return passed("Every line on stdout was a message")
    one = len(lines) == 1
    text = "1 line on stdout was not a message" if one else f"{len(lines)} lines on stdout were not messages"
    return CheckOutcome(Result.FAIL, text, f"the first: {lines[0]}")
