"""Answers and errors of the Messages API: exact bodies and events."""

import json
from typing import Any

import pytest

from accord.apis.codec import AnswerLabels, ReportedError, ServedApi
from accord.apis.messages.codec import MessagesCodec
from accord.apis.messages.read_answer import BY_KIND
from accord.apis.messages.write_answer import MAX_DETAILS_BYTES, usage_counts
from accord.core.sse import EventDecoder
from accord.errors import ERROR_FACTS, AccordError, BackendError, ErrorCode, RefusedError
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from tests.backends.models.message_streams import read

API: ServedApi = MessagesCodec()
REQUEST = API.read_request({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]})
LABELS = AnswerLabels("0" * 32, 5, "claude-test", {"backend": "b"})
MESSAGE = {"id": f"msg_{'0' * 32}", "type": "message", "role": "assistant", "model": "claude-test"}
USAGE = {"input_tokens": 9, "output_tokens": 4}


def whole(*pieces: AnyPiece) -> dict[str, Any]:
    return API.write_answer(REQUEST, LABELS, [pieces])


def streamed(*pieces: AnyPiece) -> bytes:
    writer = API.answer_writer(REQUEST, LABELS)
    return writer.start() + b"".join(map(writer.write, pieces)) + writer.finish()


def events(data: bytes) -> list[dict[str, Any]]:
    """The data of each event, whose name is the type in its data."""
    found = [(event.name, json.loads(event.data)) for event in EventDecoder().feed(data)]
    assert all(name == event["type"] for name, event in found)
    return [event for _, event in found]


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **added: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": added}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


THOUGHT: list[AnyPiece] = [ThinkingPiece(text="H"), ThinkingPiece(text="m.", signature="seal")]
WORDS: list[AnyPiece] = [TextPiece(text="So"), TextPiece(text=" be it.")]
CALLS: list[AnyPiece] = [
    ToolCallPiece(id="c1", name="look_up", input={"q": "ß"}),
    ToolCallPiece(id="c2", name="look_up", input={}, signature="s"),
]
WORK = WorkPiece(event={"type": "tool_call"})

ANSWERS: list[tuple[str, list[AnyPiece], list[dict[str, Any]], list[dict[str, Any]]]] = [
    ("nothing", [], [], []),
    ("nothing in pieces", [TextPiece(text=""), WORK], [], []),
    (
        "text",
        [WORDS[0], WORK, WORDS[1]],
        [{"type": "text", "text": "So be it."}],
        [
            start(0, type="text", text=""),
            delta(0, type="text_delta", text="So"),
            delta(0, type="text_delta", text=" be it."),
            stop(0),
        ],
    ),
    (
        "thinking, then text",
        [*THOUGHT, WORDS[0]],
        [{"type": "thinking", "thinking": "Hm.", "signature": "seal"}, {"type": "text", "text": "So"}],
        [
            start(0, type="thinking", thinking="", signature=""),
            delta(0, type="thinking_delta", thinking="H"),
            delta(0, type="thinking_delta", thinking="m."),
            delta(0, type="signature_delta", signature="seal"),
            stop(0),
            start(1, type="text", text=""),
            delta(1, type="text_delta", text="So"),
            stop(1),
        ],
    ),
    (
        "thinking without a signature",
        [THOUGHT[0], WORDS[0]],
        [{"type": "thinking", "thinking": "H", "signature": ""}, {"type": "text", "text": "So"}],
        [
            start(0, type="thinking", thinking="", signature=""),
            delta(0, type="thinking_delta", thinking="H"),
            stop(0),
            start(1, type="text", text=""),
            delta(1, type="text_delta", text="So"),
            stop(1),
        ],
    ),
    (
        "a signature alone, and redacted reasoning",
        [ThinkingPiece(text="", signature="seal"), ThinkingPiece(text="", signature="x", redacted=True)],
        [{"type": "thinking", "thinking": "", "signature": "seal"}, {"type": "redacted_thinking", "data": "x"}],
        [
            start(0, type="thinking", thinking="", signature=""),
            delta(0, type="signature_delta", signature="seal"),
            stop(0),
            start(1, type="redacted_thinking", data="x"),
            stop(1),
        ],
    ),
    (
        "text, parallel calls, text",
        [WORDS[0], *CALLS, WORDS[1]],
        [
            {"type": "text", "text": "So"},
            {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": "ß"}},
            {"type": "tool_use", "id": "c2", "name": "look_up", "input": {}, "signature": "s"},
            {"type": "text", "text": " be it."},
        ],
        [
            start(0, type="text", text=""),
            delta(0, type="text_delta", text="So"),
            stop(0),
            start(1, type="tool_use", id="c1", name="look_up", input={}),
            delta(1, type="input_json_delta", partial_json='{"q":"ß"}'),
            stop(1),
            start(2, type="tool_use", id="c2", name="look_up", input={}, signature="s"),
            delta(2, type="input_json_delta", partial_json="{}"),
            stop(2),
            start(3, type="text", text=""),
            delta(3, type="text_delta", text=" be it."),
            stop(3),
        ],
    ),
]


@pytest.mark.parametrize(
    ("pieces", "content", "blocks"), [case[1:] for case in ANSWERS], ids=[case[0] for case in ANSWERS]
)
def test_each_answer_has_its_body_and_its_events(
    pieces: list[AnyPiece], content: list[dict[str, Any]], blocks: list[dict[str, Any]]
):
    end = EndPiece(reason="stop_sequence", stop_sequence="END", usage=USAGE)
    ended = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert whole(*pieces, end) == {**MESSAGE, "content": content, **ended, "usage": USAGE, "accord": {"backend": "b"}}
    begun: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert events(streamed(*pieces, end)) == [
        {"type": "message_start", "message": {**MESSAGE, **begun}, "accord": {"backend": "b"}},
        *blocks,
        {"type": "message_delta", "delta": ended, "usage": USAGE},
        {"type": "message_stop"},
    ]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, {"input_tokens": 0, "output_tokens": 0}),
        ({"output_tokens": 4, "context_tokens": 5, "cost": {}}, {"input_tokens": 0, "output_tokens": 4}),
        (
            {"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 5, "cache_write_tokens": 1, "reasoning_tokens": 2},
            {
                "input_tokens": 3,
                "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 5,
                "output_tokens": 4,
                "output_tokens_details": {"thinking_tokens": 2},
            },
        ),
        (
            {"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 10},
            {"input_tokens": 0, "cache_read_input_tokens": 10, "output_tokens": 4},
        ),
    ],
)  # fmt: skip
def test_cached_input_is_counted_separately(usage: dict[str, Any] | None, counts: dict[str, Any]):
    assert usage_counts(EndPiece(usage=usage)) == counts


def test_an_answer_without_its_end_is_not_an_answer():
    with pytest.raises(TypeError, match="the last piece"):
        whole(TextPiece(text="a"))


KINDS: dict[ErrorCode, str] = {
    ErrorCode.PARSE_ERROR: "invalid_request_error",
    ErrorCode.INVALID_MESSAGE: "invalid_request_error",
    ErrorCode.UNAUTHENTICATED: "authentication_error",
    ErrorCode.FORBIDDEN: "permission_error",
    ErrorCode.QUOTA_EXCEEDED: "permission_error",
    ErrorCode.NOT_FOUND: "not_found_error",
    ErrorCode.METHOD_NOT_FOUND: "invalid_request_error",
    ErrorCode.NOT_ACCEPTABLE: "invalid_request_error",
    ErrorCode.REQUEST_TIMED_OUT: "timeout_error",
    ErrorCode.REQUEST_CONFLICT: "conflict_error",
    ErrorCode.TOO_LARGE: "request_too_large",
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: "invalid_request_error",
    ErrorCode.CONTENT_INVALID: "invalid_request_error",
    ErrorCode.CONTENT_UNSUPPORTED: "invalid_request_error",
    ErrorCode.CAPABILITY_UNSUPPORTED: "invalid_request_error",
    ErrorCode.FIDELITY_UNAVAILABLE: "invalid_request_error",
    ErrorCode.RATE_LIMIT_EXCEEDED: "rate_limit_error",
    ErrorCode.CANCELLED: "invalid_request_error",
    ErrorCode.INTERNAL: "api_error",
    ErrorCode.AGENT_FAILED: "api_error",
    ErrorCode.BACKEND_FAILED: "api_error",
    ErrorCode.EMULATION_FAILED: "api_error",
    ErrorCode.UNAVAILABLE: "overloaded_error",
    ErrorCode.TIMED_OUT: "timeout_error",
}


@pytest.mark.parametrize(("code", "kind"), KINDS.items())
def test_each_error_code_has_its_type_which_the_backends_reader_knows(code: ErrorCode, kind: str):
    error = RefusedError("No.", code, {"field": "messages"})
    written = API.write_error(error, "req_1")
    assert written == {
        "type": "error",
        "error": {"type": kind, "message": "No."},
        "request_id": "req_1",
        "accord": {"code": code, "details": {"field": "messages"}},
    }
    assert events(API.write_error_event(error, "req_1")) == [written | {"type": "error"}]
    with pytest.raises(ReportedError) as caught:
        read([API.write_error_event(error, "req_1")])
    assert caught.value.report.code == kind
    assert kind in BY_KIND


def test_every_error_code_has_a_type_that_the_api_knows():
    for code in ERROR_FACTS:
        assert API.write_error(RefusedError("No.", code, {}), "r")["error"]["type"] in BY_KIND


@pytest.mark.parametrize(
    ("error", "accord"),
    [
        (AccordError("No."), {"code": "internal_error"}),
        (BackendError("No.", details={"tried": ("a", ErrorCode.TIMED_OUT)}), {"code": "backend_failed", "details": {"tried": ["a", "timed_out"]}}),
        (BackendError("No.", details={"long": "a" * MAX_DETAILS_BYTES}), {"code": "backend_failed"}),
    ],
)  # fmt: skip
def test_the_details_of_an_error_are_included_while_they_are_small(error: AccordError, accord: dict[str, Any]):
    assert API.write_error(error, "r")["accord"] == accord


@pytest.mark.parametrize("named", [{"field": "thread"}, {"field": "container", "fields": ["container", "thread"]}])
def test_a_refused_thread_is_reported_so_that_the_sdk_sends_the_whole_conversation(named: dict[str, Any]):
    error = RefusedError("No backend keeps threads.", ErrorCode.CAPABILITY_UNSUPPORTED, named)
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert API.write_error(error, "r")["error"]["details"] == details
