"""The tokens of a question are counted from whatever usage was reported."""

from typing import Any

import pytest

from accord.core.summarise import count_tokens, summarise_work


def shown(**usage: Any) -> dict[str, Any]:
    return {"capability": "image_input", "kind": "image_shown", "usage": usage}


@pytest.mark.parametrize(
    ("usage", "effects", "tokens"),
    [
        (None, [], None),
        ({}, [], None),
        ({"context_tokens": 900, "context_size": 1_000}, [], None),
        ({"input_tokens": 100, "output_tokens": 20}, [], 120),
        ({"input_tokens": 100, "output_tokens": 20, "cached_input_tokens": 90, "reasoning_tokens": 5}, [], 120),
        ({"output_tokens": 20}, [], 20),
        ({"total_tokens": 120}, [], 120),
        ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 150}, [], 150),
        # Two answers added up, of which one had no total.
        ({"input_tokens": 200, "output_tokens": 40, "total_tokens": 120}, [], 240),
        ({"input_tokens": 0, "output_tokens": 0}, [], 0),
        ({"input_tokens": True, "output_tokens": "20", "total_tokens": None}, [], None),
        ({"input_tokens": 100}, [shown(total_tokens=7), shown(), {"capability": "x", "kind": "y"}], 107),
        (None, [shown(input_tokens=3, output_tokens=4)], 7),
    ],
)
def test_the_tokens_of_a_question(usage: dict[str, Any] | None, effects: list[dict[str, Any]], tokens: int | None):
    assert count_tokens({"usage": usage, "emulations": {"effects": effects}}) == tokens
    if not effects:
        assert count_tokens({"usage": usage}) == tokens


@pytest.mark.parametrize(
    ("fallbacks", "answered_by"),
    [
        ([], "a"),
        ([{"backend": "b", "code": "unavailable"}], "a"),
        ([{"backend": "a", "code": "unavailable"}], None),
        ([{"backend": "a", "code": "unavailable", "skipped": True}], "a"),
        ([{"backend": "a", "code": "unavailable", "skipped": True}, {"backend": "a", "code": "backend_failed"}], None),
    ],
)
def test_a_backend_that_was_skipped_at_first_may_have_answered(fallbacks: list[Any], answered_by: str | None):
    assert summarise_work({"backend": {"name": "a"}, "fallbacks": fallbacks}).get("backend") == answered_by
