"""Says what a line is: a call, a notice, an answer, a failure, or broken, with the one reply that it costs.

Only the envelope is read; parameters and results stay the bytes that they were until somebody wants them, and are known
to be JSON. What a method means is not known here.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accord.core.json_size import MAX_VALUES, find_excess

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
class Call(_Said):
    """A method that wants an answer."""

    id: Id
    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Notice(_Said):
    """A method that wants none."""

    method: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer(_Said):
    """The answer to a call."""

    id: Id
    raw: bytes = b"null"


@dataclass(frozen=True, slots=True)
class Failure(_Said):
    """The answer to a call that failed; its value is the error object."""

    id: Id
    raw: bytes = b"{}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that is no message, and the error that its sender is told."""

    id: Id
    code: int
    message: str


Incoming = Call | Notice | Answer | Failure | Broken


def read_frames(line: bytes, *, batches: bool = False) -> list[Incoming]:
    """What this line holds: one message, or several if batches are spoken; never an exception."""
    if batches and line.lstrip()[:1] == b"[":
        return _batch(line)
    return [_frame(line)]


def _batch(line: bytes) -> list[Incoming]:
    try:
        frames = _read_batch(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [Broken(None, PARSE_ERROR, "The line is not JSON")]
    if not 0 < len(frames) <= MAX_BATCH:
        return [Broken(None, INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages")]
    return [_frame(bytes(frame)) for frame in frames]


def _frame(line: bytes) -> Incoming:
    frame = _envelope(line)
    if isinstance(frame, Broken) or find_excess(frame.raw, max_values=MAX_VALUES) is None:
        return frame
    if isinstance(frame, Answer | Failure):
        # Nobody may be told of a broken answer but the one who waits for it.
        return Failure(frame.id, msgspec.json.encode({"code": INVALID_REQUEST, "message": TOO_MANY_VALUES}))
    return Broken(frame.id if isinstance(frame, Call) else None, INVALID_REQUEST, TOO_MANY_VALUES)


def _envelope(line: bytes) -> Incoming:
    try:
        envelope = _read(line)
    except msgspec.ValidationError:
        return Broken(None, INVALID_REQUEST, "A message is a JSON object")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Broken(None, PARSE_ERROR, "The line is not JSON")
    return _kind(envelope)


def _kind(envelope: _Envelope) -> Incoming:
    own = None if envelope.id is msgspec.UNSET else _id(envelope.id)
    if isinstance(own, Broken):
        return own
    if envelope.jsonrpc is not msgspec.UNSET and bytes(envelope.jsonrpc) != b'"2.0"':
        return Broken(own, INVALID_REQUEST, 'jsonrpc should be "2.0"')
    if envelope.method is not msgspec.UNSET:
        return _method(envelope, own)
    if envelope.id is not msgspec.UNSET and envelope.error is not msgspec.UNSET:
        return Failure(own, bytes(envelope.error))
    if envelope.id is not msgspec.UNSET and envelope.result is not msgspec.UNSET:
        return Answer(own, bytes(envelope.result))
    return Broken(own, INVALID_REQUEST, "A message has a method, or an id with a result or an error")


def _method(envelope: _Envelope, own: Id) -> Incoming:
    params = b"" if envelope.params is msgspec.UNSET else bytes(envelope.params)
    try:
        method = _read_text(envelope.method)  # pyright: ignore[reportArgumentType] - it is set
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Broken(own, INVALID_REQUEST, "method should be text")
    return Notice(method, params) if envelope.id is msgspec.UNSET else Call(own, method, params)


def _id(raw: msgspec.Raw) -> Id | Broken:
    try:
        return _read_id(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Broken(None, INVALID_REQUEST, "id should be a whole number, text or null")
