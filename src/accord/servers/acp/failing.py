"""What goes wrong, as JSON-RPC errors: the number from the one table, our own word in `data`. Nothing is sent here."""

from typing import Any, Final

from accord.errors import FACTS, AccordError, ErrorCode, InvalidMessageError
from accord.stdio import RpcError
from accord.wire.packet import StreamError
from accord.wire.problem import stream_error

INVALID_REQUEST: Final = FACTS[ErrorCode.INVALID_MESSAGE].jsonrpc
METHOD_NOT_FOUND: Final = FACTS[ErrorCode.METHOD_NOT_FOUND].jsonrpc
INVALID_PARAMS: Final = FACTS[ErrorCode.CONTENT_INVALID].jsonrpc
NOT_FOUND: Final = FACTS[ErrorCode.NOT_FOUND].jsonrpc
INTERNAL: Final = FACTS[ErrorCode.INTERNAL]

_KNOWN: Final = frozenset(map(str, ErrorCode))


def told_error(error: Exception) -> RpcError:
    """What a client is told of an exception; of one that is not ours, nothing."""
    if isinstance(error, RpcError):
        return error
    if isinstance(error, InvalidMessageError):
        return RpcError(INVALID_PARAMS, error.message, dict(error.details) or None)
    if isinstance(error, AccordError):
        return broken_stream(stream_error(error))
    return RpcError(INTERNAL.jsonrpc, INTERNAL.title)


def broken_stream(told: StreamError) -> RpcError:
    """What a client is told of a stream that broke."""
    number = FACTS[ErrorCode(told.code)].jsonrpc if told.code in _KNOWN else INTERNAL.jsonrpc
    data: dict[str, Any] = {**(told.details or {}), "code": told.code, "severity": str(told.severity)}
    return RpcError(number, told.message, data)
