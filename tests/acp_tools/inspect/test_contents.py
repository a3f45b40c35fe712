"""The content that `accord inspect` sends: each block is valid, or wrong only in the respect that its check is about."""

import json
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from accord.acp.content import ContentType
from accord.acp_tools.inspect.blocks import BAD_BASE64, GOOD, MALFORMED, PNG
from accord.core.prompt import ContentValidator

VALIDATOR = ContentValidator({"image": True, "audio": True, "embeddedContext": True})
REPAIRS: dict[str, dict[str, Any]] = {
    "image-without-data": {"data": "AAAA"},
    "image-without-mime-type": {"mimeType": "image/png"},
    "unknown-type": {"type": "text"},
    "text-not-text": {"text": "42"},
    "link-without-uri": {"uri": "https://example.com/note.txt"},
}


def is_valid(block: Any) -> bool:
    return VALIDATOR.validate([block]).error is None


@pytest.mark.parametrize("kind", ContentType)
def test_a_good_block_is_valid(kind: ContentType):
    assert GOOD[kind]["type"] == kind
    assert is_valid(GOOD[kind])


def test_the_image_can_be_decoded():
    with Image.open(BytesIO(PNG)) as image:
        image.load()
        assert image.size == (64, 64)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_block_is_wrong_in_one_respect(name: str):
    _, block = MALFORMED[name]
    assert not is_valid(block)
    assert is_valid({**block, **REPAIRS[name]})


@pytest.mark.parametrize("kind", BAD_BASE64)
def test_a_block_with_broken_base64_is_otherwise_valid(kind: ContentType):
    assert not is_valid(BAD_BASE64[kind])
    assert is_valid(json.loads(json.dumps(BAD_BASE64[kind]).replace("this is !! not base64", "AAAA")))


def test_every_type_that_carries_data_has_a_block_with_broken_base64():
    assert BAD_BASE64.keys() == {ContentType.IMAGE, ContentType.AUDIO, ContentType.RESOURCE}


def test_every_block_names_the_media_type_of_its_data():
    assert GOOD[ContentType.RESOURCE_LINK]["mimeType"] == "text/plain"
    assert GOOD[ContentType.RESOURCE]["resource"]["mimeType"] == "text/plain"
    for block in (GOOD[ContentType.IMAGE], BAD_BASE64[ContentType.IMAGE], MALFORMED["image-without-data"][1]):
        assert block["mimeType"] == "image/png"
    for block in (GOOD[ContentType.AUDIO], BAD_BASE64[ContentType.AUDIO]):
        assert block["mimeType"] == "audio/wav"
