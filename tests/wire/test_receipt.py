"""Receipts: their content, and what is refused."""

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from accord.core.receipt import seal
from accord.wire.receipt import Outcome, Timings
from tests.receipts import a_body

OUTCOMES = [
    ("done", None, True),
    ("done", "internal_error", False),
    ("refused", "CAPABILITY_UNSUPPORTED", True),
    ("refused", None, False),
    ("failed", "backend_failed", True),
    ("failed", None, False),
    ("cancelled", "cancelled", True),
    ("cancelled", None, False),
]


@pytest.mark.parametrize(("status", "code", "valid"), OUTCOMES)
def test_an_outcome_other_than_done_has_a_code(status: str, code: str | None, valid: bool):
    outcome = {"status": status, "code": code}
    if valid:
        assert Outcome.model_validate(outcome).status == status
    else:
        with pytest.raises(ValidationError, match="has no error code, and any other has one"):
            Outcome.model_validate(outcome)


BAD_FIELDS: list[tuple[str, Any]] = [
    ("created_at", datetime(2026, 1, 2)),  # noqa: DTZ001 - without a zone it names no moment
    ("previous", "abc"),
    ("previous", "A" * 64),
    ("version", 2),
    ("work", [{"usage": {"rate": float("nan")}}]),
    ("timings", {"plan_ms": -1, "total_ms": 1}),
    ("timings", {"plan_ms": 1, "total_ms": float("inf")}),
]


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_an_invalid_receipt_is_refused(name: str, value: Any):
    with pytest.raises(ValidationError):
        a_body(**{name: value})


def test_times_are_rounded_to_the_microsecond():
    assert Timings(plan_ms=0.1 + 0.2, total_ms=1 / 3).dump() == {"plan_ms": 0.3, "total_ms": 0.333}


def test_the_hash_does_not_cover_itself():
    receipt = seal(a_body())
    assert "hash" not in receipt.hashed()
    assert receipt.hashed() == a_body().hashed()


def test_a_first_receipt_has_no_link_and_a_later_one_has_it_in_the_hashed_part():
    assert "previous" not in a_body().hashed()
    assert a_body(1, "a" * 64).hashed()["previous"] == "a" * 64
