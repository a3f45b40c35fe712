"""Writes JSON-RPC messages, each as one line with its end. What they mean is not known here."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from accord.core.rpc.frames import Id
from accord.wire.message import Message

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


def call_line(own: Id, method: str, params: Any = None) -> bytes:
    """A call."""
    rest = b"" if params is None else b',"params":' + as_json(params)
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"method":' + _write(method) + rest + b"}\n"


def notice_line(method: str, params: Any = None) -> bytes:
    """A notice."""
    rest = b"" if params is None else b',"params":' + as_json(params)
    return b'{"jsonrpc":"2.0","method":' + _write(method) + rest + b"}\n"


def answer_line(own: Id, result: Any) -> bytes:
    """The answer to a call."""
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"result":' + as_json(result) + b"}\n"


def error_line(own: Id, error: Mapping[str, Any]) -> bytes:
    """The answer to a call that failed."""
    return b'{"jsonrpc":"2.0","id":' + _write_id(own) + b',"error":' + _write(error) + b"}\n"
