"""Laws of the responses API: through a work order and back, and through an answer and back, nothing is lost.

What the table of fields names as emulated or as carried by unchanged requests only is not part of the first law. Of an
answer, the cuts of its texts and the name of a stop sequence are all that the API may lose.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accord.backends.openai.parts import allows_strict
from accord.backends.openai.responses import OpenAiResponses
from accord.backends.openai.responses_answer import ResponsesReader, read_answer
from accord.core.sse import EventDecoder
from accord.core.work.fields import BackendApi, Disposition, row_of
from accord.servers.openai.responses_answer import ResponsesTranslation
from accord.servers.translation import AnswerLabels
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece
from tests.backends.models import openai_statements as statements

API = ResponsesTranslation()
LABELS = AnswerLabels("0" * 32, 1_700_000_000, "m-1", {})
TEXT, WORD, VALUES = statements.TEXT, statements.WORD, statements.VALUES


def objects(type: str, **members: Any) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"type": st.just(type), **members})


INPUT_TEXT = objects("input_text", text=TEXT)
IMAGE_URL = st.sampled_from(["data:image/png;base64,AAAA", "https://example.org/a.png"])
DETAILS: list[dict[str, Any]] = [{}, {"detail": "auto"}, {"detail": "low"}]
IMAGE = st.tuples(IMAGE_URL, st.sampled_from(DETAILS)).map(
    lambda held: {"type": "input_image", "image_url": held[0], **held[1]}
)
FILE = objects("input_file", filename=WORD.map("{}.pdf".format), file_data=st.just("data:application/pdf;base64,JVBE"))
CONTENT = st.lists(INPUT_TEXT | IMAGE | FILE, min_size=1, max_size=3)
USER = objects("message", role=st.just("user"), content=CONTENT)
SYSTEM = objects("message", role=st.sampled_from(["system", "developer"]), content=TEXT)
REPLY = objects(
    "message", role=st.just("assistant"), content=st.lists(objects("output_text", text=TEXT), min_size=1, max_size=2)
)
ARGUMENTS = st.dictionaries(WORD, VALUES, max_size=2).map(json.dumps)
CALL = objects("function_call", call_id=WORD, name=WORD, arguments=ARGUMENTS)
RESULT = objects("function_call_output", call_id=WORD, output=TEXT | CONTENT)
SUMMARY = st.lists(objects("summary_text", text=TEXT), max_size=1)
REASONING = objects("reasoning", id=WORD, summary=SUMMARY, encrypted_content=WORD)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL = st.fixed_dictionaries(
    {"type": st.just("function"), "name": WORD, "description": TEXT, "parameters": st.just(SCHEMA)},
    optional={"strict": st.booleans() | st.none()},
)
FORMATS: st.SearchStrategy[Any] = st.sampled_from(
    [{"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": False}]
)
BODIES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        # Text alone as input is in the table of tests; here it would only make the others rare.
        "input": st.lists(USER | SYSTEM | REPLY | CALL | RESULT | REASONING, min_size=1, max_size=8),
    },
    optional={
        "instructions": TEXT,
        "stream": st.booleans(),
        "tools": st.lists(TOOL, min_size=1, max_size=2),
        "tool_choice": st.sampled_from(["auto", "none", "required", {"type": "function", "name": "f"}]),
        "parallel_tool_calls": st.booleans(),
        "text": st.fixed_dictionaries({"format": FORMATS}),
        "temperature": st.just(0.5),
        "top_p": st.just(0.9),
        "max_output_tokens": st.just(7),
        "top_logprobs": st.just(2),
        "include": st.just(["message.output_text.logprobs"]),
        "reasoning": st.fixed_dictionaries({"effort": st.sampled_from(["low", "high"])}, optional={"summary": st.just("auto")}),
    },
)  # fmt: skip
AS_THEY_ARE = ("temperature", "top_p", "max_output_tokens", "top_logprobs", "parallel_tool_calls", "reasoning")


@given(BODIES)
def test_a_request_through_a_work_order_is_the_same_request(body: dict[str, Any]):
    request = API.parse(body)
    for name in request.fields:
        row = row_of(request.api, name)
        assert row.cells[BackendApi.RESPONSES] is Disposition.NATIVE
        assert BackendApi.RESPONSES not in row.only_unchanged
    sent = json.loads(json.dumps(OpenAiResponses().request(request.order, "m").body))
    assert statements.one_text(of_input(sent)) == statements.one_text(of_input(body))
    for name in AS_THEY_ARE:
        assert sent.get(name) == body.get(name)
    assert sent.get("tool_choice", "auto") == body.get("tool_choice", "auto")
    assert sent["stream"] is body.get("stream", False)
    assert list(map(of_tool, sent.get("tools", []))) == list(map(of_tool, body.get("tools", [])))
    given = body.get("text", {}).get("format", {"type": "text"})
    assert sent.get("text", {}).get("format", {"type": "text"}) == given
    assert not allows_strict(SCHEMA)
    wants_logprobs = "include" in body or "top_logprobs" in body
    assert ("message.output_text.logprobs" in sent.get("include", [])) is wants_logprobs
    has_reasoning = "reasoning" in body or any(item["type"] == "reasoning" for item in sent["input"])
    assert ("reasoning.encrypted_content" in sent.get("include", [])) is has_reasoning


def of_tool(tool: dict[str, Any]) -> tuple[Any, ...]:
    return tool["name"], tool["description"], tool["parameters"], tool.get("strict") is True


def of_input(body: dict[str, Any]) -> Iterator[statements.Statement]:
    """What the instructions and the input of a request say."""
    if "instructions" in body:
        yield "system", "text", body["instructions"]
    for item in body["input"]:
        match item["type"]:
            case "message":
                yield from of_content("system" if item["role"] == "developer" else item["role"], item["content"])
            case "function_call":
                yield statements.of_call(item["call_id"], item["name"], item["arguments"])
            case "function_call_output":
                yield "user", "result", item["call_id"], *statements.one_text(of_content("tool", item["output"]), "\n")
            case _:
                texts = [part["text"] for part in item["summary"]]
                yield "assistant", "thought", texts, item["encrypted_content"]


def of_content(role: str, content: Any) -> Iterator[statements.Statement]:
    for part in [{"type": "input_text", "text": content}] if isinstance(content, str) else content:
        match part:
            case {"type": "input_image", "image_url": url}:
                yield role, "image", url, part.get("detail", "auto")
            case _:
                yield from statements.of_content(role, [part])


CALLS = st.builds(ToolCallPiece, id=st.uuids().map(str), name=WORD, input=st.dictionaries(WORD, VALUES, max_size=2))
TEXTS = st.builds(TextPiece, text=TEXT)
THOUGHTS = st.lists(st.builds(ThinkingPiece, text=TEXT), min_size=1, max_size=3)
SEALS = st.uuids().map(str)
SEALED = st.tuples(THOUGHTS, SEALS).map(lambda held: [*held[0], ThinkingPiece(text="", signature=held[1])])
REDACTED = SEALS.map(lambda seal: [ThinkingPiece(text="", signature=seal, redacted=True)])
GROUPS = st.lists(TEXTS, min_size=1, max_size=3) | THOUGHTS | SEALED | REDACTED | CALLS.map(lambda call: [call])
USAGE = st.fixed_dictionaries({name: st.integers(0, 9) for name in ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")})  # fmt: skip
LOGPROBS = st.none() | st.just([{"token": "a", "logprob": -0.5, "top": [{"token": "b", "logprob": -1.0}]}])


@st.composite
def answers(draw: st.DrawFn) -> list[AnyPiece]:
    pieces: list[AnyPiece] = [piece for group in draw(st.lists(GROUPS, max_size=5)) for piece in group]
    if draw(st.booleans()):
        pieces.append(TextPiece(text=draw(TEXT)))
    ends_in_text = bool(pieces) and isinstance(pieces[-1], TextPiece)
    finished = "tool_use" if any(isinstance(piece, ToolCallPiece) for piece in pieces) else "end_turn"
    reason: Any = draw(st.sampled_from([finished, "max_tokens", "refusal"]))
    # Log probabilities belong to text; a refusal has none.
    logprobs = draw(LOGPROBS) if ends_in_text and reason != "refusal" else None
    return [*pieces, EndPiece(reason=reason, model="m-1", usage=draw(USAGE), logprobs=logprobs)]


def joined(pieces: Iterable[AnyPiece]) -> list[AnyPiece]:
    """The pieces with adjacent texts joined, and adjacent reasoning likewise."""
    result: list[AnyPiece] = []
    for piece in pieces:
        last = result[-1] if result else None
        match last, piece:
            case TextPiece(), TextPiece():
                result[-1] = TextPiece(text=last.text + piece.text)
            case ThinkingPiece(signature=None), ThinkingPiece(signature=None):
                result[-1] = ThinkingPiece(text=last.text + piece.text)
            case _:
                result.append(piece)
    return result


def read_stream(data: bytes) -> Sequence[AnyPiece]:
    reader = ResponsesReader()
    return [piece for event in EventDecoder().feed(data) for piece in reader.feed(event)]


@given(answers())
def test_an_answer_through_its_body_or_its_stream_is_the_same_answer(pieces: list[AnyPiece]):
    request = API.parse({"model": "m", "input": "hi"})
    body = json.dumps(API.whole(request, LABELS, [pieces])).encode()
    assert joined(read_answer(body)) == joined(pieces)
    writer = API.stream(request, LABELS)
    streamed = writer.start() + b"".join(map(writer.write, pieces)) + writer.finish()
    assert joined(read_stream(streamed)) == joined(pieces)
