"""Images are replaced by text that claims only what happened."""

from collections.abc import Mapping
from typing import Any

import pytest

from accord.core.work.emulation.base import MAX_ADDRESS_CHARS
from accord.core.work.emulation.image_input import ImageDescription, ImageInput, number_images
from accord.wire.conversation import Conversation
from accord.wire.work import WorkOrder
from tests.core.work.emulation.scripted import pieces, read, talk


def image(data: str, **more: str) -> dict[str, str]:
    return {"type": "image", "media_type": "image/png", "data": data, **more}


def showing(*parts: Any) -> Conversation:
    return Conversation.model_validate({"messages": [{"role": "user", "content": list(parts)}]})


ADDRESS = "https://pics.example/a/cat.png?size=2"
SENTENCES: list[tuple[Mapping[int, ImageDescription], dict[str, str], str, str]] = [
    (
        {1: ImageDescription("a cat", by="seer")},
        {"uri": ADDRESS},
        "[Image 1, described by seer: a cat]",
        "image_described",
    ),
    ({}, {"uri": ADDRESS}, f"[Image 1, which cannot be seen here; its address: {ADDRESS}]", "image_not_seen"),
    (
        {2: ImageDescription("of another", by="seer")},
        {},
        "[Image 1 (image/png) was sent and cannot be seen here.]",
        "image_not_seen",
    ),
]


@pytest.mark.parametrize(("descriptions", "uri", "sentence", "effect"), SENTENCES)
def test_an_image_is_replaced_by_its_description_or_its_address(
    descriptions: Mapping[int, ImageDescription], uri: dict[str, str], sentence: str, effect: str
):
    order = WorkOrder(conversation=showing({"type": "text", "text": "look"}, image("Y2F0", **uri)))
    prepared = ImageInput(descriptions).prepare(order)
    assert prepared.order.conversation.dump()["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": sentence},
    ]
    assert [(one.kind, one.count, one.lost) for one in prepared.effects] == [(effect, 1, effect == "image_not_seen")]


def test_images_are_numbered_through_the_conversation_including_tool_results():
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [image("Yg==")]}
    order = WorkOrder(conversation=showing(image("YQ=="), result, image("YQ==")))
    assert {number: part.data for number, part in number_images(order).items()} == {1: "YQ==", 2: "Yg=="}
    content = (
        ImageInput({2: ImageDescription("b", by="seer")})
        .prepare(order)
        .order.conversation.dump()["messages"][0]["content"]
    )
    unseen = {"type": "text", "text": "[Image 1 (image/png) was sent and cannot be seen here.]"}
    assert content[0] == content[2] == unseen
    assert content[1]["content"] == [{"type": "text", "text": "[Image 2, described by seer: b]"}]


@pytest.mark.parametrize("uri", [None, "", "data:image/png;base64,Y2F0", "file:///a\nb"])
def test_an_address_that_is_the_data_or_unprintable_is_not_named(uri: str | None):
    order = WorkOrder(conversation=showing({"type": "image", "media_type": "image/png", "data": "Y2F0", "uri": uri}))
    content = ImageInput().prepare(order).order.conversation.dump()["messages"][0]["content"]
    assert content == [{"type": "text", "text": "[Image 1 (image/png) was sent and cannot be seen here.]"}]


def test_a_long_address_is_cut():
    order = WorkOrder(conversation=showing(image("Y2F0", uri="https://pics.example/" + "a" * 9_999)))
    (part,) = ImageInput().prepare(order).order.conversation.dump()["messages"][0]["content"]
    assert len(part["text"]) < MAX_ADDRESS_CHARS + 100
    assert part["text"].endswith("a…]")


def test_an_order_without_images_is_unchanged():
    order = WorkOrder(conversation=talk(("user", "hi")))
    prepared = ImageInput().prepare(order)
    assert prepared.order is order
    assert prepared.effects == ()
    assert read(ImageInput(), order, pieces("a")).out == pieces("a")
