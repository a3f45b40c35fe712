"""JSON-RPC 2.0 over lines, without I/O: split bytes into lines, parse a line into messages, write messages as lines.

Only the envelope is parsed. Parameters and results stay JSON bytes until `value()` is called. A line that cannot be
parsed is read once more by `rpc_repair`. It is not ACP-aware: what a method means is decided elsewhere.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final

import msgspec

from accord.core.rpc_repair import has_half_bytes, read_broken_line, read_sent_ids, replace_half_pairs
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


START_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was longer than allowed; its bytes were discarded.

    `id` is the id of the request that it began with, if its first `START_BYTES` have one.
    """

    max_bytes: int
    id: "Id" = None


class LineSplitter:
    """Splits a stream of bytes into lines, in time linear in the bytes.

    A carriage return before a line end, blank lines, and a byte order mark at the very beginning are skipped.
    """

    __slots__ = ("_held", "_is_first", "_max_bytes", "_oversized")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        # A line is collected in one growing buffer, which then is the line: joining its pieces would take the memory
        # of a long line twice.
        self._held: BytesIO | None = None
        self._oversized: OversizedLine | None = None
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
        if self._held is None and self._oversized is None and len(piece) <= self._max_bytes:
            line = piece
        else:
            self._hold(piece)
            held, oversized = self._held, self._oversized
            self._held = self._oversized = None
            if oversized is not None:
                return oversized
            line = b"" if held is None else held.getvalue()
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BOM)
        line = line.removesuffix(b"\r")
        return None if not line or line.isspace() else line

    def _hold(self, piece: bytes) -> None:
        if not piece or self._oversized is not None:
            return
        held = self._held = self._held or BytesIO()
        if held.tell() + len(piece) > self._max_bytes:
            # The rest of the line is discarded as it arrives, so that a long line costs no memory.
            start = (held.getvalue()[:START_BYTES] + piece)[:START_BYTES]
            self._held, self._oversized = None, OversizedLine(self._max_bytes, read_broken_line(start)[0].id)
            return
        held.write(piece)


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
    """Bytes that are no message, and the error to reply with.

    `id` is that of the request that they were meant to be, if it can be read. `response_id` is the id of the call that
    they were meant to answer: such a line has no reply, but the local caller should not wait any longer.
    """

    id: Id
    code: int
    message: str
    response_id: Id = None


RpcMessage = RpcRequest | RpcNotification | RpcResult | RpcFailure | MalformedMessage

_NOT_JSON: Final = "The line is not JSON"
_BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_REPLACED: Final = "\ufffd"


def read_frames(line: bytes, *, batches: bool = False, max_values: int = MAX_VALUES) -> list[RpcMessage]:
    """Parse the message on this line, or several if batches are allowed. Never raises.

    Halves of surrogate pairs, which JavaScript sends, are replaced by U+FFFD everywhere but in ids.
    """
    is_batch = batches and line.lstrip()[:1] == b"["
    mended = replace_half_pairs(line) if has_half_bytes(line) else line
    try:
        frames = _parse(mended, max_values, is_batch=is_batch)
    except _BAD_JSON:
        mended = replace_half_pairs(line)
        try:
            frames = _parse(mended, max_values, is_batch=is_batch)
        except _BAD_JSON:
            broken = read_broken_line(line, is_batch=is_batch)[:MAX_BATCH]
            return [MalformedMessage(each.id, RpcCode.PARSE_ERROR, _NOT_JSON, each.response_id) for each in broken]
    return frames if mended is line else _with_sent_ids(frames, line)


def _parse(line: bytes, max_values: int, *, is_batch: bool) -> list[RpcMessage]:
    if not is_batch:
        return [_frame(line, max_values)]
    messages = _read_batch(line)
    if not 0 < len(messages) <= MAX_BATCH:
        return [MalformedMessage(None, RpcCode.INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages")]
    return [_frame(bytes(message), max_values) for message in messages]


def _with_sent_ids(frames: list[RpcMessage], line: bytes) -> list[RpcMessage]:
    """Undo replacements in ids: a peer finds its request by exactly the id that it sent."""
    if not any(isinstance(found := getattr(frame, "id", None), str) and _REPLACED in found for frame in frames):
        return frames
    sent = read_sent_ids(line)
    if len(sent) != len(frames):
        return frames
    return [
        frame if isinstance(frame, RpcNotification) or not isinstance(frame.id, str) else replace(frame, id=sent_id)
        for frame, sent_id in zip(frames, sent, strict=True)
    ]


def _frame(line: bytes, max_values: int) -> RpcMessage:
    try:
        frame = _classify(_read(line))
    except msgspec.ValidationError:
        return MalformedMessage(None, RpcCode.INVALID_REQUEST, "A message is a JSON object")
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
    # A whole number of any size is an id, and so is half of a surrogate pair; msgspec writes 64 bits and no halves.
    if isinstance(request_id, int):
        return str(request_id).encode()
    try:
        return _write(request_id)
    except UnicodeEncodeError:
        return json.dumps(request_id).encode()
