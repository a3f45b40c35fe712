"""The rows of chat answers: complete by the types of OpenAI's SDK, found whole and streamed, and true of the writers."""

import json
from collections.abc import Iterator
from typing import Any, Literal, Union, cast, get_args, get_origin

import pytest
from pydantic import BaseModel

from accord.apis.answer_table import answer_records
from accord.apis.chat.answer_rows import OTHER_ANSWER, OTHER_TOTAL, ROWS
from accord.apis.chat.codec import ChatCodec
from accord.apis.chat.dialect import REASONS
from accord.apis.chat.read_answer import ChatReader, read_answer
from accord.apis.codec import AnswerLabels
from accord.apis.failure import FAILED_ENDS
from accord.core.sse import ServerEvent
from accord.wire.disposition import AnswerDisposition, Api
from accord.wire.work import AnyPiece, EndPiece

CHAT = ChatCodec()
REQUEST = CHAT.read_request({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
MESSAGE = "choices[].message"
TYPED = (f"{MESSAGE}.content[]", f"{MESSAGE}.annotations[]", f"{MESSAGE}.images[]")
STREAM_ONLY = frozenset({"obfuscation"})

TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
LOGPROBS = {"content": [TOKEN], "refusal": None}
VALUES: dict[str, Any] = {
    "created": 1_700_000_000,
    "object": "chat.completion",
    "citations[]": "https://a.test",
    "choices[].index": 0,
    "choices[].finish_reason": "stop",
    "choices[].stop_reason": "END",
    "choices[].matched_stop": "END",
    "choices[].stop_reason=token": 151_645,
    "choices[].matched_stop=token": 151_645,
    "choices[].logprobs.content": [TOKEN],
    "choices[].logprobs.refusal": [TOKEN],
    "choices[].usage": {"prompt_tokens": 3},
    "x_groq.usage": {"prompt_tokens": 3},
    f"{MESSAGE}.role": "assistant",
    f"{MESSAGE}.content[].thinking.thinking": [{"type": "text", "text": "t"}],
    f"{MESSAGE}.content[].thinking.closed": False,
    f"{MESSAGE}.content[].image_url.image_url": {"url": "data:image/png;base64,AAAA"},
    f"{MESSAGE}.tool_calls[].function.arguments": "{}",
    f"{MESSAGE}.function_call.arguments": "{}",
    f"{MESSAGE}.annotations[].url_citation.url_citation.start_index": 1,
    f"{MESSAGE}.annotations[].url_citation.url_citation.end_index": 2,
    f"{MESSAGE}.audio.expires_at": 9,
    f"{MESSAGE}.audio.data": "AAAA",
    f"{MESSAGE}.images[].image_url.image_url.url": "data:image/png;base64,AAAA",
    f"{MESSAGE}.images[].image_url.index": 0,
    f"{MESSAGE}.prefix": True,
    "usage.is_byok": True,
}
"""The values of rows where any text, or any number at a count, would not do."""
COUNTS = ("_tokens", "cost", "_time", "].index")
WITH: dict[str, dict[str, Any]] = {
    f"{MESSAGE}.tool_calls[]": {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    f"{MESSAGE}.tool_calls[].custom": {"name": "f", "input": "i"},
    f"{MESSAGE}.tool_calls[].function": {"name": "f", "arguments": "{}"},
    f"{MESSAGE}.function_call": {"name": "f", "arguments": "{}"},
    f"{MESSAGE}.thinking_blocks[]": {"type": "thinking", "thinking": "t", "signature": "s"},
    f"{MESSAGE}.annotations[].url_citation.url_citation": {"url": "https://a.test"},
    f"{MESSAGE}.images[].image_url": {"image_url": {"url": "data:image/png;base64,AAAA"}},
    f"{MESSAGE}.audio": {"id": "s", "data": "AAAA"},
    "search_results[]": {"url": "https://a.test"},
    "citations[]": {"url": "https://a.test"},
}
"""What an object has beside the part of a row."""


def nested(path: str, value: Any) -> Any:
    """An object that has this value at this path of the table; an item of a typed list gets its type."""
    at = ""
    steps: list[tuple[str, str]] = []  # each name, and the path of the object that has it
    for name in path.split("."):
        if at not in TYPED:
            steps.append((name, at))
        elif path == f"{at}.{name}":
            value = {"type": name, "more": value}
        at = f"{at}.{name}" if at else name
    for name, holder in reversed(steps):
        members: dict[str, Any] = {
            **WITH.get(holder, {}),
            name.removesuffix("[]"): [value] if name.endswith("[]") else value,
        }
        list_path, _, kind = holder.rpartition(".")
        if list_path in TYPED:
            members["type"] = kind
        value = members
    return value


def example(row: str) -> dict[str, Any]:
    """A whole answer that uses this row, and as little else as possible."""
    name, _, special = row.partition("=")
    value = VALUES.get(row, 7 if name.endswith(COUNTS) else f"a {row}")
    if special and special != "token":
        value = special
    answer: dict[str, Any] = {"citations": [value]} if row == "citations[]" else nested(name, value)
    if row == f"{MESSAGE}.thinking_blocks[].data":
        answer["choices"][0]["message"]["thinking_blocks"] = [{"type": "redacted_thinking", "data": value}]
    if ".custom." in row:
        call = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "i", row.rpartition(".")[2]: value}}
        answer["choices"][0]["message"]["tool_calls"] = [call]
    if row == "choices[].logprobs.refusal":
        answer["choices"][0]["message"] = {"refusal": "a"}
    choice: dict[str, Any] = answer["choices"][0] if "choices" in answer else {}
    message: dict[str, Any] = {"role": "assistant", "content": "so", **choice.get("message", {})}
    whole = {"index": 0, "finish_reason": "stop", **choice, "message": message}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", **answer, "choices": [whole]}


def events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """A stream that says what this whole answer says, in an event amid plain ones."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [
        {name: value for name, value in each.items() if name not in ("message", "finish_reason")}
        | {"delta": each["message"]}
        for each in answer["choices"]
    ]
    ends: dict[str, Any] = {"delta": {}, "finish_reason": answer["choices"][0]["finish_reason"]}
    plain = {**head, "choices": [{"index": 0, "delta": {"content": " "}, "finish_reason": None}]}
    middle = {**answer, "object": "chat.completion.chunk", "choices": choices}
    return [plain, plain, middle, plain, plain, {**head, "choices": [{"index": 0, **ends}]}]


def read_events(stream: list[dict[str, Any]]) -> list[AnyPiece]:
    reader = ChatReader()
    pieces = [piece for each in stream for piece in reader.feed(ServerEvent(json.dumps(each).encode()))]
    return [*pieces, *reader.finish()]


def end_of(pieces: Any) -> EndPiece:
    (end,) = (piece for piece in pieces if isinstance(piece, EndPiece))
    return end


TOP_LEVEL = [row for row in ROWS if row not in {*STREAM_ONLY, OTHER_ANSWER, OTHER_TOTAL}]


@pytest.mark.parametrize("row", TOP_LEVEL)
def test_the_reader_reports_what_a_row_is_about_whole_and_streamed(row: str):
    answer = example(row)
    whole, streamed = end_of(read_answer(json.dumps(answer).encode())), end_of(read_events(events(answer)))
    assert (row in whole.parts) is not ROWS[row].is_native
    assert whole.parts == streamed.parts
    assert set(whole.parts) <= set(ROWS)


@pytest.mark.parametrize(("tier", "parts"), [("default", []), ("priority", []), ("flex", ["service_tier"])])
def test_a_tier_is_reported_unless_every_api_has_it(tier: str, parts: list[str]):
    answer = {**example("id"), "service_tier": tier}
    for pieces in (read_answer(json.dumps(answer).encode()), read_events(events(answer))):
        end = end_of(pieces)
        assert (end.service_tier, end.parts) == (tier, parts)


def test_padding_is_reported_of_a_stream():
    padded = [{**each, "obfuscation": "xx"} for each in events(example("id"))]
    assert end_of(read_events(padded)).parts == ["obfuscation"]


def values_at(value: Any, path: str) -> list[Any]:
    """All values at a path of the table."""
    if not path:
        return [value]
    name, _, rest = path.partition(".")
    if not isinstance(value, dict):
        return []
    members = cast("dict[str, Any]", value)
    held = members.get(name.removesuffix("[]"))
    if not name.endswith("[]"):
        return values_at(held, rest)
    if not isinstance(held, list):
        return []
    return [each for item in cast("list[Any]", held) for each in values_at(item, rest)]


def untyped(row: str) -> str:
    """The path of a row without the types of items."""
    for path in TYPED:
        if row.startswith(f"{path}."):
            return f"{path}.{row[len(path) + 1 :].partition('.')[2]}"
    return row


def rewritten(pieces: list[AnyPiece]) -> Iterator[dict[str, Any]]:
    """The answer as chat's writer writes it: whole, and streamed, as OpenAI's SDK puts it together."""
    from openai.lib.streaming._deltas import accumulate_delta  # noqa: PLC0415 - its import takes long

    labels = AnswerLabels("ab" * 16, 1_700_000_000, "m", {})
    yield CHAT.write_answer(REQUEST, labels, [pieces])
    request = CHAT.read_request({**REQUEST.body, "stream_options": {"include_usage": True}})
    writer = CHAT.answer_writer(request, labels)
    blocks = writer.start() + b"".join(map(writer.write, pieces)) + writer.finish()
    chunks = [json.loads(event[6:]) for event in blocks.split(b"\n\n") if event not in (b"", b"data: [DONE]")]
    answer = {name: value for chunk in chunks for name, value in chunk.items() if value is not None}
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    whole = {name: value for choice in choices for name, value in choice.items() if value is not None}
    message: dict[Any, Any] = {}
    for choice in choices:
        message = accumulate_delta(message, choice["delta"])
    yield {**answer, "choices": [{**whole, "message": message}]}


OWN = frozenset({"id", "object", "created", "model", "usage.total_tokens", "choices[].message.thinking_blocks[].index"})
"""Accord has its own of these; the label says which model answered."""
SAME = {
    "choices[].usage": "usage.prompt_tokens",
    "x_groq.usage": "usage.prompt_tokens",
    "usage.reasoning_tokens": "usage.completion_tokens_details.reasoning_tokens",
    "usage.prompt_cache_hit_tokens": "usage.prompt_tokens_details.cached_tokens",
    "usage.cache_read_input_tokens": "usage.prompt_tokens_details.cached_tokens",
    "usage.cache_creation_input_tokens": "usage.prompt_tokens_details.cache_write_tokens",
    f"{MESSAGE}.content[].text.text": f"{MESSAGE}.content",
    f"{MESSAGE}.content[].refusal.refusal": f"{MESSAGE}.refusal",
    f"{MESSAGE}.content[].thinking.thinking": f"{MESSAGE}.reasoning_content",
    f"{MESSAGE}.content[].thinking.thinking[].text": f"{MESSAGE}.reasoning_content",
    f"{MESSAGE}.content[].image_url.image_url": f"{MESSAGE}.images[].image_url",
    f"{MESSAGE}.reasoning": f"{MESSAGE}.reasoning_content",
    f"{MESSAGE}.reasoning_details[].text": f"{MESSAGE}.reasoning_content",
    f"{MESSAGE}.reasoning_details[].summary": f"{MESSAGE}.reasoning_content",
    f"{MESSAGE}.reasoning_details[].index": "choices[].index",
    f"{MESSAGE}.function_call.name": f"{MESSAGE}.tool_calls[].function.name",
    f"{MESSAGE}.function_call.arguments": f"{MESSAGE}.tool_calls[].function.arguments",
    "choices[].matched_stop": "choices[].stop_reason",
    "citations[]": f"{MESSAGE}.annotations[].url_citation.url",
    "citations[].url": f"{MESSAGE}.annotations[].url_citation.url",
    "citations[].title": f"{MESSAGE}.annotations[].url_citation.title",
    "search_results[].url": f"{MESSAGE}.annotations[].url_citation.url",
    "search_results[].title": f"{MESSAGE}.annotations[].url_citation.title",
    "search_results[].snippet": f"{MESSAGE}.annotations[].url_citation.content",
}
"""Where the writer has it, if not at the row's own place."""
BY_INDEX = frozenset({f"{MESSAGE}.tool_calls[].index", f"{MESSAGE}.reasoning_details[].index"})
NOT_A_VALUE = frozenset({"usage.prompt_cache_miss_tokens"})
"""Carried as the difference of two counts."""


@pytest.mark.parametrize(
    "row", [row for row in TOP_LEVEL if "=" not in row and row not in OWN | BY_INDEX | NOT_A_VALUE]
)
def test_the_letter_of_chat_is_true_of_its_writer_whole_and_streamed(row: str):
    answer = example(row)
    path = untyped(row)
    value: Any = values_at(answer, path)[0]
    if row.endswith("thinking.thinking"):
        value = "t"
    if row in ("choices[].usage", "x_groq.usage"):
        value = 3
    for pieces in (read_answer(json.dumps(answer).encode()), read_events(events(answer))):
        for body in rewritten([*pieces]):
            places = values_at(body, SAME.get(row, path))
            is_there = any(place == value or (isinstance(place, str) and str(value) in place) for place in places)
            assert is_there is (ROWS[row].cells[Api.CHAT] is not AnswerDisposition.LOST), f"{row}: {places}"


@pytest.mark.parametrize("reason", REASONS)
def test_every_other_word_for_an_end_has_a_row(reason: str):
    assert f"choices[].finish_reason={reason}" in ROWS or reason in (
        "stop",
        "length",
        "tool_calls",
        "function_call",
        "content_filter",
    )
    assert reason not in FAILED_ENDS


def test_an_unknown_end_is_labelled_as_cut_off():
    (record,) = answer_records(Api.CHAT, ["choices[].finish_reason=new"], Api.MESSAGES)
    assert record.disposition is AnswerDisposition.CARRIED
    assert "cut off" in record.reason


def paths_of(annotation: Any, path: str) -> Iterator[str]:
    """The paths of all members of a type of the SDK."""
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            below = f"{path}.{name}" if path else name
            yield from paths_of(field.annotation, below)
    elif get_origin(annotation) is list:
        yield from paths_of(inner[0], f"{path}[]")
    elif get_origin(annotation) in (Union, Literal) or not inner or get_origin(annotation) is dict:
        models = [each for each in inner if get_origin(annotation) is Union]
        if not models:
            yield path
        for each in models:
            yield from paths_of(each, path)
    else:
        yield from paths_of(inner[0], path)


def test_every_member_of_the_types_of_the_sdk_has_a_row():
    from openai.types.chat import ChatCompletion, ChatCompletionChunk  # noqa: PLC0415 - its import takes longer than all other tests here

    paths = {each for kind in (ChatCompletion, ChatCompletionChunk) for each in paths_of(kind, "")}
    paths = {path.replace("choices[].delta", MESSAGE) for path in paths if not path.endswith(".type")}
    assert len(paths) > 60
    rows = {untyped(row) for row in ROWS}
    missing = [
        path
        for path in sorted(paths)
        if not any(path == row or path.startswith((f"{row}.", f"{row}[]")) for row in rows)
    ]
    assert missing == []
