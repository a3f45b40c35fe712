"""Answers of the responses API, whole and streamed, in the shapes that the SDK has for them."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from accord.core.sse import EventDecoder
from accord.errors import AccordError, BackendError, ErrorCode, RefusedError
from accord.servers.openai.responses_answer import ResponsesTranslation
from accord.servers.translation import AnswerLabels
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece

API = ResponsesTranslation()
ID = "0123456789abcdef" * 2
LABELS = AnswerLabels(ID, 1_700_000_000, "m-1", {"served_by": "b"})
BODY: dict[str, Any] = {
    "model": "auto",
    "input": "hi",
    "instructions": "be brief",
    "metadata": {"a": "b"},
    "store": False,
    "text": {"verbosity": "low"},
    "tools": [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "patch"},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f"}]},
    ],
}
USAGE = {"input_tokens": 9, "output_tokens": 12, "cached_input_tokens": 4, "reasoning_tokens": 3, "cache_write_tokens": 2}  # fmt: skip
PIECES: list[AnyPiece] = [
    ThinkingPiece(text="h"),
    ThinkingPiece(text="m"),
    ThinkingPiece(text="", signature="seal"),
    WorkPiece(event={"type": "tool"}),
    TextPiece(text="Hel"),
    TextPiece(text="lo"),
    ToolCallPiece(id="1", name="look", input={"at": "a"}),
    ToolCallPiece(id="2", name="patch", input={"input": "***"}),
    ToolCallPiece(id="3", name="n__f", input={}, signature="seal"),
    EndPiece(reason="tool_use", usage=USAGE),
]


def whole(*pieces: AnyPiece, body: dict[str, Any] = BODY) -> dict[str, Any]:
    return json.loads(json.dumps(API.whole(API.parse(body), LABELS, [pieces])))


def stream(*pieces: AnyPiece, body: dict[str, Any] = BODY) -> list[dict[str, Any]]:
    writer = API.stream(API.parse(body), LABELS)
    return events(writer.start() + b"".join(map(writer.write, pieces)) + writer.finish())


def events(data: bytes) -> list[dict[str, Any]]:
    received = list(EventDecoder().feed(data))
    decoded = [json.loads(event.data) for event in received]
    assert [event.name for event in received] == [event["type"] for event in decoded]
    return decoded


REASONING: dict[str, Any] = {
    "id": f"rs_{ID}0",
    "type": "reasoning",
    "status": "completed",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "seal",
}
TEXT: dict[str, Any] = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
MESSAGE: dict[str, Any] = {"id": f"msg_{ID}1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}  # fmt: skip
CALL = {"id": f"fc_{ID}2", "type": "function_call", "call_id": "1", "name": "look", "status": "completed", "arguments": '{"at":"a"}'}  # fmt: skip
CUSTOM = {"id": f"ctc_{ID}3", "type": "custom_tool_call", "call_id": "2", "name": "patch", "status": "completed", "input": "***"}  # fmt: skip
NAMED: dict[str, Any] = {
    "id": f"fc_{ID}4",
    "type": "function_call",
    "call_id": "3",
    "name": "f",
    "namespace": "n",
    "extra_content": {"google": {"thought_signature": "seal"}},
    "status": "completed",
    "arguments": "{}",
}
RESPONSE: dict[str, Any] = {
    "id": f"resp_{ID}",
    "object": "response",
    "created_at": 1_700_000_000,
    "model": "m-1",
    "background": False,
    "instructions": "be brief",
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {"a": "b"},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "tool_choice": "auto",
    "tools": BODY["tools"],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
    "service_tier": "default",
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "output": [REASONING, MESSAGE, CALL, CUSTOM, NAMED],
    "usage": {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 12,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 21,
    },
}


def test_a_whole_answer_is_a_complete_response():
    assert whole(*PIECES) == {**RESPONSE, "accord": {"served_by": "b"}}


def test_a_stream_has_every_event_of_the_api_in_order():
    received = stream(*PIECES)
    started: dict[str, Any] = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    thought = {"item_id": f"rs_{ID}0", "output_index": 0, "summary_index": 0}
    said = {"item_id": f"msg_{ID}1", "output_index": 1, "content_index": 0}
    called, patched, named = ({"item_id": item["id"], "output_index": place} for place, item in ((2, CALL), (3, CUSTOM), (4, NAMED)))  # fmt: skip
    expected: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": started, "accord": {"served_by": "b"}}),
        ("response.in_progress", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": {"id": f"rs_{ID}0", "type": "reasoning", "status": "in_progress", "summary": []}}),
        ("response.reasoning_summary_part.added", {**thought, "part": {"type": "summary_text", "text": ""}}),
        ("response.reasoning_summary_text.delta", {**thought, "delta": "h"}),
        ("response.reasoning_summary_text.delta", {**thought, "delta": "m"}),
        ("response.reasoning_summary_text.done", {**thought, "text": "hm"}),
        ("response.reasoning_summary_part.done", {**thought, "part": {"type": "summary_text", "text": "hm"}}),
        ("response.output_item.done", {"output_index": 0, "item": REASONING}),
        ("response.output_item.added", {"output_index": 1, "item": {**MESSAGE, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**said, "part": {**TEXT, "text": ""}}),
        ("response.output_text.delta", {**said, "delta": "Hel", "logprobs": []}),
        ("response.output_text.delta", {**said, "delta": "lo", "logprobs": []}),
        ("response.output_text.done", {**said, "text": "Hello", "logprobs": []}),
        ("response.content_part.done", {**said, "part": TEXT}),
        ("response.output_item.done", {"output_index": 1, "item": MESSAGE}),
        ("response.output_item.added", {"output_index": 2, "item": {**CALL, "status": "in_progress", "arguments": ""}}),
        ("response.function_call_arguments.delta", {**called, "delta": '{"at":"a"}'}),
        ("response.function_call_arguments.done", {**called, "arguments": '{"at":"a"}'}),
        ("response.output_item.done", {"output_index": 2, "item": CALL}),
        ("response.output_item.added", {"output_index": 3, "item": {**CUSTOM, "status": "in_progress", "input": ""}}),
        ("response.custom_tool_call_input.delta", {**patched, "delta": "***"}),
        ("response.custom_tool_call_input.done", {**patched, "input": "***"}),
        ("response.output_item.done", {"output_index": 3, "item": CUSTOM}),
        ("response.output_item.added", {"output_index": 4, "item": {**NAMED, "status": "in_progress", "arguments": ""}}),
        ("response.function_call_arguments.delta", {**named, "delta": "{}"}),
        ("response.function_call_arguments.done", {**named, "arguments": "{}"}),
        ("response.output_item.done", {"output_index": 4, "item": NAMED}),
        ("response.completed", {"response": RESPONSE}),
    ]  # fmt: skip
    assert received == [{"type": kind, "sequence_number": number, **members} for number, (kind, members) in enumerate(expected)]  # fmt: skip


def test_the_writer_of_a_stream_has_the_response_to_store():
    writer = API.stream(API.parse(BODY), LABELS)
    writer.start()
    assert writer.response()["status"] == "in_progress"
    for piece in PIECES:
        writer.write(piece)
    assert json.loads(json.dumps(writer.response())) == RESPONSE


HELLO = TextPiece(text="Hello")


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("end_turn", "completed", None),
        ("stop_sequence", "completed", None),
        ("tool_use", "completed", None),
        ("max_tokens", "incomplete", {"reason": "max_output_tokens"}),
        ("refusal", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_each_end_has_its_status(reason: Any, status: str, details: Any):
    *_, done, last = stream(HELLO, EndPiece(reason=reason))
    assert (last["type"], last["response"]["status"]) == (f"response.{status}", status)
    assert last["response"]["incomplete_details"] == details
    assert done["item"]["status"] == status
    if reason != "refusal":
        body = whole(HELLO, EndPiece(reason=reason))
        assert (body["status"], body["incomplete_details"]) == (status, details)


def test_a_whole_refusal_is_in_place_of_the_text():
    refused = EndPiece(reason="refusal")
    body = whole(TextPiece(text="No."), refused)
    assert (body["status"], body["output"][0]["content"]) == ("completed", [{"type": "refusal", "refusal": "No."}])
    body = whole(refused)
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})


def test_redacted_reasoning_is_an_item_of_its_own():
    redacted = ThinkingPiece(text="", signature="seal", redacted=True)
    body = whole(ThinkingPiece(text="hm"), redacted, EndPiece())
    held = [(item["summary"], item["encrypted_content"]) for item in body["output"]]
    assert held == [([{"type": "summary_text", "text": "hm"}], None), ([], "seal")]


def test_log_probabilities_are_at_the_end_of_the_text():
    logprobs: list[dict[str, Any]] = [{"token": "é", "logprob": -0.5, "top": [{"token": "e", "logprob": -1.0}]}]
    end = EndPiece(logprobs=logprobs)
    top = {"token": "e", "bytes": [101], "logprob": -1.0}
    written = [{"token": "é", "bytes": [195, 169], "logprob": -0.5, "top_logprobs": [top]}]
    assert whole(TextPiece(text="é"), end)["output"][0]["content"][0]["logprobs"] == written
    received = {event["type"]: event for event in stream(TextPiece(text="é"), end)}
    assert received["response.output_text.done"]["logprobs"] == written
    assert received["response.completed"]["response"]["output"][0]["content"][0]["logprobs"] == written


@pytest.mark.parametrize(
    ("value", "text"), [({"input": "a"}, "a"), ("a", "a"), ({"patch": "a"}, '{"patch":"a"}'), ({"input": 1}, '{"input":1}')]
)  # fmt: skip
def test_the_input_of_a_custom_tool_is_text_whatever_the_model_wrote(value: Any, text: str):
    (item,) = whole(ToolCallPiece(id="1", name="patch", input=value), EndPiece(reason="tool_use"))["output"]
    assert item["input"] == text


ERRORS: list[tuple[AccordError, str, str | None]] = [
    (BackendError("it failed"), "server_error", "backend_failed"),
    (BackendError("slow down", code=ErrorCode.RATE_LIMIT_EXCEEDED), "rate_limit_exceeded", "rate_limit_exceeded"),
    (RefusedError("no", ErrorCode.INVALID_MESSAGE, {"field": "input"}), "invalid_prompt", "invalid_value"),
]


@pytest.mark.parametrize(("error", "code", "own_code"), ERRORS)
def test_a_stream_that_fails_ends_with_a_failed_response_and_an_error(error: AccordError, code: str, own_code: str):
    writer = API.stream(API.parse(BODY), LABELS)
    begun = events(writer.start() + writer.write(HELLO))
    for first, own_id, data in ((len(begun), ID, writer.fail(error, "r")), (0, "ab", API.error_event(error, "a-b"))):
        failed, reported = events(data)
        assert failed["response"]["id"] == f"resp_{own_id}"
        assert (failed["type"], failed["sequence_number"]) == ("response.failed", first)
        assert failed["response"]["error"] == {"code": code, "message": error.message}
        assert failed["response"]["status"] == "failed"
        assert (reported["type"], reported["sequence_number"]) == ("error", first + 1)
        assert reported["error"] == API.error_body(error, "r")["error"]
        assert (reported["code"], reported["message"]) == (own_code, error.message)
        assert reported["param"] == error.details.get("field")


def test_the_sdk_reads_every_response_and_event():
    sdk = pytest.importorskip("openai.types.responses")
    read_response = TypeAdapter(sdk.Response).validate_python
    read_event = TypeAdapter(sdk.ResponseStreamEvent).validate_python
    logprobs = [{"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]}]
    bodies: list[dict[str, Any]] = [
        BODY,
        {"model": "m", "input": "hi"},
        {
            **BODY,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_object"}},
            "tool_choice": {"type": "function", "name": "look"},
        },
    ]
    for body in bodies:
        for ending in (PIECES, [HELLO, EndPiece(reason="max_tokens", logprobs=logprobs)], [HELLO, EndPiece(reason="refusal")]):  # fmt: skip
            answer = read_response(whole(*ending, body=body))
            assert answer.id == f"resp_{ID}"
            for event in stream(*ending, body=body):
                read = read_event(event)
                assert (read.type, read.sequence_number) == (event["type"], event["sequence_number"])
                assert type(read).__name__ in EVENT_CLASSES[event["type"]]
    for error, _, _ in ERRORS:
        for event in events(API.error_event(error, "r")):
            assert read_event(event).type == event["type"]


EVENT_CLASSES = {
    "response.created": "ResponseCreatedEvent",
    "response.in_progress": "ResponseInProgressEvent",
    "response.output_item.added": "ResponseOutputItemAddedEvent",
    "response.output_item.done": "ResponseOutputItemDoneEvent",
    "response.content_part.added": "ResponseContentPartAddedEvent",
    "response.content_part.done": "ResponseContentPartDoneEvent",
    "response.output_text.delta": "ResponseTextDeltaEvent",
    "response.output_text.done": "ResponseTextDoneEvent",
    "response.reasoning_summary_part.added": "ResponseReasoningSummaryPartAddedEvent",
    "response.reasoning_summary_part.done": "ResponseReasoningSummaryPartDoneEvent",
    "response.reasoning_summary_text.delta": "ResponseReasoningSummaryTextDeltaEvent",
    "response.reasoning_summary_text.done": "ResponseReasoningSummaryTextDoneEvent",
    "response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaEvent",
    "response.function_call_arguments.done": "ResponseFunctionCallArgumentsDoneEvent",
    "response.custom_tool_call_input.delta": "ResponseCustomToolCallInputDeltaEvent",
    "response.custom_tool_call_input.done": "ResponseCustomToolCallInputDoneEvent",
    "response.completed": "ResponseCompletedEvent",
    "response.incomplete": "ResponseIncompleteEvent",
}
