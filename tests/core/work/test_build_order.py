"""Work orders are built from a request, and lose what a plan goes on without."""

from typing import Any

import pytest
from pydantic import ValidationError

from accord.acp.schema_parts import ContentBlock
from accord.core.work.conversation import build_order, links_to_files, part_from_block
from accord.core.work.plan import remove_unsupported
from accord.wire.conversation import ChatMessage, Role
from accord.wire.manifest import CapabilityRequirement, CapabilityRequirements, MinSupport
from accord.wire.work import ToolSpec, WorkOrder

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def test_an_order_has_system_history_prompt_and_content():
    order = build_order(
        prompt="What is it?",
        content=[ContentBlock.model_validate(IMAGE)],
        history=[ChatMessage(role=Role.USER, content="before"), ChatMessage(role=Role.ASSISTANT, content="yes")],
        system="Be brief.",
    )
    messages = [(message.role, [part.type for part in message.content]) for message in order.conversation.messages]
    assert messages == [("system", ["text"]), ("user", ["text"]), ("assistant", ["text"]), ("user", ["text", "image"])]


BLOCKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "text", "text": "t"}, {"type": "text", "text": "t"}),
    (IMAGE, {"type": "image", "media_type": "image/png", "data": "aGk="}),
    (
        {**IMAGE, "uri": "file:///cat.png"},
        {"type": "image", "media_type": "image/png", "data": "aGk=", "uri": "file:///cat.png"},
    ),
    (
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "audio", "media_type": "audio/wav", "data": "aGk="},
    ),
    ({"type": "resource_link", "uri": "u", "name": "n"}, {"type": "resource_link", "uri": "u", "name": "n"}),
    (
        {"type": "resource_link", "uri": "u", "name": "n", "mimeType": "text/plain", "description": "d"},
        {"type": "resource_link", "uri": "u", "name": "n", "media_type": "text/plain", "description": "d"},
    ),
    ({"type": "resource", "resource": {"uri": "u", "text": "t"}}, {"type": "resource", "uri": "u", "text": "t"}),
    ({"type": "resource", "resource": {"uri": "u", "blob": "aGk="}}, {"type": "resource", "uri": "u", "data": "aGk="}),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS)
def test_each_content_block_becomes_its_message_part(block: dict[str, Any], part: dict[str, Any]):
    assert part_from_block(ContentBlock.model_validate(block)).dump() == part


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("https://a.example/reports/q3.pdf", "q3.pdf"),
        ("https://a.example/reports/q3.pdf?version=2#page=7", "q3.pdf"),
        ("https://a.example/My%20report.pdf", "My report.pdf"),
        ("https://a.example/folder/", "folder"),
        ("https://a.example", "a.example"),
        ("https://a.example/", "a.example"),
        ("file:///home/me/notes.txt", "notes.txt"),
        ("s3://bucket/key/data.csv", "data.csv"),
        ("notes.txt", "notes.txt"),
        ("folder/notes.txt", "notes.txt"),
        ("urn:isbn:0451450523", "isbn:0451450523"),
        ("data:text/plain;base64,aGk/aGk=", "data"),
        ("https://[broken/notes.txt", "https://[broken/notes.txt"),
        ("?", "?"),
    ],
)
def test_decision_1_a_file_becomes_a_link_that_is_named_by_its_last_segment(file: str, name: str):
    (link,) = links_to_files([file])
    assert (link.uri, link.name) == (file, name)


def test_a_file_without_an_address_is_no_link():
    assert links_to_files(["", "  "]) == []


FIELDS: dict[str, Any] = {
    "tools": [ToolSpec(name="now")],
    "response_schema": {"type": "object"},
    "stop_sequences": ["END"],
    "thinking": True,
    "stream": True,
    "parameters": {"temperature": 0.5},
    "requirements": CapabilityRequirements(
        required=[CapabilityRequirement(capability="logprobs", min_support=MinSupport.NATIVE)]
    ),
}


@pytest.mark.parametrize("fields", [{}, FIELDS])
def test_an_order_built_without_validation_equals_the_parsed_one(fields: dict[str, Any]):
    order = build_order(prompt="a", content=[ContentBlock.model_validate(IMAGE)], history=[], system="b", **fields)
    assert WorkOrder.parse(order.to_json()) == order
    assert {name: getattr(order, name) for name in fields} == fields


def test_orders_share_no_lists():
    first, second = (build_order(prompt="a", content=[], history=[], system=None) for _ in range(2))
    first.stop_sequences.append("END")
    first.requirements.required.append(FIELDS["requirements"].required[0])
    assert second.stop_sequences == []
    assert second.requirements.required == []


@pytest.mark.parametrize("wrong", [{"prompt": 5}, {"system": 5}])
def test_a_prompt_or_system_message_that_is_not_text_is_refused(wrong: dict[str, Any]):
    words: dict[str, Any] = {"prompt": "a", "system": None, **wrong}
    with pytest.raises(ValidationError, match="valid string"):
        build_order(content=[], history=[], **words)


def test_lost_parts_are_replaced_by_text_and_lost_requests_are_cleared():
    order = build_order(prompt="Look", content=[ContentBlock.model_validate(IMAGE)], history=[], system=None)
    order = order.model_copy(update={"stream": True, "stop_sequences": ["END"]})
    left = remove_unsupported(order, ["vision", "streaming", "stop_sequences"])
    assert [part.dump() for part in left.conversation.messages[0].content] == [
        {"type": "text", "text": "Look"},
        {"type": "text", "text": "[An image was sent that cannot be passed on]"},
    ]
    assert (left.stream, left.stop_sequences) == (False, [])
    assert order.stream


def test_lost_parts_in_tool_results_are_replaced():
    result = {
        "type": "tool_result",
        "tool_use_id": "1",
        "content": [{"type": "image", "media_type": "image/png", "data": ""}],
    }
    order = WorkOrder.model_validate({"conversation": {"messages": [{"role": "tool", "content": [result]}]}})
    assert (
        remove_unsupported(order, ["image_input"]).conversation.messages[0].content[0].dump()["content"][0]["type"]
        == "text"
    )


def test_an_order_without_losses_is_unchanged():
    order = build_order(prompt="a", content=[], history=[], system=None)
    assert remove_unsupported(order, []) == order
