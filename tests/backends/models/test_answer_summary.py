"""What is read of an answer that is passed on: its id, why it ended, the model and the usage, whatever else it has."""

import json
from typing import Any

import pytest

from accord.backends.relay import MAX_ID_CHARS, MAX_REASON_CHARS, AnswerSummary

USAGE = {"prompt_tokens": 3, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("events", "id_", "reasons"),
    [
        ([{"id": "c1", "choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}], "c1", ("stop", "length")),
        ([{"id": "c1", "choices": [{"finish_reason": None}]}], "c1", ()),
        ([{"id": "r1", "status": "completed"}], "r1", ("completed",)),
        (
            [
                {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
                {"type": "response.completed", "response": {"id": "r1", "status": "completed"}},
            ],
            "r1",
            ("completed",),
        ),
        (
            [
                {"type": "message_start", "message": {"id": "m1", "stop_reason": None}},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            ],
            "m1",
            ("end_turn",),
        ),
        ([{"id": 7, "choices": [{"finish_reason": 7}]}], None, ()),
        ([{"id": None, "status": {"of": "another kind"}, "delta": "text"}], None, ()),
        ([{"id": "x" * 1_000, "status": "y" * 1_000}], "x" * MAX_ID_CHARS, ("y" * MAX_REASON_CHARS,)),
    ],
    ids=["chat", "not ended", "response", "response events", "message events", "numbers", "other kinds", "too long"],
)
def test_each_answer_gives_its_id_and_why_it_ended(events: list[dict[str, Any]], id_: str | None, reasons: Any):
    summary = AnswerSummary()
    for event in events:
        summary.read(json.dumps(event | {"usage": USAGE}).encode())
    assert (summary.id, summary.finish_reasons) == (id_, reasons)
    assert summary.usage == {"input_tokens": 3, "output_tokens": 4}
