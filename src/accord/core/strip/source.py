"""Raw input as normalised text: one kind of line end, no halves of surrogate pairs, no NUL.

Decides what a character is when the input was cut inside it. It must not know markdown.
"""

import re
from typing import Final

from accord.core.strip.notes import Notebook

ODD_CHARACTERS: Final = "\r\0\ud800-\udfff"
ODD: Final = re.compile("\r\n?|[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]|\0")
HIGH_SURROGATES: Final = ("\ud800", "\udbff")
REPLACEMENT: Final = "\ufffd"


class Source:
    """Normalises a stream; the notebook learns of every character that is folded away."""

    __slots__ = ("_after_return", "_half_pair", "_notebook", "_removed", "length")

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._half_pair: str = ""
        self._after_return: bool = False
        self._removed = 0
        self.length: int = 0

    @property
    def mid_character(self) -> bool:
        """What comes next may belong to the character before it."""
        return self._after_return or self._half_pair != ""

    def normalise(self, chunk: str) -> str:
        """The next piece of normalised text."""
        if self._after_return or self._half_pair or ODD.search(chunk):
            chunk = self._settle(chunk)
        self.length += len(chunk)
        return chunk

    def finish(self) -> str:
        """What is left when nothing more can come: half a pair is no character."""
        return REPLACEMENT if self._half_pair else ""

    def _settle(self, chunk: str) -> str:
        chunk = self._half_pair + chunk
        self._half_pair = ""
        if self._after_return and chunk[0] == "\n":
            self._notebook.fold(self.length - 1)
            chunk = chunk[1:]
        self._after_return = chunk.endswith("\r")
        if chunk and HIGH_SURROGATES[0] <= chunk[-1] <= HIGH_SURROGATES[1]:
            self._half_pair = chunk[-1]
            chunk = chunk[:-1]
        self._removed = 0
        return ODD.sub(self._settle_one, chunk)

    def _settle_one(self, match: re.Match[str]) -> str:
        source = match.group()
        if len(source) == 2:
            self._notebook.fold(self.length + match.start() - self._removed)
            self._removed += 1
        if source[0] == "\r":
            return "\n"
        return source.encode("utf-16", "surrogatepass").decode("utf-16") if len(source) == 2 else REPLACEMENT
