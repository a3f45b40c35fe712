"""What is read of an answer that is passed on: its id, why it ended, the model and the usage, whatever else it has."""

from typing import Any

import msgspec
import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import RelayedApi
from accord.apis.failure import FAILED_ENDS, Failure
from accord.apis.messages.codec import MessagesCodec
from accord.apis.relayed import MAX_ID_CHARS, MAX_REASON_CHARS, AnswerSummary
from accord.apis.responses.codec import ResponsesCodec
from accord.apis.responses.relayed import ResponsesEvent

CHAT, RESPONSES, MESSAGES = ChatCodec(), ResponsesCodec(), MessagesCodec()
COUNTS = {"input_tokens": 3, "output_tokens": 4}
CHAT_USAGE = {"prompt_tokens": 3, "completion_tokens": 4}


def watched(api: RelayedApi, events: list[dict[str, Any]], mark: bytes | None = None) -> AnswerSummary:
    watcher = api.watcher()
    for event in events:
        watcher.note_event(msgspec.convert(event, watcher.event_type))
        watcher.has_begun = True
    assert mark is None or watcher.is_end_mark(mark)
    return watcher.summary


def answered(api: RelayedApi, answer: dict[str, Any]) -> AnswerSummary:
    watcher = api.watcher()
    watcher.note_answer(msgspec.convert(answer, watcher.answer_type))
    return watcher.summary


def response(**members: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m", "output": [], **members}


def message(**members: Any) -> dict[str, Any]:
    return {"id": "m1", "model": "m", "content": [], **members}


def choice(reason: str | None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "finish_reason": reason, "delta": {}}


@pytest.mark.parametrize(
    ("api", "events", "reasons", "is_complete"),
    [
        (CHAT, [{"id": "c1", "model": "m", "choices": [choice(None)]}], (), False),
        (CHAT, [{"id": "c1", "model": "m", "choices": [choice("stop")], "usage": CHAT_USAGE}], ("stop",), True),
        (
            CHAT,
            [{"id": "c1", "model": "m", "choices": [choice(None), choice("stop", 1)], "usage": CHAT_USAGE}],
            ("stop",),
            False,
        ),
        (RESPONSES, [{"type": "response.created", "response": response(status="in_progress")}], (), False),
        (
            RESPONSES,
            [
                {"type": "response.created", "response": response(status="in_progress")},
                {"type": "response.completed", "response": response(status="completed", usage=COUNTS)},
            ],
            ("completed",),
            True,
        ),
        (
            RESPONSES,
            [
                {"type": "response.created", "response": response(status="in_progress")},
                {"type": "response.output_text.delta", "delta": '{"type": "response.completed"}'},
                {"type": "response.completed", "response": response(status="in_progress")},
                {"type": "response.completed"},
            ],
            (),
            False,
        ),
        (
            RESPONSES,
            [
                {
                    "type": "response.incomplete",
                    "response": response(status="incomplete", incomplete_details={"reason": "new"}),
                }
            ],
            ("new",),
            True,
        ),
        (
            MESSAGES,
            [
                {"type": "message_start", "message": message(usage={"input_tokens": 3, "output_tokens": 1})},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
            ],
            ("end_turn",),
            False,
        ),
        (MESSAGES, [{"type": "message_start", "message": message()}, {"type": "message_stop"}], (), True),
    ],
)
def test_each_stream_tells_its_end(api: RelayedApi, events: list[dict[str, Any]], reasons: Any, is_complete: bool):
    summary = watched(api, events)
    assert (summary.model, summary.finish_reasons, summary.is_complete) == ("m", reasons, is_complete)
    assert summary.usage in ({}, COUNTS)


@pytest.mark.parametrize(
    ("api", "answer", "reasons"),
    [
        (
            CHAT,
            {
                "id": "c1",
                "choices": [
                    {"message": {"content": ""}, "finish_reason": "stop"},
                    {"message": {"content": ""}, "finish_reason": "length"},
                ],
                "usage": CHAT_USAGE,
            },
            ("stop", "length"),
        ),
        (RESPONSES, response(id="c1", status="completed", usage=COUNTS), ("completed",)),
        (RESPONSES, response(id="c1", status="incomplete", incomplete_details={}, usage=COUNTS), ("incomplete",)),
        (MESSAGES, message(id="c1", stop_reason="end_turn", usage=COUNTS), ("end_turn",)),
    ],
)
def test_each_answer_gives_its_id_its_usage_and_why_it_ended(api: RelayedApi, answer: dict[str, Any], reasons: Any):
    summary = answered(api, answer)
    assert (summary.id, summary.finish_reasons, summary.usage) == ("c1", reasons, COUNTS)


def test_an_answer_without_a_reason_for_its_end_says_so():
    for events, reasons in (([choice(None)], ("null",)), ([choice("stop"), choice(None, 1)], ("stop", "null"))):
        summary = watched(CHAT, [{"id": "c1", "model": "m", "choices": [each]} for each in events], b"[DONE]")
        assert (summary.finish_reasons, summary.is_complete) == (reasons, True)
    whole = {"choices": [{"message": {"content": "Hello"}, "finish_reason": None}]}
    assert answered(CHAT, whole).finish_reasons == ("null",)
    assert watched(CHAT, [], b"[DONE]").finish_reasons == ()


def test_a_message_that_never_began_has_no_end():
    assert not watched(MESSAGES, [{"type": "message_stop"}]).is_complete


def test_names_are_cut_and_other_kinds_of_values_are_nothing():
    long = answered(RESPONSES, response(id="x" * 1_000, status="y" * 1_000))
    assert (long.id, long.finish_reasons) == ("x" * MAX_ID_CHARS, ("y" * MAX_REASON_CHARS,))
    odd = watched(CHAT, [{"id": 7, "choices": [choice(None)], "usage": {"prompt_tokens": True}}])
    assert (odd.id, odd.usage) == (None, {})


@pytest.mark.parametrize(
    ("event", "is_error"),
    [
        ({"type": "response.completed", "response": response(status="completed")}, False),
        ({"type": "response.completed", "response": response(status="failed")}, True),
        ({"type": "response.completed", "response": response(status="completed", error={"code": "x"})}, True),
        ({"type": "response.failed"}, True),
        ({"type": "response.cancelled", "response": response(status="cancelled")}, True),
        ({"type": "response.output_text.delta", "delta": "response.failed"}, False),
        ({"type": "error", "message": "m"}, True),
    ],
)
def test_each_event_of_a_response_that_says_that_it_failed_is_an_error(event: dict[str, Any], is_error: bool):
    assert RESPONSES.watcher().is_error(msgspec.convert(event, ResponsesEvent)) is is_error


@pytest.mark.parametrize("reason", FAILED_ENDS)
def test_a_message_that_ends_with_an_error_is_a_failure(reason: str):
    ends = [{"type": "message_delta", "delta": {"stop_reason": each}} for each in (reason, "end_turn")]
    for summary in (answered(MESSAGES, message(stop_reason=reason)), watched(MESSAGES, ends)):
        assert summary.failure is not None
        assert summary.failure.failure is FAILED_ENDS[reason]
    assert watched(MESSAGES, ends[1:]).failure is None


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_whole_response_that_failed_is_a_failure_without_an_error_too(status: str):
    assert answered(RESPONSES, response(status=status)).failure is not None
    assert answered(RESPONSES, response(status="queued")).failure is None


def test_the_code_of_a_failed_response_says_what_went_wrong():
    event = {"type": "response.failed", "response": response(error={"code": "rate_limit_exceeded", "message": "m"})}
    report = RESPONSES.read_error(200, msgspec.json.encode(event))
    assert (report.failure, report.message) == (Failure.RATE_LIMITED, "m")
