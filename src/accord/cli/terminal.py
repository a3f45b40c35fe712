"""Standard output and error of the `accord` command: nothing that a peer wrote reaches the terminal unescaped.

`safe_streams` puts a filter over both streams, so that every `print` goes through it. Only rich writes
escape sequences of its own, past that filter; `Console` therefore escapes what it is given, and never reads `[…]` in it
as rich's markup. The rule is the same whether the output is a terminal, a pipe or a file: pipes end in terminals, too
(`| less -R`, `| tee`). Programs use `--json`, whose meaning escaping does not change.
"""

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, Final, cast

import rich.console
from rich.segment import Segment
from rich.text import Text

from accord.core.terminal import make_line, make_visible


class SafeStream:
    """A text stream that makes control characters visible; `unfiltered` is the stream itself."""

    def __init__(self, unfiltered: IO[str]) -> None:
        self.unfiltered: Final = unfiltered

    def write(self, text: str) -> int:
        """Write the text, made visible."""
        self.unfiltered.write(make_visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of these texts, made visible."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextmanager
def safe_streams() -> Generator[None]:
    """While this is open, everything printed to standard output or standard error is made visible."""
    out, err = (cast("IO[str]", SafeStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


@contextmanager
def unfiltered_streams() -> Generator[None]:
    """While this is open, the streams are as they were: an agent's own code runs, and may print in colour."""
    with redirect_stdout(unfiltered(sys.stdout)), redirect_stderr(unfiltered(sys.stderr)):
        yield


class Console(rich.console.Console):
    """A rich console that escapes what it is given and interprets no markup."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        file = unfiltered(sys.stderr if stderr else sys.stdout)
        super().__init__(file=file, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap)

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What rich makes of this, escaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(make_visible(segment.text), segment.style)


def unfiltered(stream: IO[str]) -> IO[str]:
    """The stream without its filter, for who writes escape sequences of ours and escapes everything else itself."""
    return stream.unfiltered if isinstance(stream, SafeStream) else stream


def styled(content: str, style: str = "") -> Text:
    """A text for a console, escaped before rich measures it, so that columns keep their widths."""
    return Text(make_visible(content), style)


def styled_line(content: str, style: str = "") -> Text:
    """The same for what belongs on one line."""
    return Text(make_line(content), style)
