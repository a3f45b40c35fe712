"""In the draft, a block of an unknown type is kept; a known one with a mistake is still an error."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp import schema_v2
from accord.acp.content import OtherContentBlock
from accord.acp.schema_parts import TextContent
from accord.errors import InvalidMessageError


def prompt(*blocks: Any) -> str:
    return json.dumps({"sessionId": "s", "prompt": blocks})


def test_known_and_unknown_blocks_are_read_in_their_order() -> None:
    sent = [{"type": "text", "text": "a"}, {"type": "_hologram", "data": [1]}, {"type": "text", "text": "b"}]
    read = schema_v2.PromptRequest.parse(prompt(*sent))
    assert [type(block) for block in read.prompt] == [TextContent, OtherContentBlock, TextContent]
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
        schema_v2.PromptRequest.parse(prompt(block))
    assert [problem.field for problem in caught.value.problems] == [field]


PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "agent_message_chunk": lambda block: {"messageId": "m", "content": block},
    "user_message_chunk": lambda block: {"messageId": "m", "content": block},
    "agent_thought_chunk": lambda block: {"messageId": "m", "content": block},
    "agent_message": lambda block: {"messageId": "m", "content": [block]},
    "user_message": lambda block: {"messageId": "m", "content": [block]},
    "agent_thought": lambda block: {"messageId": "m", "content": [block]},
    "tool_call_update": lambda block: {"toolCallId": "c", "content": [{"type": "content", "content": block}]},
    "tool_call_content_chunk": lambda block: {"toolCallId": "c", "content": {"type": "content", "content": block}},
    "compaction_update": lambda block: {"compactionId": "c", "status": "completed", "summary": [block]},
    "compaction_summary_chunk": lambda block: {"compactionId": "c", "content": block},
}
"""Every update that carries content blocks."""

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["_meta", "meta", "text", "data", "mimeType", "mime_type", "annotations", "model_config"])
MEMBERS = st.dictionaries(NAMES | st.text(max_size=8), JSON_VALUES, max_size=4)


@pytest.mark.parametrize("kind", PLACES)
@given(name=st.text(max_size=8), members=MEMBERS)
def test_an_extension_type_survives_every_update_exactly(kind: str, name: str, members: dict[str, Any]) -> None:
    block = {**members, "type": f"_{name}"}
    sent = {"sessionId": "s", "update": {"sessionUpdate": kind, **PLACES[kind](block)}}
    assert json.loads(schema_v2.UpdateSessionNotification.parse(json.dumps(sent)).to_json()) == sent
