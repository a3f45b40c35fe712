"""Read prompts of our own ACP server, and write errors as JSON-RPC."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from accord.errors import FACTS, AccordError, ErrorCode, InvalidMessageError, Problem
from accord.stdio import RpcError
from accord.wire.acp.content import ContentBlock, TextBlock
from accord.wire.message import invalid_message
from accord.wire.packet import StreamError
from accord.wire.problem import stream_error

# What goes wrong, as JSON-RPC errors: the number from the one table, our own word in `data`. Nothing is sent here.

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


# Reads a prompt: whose session it is for, and, once its content is known to be in order, what the user says with it.
#
# Text is what was asked; everything else comes with it, in its order. Whether content may come in is not decided
# here.

NAME: Final = "PromptRequest"


class _Params(msgspec.Struct, rename="camel"):
    session_id: str
    prompt: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt whose content nobody has looked at yet."""

    session_id: str
    prompt: bytes


_read = msgspec.json.Decoder(_Params).decode
_blocks: Final = TypeAdapter(list[ContentBlock])


def read_prompt(raw: bytes) -> Asked:
    """The prompt in these parameters; raises `InvalidMessageError` if they name no session or hold no prompt."""
    try:
        params = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        field = "prompt" if "`prompt`" in str(error) else "sessionId"
        expected = "expected an object with the text sessionId and the array prompt"
        raise InvalidMessageError(NAME, [Problem(field, expected)]) from None
    return Asked(params.session_id, bytes(params.prompt))


def split_prompt(prompt: bytes) -> tuple[str, list[ContentBlock]]:
    """What the user wrote, line after line, and what came with it."""
    try:
        blocks = _blocks.validate_json(prompt)
    except ValidationError as error:
        raise invalid_message(NAME, error) from None
    written = [block.text for block in blocks if isinstance(block, TextBlock)]
    return "\n".join(written), [block for block in blocks if not isinstance(block, TextBlock)]
