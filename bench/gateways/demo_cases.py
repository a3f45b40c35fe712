"""The cases of the demonstration: a request, when its answer is right, and the words that would tell of a change.

A verdict is computed, not written: from the status, the answer, and a search for those words in everything that the
client got except the answer's own text.
"""

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .demo_upstreams import SEEN, TOOL_INPUT, Body, Received

WORKS: Final = "as requested"
LABELLED: Final = "answered, change labelled"
UNLABELLED: Final = "answered, change not labelled"
REFUSED: Final = "refused, reason named"
REFUSED_TUNING: Final = "**refused**, reason named"
"""Refused although the answer would have been right without it."""
WRONG: Final = "**wrong answer, not labelled**"
WRONG_LABELLED: Final = "not as requested, labelled"
FAILED_NAMED: Final = "failed, reason named"
FAILED: Final = "**failed**"
STANDARD_HEADERS: Final = frozenset(
    "cache-control connection content-length content-type date server transfer-encoding vary".split()
)
SNIPPET: Final = 90


@dataclass(slots=True)
class Answer:
    """What a client got: the status, the headers, the texts of all choices, the arguments of all tool calls."""

    status: int
    headers: Mapping[str, str]
    raw: str
    milliseconds: float
    body: Body = field(default_factory=dict[str, Any])
    texts: list[str] = field(default_factory=list[str])
    calls: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The text of the first choice."""
        return self.texts[0] if self.texts else ""


@dataclass(frozen=True, slots=True)
class Case:
    """One request that is sent to every gateway."""

    name: str
    title: str
    model: str
    body: Body
    is_right: Callable[[Answer], bool]
    is_changed: Callable[[Sequence[Received]], bool]
    """Whether the upstreams got something else than what the client sent."""
    words: Sequence[str]
    """Patterns; one of them in a header or in a field beside the answer tells the client of the change."""
    fields: Sequence[str]
    """The fields of the request to an upstream that the report shows."""
    must_pass: bool = False


def png() -> str:
    """A small red square as a data URL."""
    rows = b"".join(b"\0" + b"\xff\0\0" * 16 for _ in range(16))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def user(text: str) -> list[Body]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def is_city(answer: Answer) -> bool:
    """Whether the answer is JSON that matches the schema."""
    try:
        value = json.loads(answer.text)
    except ValueError:
        return False
    return isinstance(value, dict) and set(value) == {"name", "country"}  # pyright: ignore[reportUnknownArgumentType]


def is_tool_input(answer: Answer) -> bool:
    """Whether there is one call and its arguments are complete."""
    try:
        return [json.loads(call) for call in answer.calls] == [TOOL_INPUT]
    except ValueError:
        return False


def lacks(*names: str) -> Callable[[Sequence[Received]], bool]:
    """Whether a field of the client's request was missing from the last request to an upstream."""
    return lambda received: bool(received) and not all(name in received[-1].body for name in names)


SCHEMA: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "country": {"type": "string"}},
    "required": ["name", "country"],
    "additionalProperties": False,
}
CITY_FORMAT: Final = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}
WEATHER: Final = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PICTURE: Final = [{"type": "text", "text": "What is in it?"}, {"type": "image_url", "image_url": {"url": png()}}]

CASES: Final = (
    Case(
        "image",
        "An image to a model that ignores images",
        "blind",
        {"messages": [{"role": "user", "content": PICTURE}]},
        lambda answer: SEEN in answer.text,
        lambda received: bool(received) and "image_url" not in json.dumps(received[-1].body),
        ["image"],
        ["messages"],
    ),
    Case(
        "settings",
        "Three settings that the model refuses: `seed`, `logit_bias`, `top_k`",
        "picky",
        {"messages": user("Say hello."), "seed": 7, "logit_bias": {"50256": -100}, "top_k": 40},
        lambda answer: "Hello" in answer.text,
        lacks("seed", "logit_bias", "top_k"),
        ["seed", "logit_bias", "top_k"],
        ["seed", "logit_bias", "top_k"],
        must_pass=True,
    ),
    Case(
        "json_schema",
        "`json_schema` on a model without it",
        "plain",
        {"messages": user("Name a city."), "response_format": CITY_FORMAT},
        is_city,
        lacks("response_format"),
        ["response_format", "structured_output", "json_schema"],
        ["response_format", "messages"],
    ),
    Case(
        "ignored",
        "A backend that ignores `response_format`",
        "ignoring",
        {"messages": user("Name a city."), "response_format": CITY_FORMAT},
        is_city,
        lambda received: len(received) > 1,
        ["response_format", "structured_output", "json_schema"],
        ["response_format", "messages"],
    ),
    Case(
        "store",
        "`store: false`, which clients send by default, to a model that refuses it",
        "picky",
        {"messages": user("Say hello."), "store": False},
        lambda answer: "Hello" in answer.text,
        lacks("store"),
        ["store"],
        ["store"],
        must_pass=True,
    ),
    Case(
        "n",
        "`n = 2` on a backend that ignores it",
        "alive",
        {"messages": user("Say hello."), "n": 2},
        lambda answer: len(answer.texts) == 2,
        lambda received: len(received) > 1 or lacks("n")(received),
        [r"(?<![\\\w])n(?![\w-])", "choices"],
        ["n"],
    ),
    Case(
        "n_other_api",
        "`n = 2` on an Anthropic backend, whose API has no such field",
        "claude",
        {"messages": user("Say hello."), "n": 2, "max_tokens": 50},
        lambda answer: len(answer.texts) == 2,
        lacks("n"),
        [r"(?<![\\\w])n(?![\w-])", "choices"],
        ["n"],
    ),
    Case(
        "tool_choice",
        "`tool_choice: none` on an Anthropic backend",
        "claude",
        {"messages": user("The weather in Paris?"), "tools": [WEATHER], "tool_choice": "none", "max_tokens": 50},
        lambda answer: not answer.calls and bool(answer.text),
        lambda received: bool(received) and received[-1].body.get("tool_choice") != {"type": "none"},
        ["tool_choice"],
        ["tools", "tool_choice"],
    ),
    Case(
        "tool_stream",
        "Streamed tool arguments: an OpenAI client, an Anthropic backend",
        "claude",
        {"messages": user("The weather in Paris?"), "tools": [WEATHER], "stream": True, "max_tokens": 50},
        is_tool_input,
        lambda _: False,
        [],
        ["tools", "stream"],
    ),
    Case(
        "dead",
        "A dead first backend",
        "dead-first",
        {"messages": user("Say hello.")},
        lambda answer: "second backend" in answer.text,
        lambda _: True,
        ["fallback", "served-by", "served_by", "last-used-option-index"],
        ["model"],
        must_pass=True,
    ),
)


def labels_of(case: Case, answer: Answer) -> list[str]:
    """Where the client is told of the change: headers and fields beside the answer that contain one of the words."""
    found: list[str] = []
    for name, value in answer.headers.items():
        line = f"{name.lower()}: {value}"
        if name.lower() not in STANDARD_HEADERS and has_word(case, line) and not is_zero(value):
            found.append(f"header `{name}: {shorten(value, case.words)}`")
    if answer.status == 200:
        for name, value in answer.body.items():
            text = json.dumps(value)
            if name not in ("choices", "usage", "model", "id", "object") and has_word(case, f'"{name}": {text}'):
                found.append(f"body `{name}: {shorten(text, case.words)}`")
    return found


def has_word(case: Case, text: str) -> bool:
    """Whether the text has one of the case's words."""
    return any(re.search(word, text.lower()) for word in case.words)


def is_zero(value: str) -> bool:
    """Whether a header says that nothing happened, as `x-litellm-attempted-fallbacks: 0` does."""
    return value.strip() == "0"


def shorten(text: str, words: Sequence[str] = ()) -> str:
    """The beginning of a text, or the part with the first of the words, safe inside a table."""
    flat = " ".join(text.split()).replace("`", "'")
    places = [found.start() for word in words if (found := re.search(word, flat.lower()))]
    start = max(min(places, default=0) - SNIPPET // 2, 0)
    part = flat[start : start + SNIPPET]
    shown = ("…" if start else "") + part + ("…" if start + SNIPPET < len(flat) else "")
    return shown.replace("|", "\\|")


def verdict(case: Case, answer: Answer, received: Sequence[Received]) -> str:
    """What happened, in a few words."""
    is_labelled = bool(labels_of(case, answer))
    if answer.status != 200:
        return error_verdict(case, answer)
    if not case.is_right(answer):
        return WRONG_LABELLED if is_labelled else WRONG
    if not case.is_changed(received):
        return WORKS
    return LABELLED if is_labelled else UNLABELLED


def error_verdict(case: Case, answer: Answer) -> str:
    """What an error is worth: it must name its reason, and must not come from what does not matter."""
    if not has_word(case, answer.raw):
        return FAILED
    if answer.status < 500:
        return REFUSED_TUNING if case.must_pass else REFUSED
    return FAILED if case.must_pass else FAILED_NAMED
