"""Markdown of an answer on a terminal: rich's, with nothing of the text left out or cut off.

rich leaves out HTML, the addresses of images and definitions of links, and cuts long words in tables.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult  # noqa: TID251 - the type of a parameter
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table, box

from accord.console import styled
from accord.terminal import escape_controls

if TYPE_CHECKING:  # rich has it, and depends on it
    from markdown_it.token import Token

CODE_STYLE: Final = "cyan"
MIN_COLUMN: Final = 6
"""The width to which a column of a table may be narrowed; below that, its rows are written as lists."""


class LeftHeading(Heading):
    """A heading of any level at the left."""

    LEVEL_ALIGN: ClassVar = {}


class PlainCode(CodeBlock):
    """Code in one colour, as fenced code that is drawn line by line has it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield styled(str(self.text).rstrip("\n"), CODE_STYLE)


class FoldedTable(TableElement):
    """A table whose long words are folded; where it is too narrow, each cell is a line after its column's name."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = [] if self.header is None or self.header.row is None else self.header.row.cells
        names = [cell.content for cell in header]
        rows = [[cell.content for cell in row.cells] for row in (self.body.rows if self.body else ())]
        widths = [
            max([cell_len(word) for text in column for word in text.plain.split()] or [1])
            for column in zip(names, *rows, strict=False)
        ]
        if sum(min(width, MIN_COLUMN) + 2 for width in widths) <= options.max_width:
            table = Table(box=box.SIMPLE, pad_edge=False, collapse_padding=True, style="markdown.table.border")
            for name in names:
                heading = name.copy()
                heading.stylize("markdown.table.header")
                table.add_column(heading, overflow="fold")
            for row in rows:
                table.add_row(*row)
            yield table
            return
        for row in rows or [names]:
            for name, cell in zip(names, row, strict=False):
                yield styled(f"{name.plain}: " if rows else "", "bold") + cell


class AnswerMarkdown(Markdown):
    """One block of an answer."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": LeftHeading,
        "fence": PlainCode,
        "code_block": PlainCode,
        "table_open": FoldedTable,
    }

    def __init__(self, source: str) -> None:
        # Without hyperlinks, which are control sequences: an address is written after its text.
        super().__init__(source, hyperlinks=False)
        _keep_text(self.parsed)


def _keep_text(tokens: Iterable["Token"]) -> None:
    """Change the tokens that rich leaves out to text; escape all text before it is measured, so that no row grows."""
    for token in tokens:
        kind = token.type
        if kind == "html_block":
            token.type, token.tag = "code_block", "code"
        elif kind == "html_inline":
            token.type = "text"
        elif kind == "image":
            token.type, token.tag = "text", ""
            token.content = f"[{token.content or 'image'}] ({token.attrs.get('src', '')})"
            token.children = None
        token.content = escape_controls(token.content)
        # `<https://…>` is its own text.
        token.children = [each for each in token.children or () if each.info != "auto"] or None
        _keep_text(token.children or ())
