"""The log of the proxy: a line of JSON for each message, written whole, so that a crash costs at most the last one.

A file belongs to one conversation at a time; a second proxy writes to the next file beside it. `describe` makes an
entry readable, and trusts nothing in it: any value may be wrong.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.acp_tools.json_values import Json, as_object, as_text
from accord.acp_tools.proxy.guard import ProxyFinding, Side
from accord.core.rpc import MalformedMessage, RpcFailure, RpcNotification, RpcRequest, RpcResult, read_frames
from accord.core.rpc_repair import replace_half_pairs

FLUSH_BYTES: Final = 64 * 1024
MAX_BESIDE: Final = 1_000
MAX_CHARS: Final = 100
KINDS: Final = {
    RpcRequest: "call",
    RpcNotification: "notice",
    RpcResult: "answer",
    RpcFailure: "failure",
    MalformedMessage: "broken",
}
OTHER_SIDE: Final = {Side.EDITOR: Side.AGENT, Side.AGENT: Side.EDITOR}


def log_line(  # noqa: PLR0913, PLR0917 - one column each
    time: str, number: int, sender: Side, to: Side, outcome: str, line: bytes, findings: Iterable[ProxyFinding] = ()
) -> bytes:
    """The line for one message. A message that is JSON is in it byte for byte, but for halves of surrogate pairs."""
    text = replace_half_pairs(line.strip()).replace(b"\r", b" ")  # outside of strings, and never a line end in the log
    first, *others = read_frames(text, batches=True)
    is_broken = isinstance(first, MalformedMessage) and not others
    entry = {
        "time": time,
        "number": number,
        "from": sender,
        "to": to,
        "outcome": outcome,
        "kind": "batch" if text[:1] == b"[" and not is_broken else KINDS[type(first)],
        "method": first.method if isinstance(first, RpcRequest | RpcNotification) else None,
        "findings": [
            {"severity": each.severity, "clause": each.clause, "sentence": each.sentence} for each in findings
        ],
        "message": text.decode(errors="replace") if is_broken else msgspec.Raw(text),
    }
    return msgspec.json.encode(entry) + b"\n"


class ProxyLog:
    """Append to a file that only its owner may read; `path` is the file that was opened."""

    def __init__(self, path: Path) -> None:
        self._fd, self.path = _open_unlocked(path)
        self._pending = bytearray()
        self._has_failed = False

    def add(  # noqa: PLR0913 - one column each
        self,
        number: int,
        sender: Side,
        lines: bytes,
        outcome: str = "sent",
        findings: Iterable[ProxyFinding] = (),
        *,
        to: Side | None = None,
    ) -> None:
        """Log lines that one side `passed`, or that were `adapted` or `refused`, or that the proxy `sent` itself."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        for line in filter(bytes.strip, lines.split(b"\n")):
            self._pending += log_line(time, number, sender, to or OTHER_SIDE[sender], outcome, line, findings)
        if len(self._pending) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Append what was added; if that fails, the log ends and the conversation goes on."""
        data, self._pending = bytes(self._pending), bytearray()
        if not data or self._has_failed:
            return
        try:
            os.write(self._fd, data)
        except OSError as error:
            self._has_failed = True
            os.write(2, f"accord: the log cannot be written any more: {error.strerror}\n".encode())


def _open_unlocked(path: Path) -> tuple[int, Path]:
    """Open and lock this file, or the first beside it that no other process writes to."""
    for number in range(1, MAX_BESIDE):
        beside = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError:  # this file system has no locks
            return fd, beside
        else:
            return fd, beside
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def read_entry(line: str) -> Json | None:
    """The entry in this line of a log; None if it has none, such as a last line that was cut off."""
    try:
        entry = as_object(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return entry if "from" in entry else None


def describe(entry: Json) -> str:
    """The method and id of a message, and what it says, shortened."""
    message: Any = entry.get("message")
    members = as_object(message)
    name = f"#{members['id']}" if "id" in members else ""
    content: Any = next((members[key] for key in ("params", "result", "error") if key in members), message)
    inner = {key: value for key, value in as_object(content).items() if key not in {"sessionId", "_meta"}}
    if inner:
        content = next(iter(inner.values())) if len(inner) == 1 else inner
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    shown = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…"
    return " ".join(filter(None, (as_text(entry.get("method")) or as_text(entry.get("kind")), name, shown)))
