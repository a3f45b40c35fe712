"""What can become of a call, and how it is told in few words without secrets. How calls are made is not known here."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

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
