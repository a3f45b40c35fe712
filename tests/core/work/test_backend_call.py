"""What a request to a backend used: as the endpoint reports it, or as it is estimated."""

from typing import Any

import pytest

from accord.core.work.backend_call import BackendCall
from accord.core.work.estimate_tokens import estimate_tokens
from accord.wire.conversation import Conversation
from accord.wire.work import EndPiece, TextPiece, ToolCallPiece, WorkOrder

ORDER = WorkOrder(
    conversation=Conversation.model_validate(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello there."}]}]}
    )
)


TEXT = "word " * 1000
REPORTED = {"input_tokens": 7, "output_tokens": 3, "cached_input_tokens": 2}
INPUT = estimate_tokens(ORDER)


@pytest.mark.parametrize(
    ("reported", "text", "used"),
    [
        (REPORTED, TEXT, REPORTED),
        ({"input_tokens": 7, "output_tokens": 0}, "", {"input_tokens": 7, "output_tokens": 0}),
        (None, "abcd", {"input_tokens": INPUT, "output_tokens": 1, "estimated": True}),
        ({**REPORTED, "output_tokens": -3}, "abcd", {**REPORTED, "output_tokens": 1, "estimated": True}),
        ({**REPORTED, "input_tokens": -7}, "abcd", {"input_tokens": INPUT, "output_tokens": 3, "estimated": True}),
        (
            {"input_tokens": True, "output_tokens": "9"},
            "",
            {"input_tokens": INPUT, "output_tokens": 0, "estimated": True},
        ),
    ],
)
def test_a_reported_count_is_used_if_it_is_positive(reported: Any, text: str, used: dict[str, Any]):
    call = BackendCall("b", ORDER)
    call.see(TextPiece(text=text))
    call.see(EndPiece(usage=reported))
    call.estimate_usage()
    call.estimate_usage()
    assert (call.usage, call.is_estimated) == (used, "estimated" in used)


def test_an_answer_that_was_cut_off_counts_what_is_more_of_the_report_and_the_estimate():
    for output, expected in ((1, 1112), (5_000, 5_000)):
        call = BackendCall("b", ORDER)
        call.see(ToolCallPiece(id="c", name="f", input={"text": TEXT}))
        call.report({"input_tokens": 9, "output_tokens": output}, "m")
        call.estimate_usage()
        assert call.usage is not None
        assert call.usage["input_tokens"] == 9
        assert call.usage["output_tokens"] >= expected


def test_a_backend_that_failed_before_it_answered_has_used_nothing():
    call = BackendCall("b", ORDER, has_failed=True)
    call.estimate_usage()
    assert (call.usage, call.is_estimated) == (None, False)
