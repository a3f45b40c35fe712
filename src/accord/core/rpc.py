"""JSON-RPC 2.0 over lines, without I/O: split bytes into lines, parse a line into messages, write messages as lines.

Only the envelope is parsed. Parameters and results stay JSON bytes until `value()` is called. It is not ACP-aware: what
a method means is decided elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.core.sizes import MAX_VALUES, find_excess
from accord.errors import RpcCode
from accord.wire.message import Message

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

MAX_LINE_BYTES: Final = 96 * 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was longer than allowed; its bytes were discarded."""

    max_bytes: int


class LineSplitter:
    """Splits a stream of bytes into lines, in time linear in the bytes.

    A carriage return before a line end, blank lines, and a byte order mark at the very beginning are skipped.
    """

    __slots__ = ("_held", "_is_first", "_is_skipping", "_max_bytes", "_parts")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._parts: list[bytes] = []
        self._held = 0
        self._is_skipping = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Return the lines that these bytes complete, without their line ends."""
        *complete, rest = data.split(b"\n")
        found: list[bytes | OversizedLine] = []
        for piece in complete:
            line = self._complete(piece)
            if line is not None:
                found.append(line)
        self._hold(rest)
        return found

    def close(self) -> list[bytes | OversizedLine]:
        """Return the rest as a line: a peer may leave out its last line end."""
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
            # The rest of the line is discarded as it arrives, so that a long line costs no memory.
            self._parts, self._is_skipping = [], True
            return
        self._parts.append(piece)


Id = int | str | None
"""The id of a request. Null is an id, too."""

MAX_BATCH: Final = 1_000
TOO_MANY_VALUES: Final = "A message has at most {} values"


class _RpcEnvelope(msgspec.Struct):
    """The members that JSON-RPC defines; `UNSET` where one is absent."""

    jsonrpc: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_read = msgspec.json.Decoder(_RpcEnvelope).decode
_read_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_id = msgspec.json.Decoder(int | str | None).decode
_read_text = msgspec.json.Decoder(str).decode
_read_any = msgspec.json.Decoder().decode


class _WithPayload:
    """A message whose parameters, result or error are parsed on demand."""

    __slots__ = ()

    raw: bytes

    def value(self) -> Any:
        """Parse the parameters, the result or the error; None if there are none."""
        return _read_any(self.raw) if self.raw else None


@dataclass(frozen=True, slots=True)
class RpcRequest(_WithPayload):
    """A call that expects a response."""

    id: Id
    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class RpcNotification(_WithPayload):
    """A call that expects no response."""

    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class RpcResult(_WithPayload):
    """A successful response."""

    id: Id
    raw: bytes = b"null"


@dataclass(frozen=True, slots=True)
class RpcFailure(_WithPayload):
    """An error response; its value is the error object."""

    id: Id
    raw: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """Bytes that are no message, and the error to reply with."""

    id: Id
    code: int
    message: str


RpcMessage = RpcRequest | RpcNotification | RpcResult | RpcFailure | MalformedMessage

_NOT_JSON: Final = MalformedMessage(None, RpcCode.PARSE_ERROR, "The line is not JSON")


def read_frames(line: bytes, *, batches: bool = False, max_values: int = MAX_VALUES) -> list[RpcMessage]:
    """Parse the message on this line, or several if batches are allowed. Never raises."""
    if not batches or line.lstrip()[:1] != b"[":
        return [_frame(line, max_values)]
    try:
        frames = _read_batch(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [_NOT_JSON]
    if not 0 < len(frames) <= MAX_BATCH:
        return [MalformedMessage(None, RpcCode.INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages")]
    return [_frame(bytes(frame), max_values) for frame in frames]


def _frame(line: bytes, max_values: int) -> RpcMessage:
    try:
        frame = _classify(_read(line))
    except msgspec.ValidationError:
        return MalformedMessage(None, RpcCode.INVALID_REQUEST, "A message is a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NOT_JSON
    if isinstance(frame, MalformedMessage) or find_excess(frame.raw, max_values=max_values) is None:
        return frame
    excess = TOO_MANY_VALUES.format(max_values)
    if isinstance(frame, RpcResult | RpcFailure):
        # JSON-RPC has no reply to a response, so the local caller that waits for it gets the error.
        error = {"code": RpcCode.INVALID_REQUEST, "message": excess}
        return RpcFailure(frame.id, msgspec.json.encode(error))
    return MalformedMessage(frame.id if isinstance(frame, RpcRequest) else None, RpcCode.INVALID_REQUEST, excess)


def _classify(envelope: _RpcEnvelope) -> RpcMessage:
    request_id = None
    if envelope.id is not msgspec.UNSET:
        try:
            request_id = _read_id(envelope.id)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return MalformedMessage(None, RpcCode.INVALID_REQUEST, "id should be a whole number, text or null")
    if envelope.jsonrpc is not msgspec.UNSET and bytes(envelope.jsonrpc) != b'"2.0"':
        return MalformedMessage(request_id, RpcCode.INVALID_REQUEST, 'jsonrpc should be "2.0"')
    if envelope.method is not msgspec.UNSET:
        return _with_method(envelope, request_id)
    if envelope.id is not msgspec.UNSET and envelope.error is not msgspec.UNSET:
        return RpcFailure(request_id, bytes(envelope.error))
    if envelope.id is not msgspec.UNSET and envelope.result is not msgspec.UNSET:
        return RpcResult(request_id, bytes(envelope.result))
    return MalformedMessage(
        request_id, RpcCode.INVALID_REQUEST, "A message has a method, or an id with a result or an error"
    )


def _with_method(envelope: _RpcEnvelope, request_id: Id) -> RpcMessage:
    params = b"" if envelope.params is msgspec.UNSET else bytes(envelope.params)
    try:
        method = _read_text(envelope.method)  # pyright: ignore[reportArgumentType] - it is set
    except (msgspec.DecodeError, UnicodeDecodeError):
        return MalformedMessage(request_id, RpcCode.INVALID_REQUEST, "method should be text")
    return RpcNotification(method, params) if envelope.id is msgspec.UNSET else RpcRequest(request_id, method, params)


_write = msgspec.json.Encoder().encode


def request_line(request_id: Id, method: str, params: Any = None) -> bytes:
    """Write a request as a line."""
    rest = b"" if params is None else b',"params":' + _encode(params)
    return b'{"jsonrpc":"2.0","id":' + _encode_id(request_id) + b',"method":' + _write(method) + rest + b"}\n"


def notification_line(method: str, params: Any = None) -> bytes:
    """Write a notification as a line."""
    rest = b"" if params is None else b',"params":' + _encode(params)
    return b'{"jsonrpc":"2.0","method":' + _write(method) + rest + b"}\n"


def result_line(request_id: Id, result: Any) -> bytes:
    """Write a successful response as a line."""
    return b'{"jsonrpc":"2.0","id":' + _encode_id(request_id) + b',"result":' + _encode(result) + b"}\n"


def error_line(request_id: Id, error: Mapping[str, Any]) -> bytes:
    """Write an error response as a line."""
    return b'{"jsonrpc":"2.0","id":' + _encode_id(request_id) + b',"error":' + _write(error) + b"}\n"


def _encode(value: Any) -> bytes:
    """Encode a value or a wire message; bytes are taken to be JSON already."""
    if isinstance(value, Message):
        return value.to_json().encode()
    return value if isinstance(value, bytes) else _write(value)


def _encode_id(request_id: Id) -> bytes:
    # A whole number of any size is an id; msgspec writes 64 bits.
    return str(request_id).encode() if isinstance(request_id, int) else _write(request_id)
