"""Reads a prompt: whose session it is for, and, once its content is known to be in order, what the user says with it.

Text is what was asked; everything else comes with it, in its order. Whether content may come in is not decided here.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from accord.errors import InvalidMessageError, Problem
from accord.wire.acp.content import ContentBlock, TextBlock
from accord.wire.message import invalid_message

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
