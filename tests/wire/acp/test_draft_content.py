"""In the draft, a block of an unknown type is kept; a known one with a mistake is still an error."""

import json
from typing import Any

import pytest

from accord.errors import InvalidMessageError
from accord.wire.acp.content import OtherBlock, TextBlock
from accord.wire.acp.session import DraftPromptRequest


def prompt(*blocks: Any) -> str:
    return json.dumps({"sessionId": "s", "prompt": blocks})


def test_known_and_unknown_blocks_are_read_in_their_order() -> None:
    sent = [{"type": "text", "text": "a"}, {"type": "_hologram", "data": [1]}, {"type": "text", "text": "b"}]
    read = DraftPromptRequest.parse(prompt(*sent))
    assert [type(block) for block in read.prompt] == [TextBlock, OtherBlock, TextBlock]
    assert read.dump()["prompt"] == sent


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"type": "image", "data": "AAAA"}, "prompt.0.type.image.mimeType"),
        ({"type": "text"}, "prompt.0.type.text.text"),
        ({"type": 7}, "prompt.0.type"),
        ({}, "prompt.0.type"),
        ("text", "prompt.0.type"),
    ],
)
def test_a_malformed_block_is_reported_with_its_place(block: Any, field: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        DraftPromptRequest.parse(prompt(block))
    assert [problem.field for problem in caught.value.problems] == [field]
