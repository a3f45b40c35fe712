"""The entries of a trace, one for each message, and the findings that they carry. Pure: the caller gives the time.

Long texts are shortened, because people read traces; `full` keeps everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from accord.core.rpc import MalformedMessage, RpcFailure, RpcNotification, RpcRequest, RpcResult, read_frames
from accord.core.rpc_repair import replace_half_pairs

MAX_MESSAGE_BYTES: Final = 64 * 1024
MAX_TEXT_CHARS: Final = 2_000
MAX_DATA_CHARS: Final = 64
MAX_DEPTH: Final = 64
DATA_KEYS: Final = frozenset({"data", "blob"})
KINDS: Final = {
    RpcRequest: "call",
    RpcNotification: "notice",
    RpcResult: "answer",
    RpcFailure: "failure",
    MalformedMessage: "broken",
}
PLAIN: Final = (
    b'{"number":%d,"at_ms":%.3f,"from":"agent","kind":"notice","method":"session/update",'
    b'"fate":"passed","bytes":%d,"message":%s,"findings":[]}\n'
)
"""The entry that `trace_entry` gives for a valid update with nothing to shorten."""
_read_any: Final = msgspec.json.Decoder().decode


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

    def dump(self) -> dict[str, Any]:
        """The finding as plain values, without its message, since it is part of the entry of that message."""
        return {"severity": self.severity.value, "clause": self.clause, "sentence": self.sentence}


def trace_entry(  # noqa: PLR0913 - one column each
    number: int,
    at_ms: float,
    side: Side,
    line: bytes,
    *,
    fate: str = "passed",
    findings: Iterable[ProxyFinding] = (),
    full: bool = False,
) -> dict[str, Any]:
    """The entry for this line."""
    line = replace_half_pairs(line)
    frames = read_frames(line, batches=True)
    first = frames[0]
    is_broken = len(frames) == 1 and isinstance(first, MalformedMessage)
    entry: dict[str, Any] = {
        "number": number,
        "at_ms": round(at_ms, 3),
        "from": side.value,
        "kind": "batch" if line[:1] == b"[" and not is_broken else KINDS[type(first)],
    }
    if isinstance(first, RpcRequest | RpcNotification):
        entry["method"] = first.method[:200]
    if isinstance(first, RpcRequest | RpcResult | RpcFailure):
        entry["id"] = first.id
    entry |= {"fate": fate, "bytes": len(line), "message": _message(line, full=full)}
    return {**entry, "findings": [finding.dump() for finding in findings]}


def plain_entries(number: int, at_ms: float, lines: list[bytes], *, full: bool = False) -> bytes:
    """The entries for updates that are known to be valid, as lines: the same as `trace_entry` gives, but faster."""
    entries: list[bytes] = []
    for entry_number, line in enumerate(lines, start=number):
        text = line.strip()
        # Nothing to shorten, and no carriage return that would end the line.
        if len(text) <= MAX_TEXT_CHARS and b'"data"' not in text and b'"blob"' not in text and b"\r" not in text:
            entries.append(PLAIN % (entry_number, at_ms, len(text), text))
        else:
            entry = trace_entry(entry_number, at_ms, Side.AGENT, text, full=full)
            entries.append(msgspec.json.encode(entry) + b"\n")
    return b"".join(entries)


def _message(line: bytes, *, full: bool) -> Any:
    try:
        message = _read_any(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        text = line.decode(errors="replace")
        return text if full else _shorten(text, MAX_TEXT_CHARS)
    if full:
        return message
    short = _shorten_texts(message, "", MAX_DEPTH)
    # A message of many short texts can still be too long.
    if len(line) <= MAX_MESSAGE_BYTES or len(written := msgspec.json.encode(short)) <= MAX_MESSAGE_BYTES:
        return short
    return _shorten(written.decode(errors="replace"), MAX_TEXT_CHARS)


def _shorten_texts(value: Any, key: str, depth: int) -> Any:
    if isinstance(value, str):
        return _shorten(value, MAX_DATA_CHARS if key in DATA_KEYS else MAX_TEXT_CHARS)
    if depth == 0:
        return "…" if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {name: _shorten_texts(inner, name, depth - 1) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [_shorten_texts(inner, key, depth - 1) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _shorten(text: str, most: int) -> str:
    # A few characters more are kept rather than replaced by a note of the same length.
    return text if len(text) <= most + 40 else f"{text[:most]}… ({len(text)} characters)"
