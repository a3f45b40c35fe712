"""Statements of a work order and of a request to OpenAI's APIs in one form, so that tests can compare them.

Text of one speaker that follows on text is one text: where it was cut is all that the APIs may lose.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from hypothesis import strategies as st

from accord.apis.codec import document_text, link_text
from accord.apis.openai.parts import AUDIO_FORMATS, FAILED
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ImagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import WorkOrder

Statement = tuple[Any, ...]
Strategy = st.SearchStrategy[Any]

TEXT = st.text("abcé漢🙂 \n<>{}", min_size=1, max_size=12)
WORD = st.text("abcxyz_", min_size=1, max_size=8)
DATA = st.sampled_from(["", "AAAA", "/+8="])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORD, inner, max_size=2),
    max_leaves=4,
)


def tagged(type: str, **fields: Strategy) -> Strategy:
    return st.fixed_dictionaries({"type": st.just(type), **fields})


TEXTS = (
    tagged("text", text=TEXT)
    | tagged("resource", uri=WORD.map("file:///{}".format), text=TEXT)
    | tagged("resource_link", uri=WORD.map("https://example.org/{}".format), name=WORD)
)
IMAGES = tagged("image", media_type=st.sampled_from(["image/png", "image/jpeg"]), data=DATA)
SOUND = tagged("audio", media_type=st.sampled_from(["audio/wav", "audio/mpeg"]), data=DATA)
FILES = tagged("resource", uri=WORD.map("a/{}.pdf".format), media_type=st.just("application/pdf"), data=DATA)
CALLS = tagged("tool_use", id=WORD, name=WORD, input=st.dictionaries(WORD, VALUES, max_size=2))
THOUGHTS = tagged("thinking", text=TEXT, signature=WORD)


def several(parts: Strategy, least: int = 1) -> Strategy:
    return st.lists(parts, min_size=least, max_size=3)


def results(inner: Strategy) -> Strategy:
    return tagged("tool_result", tool_use_id=WORD, content=several(inner), is_error=st.booleans())


def message_of(role: str, content: Strategy) -> Strategy:
    return st.fixed_dictionaries({"role": st.just(role), "content": content})


def orders(messages: Strategy, **more: Strategy) -> st.SearchStrategy[WorkOrder]:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    tool = st.fixed_dictionaries({"name": WORD, "description": TEXT, "input_schema": st.just(schema)})
    requested: dict[str, Strategy] = {
        "conversation": st.fixed_dictionaries({"messages": st.lists(messages, max_size=4)}),
        "tools": st.lists(tool, max_size=2),
        "response_schema": st.none() | st.just({"type": "object", "title": "T"}),
        "stream": st.booleans(),
        "thinking": st.booleans(),
    }
    return st.fixed_dictionaries({**requested, **more}).map(WorkOrder.model_validate)


def of_order(order: WorkOrder) -> list[Statement]:
    """Return the statements of the conversation."""
    return one_text(
        statements
        for message in order.conversation.messages
        for part in message.content
        for statements in _of_part(cast("AnyPart", part), "user" if message.role == "tool" else str(message.role))
    )


def _of_part(part: AnyPart, role: str) -> Iterator[Statement]:
    match part:
        case TextPart() | ResourceLinkPart() | ResourcePart():
            yield role, *_of_words(part)
        case ImagePart():
            yield role, "image", part.media_type, part.data
        case AudioPart():
            yield role, "audio", AUDIO_FORMATS[part.media_type], part.data
        case ToolUsePart():
            yield role, "call", part.id, part.name, part.input
        case ThinkingPart():
            yield role, "thought", part.text, part.signature
        case ToolResultPart():
            inner = [statements for each in part.content for statements in _of_part(cast("AnyPart", each), "tool")]
            yield role, "result", part.tool_use_id, part.is_error, *one_text(inner, between="\n")


def _of_words(part: TextPart | ResourceLinkPart | ResourcePart) -> Statement:
    match part:
        case TextPart():
            return "text", part.text
        case ResourceLinkPart():
            return "text", link_text(part)
        case ResourcePart() if part.data is None:
            return "text", document_text(part)
        case ResourcePart():
            return "file", part.uri.rpartition("/")[2], part.data


def one_text(statements: Iterable[Statement], between: str = "") -> list[Statement]:
    """Return the statements with adjacent texts of one role joined."""
    account: list[Statement] = []
    for each in statements:
        if account and each[1] == "text" and account[-1][:2] == each[:2]:
            account[-1] = (*each[:2], account[-1][2] + between + each[2])
        else:
            account.append(each)
    return account


def of_content(role: str, content: Any) -> Iterator[Statement]:
    """Return the statements of a message's content in either API."""
    if isinstance(content, str):
        yield role, "text", content
        return
    for part in cast("list[Any]", content or []):
        match part:
            case {"type": "text" | "input_text" | "output_text", "text": text}:
                yield role, "text", text
            case {"type": "image_url", "image_url": {"url": url}} | {"type": "input_image", "image_url": url}:
                yield role, "image", *_media(url)
            case {"type": "input_audio", "input_audio": {"data": data, "format": kind}}:
                yield role, "audio", kind, data
            case {"type": "file", "file": file} | ({"type": "input_file"} as file):
                yield role, "file", file["filename"], _media(file["file_data"])[1]
            case _:
                raise AssertionError(part)


def of_result(id: str, content: Any) -> Statement:
    """Return the statement of a tool's result in either API."""
    statements = one_text(of_content("tool", content), between="\n")
    first = statements[0]
    has_failed = first[1] == "text" and first[2].startswith(FAILED)
    if has_failed:
        rest = first[2].removeprefix(FAILED)
        statements = [
            *([("tool", "text", rest.removeprefix("\n") if len(statements) > 1 else rest)] if rest else []),
            *statements[1:],
        ]
    return "user", "result", id, has_failed, *statements


def of_call(id: str, name: str, arguments: str) -> Statement:
    """Return the statement of a call in either API."""
    return "assistant", "call", id, name, json.loads(arguments)


def _media(url: str) -> tuple[str, str]:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return kind, data
