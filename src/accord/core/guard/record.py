"""One entry of a trace: who said what, when, how large, and what was noticed. JSON in, a plain object out.

Long texts are shortened, since a trace is read by people; `full` keeps everything. The clock is the caller's.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from accord.core.guard.finding import Finding, Side
from accord.core.rpc import Answer, Broken, Call, Failure, Incoming, Notice, read_frames

MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_TEXT_CHARS: Final = 2_000
MAX_DATA_CHARS: Final = 64
MAX_DEPTH: Final = 64
DATA_KEYS: Final = frozenset({"data", "blob"})
KINDS: Final = {Call: "call", Notice: "notice", Answer: "answer", Failure: "failure", Broken: "broken"}
PLAIN: Final = (
    b'{"number":%d,"at_ms":%.3f,"from":"agent","kind":"notice","method":"session/update",'
    b'"fate":"passed","bytes":%d,"message":%s,"findings":[]}\n'
)
"""What `trace_entry` makes of an update that is in order and has nothing to shorten."""
_read_any: Final = msgspec.json.Decoder().decode


def trace_entry(  # noqa: PLR0913 - one column each
    number: int,
    at_ms: float,
    side: Side,
    line: bytes,
    *,
    fate: str = "passed",
    findings: Iterable[Finding] = (),
    full: bool = False,
) -> dict[str, Any]:
    """The entry of this line."""
    frames = read_frames(line, batches=True)
    first = frames[0]
    entry: dict[str, Any] = {
        "number": number,
        "at_ms": round(at_ms, 3),
        "from": side.value,
        "kind": _kind(line, frames),
    }
    if isinstance(first, Call | Notice):
        entry["method"] = first.method[:200]
    if isinstance(first, Call | Answer | Failure):
        entry["id"] = first.id
    entry |= {"fate": fate, "bytes": len(line), "message": _message(line, full=full)}
    return {**entry, "findings": [finding.dump() for finding in findings]}


def plain_entries(number: int, at_ms: float, lines: Iterable[bytes], *, full: bool = False) -> bytes:
    """The entries of updates of the agent's that are known to be in order, written; short ones go in as they came."""
    return b"".join(
        PLAIN % (own, at_ms, len(line), line)
        if _is_short(line := said.strip())
        else msgspec.json.encode(trace_entry(own, at_ms, Side.AGENT, line, full=full)) + b"\n"
        for own, said in enumerate(lines, start=number)
    )


def _is_short(line: bytes) -> bool:
    return len(line) <= MAX_TEXT_CHARS and b'"data"' not in line and b'"blob"' not in line and b"\r" not in line


def _kind(line: bytes, frames: list[Incoming]) -> str:
    is_broken = len(frames) == 1 and isinstance(frames[0], Broken)
    return "batch" if line[:1] == b"[" and not is_broken else KINDS[type(frames[0])]


def _message(line: bytes, *, full: bool) -> Any:
    try:
        message = _read_any(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        text = line.decode(errors="replace")
        return text if full else _shortened(text, MAX_TEXT_CHARS)
    if full:
        return message
    short = _short(message, "", MAX_DEPTH)
    # Many short texts are long, too.
    return short if len(line) <= MAX_MESSAGE_BYTES else _bounded(short)


def _short(value: Any, key: str, depth: int) -> Any:
    if isinstance(value, str):
        return _shortened(value, MAX_DATA_CHARS if key in DATA_KEYS else MAX_TEXT_CHARS)
    if depth == 0:
        return "…" if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {name: _short(inner, name, depth - 1) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_short(inner, key, depth - 1) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _bounded(short: Any) -> Any:
    written = msgspec.json.encode(short)
    if len(written) <= MAX_MESSAGE_BYTES:
        return short
    return _shortened(written.decode(errors="replace"), MAX_TEXT_CHARS)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most + 40 else f"{text[:most]}… ({len(text)} characters)"
