"""Finds JSON in what a model wrote: alone, in fences, or with other text around it.

Candidates come in the order of the text. One of them may stand as the answer (`is_final`): the whole text, or a value
that begins a line or fills a fence and has nothing after it. Everything else may be a quotation, for instance of a
document that was to be judged, and is found only so that a contradiction is noticed. A fragment of a broken value is
never a candidate: `{"a": {"b": 1},` is a broken answer, not `{"b": 1}`. Linear in the length of the text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from accord.wire.message import only_json


@dataclass(frozen=True, slots=True)
class Candidate:
    """A JSON value, the text it was written as, and whether it stands where an answer stands."""

    text: str
    value: Any
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the text, in a fence or between two; `stop` ends its content, and `after` is where the next begins."""

    is_fenced: bool
    start: int
    stop: int
    after: int


_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
# An object begins with a key or ends at once; an array begins with a value. "[sic]" and "{name}" are prose.
_START: Final = re.compile(r'\{\s*["}]|\[\s*(?:[\]{\["\d-]|true|false|null)')
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def find_json(text: str) -> Iterator[Candidate]:
    """Every candidate, in the order of the text."""
    if whole := read_json(text):
        yield whole
        return
    end, has_structure = len(text.rstrip()), _START.search(text) is not None
    for section in _sections(text):
        if section.is_fenced and (fenced := read_json(text[section.start : section.stop])):
            yield Candidate(fenced.text, fenced.value, is_final=section.after >= end)
        elif has_structure:
            yield from _values_in(text, section, end)
        elif not section.is_fenced:
            yield from _scalars_in(text, section, end)


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


def _sections(text: str) -> Iterator[_Section]:
    """The text between the fences and in them; a fence that is never closed reaches to the end."""
    mark, start, place = "", 0, 0
    for line in text.splitlines(keepends=True):
        stop, place = place, place + len(line)
        if not mark:
            if opened := _FENCE.match(line):
                yield _Section(False, start, stop, place)
                mark, start = opened[1], place
        elif line.strip().startswith(mark) and not line.strip(mark[0] + " \t\r\n"):
            yield _Section(True, start, stop, place)
            mark, start = "", place
    yield _Section(bool(mark), start, len(text), len(text))


def _values_in(text: str, section: _Section, end: int) -> Iterator[Candidate]:
    # The end is looked for first, so that a broken value costs its own length and is skipped as a whole.
    stop: int | None = section.start
    while (opener := _START.search(text, stop, section.stop)) and (stop := structure_end(text, opener.start())):
        if candidate := read_json(text[opener.start() : stop]):
            line = text[text.rfind("\n", 0, opener.start()) + 1 : opener.start()]
            is_final = not section.is_fenced and not line.strip() and stop >= end
            yield Candidate(candidate.text, candidate.value, is_final)


def _scalars_in(text: str, section: _Section, end: int) -> Iterator[Candidate]:
    place = section.start
    for line in text[section.start : section.stop].splitlines(keepends=True):
        place += len(line)
        if candidate := read_json(line):
            yield Candidate(candidate.text, candidate.value, is_final=place >= end)
