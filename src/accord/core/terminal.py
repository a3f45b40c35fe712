r"""Makes control characters in text visible, so that what a peer wrote cannot drive a terminal or forge a line.

The visible form is the one that JSON uses: ESC becomes `\u001b`. JSON text therefore keeps its exact meaning when it
goes through here, and an escape sequence that arrives in pieces is harmless, since its first character is.
"""

import re
from typing import Final

# C0 and C1 controls with DEL (cursor, colours, titles, clipboard, hyperlinks), the line separators and the
# bidirectional embeddings, overrides and isolates (text that reads differently from what it is), and lone
# surrogates, which cannot be written at all. The bidirectional marks U+200E and U+200F override nothing and stay.
_UNSAFE: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]|\r(?!\n)")
_IN_LINE: Final = re.compile(f"[{_UNSAFE}\t\n\r]")


def make_visible(text: str) -> str:
    """The text with its control characters spelled out; tabs and line ends stay."""
    return _IN_TEXT.sub(_spell, text)


def make_line(text: str) -> str:
    """The text as a single line: tabs and line ends are spelled out, too."""
    return _IN_LINE.sub(_spell, text)


def _spell(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
