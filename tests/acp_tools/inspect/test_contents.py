"""What `accord inspect` sends: every block is in order, or wrong in just the one way that its check is about."""

import json
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from accord.acp_tools.inspect.probe import BAD_BASE64, GOOD, MALFORMED, PNG
from accord.core.prompt import ContentValidator
from accord.wire.acp.content import ContentType

VALIDATOR = ContentValidator({"image": True, "audio": True, "embeddedContext": True})
MENDED: dict[str, dict[str, Any]] = {
    "image-without-data": {"data": "AAAA"},
    "image-without-mime-type": {"mimeType": "image/png"},
    "unknown-type": {"type": "text"},
    "text-not-text": {"text": "42"},
    "link-without-uri": {"uri": "https://example.com/note.txt"},
}


def is_in_order(block: Any) -> bool:
    return VALIDATOR.validate([block]).error is None


@pytest.mark.parametrize("kind", ContentType)
def test_a_good_block_is_in_order(kind: ContentType):
    assert GOOD[kind]["type"] == kind
    assert is_in_order(GOOD[kind])


def test_the_image_is_one():
    with Image.open(BytesIO(PNG)) as image:
        image.load()
        assert image.size == (1, 1)


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_block_is_wrong_in_one_way(name: str):
    _, block = MALFORMED[name]
    assert not is_in_order(block)
    assert is_in_order({**block, **MENDED[name]})


@pytest.mark.parametrize("kind", BAD_BASE64)
def test_a_block_with_broken_base64_is_otherwise_in_order(kind: ContentType):
    assert not is_in_order(BAD_BASE64[kind])
    assert is_in_order(json.loads(json.dumps(BAD_BASE64[kind]).replace("this is !! not base64", "AAAA")))


def test_every_type_that_carries_data_has_a_block_with_broken_base64():
    assert BAD_BASE64.keys() == {ContentType.IMAGE, ContentType.AUDIO, ContentType.RESOURCE}
