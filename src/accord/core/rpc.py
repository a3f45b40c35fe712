"""JSON-RPC on lines, without I/O: bytes in, frames out, and the lines of replies. One bad line costs one reply."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.core.sizes import MAX_VALUES, find_excess
from accord.wire.message import Message

# Cuts a stream of bytes into lines, however it comes; a line that is too long is skipped, never kept.
#
# A carriage return before the line end, blank lines and a byte order mark at the very beginning are nobody's message.
# What a line says is not known here.

MAX_LINE_BYTES: Final = 96 * 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was longer than allowed, and is gone."""

    max_bytes: int


class LineSplitter:
    """The lines of one stream. Takes time linear in the bytes, whatever they are."""

    __slots__ = ("_held", "_is_first", "_is_skipping", "_max_bytes", "_parts")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._parts: list[bytes] = []
        self._held = 0
        self._is_skipping = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """The lines that these bytes complete, without their ends."""
        *complete, rest = data.split(b"\n")
        found: list[bytes | OversizedLine] = []
        for piece in complete:
            line = self._complete(piece)
            if line is not None:
                found.append(line)
        self._hold(rest)
        return found

    def close(self) -> list[bytes | OversizedLine]:
        """What was begun and never ended, as a line: a peer may leave its last line end out."""
        line = self._complete(b"")
        return [] if line is None else [line]

    def _complete(self, piece: bytes) -> bytes | OversizedLine | None:
        self._hold(piece)
        parts, was_skipping = self._parts, self._is_skipping
        self._parts, self._held, self._is_skipping = [], 0, False
        if was_skipping:
            return OversizedLine(self._max_bytes)
        line = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BOM)
        line = line.removesuffix(b"\r")
        return line if line.strip() else None

    def _hold(self, piece: bytes) -> None:
        if not piece or self._is_skipping:
            return
        self._held += len(piece)
        if self._held > self._max_bytes:
            self._parts, self._is_skipping = [], True
            return
        self._parts.append(piece)


# Says what a line is: a call, a notice, an answer, a failure, or broken, with the one reply that it costs.
#
# Only the envelope is read; parameters and results stay the bytes that they were until somebody wants them, and are
# known to be JSON. What a method means is not known here.

Id = int | str | None
"""Who asked. Null is an id, too."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
MAX_BATCH: Final = 1_000
TOO_MANY_VALUES: Final = f"A message has at most {MAX_VALUES} values"


class _Envelope(msgspec.Struct):
    """The members that JSON-RPC knows; `UNSET` where there is none."""

    jsonrpc: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read = msgspec.json.Decoder(_Envelope).decode
_read_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_id = msgspec.json.Decoder(int | str | None).decode
_read_text = msgspec.json.Decoder(str).decode
_read_any = msgspec.json.Decoder().decode


class _Said:
    """Something with parameters or a result that is read on demand."""

    __slots__ = ()

    raw: bytes

    def value(self) -> Any:
        """What was said, as plain values; None where nothing was."""
        return _read_any(self.raw) if self.raw else None


@dataclass(frozen=True, slots=True)
class RpcRequest(_Said):
    """A method that wants an answer."""

    id: Id
    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class RpcNotification(_Said):
    """A method that wants none."""

    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class RpcResult(_Said):
    """The answer to a call."""

    id: Id
    raw: bytes = b"null"


@dataclass(frozen=True, slots=True)
class RpcFailure(_Said):
    """The answer to a call that failed; its value is the error object."""

    id: Id
    raw: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """A line that is no message, and the error that its sender is told."""

    id: Id
    code: int
    message: str


RpcMessage = RpcRequest | RpcNotification | RpcResult | RpcFailure | MalformedMessage


def read_frames(line: bytes, *, batches: bool = False) -> list[RpcMessage]:
    """What this line holds: one message, or several if batches are spoken; never an exception."""
    if batches and line.lstrip()[:1] == b"[":
        return _batch(line)
    return [_frame(line)]


def _batch(line: bytes) -> list[RpcMessage]:
    try:
        frames = _read_batch(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [MalformedMessage(None, PARSE_ERROR, "The line is not JSON")]
    if not 0 < len(frames) <= MAX_BATCH:
        return [MalformedMessage(None, INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages")]
    return [_frame(bytes(frame)) for frame in frames]


def _frame(line: bytes) -> RpcMessage:
    frame = _envelope(line)
    if isinstance(frame, MalformedMessage) or find_excess(frame.raw, max_values=MAX_VALUES) is None:
        return frame
    if isinstance(frame, RpcResult | RpcFailure):
        # Nobody may be told of a broken answer but the one who waits for it.
        return RpcFailure(frame.id, msgspec.json.encode({"code": INVALID_REQUEST, "message": TOO_MANY_VALUES}))
    return MalformedMessage(frame.id if isinstance(frame, RpcRequest) else None, INVALID_REQUEST, TOO_MANY_VALUES)


def _envelope(line: bytes) -> RpcMessage:
    try:
        envelope = _read(line)
    except msgspec.ValidationError:
        return MalformedMessage(None, INVALID_REQUEST, "A message is a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return MalformedMessage(None, PARSE_ERROR, "The line is not JSON")
    return _kind(envelope)


def _kind(envelope: _Envelope) -> RpcMessage:
    own = None if envelope.id is msgspec.UNSET else _id(envelope.id)
    if isinstance(own, MalformedMessage):
        return own
    if envelope.jsonrpc is not msgspec.UNSET and bytes(envelope.jsonrpc) != b'"2.0"':
        return MalformedMessage(own, INVALID_REQUEST, 'jsonrpc should be "2.0"')
    if envelope.method is not msgspec.UNSET:
        return _method(envelope, own)
    if envelope.id is not msgspec.UNSET and envelope.error is not msgspec.UNSET:
        return RpcFailure(own, bytes(envelope.error))
    if envelope.id is not msgspec.UNSET and envelope.result is not msgspec.UNSET:
        return RpcResult(own, bytes(envelope.result))
    return MalformedMessage(own, INVALID_REQUEST, "A message has a method, or an id with a result or an error")


def _method(envelope: _Envelope, own: Id) -> RpcMessage:
    params = b"" if envelope.params is msgspec.UNSET else bytes(envelope.params)
    try:
        method = _read_text(envelope.method)  # pyright: ignore[reportArgumentType] - it is set
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MalformedMessage(own, INVALID_REQUEST, "method should be text")
    return RpcNotification(method, params) if envelope.id is msgspec.UNSET else RpcRequest(own, method, params)


def _id(raw: msgspec.Raw) -> Id | MalformedMessage:
    try:
        return _read_id(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MalformedMessage(None, INVALID_REQUEST, "id should be a whole number, text or null")


# Writes JSON-RPC messages, each as one line with its end. What they mean is not known here.

_write = msgspec.json.Encoder().encode
NULL: Final = b"null"


def as_json(value: Any) -> bytes:
    """A value, a message of ours, or bytes that are JSON already, as JSON."""
    if isinstance(value, Message):
        return value.to_json().encode()
    return value if isinstance(value, bytes) else _write(value)


def _write_id(own: Id) -> bytes:
    # A whole number of any size is an id; msgspec writes 64 bits.
    return str(own).encode() if isinstance(own, int) else _write(own)


def request_line(own: Id, method: str, params: Any = None) -> bytes:
    """A call."""
    rest = b"" if params is None else b',"params":' + as_json(params)
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"method":' + _write(method) + rest + b"}\n"


def notification_line(method: str, params: Any = None) -> bytes:
    """A notice."""
    rest = b"" if params is None else b',"params":' + as_json(params)
    return b'{"jsonrpc":"2.0","method":' + _write(method) + rest + b"}\n"


def result_line(own: Id, result: Any) -> bytes:
    """The answer to a call."""
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"result":' + as_json(result) + b"}\n"


def error_line(own: Id, error: Mapping[str, Any]) -> bytes:
    """The answer to a call that failed."""
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"error":' + _write(error) + b"}\n"


# JSON-RPC on lines, without I/O: bytes in, frames out; one bad line costs one reply and nothing else.

__all__ = [
    "LineSplitter",
    "MalformedMessage",
    "OversizedLine",
    "RpcFailure",
    "RpcMessage",
    "RpcNotification",
    "RpcRequest",
    "RpcResult",
    "error_line",
    "notification_line",
    "read_frames",
    "request_line",
    "result_line",
]
