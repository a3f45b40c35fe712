"""Lines of markdown: their kinds, the containers around them, and the patterns of every block start. Data only.

`line_starts` reads a line with these patterns, `blocks` acts on the result.
"""

import re
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from accord.core.output.markdown.lookahead import BLOCK_ELEMENTS, RAW_ELEMENTS

# Strings, not enum members: reading a member costs as much as ten comparisons, and these are read for every line.
LineKind = Literal[
    "blank", "text", "heading", "rule", "underline", "fence", "fence_end", "indented", "html", "maths",
    "footnote", "definition", "table", "more",
]  # fmt: skip
"""The kind of a line without its containers; "more" continues a block whose lines are not parsed."""

BlockKind = Literal["none", "paragraph", "fence", "indented", "html", "html_until_blank", "maths", "table"]
"""The kinds of leaf block that a line may continue."""


class ListItem(NamedTuple):
    """A list item; `width` is the indentation of its content."""

    width: int


class BlockQuote(NamedTuple):
    """A block quote."""


Container = ListItem | BlockQuote
BLOCK_QUOTE: Final = BlockQuote()


@dataclass(slots=True)
class BlockState:
    """What is open where a line begins."""

    containers: list[Container] = field(default_factory=list[Container])
    block: BlockKind = "none"
    fence: str = ""  # the opening fence of code or a formula
    fence_indent: int = 0
    header_cells: int = 0  # the cells of a line that may be a table's header
    bare_item: bool = False  # the innermost list item began with an empty line; a second empty line ends it


class LineStart:
    """The start of a line: its kind, where its content begins, and the containers that continue or open."""

    opened: tuple[Container, ...] = ()  # the containers that begin here
    ordinal: str = ""  # the numbers of ordered list items, which are written
    task: str = ""  # the mark of a task list item: " ", "x" or "X"
    indent: int = 0  # columns of code or of a fence
    detail: str = ""  # the fence, the label or the HTML element
    interrupts: bool = True  # False if the line continues the open paragraph

    def __init__(self, kind: LineKind, at: int, matched: int = 0) -> None:
        self.kind = kind
        self.at = at  # where the content begins
        self.matched = matched  # how many of the open containers continue


# The block starts, as pairs of patterns: NAME matches if enough of the line is there to be sure, NAME_OPEN matches text
# that may still become one, up to the end of the text that has arrived.

SPACE: Final = re.compile(r"[ \t]*")
HEADING: Final = re.compile(r"#{1,6}(?=[ \t\n]|\Z)[ \t]*")
HEADING_OPEN: Final = re.compile(r"#{1,6}[ \t]*\Z")
BULLET: Final = re.compile(r"[-+*](?=[ \t\n]|\Z)")
ORDINAL: Final = re.compile(r"[0-9]{1,9}[.)](?=[ \t\n]|\Z)")
ORDINAL_OPEN: Final = re.compile(r"[0-9]{1,9}[.)]?\Z")
RULE: Final = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}(?=\n|\Z)")
RULE_OPEN: Final = re.compile(r"([-*_])(?:\1|[ \t])*\Z")
UNDERLINE: Final = re.compile(r"(?:=+|-+)[ \t]*(?=\n|\Z)")
UNDERLINE_OPEN: Final = re.compile(r"(?:=+|-+)[ \t]*\Z")
FENCE: Final = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\n]*)")
FENCE_OPEN: Final = re.compile(r"(?:`{1,2}|~{1,2})\Z")
DELIMITER_ROW: Final = re.compile(r"[|:-][-:| \t]*(?=\n|\Z)")
DELIMITER_ROW_OPEN: Final = re.compile(r"[|:-][-:| \t]*\Z")
DELIMITER_CELL: Final = re.compile(r"[ \t]*:?-+:?[ \t]*")
FORMULA: Final = re.compile(r"(?:\$\$|\\\[)[ \t]*(?=\n)")
FORMULA_OPEN: Final = re.compile(r"(?:\$\$?|\\\[?)[ \t]*\Z")
FOOTNOTE: Final = re.compile(r"\[\^(?P<label>\w[\w.-]*)\]:[ \t]*")
DEFINITION: Final = re.compile(
    r"\[(?P<label>(?:[^\[\]\\\n]|\\[^\n]){1,200})\]:[ \t]*"
    r"(?:<(?:[^<>\n\\]|\\[^\n])*>|[^\s<][^\s]*)"
    r"(?:[ \t]+(?:\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\\\n]|\\[^\n])*'|\((?:[^()\\\n]|\\[^\n])*\)))?"
    r"[ \t]*(?=\n|\Z)"
)
DEFINITION_OPEN: Final = re.compile(
    r"\[(?:[^\[\]\\\n]|\\[^\n])*(?:\\|\](?::[ \t]*(?:<[^\n]*|\S*)(?:[ \t]+(?:[\"'(][^\n]*)?)?)?)?\Z"
)
FOOTNOTE_OPEN: Final = re.compile(r"\[\^[\w.-]*(?:\](?::[ \t]*)?)?\Z")
TASK: Final = re.compile(r"\[(?P<mark>[ xX])\][ \t]+(?=[^ \t\n])")
TASK_OPEN: Final = re.compile(r"\[(?:[ xX](?:\][ \t]*)?)?\Z")
HTML_RAW: Final = re.compile(rf"<(?P<name>{'|'.join(sorted(RAW_ELEMENTS))})(?=[\s>]|\Z)", re.IGNORECASE)
HTML_DECLARATION: Final = re.compile(r"<(?:!--|\?|![A-Za-z]|!\[CDATA\[)")
HTML_BLOCK: Final = re.compile(
    rf"</?(?:{'|'.join(sorted(BLOCK_ELEMENTS, reverse=True))})(?=[\s>]|/>|\Z)", re.IGNORECASE
)
HTML_OPEN: Final = re.compile(r"</?[A-Za-z0-9]*/?\Z|<!?(?:-|\[[CDAT]*)?\Z")
STARTERS: Final = frozenset("#>-+*_=`~0123456789<[$\\|:")

TEXT_START: Final = rf"[^ \t\n{re.escape(''.join(sorted(STARTERS)))}]"
VISIBLE: Final = re.compile(r"[ \t]*[^\s]")
INDENTED: Final = re.compile(r" {4,}(?=\S)")
COMMON_LINE: Final = re.compile(
    rf"( *)(?:([-+*]|[0-9]{{1,9}}[.)])( {{1,4}})(?=\*\*[^\s*]|{TEXT_START})|(?={TEXT_START}))"
)
PLAIN_START: Final = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?=(?P<info>[^`\n]*)\n)|#{1,6}[ \t]+(?=[^ \t\n])")
