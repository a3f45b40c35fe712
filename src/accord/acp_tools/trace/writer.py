"""Write a trace of a conversation: one JSON object a line, appended whole; a crash costs at most the last one."""

import errno
import fcntl
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from accord.core.rpc import (
    MalformedMessage,
    RpcFailure,
    RpcMessage,
    RpcNotification,
    RpcRequest,
    RpcResult,
    read_frames,
)

# What was noticed about a message, for people and for the trace. Never a part of what the message carried.


class Side(StrEnum):
    """Who said it; `accord` where the proxy speaks for itself."""

    EDITOR = "editor"
    AGENT = "agent"
    ACCORD = "accord"


class Severity(StrEnum):
    """How much it matters: an account of what was done, something odd, a broken contract."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ProxyFinding:
    """One thing that was noticed: about which message of which side, on which clause it stands, in one sentence."""

    number: int
    side: Side
    severity: Severity
    clause: str
    sentence: str

    def dump(self) -> dict[str, Any]:
        """The finding as plain values; the message that it belongs to is told beside it."""
        return {"severity": self.severity.value, "clause": self.clause, "sentence": self.sentence}


# One entry of a trace: who said what, when, how large, and what was noticed. JSON in, a plain object out.
#
# Long texts are shortened, since a trace is read by people; `full` keeps everything. The clock is the caller's.

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
"""What `trace_entry` makes of an update that is in order and has nothing to shorten."""
_read_any: Final = msgspec.json.Decoder().decode


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
    """The entry of this line."""
    frames = read_frames(line, batches=True)
    first = frames[0]
    entry: dict[str, Any] = {
        "number": number,
        "at_ms": round(at_ms, 3),
        "from": side.value,
        "kind": _kind(line, frames),
    }
    if isinstance(first, RpcRequest | RpcNotification):
        entry["method"] = first.method[:200]
    if isinstance(first, RpcRequest | RpcResult | RpcFailure):
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


def _kind(line: bytes, frames: list[RpcMessage]) -> str:
    is_broken = len(frames) == 1 and isinstance(frames[0], MalformedMessage)
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


# Writes a conversation to a file, one JSON object a line, appended whole: a crash costs at most the last one.
#
# A file belongs to one conversation at a time: who comes second writes to the next file beside it.

FLUSH_BYTES: Final = 64 * 1024
MAX_BESIDE: Final = 1_000


class Trace(Protocol):
    """Where a conversation is recorded."""

    @property
    def wants_lines(self) -> bool:
        """Whether single lines are wanted; without them, blocks pass at full speed."""
        ...

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Record one message."""
        ...

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record updates of the agent's that are in order; the first has this number."""
        ...

    def flush(self) -> None:
        """Make sure that what was added can be read."""
        ...


class NoTrace:
    """Records nothing."""

    wants_lines = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Forget it."""

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Forget them."""

    def flush(self) -> None:
        """Nothing to do."""


class TraceFile:
    """Records into a file, after what is there already; only its owner may read it."""

    wants_lines = True

    def __init__(self, path: Path, *, full: bool = False) -> None:
        self._fd, self.path = _open_alone(path)
        self._full: Final = full
        self._started: Final = time.monotonic()
        self._pending = bytearray()
        self._has_failed = False

    def add(
        self, number: int, side: Side, line: bytes, *, fate: str = "passed", findings: Iterable[ProxyFinding] = ()
    ) -> None:
        """Record one message."""
        at_ms = (time.monotonic() - self._started) * 1000
        entry = trace_entry(number, at_ms, side, line.strip(), fate=fate, findings=findings, full=self._full)
        try:
            self._pending += msgspec.json.encode(entry) + b"\n"
        except OverflowError:  # a number that only Python would write
            self._pending += msgspec.json.encode({**entry, "id": str(entry.get("id")), "message": None}) + b"\n"
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def add_plain(self, number: int, lines: list[bytes]) -> None:
        """Record updates of the agent's that are in order; the first has this number."""
        at_ms = (time.monotonic() - self._started) * 1000
        self._pending += plain_entries(number, at_ms, lines, full=self._full)
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Append what was added; a full disk ends the trace, never the conversation."""
        data, self._pending = bytes(self._pending), bytearray()
        if not data or self._has_failed:
            return
        try:
            os.write(self._fd, data)
        except OSError as error:
            self._has_failed = True
            os.write(2, f"accord: the trace ends here: {error.strerror}\n".encode())


def _open_alone(path: Path) -> tuple[int, Path]:
    """This file, or the first beside it that nobody is writing to."""
    for number in range(1, MAX_BESIDE):
        beside = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError:  # no locks on this file system
            return fd, beside
        else:
            return fd, beside
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
