"""Every way in which an answer can end: what the APIs' types name, what servers are known to send, and what nobody does."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args

from anthropic.types.beta.beta_stop_reason import BetaStopReason
from openai.types import responses
from openai.types.chat.chat_completion import Choice
from openai.types.responses.response import IncompleteDetails

from accord.wire.disposition import Api
from tests.servers.model_apis.answer_parts import base_answer, placed
from tests.servers.model_apis.answer_samples import variants_of
from tests.servers.model_apis.answer_streams import EVENTS, Event, numbered, without


class End(Enum):
    """What an end means, and so what a client of any API may be told."""

    NORMAL = "normal"
    CALL = "a call of a tool"
    CUT = "cut off"
    FILTERED = "filtered"
    FAILED = "failed"
    UNKNOWN = "any but a normal one"


@dataclass(frozen=True, slots=True)
class EndedAnswer:
    """A whole answer with text that ends like this, and its stream."""

    source: Api
    reason: str
    end: End
    answer: Event

    @property
    def events(self) -> list[Event]:
        return [*EVENTS[self.source](self.answer)]


CHAT: Final = {
    "stop": End.NORMAL,
    "length": End.CUT,
    "content_filter": End.FILTERED,
    "tool_calls": End.CALL,
    "function_call": End.CALL,
    # Mistral
    "model_length": End.CUT,
    "error": End.FAILED,
    # DeepSeek
    "insufficient_system_resource": End.FAILED,
    # vLLM and SGLang
    "abort": End.FAILED,
    # Others: what they mean can be argued, but that they are normal cannot.
    "max_tokens": End.UNKNOWN,
    "pause_turn": End.UNKNOWN,
    "compaction": End.UNKNOWN,
    "cancelled": End.UNKNOWN,
    "repetition": End.UNKNOWN,
    "recitation": End.UNKNOWN,
    "safety": End.UNKNOWN,
    "time_limit": End.UNKNOWN,
    "zq_end": End.UNKNOWN,
}
STATUSES: Final = {
    "completed": End.NORMAL,
    "failed": End.FAILED,
    "cancelled": End.FAILED,
    "in_progress": End.UNKNOWN,
    "queued": End.UNKNOWN,
    "zq_status": End.UNKNOWN,
}
INCOMPLETE: Final = {
    "max_output_tokens": End.CUT,
    "content_filter": End.FILTERED,
    "max_messages": End.UNKNOWN,
    "steered": End.UNKNOWN,
    "zq_reason": End.UNKNOWN,
    None: End.UNKNOWN,
}
MESSAGES: Final = {
    "end_turn": End.NORMAL,
    "stop_sequence": End.NORMAL,
    "tool_use": End.CALL,
    "max_tokens": End.CUT,
    "model_context_window_exceeded": End.CUT,
    "refusal": End.FILTERED,
    "pause_turn": End.UNKNOWN,
    "compaction": End.UNKNOWN,
    # DeepSeek, SGLang and others
    **dict.fromkeys("error failed abort insufficient_system_resource".split(), End.FAILED),
    "zq_end": End.UNKNOWN,
}
GEMINI: Final = {
    "STOP": End.NORMAL,
    "MAX_TOKENS": End.CUT,
    **dict.fromkeys(
        """SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION
        MODEL_ARMOR""".split(),
        End.FILTERED,
    ),
    **dict.fromkeys(
        """LANGUAGE OTHER MALFORMED_FUNCTION_CALL IMAGE_OTHER NO_IMAGE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS
        MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE ESCALATION PUP_LIMITED_DISABLED CONTINUATION ZQ_END""".split(),
        End.UNKNOWN,
    ),
}


def all_ends() -> Iterator[EndedAnswer]:
    """Every end of every API."""
    yield from _chat_ends()
    yield from _responses_ends()
    yield from _messages_ends()
    for reason, end in GEMINI.items():
        yield EndedAnswer(
            Api.GEMINI, reason, end, placed(base_answer(Api.GEMINI), "candidates[]", "finishReason", reason)
        )


def _chat_ends() -> Iterator[EndedAnswer]:
    base, function = base_answer(Api.CHAT), {"name": "look_up", "arguments": '{"a":"b"}'}
    more = {
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        "function_call": function,
    }
    for reason in {**CHAT, **dict.fromkeys(_literals(Choice.model_fields["finish_reason"].annotation), None)}:
        answer = placed(base, "choices[]", "finish_reason", reason)
        if reason in more:
            answer = placed(answer, "choices[].message", reason, more[reason])
        yield EndedAnswer(Api.CHAT, reason, CHAT[reason], answer)


def _responses_ends() -> Iterator[EndedAnswer]:
    base = base_answer(Api.RESPONSES)
    named = _literals(responses.Response.model_fields["status"].annotation)
    for status in {**STATUSES, **dict.fromkeys(named, None)}:
        if status != "incomplete":
            error = {"code": "server_error", "message": "zq"} if status == "failed" else None
            yield EndedAnswer(Api.RESPONSES, status, STATUSES[status], {**base, "status": status, "error": error})
    named = _literals(IncompleteDetails.model_fields["reason"].annotation)
    for reason in {**INCOMPLETE, **dict.fromkeys(named, None)}:
        details = {"reason": reason} if reason else None
        answer = {**base, "status": "incomplete", "incomplete_details": details}
        yield EndedAnswer(Api.RESPONSES, f"incomplete: {reason}", INCOMPLETE[reason], answer)


def _messages_ends() -> Iterator[EndedAnswer]:
    base = base_answer(Api.MESSAGES)
    for reason in {**MESSAGES, **dict.fromkeys(_literals(BetaStopReason), None)}:
        answer = {**base, "stop_reason": reason, "stop_sequence": "END" if reason == "stop_sequence" else None}
        if reason == "tool_use":
            call = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"a": "b"}}
            answer["content"] = [*base["content"], call]
        yield EndedAnswer(Api.MESSAGES, reason, MESSAGES[reason], answer)


def _literals(annotation: Any) -> list[str]:
    return [value for variant in variants_of(annotation) for value in get_args(variant)]


def errors_in_streams() -> Iterator[tuple[Api, str, list[Event]]]:
    """Streams in which an error comes in the place of the end."""
    for api in (Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.GEMINI):
        events = [*EVENTS[api](base_answer(api))]
        if api is Api.GEMINI:
            events = [without(events[0], "usageMetadata")]
            events[0] = placed(events[0], "candidates[]", "finishReason", None)
            error: Event = {"error": {"code": 503, "message": "zq", "status": "UNAVAILABLE"}}
        elif api is Api.RESPONSES:
            events = events[:-1]
            response = {**base_answer(api), "status": "failed", "error": {"code": "server_error", "message": "zq"}}
            yield api, "response.failed", numbered([*events, {"type": "response.failed", "response": response}])
            error = {"type": "error", "code": "server_error", "message": "zq", "param": None}
        elif api is Api.MESSAGES:
            events = events[:-2]
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "zq"}}
        else:
            events = events[:-2]
            error = {"error": {"message": "zq", "type": "server_error", "code": 503}}
        yield api, "error", [*events, error]
