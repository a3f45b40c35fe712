"""Lines: their kinds, the containers around them, and the patterns of every block start."""

import re
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from accord.core.output.markdown.lookahead import BLOCK_ELEMENTS, RAW_ELEMENTS

# What is said about a line: its kind, the containers around it, and what was open before it.
#
# Nouns only; `heads` makes them, `blocks` acts on them.

# Words rather than enum members: reading a member costs ten comparisons, and these are read for every line.
Kind = Literal[
    "blank", "text", "heading", "rule", "underline", "fence", "fence_end", "indented", "html", "maths",
    "footnote", "definition", "table", "more",
]  # fmt: skip
"""What a line is, once its containers are taken off; "more" belongs to whatever takes its lines unread."""

Body = Literal["none", "paragraph", "fence", "indented", "html", "html_until_blank", "maths", "table"]
"""The kinds of block that a line may continue."""


class Item(NamedTuple):
    """A list item: how far its content is indented."""

    width: int


class Quote(NamedTuple):
    """A block quote."""


Container = Item | Quote
QUOTE: Final = Quote()


@dataclass(slots=True)
class Context:
    """What was open when the line began."""

    containers: list[Container] = field(default_factory=list[Container])
    body: Body = "none"
    fence: str = ""
    fence_indent: int = 0
    header_cells: int = 0
    bare_item: bool = False
    """The innermost item began with an empty line; a second one ends it."""


class Head:
    """A line's beginning: where its content starts, and what it is."""

    opened: tuple[Container, ...] = ()
    ordinal: str = ""
    task: str = ""
    indent: int = 0
    detail: str = ""
    interrupts: bool = True
    """False when the line goes on with the paragraph that is open."""

    def __init__(self, kind: Kind, at: int, matched: int = 0) -> None:
        self.kind = kind
        self.at = at
        self.matched = matched


# What a line may start with: every block start as a pair of patterns.
#
# A name alone matches the start when enough of the line is there to be sure. The same name with `_OPEN` matches
# text that could still become it, up to where the text stops. Data only: `heads` decides.

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
HTML_SWALLOWED: Final = re.compile(r"<(?:!--|\?|![A-Za-z]|!\[CDATA\[)")
HTML_BLOCK: Final = re.compile(
    rf"</?(?:{'|'.join(sorted(BLOCK_ELEMENTS, reverse=True))})(?=[\s>]|/>|\Z)", re.IGNORECASE
)
HTML_OPEN: Final = re.compile(r"</?[A-Za-z0-9]*/?\Z|<!?(?:-|\[[CDAT]*)?\Z")
STARTERS: Final = frozenset("#>-+*_=`~0123456789<[$\\|:")


MERE_TEXT: Final = rf"[^ \t\n{re.escape(''.join(sorted(STARTERS)))}]"
VISIBLE: Final = re.compile(r"[ \t]*[^\s]")
INDENTED: Final = re.compile(r" {4,}(?=\S)")
COMMON_LINE: Final = re.compile(
    rf"( *)(?:([-+*]|[0-9]{{1,9}}[.)])( {{1,4}})(?=\*\*[^\s*]|{MERE_TEXT})|(?={MERE_TEXT}))"
)
PLAIN_START: Final = re.compile(r"(?P<fence>`{3,}|~{3,})[ \t]*(?=(?P<info>[^`\n]*)\n)|#{1,6}[ \t]+(?=[^ \t\n])")
