"""The record of a token, and what a token looks like."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from accord.wire.session import TokenRecord, looks_like_token, token_digest

NOW = datetime(2026, 1, 31, tzinfo=UTC)
GOOD: dict[str, Any] = {"token_id": "t", "user": "ada", "digest": "0" * 64, "created_at": NOW}


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("accord_" + "a-_Z0" * 8 + "abc", True),
        ("accord_" + "a" * 42, False),
        ("accord_" + "a" * 44, False),
        ("accord_" + "a" * 42 + ".", False),
        ("ACCORD_" + "a" * 43, False),
        ("accord_" + "a" * 43 + "\n", False),
        ("", False),
    ],
)
def test_only_the_form_of_a_token_looks_like_a_token(text: str, looks: bool):
    assert looks_like_token(text) is looks


def test_the_digest_is_plain_sha_256():
    assert token_digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    "wrong",
    [
        {"digest": "accord_secret"},
        {"digest": "0" * 63},
        {"user": ""},
        {"user": "a\0b"},
        {"label": "a\0b"},
        {"label": "x" * 201},
        {"created_at": datetime(2026, 1, 31)},  # noqa: DTZ001 - without a zone on purpose
    ],
)
def test_a_record_that_a_store_cannot_hold_is_refused(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        TokenRecord.model_validate({**GOOD, **wrong})


@pytest.mark.parametrize(("left_s", "expired"), [(None, False), (1, False), (0, True), (-1, True)])
def test_a_token_expires_at_its_time(left_s: int | None, expired: bool):
    until = None if left_s is None else NOW + timedelta(seconds=left_s)
    assert TokenRecord(**GOOD, expires_at=until).is_expired(NOW) is expired
