"""Terminal output, with the control characters of peers escaped, so that they cannot drive a terminal or forge a line.

They are written as in JSON, so that JSON text keeps its meaning. An escape sequence that arrives in pieces is harmless,
since its first character is escaped.

`safe_streams` filters both standard streams, so that every `print` is escaped. Only rich writes escape sequences of its
own, past that filter; `console.py` therefore escapes what it prints, and does not interpret `[…]` as markup. The rule
is the same for a terminal, a pipe and a file: pipes end in terminals, too (`| less -R`, `| tee`).
"""

import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, Final, cast

# C0 and C1 controls with DEL (cursor, colours, titles, clipboard, hyperlinks), the line separators and the
# bidirectional embeddings, overrides and isolates (text that reads differently from what it is), and lone
# surrogates, which cannot be written at all. The bidirectional marks U+200E and U+200F override nothing and stay.
_UNSAFE: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_TEXT: Final = re.compile(f"[{_UNSAFE}]|\r(?!\n)")
_IN_LINE: Final = re.compile(f"[{_UNSAFE}\t\n\r]")


def escape_controls(text: str) -> str:
    """Escape control characters, except for tabs and line ends."""
    # Nothing that is printable is escaped; looking for that takes a tenth of the time.
    return text if text.replace("\n", "").isprintable() else _IN_TEXT.sub(_escape, text)


def escape_line(text: str) -> str:
    """Escape control characters, tabs and line ends, so that the text is a single line."""
    return text if text.isprintable() else _IN_LINE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class SafeStream:
    """A text stream that escapes control characters; `unfiltered` is the stream behind it."""

    def __init__(self, unfiltered: IO[str]) -> None:
        self.unfiltered: Final = unfiltered

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        self.unfiltered.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of these texts, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextmanager
def safe_streams() -> Generator[None]:
    """Escape everything that is printed to standard output and standard error inside this context."""
    out, err = (cast("IO[str]", SafeStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


@contextmanager
def unfiltered_streams() -> Generator[None]:
    """Use the streams without their filter inside this context: an agent's code runs, and may print in colour."""
    with redirect_stdout(unfiltered(sys.stdout)), redirect_stderr(unfiltered(sys.stderr)):
        yield


def unfiltered(stream: IO[str]) -> IO[str]:
    """Return the stream without its filter, for code that writes escape sequences and escapes all else itself."""
    return stream.unfiltered if isinstance(stream, SafeStream) else stream


def format_count(count: int, noun: str) -> str:
    """Write a count with its noun: `1 session`, `2 sessions`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def warn(sentences: Iterable[str]) -> None:
    """Print warnings, a line each, to standard error."""
    for sentence in sentences:
        print(f"accord: warning: {escape_line(sentence)}", file=sys.stderr)
