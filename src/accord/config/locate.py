"""Finds where each key of a TOML text stands: line and column, from 1.

By hand because no well-kept parser tells it: tomllib, tomli, rtoml and pytomlpp give values only, tomlkit has it as an
open wish (#55), toml-rs leaves out table headers. It need not judge: the text has been parsed by tomllib before,
and a property test holds what is found here against what tomllib read.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

KeyPath = tuple[str | int, ...]


class Position(NamedTuple):
    """A place in a text, counted from 1."""

    line: int
    column: int


_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BETWEEN: Final = re.compile(r"(?:[ \t\n,]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\n]+|.")


def locate(text: str) -> Mapping[KeyPath, Position]:
    """Where every key, table and array item of this valid TOML text stands; the first place if there are several."""
    return _Scan(text.replace("\r\n", "\n")).run()


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._found: dict[KeyPath, Position] = {}
        self._lengths: dict[KeyPath, int] = {}  # of the arrays of tables, [[…]]

    def run(self) -> Mapping[KeyPath, Position]:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._member(table)
            self._skip(_BLANK)
        return self._found

    def _header(self) -> KeyPath:
        start = self._at
        array = self._text.startswith("[[", start)
        self._at += 2 if array else 1
        keys = self._keys()
        self._at += 2 if array else 1
        path: KeyPath = ()
        for number, (key, _) in enumerate(keys, 1):
            path = (*path, key)
            self._note(path, start)
            if array and number == len(keys):
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
                self._note(path, start)
        return path

    def _member(self, table: KeyPath) -> None:
        """One `key = value`, dotted or not."""
        path = table
        for key, start in self._keys():
            path = (*path, key)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _keys(self) -> list[tuple[str, int]]:
        """The parts of a dotted key, each with where it begins; stops after the spaces that follow."""
        keys: list[tuple[str, int]] = []
        while True:
            self._skip(_SPACE)
            start = self._at
            keys.append((self._key(), start))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _key(self) -> str:
        start = self._at
        if quoted := _STRING.match(self._text, start):
            self._at = quoted.end()
            return next(iter(tomllib.loads(f"{quoted[0]} = 0")))
        self._skip(_BARE_KEY)
        return self._text[start : self._at]

    def _value(self, path: KeyPath) -> None:
        if self._text.startswith("[", self._at):
            self._array(path)
        elif self._text.startswith("{", self._at):
            self._inline_table(path)
        elif string := _STRING.match(self._text, self._at):
            self._at = string.end()
        else:
            self._skip(_BARE_VALUE)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        while not self._closes("]"):
            self._note((*path, index), self._at)
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._closes("}"):
            self._member(path)

    def _closes(self, bracket: str) -> bool:
        """Go on to the next item; whether there is none, and the bracket is behind us."""
        self._skip(_BETWEEN)
        closes = self._text.startswith(bracket, self._at)
        self._at += closes
        return closes or self._at >= len(self._text)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()

    def _note(self, path: KeyPath, at: int) -> None:
        if path not in self._found:
            line = bisect_right(self._lines, at)
            self._found[path] = Position(line, at - self._lines[line - 1] + 1)
