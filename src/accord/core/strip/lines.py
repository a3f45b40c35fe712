"""What is said about a line: its kind, the containers around it, and what was open before it.

Nouns only; `heads` makes them, `blocks` acts on them.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

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
