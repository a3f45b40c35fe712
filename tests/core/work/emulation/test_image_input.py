"""Images become words, and the words say only what is true."""

from collections.abc import Mapping
from typing import Any

import pytest

from accord.core.work.emulation.image_input import ImageInput, ImageWords, images_of
from accord.wire.acp.content import ImageBlock, TextBlock
from accord.wire.conversation import Conversation
from accord.wire.work import WorkOrder
from tests.core.work.emulation.scripted import pieces, read, talk


def image(data: str) -> dict[str, str]:
    return {"type": "image", "media_type": "image/png", "data": data}


def showing(*parts: Any) -> Conversation:
    return Conversation.model_validate({"messages": [{"role": "user", "content": list(parts)}]})


CAT = ImageBlock(data="Y2F0", mime_type="image/png", uri="https://pics.example/a/cat.png?size=2")


@pytest.mark.parametrize(
    ("words", "prompt", "sentence", "effect"),
    [
        ({1: ImageWords("a cat", by="seer")}, [], "[Image 1, described by seer: a cat]", "image_described"),
        (
            {1: ImageWords("Our cat", "alt_text")},
            [],
            "[Image 1, which cannot be seen here; its alternative text: Our cat]",
            "image_not_seen",
        ),
        ({}, [CAT], "[Image 1, which cannot be seen here; its file name: cat.png]", "image_not_seen"),
        (
            {2: ImageWords("of another")},
            [],
            "[Image 1 (image/png) was sent and cannot be seen here.]",
            "image_not_seen",
        ),
    ],
)
def test_an_image_is_told_by_the_best_words_there_are(
    words: Mapping[int, ImageWords], prompt: list[ImageBlock], sentence: str, effect: str
):
    order = WorkOrder(conversation=showing({"type": "text", "text": "look"}, image("Y2F0")), prompt=list(prompt))
    prepared = ImageInput(words).prepare(order)
    assert prepared.order.conversation.dump()["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": sentence},
    ]
    assert prepared.order.prompt == [TextBlock(text=sentence)] * len(prompt)
    assert [(one.kind, one.count, one.lost) for one in prepared.effects] == [(effect, 1, effect == "image_not_seen")]


def test_images_are_numbered_through_the_conversation_those_in_tool_results_too():
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [image("Yg==")]}
    order = WorkOrder(conversation=showing(image("YQ=="), result, image("YQ==")))
    assert {number: part.data for number, part in images_of(order).items()} == {1: "YQ==", 2: "Yg=="}
    content = (
        ImageInput({2: ImageWords("b", by="seer")}).prepare(order).order.conversation.dump()["messages"][0]["content"]
    )
    unseen = {"type": "text", "text": "[Image 1 (image/png) was sent and cannot be seen here.]"}
    assert content[0] == content[2] == unseen
    assert content[1]["content"] == [{"type": "text", "text": "[Image 2, described by seer: b]"}]


@pytest.mark.parametrize("uri", [None, "data:image/png;base64,Y2F0", "https://pics.example/", "file:///a\nb"])
def test_an_address_that_names_no_file_is_not_told(uri: str | None):
    block = ImageBlock(data="Y2F0", mime_type="image/png", uri=uri)
    told = ImageInput().prepare(WorkOrder(conversation=showing(image("Y2F0")), prompt=[block])).order.prompt
    sentence = told[0].dump()["text"]
    assert "base64" not in sentence
    assert "\n" not in sentence


def test_an_order_without_images_is_left_alone():
    order = WorkOrder(conversation=talk(("user", "hi")))
    prepared = ImageInput().prepare(order)
    assert prepared.order is order
    assert prepared.effects == ()
    assert read(ImageInput(), order, pieces("a")).out == pieces("a")
