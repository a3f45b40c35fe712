"""Finds JSON in what a model said: alone, in fences, or with chatter around it.

Candidates come in the order in which they are believed: the whole text, ```json fences, other fences (the last of each
first, since drafts come before answers), then values standing in the text, the longest first, then scalars on a line of
their own. A fragment of a broken value is never a candidate: `{"a": {"b": 1},` is a broken answer, not `{"b": 1}`.
Which candidate is right, the caller's schema decides. Linear in the length of the text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from accord.wire.message import only_json


@dataclass(frozen=True, slots=True)
class Candidate:
    """A JSON value and the text it was written as."""

    text: str
    value: Any


_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
# An object begins with a key or ends at once; an array begins with a value. "[sic]" and "{name}" are prose.
_START: Final = re.compile(r'\{\s*["}]|\[\s*(?:[\]{\["\d-]|true|false|null)')
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def find_json(text: str) -> Iterator[Candidate]:
    """Every candidate, the most believable first."""
    if whole := read_json(text):
        yield whole
        return
    fences = [*_fences(text)][::-1]
    for body in [*(body for tag, body in fences if tag == "json"), *(body for tag, body in fences if tag != "json")]:
        if fenced := read_json(body):
            yield fenced
    yield from sorted(_values_in(text), key=lambda candidate: len(candidate.text))[::-1]
    if not _START.search(text):
        lines = map(read_json, reversed(text.splitlines()))
        yield from (candidate for candidate in lines if candidate)


def read_json(text: str) -> Candidate | None:
    """The text as one JSON value with nothing around it, if it is that. Only what can be sent on counts as JSON."""
    text = text.strip()
    try:
        text.encode()
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return Candidate(text, only_json(value))
    except (ValueError, RecursionError):  # not JSON, too deep, too many digits, half a surrogate pair
        return None


def structure_end(text: str, start: int) -> int | None:
    """The place after the bracket that closes the one here, broken as the inside may be."""
    depth = 0
    for token in _STRUCTURE.finditer(text, start):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        if depth == 0:
            return token.end()
    return None


def _fences(text: str) -> Iterator[tuple[str, str]]:
    """The language and the contents of each fence; one that is never closed reaches to the end."""
    mark, language, body = "", "", list[str]()
    for line in text.splitlines(keepends=True):
        if not mark:
            if opened := _FENCE.match(line):
                mark, language, body = opened[1], opened[2].lower(), []
        elif line.strip().startswith(mark) and not line.strip(mark[0] + " \t\r\n"):
            yield language, "".join(body)
            mark = ""
        else:
            body.append(line)
    if mark:
        yield language, "".join(body)


def _values_in(text: str) -> Iterator[Candidate]:
    # The end is looked for first, so that a broken value costs its own length and is skipped as a whole.
    stop: int | None = 0
    while (opener := _START.search(text, stop)) and (stop := structure_end(text, opener.start())):
        if candidate := read_json(text[opener.start() : stop]):
            yield candidate
