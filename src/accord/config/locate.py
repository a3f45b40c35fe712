"""Find the line and column of each key in a TOML text.

Written by hand because no maintained parser reports positions: tomllib, tomli, rtoml and pytomlpp give values only,
tomlkit has an open request for it (#55), toml-rs leaves out table headers. It does not validate: tomllib has parsed the
text before, and a property test compares the keys found here with those that tomllib reads.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

KeyPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value, such as `("backends", 0, "model")`."""


class Position(NamedTuple):
    """A position in a text, counted from 1."""

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
    """Return the position of every key, table and array item of a valid TOML text; of several, the first."""
    return _Scanner(text.replace("\r\n", "\n")).run()


class _Scanner:
    """Reads a text from its start to its end, once."""

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
        """Read one `key = value`, dotted or not."""
        path = table
        for key, start in self._keys():
            path = (*path, key)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _keys(self) -> list[tuple[str, int]]:
        """Read a dotted key and the spaces after it; return its parts, each with its position."""
        keys: list[tuple[str, int]] = []
        while True:
            self._skip(_SPACE)
            start = self._at
            if quoted := _STRING.match(self._text, start):
                self._at = quoted.end()
                key = next(iter(tomllib.loads(f"{quoted[0]} = 0")))
            else:
                self._skip(_BARE_KEY)
                key = self._text[start : self._at]
            keys.append((key, start))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        if self._text.startswith("[", self._at):
            self._at += 1
            index = 0
            while not self._closes("]"):
                self._note((*path, index), self._at)
                self._value((*path, index))
                index += 1
        elif self._text.startswith("{", self._at):
            self._at += 1
            while not self._closes("}"):
                self._member(path)
        elif string := _STRING.match(self._text, self._at):
            self._at = string.end()
        else:
            self._skip(_BARE_VALUE)

    def _closes(self, bracket: str) -> bool:
        """Skip to the next item; return True, past the bracket, if there is none."""
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
