"""The beginnings that most lines have, read at a glance: text, list items, fences, headings, more of a block.

Decides only what one look can decide, and the same way as `heads`, which reads everything else. It must not
change any state.
"""

from typing import Final

from accord.core.strip import starts
from accord.core.strip.lines import Context, Head, Item, Quote
from accord.core.strip.lookahead import HOLD_LIMIT

MAX_DEPTH: Final = 32
CODE_INDENT: Final = 4


def read_at_a_glance(text: str, at: int, context: Context) -> Head | None:
    """The fast lanes: what most lines begin with, and nothing else."""
    body = context.body
    if body == "paragraph" or body == "none":
        if context.header_cells:
            return None
        return _read_common(text, at, context) if text[at] not in "#`~" else _read_plain_start(text, at)
    if context.containers:
        return None
    if body == "fence":
        return _read_code_line(text, at, context)
    if body == "html" or body == "html_until_blank":
        return Head("more", at) if starts.VISIBLE.match(text, at, at + HOLD_LIMIT - 1) else None
    if body == "indented" and (code := starts.INDENTED.match(text, at, at + HOLD_LIMIT - 1)):
        head = Head("indented", code.end())
        head.indent = code.end() - at - CODE_INDENT
        return head
    return None


def _read_plain_start(text: str, at: int) -> Head | None:
    # No container goes on at the very beginning of a line, unless by its own sign.
    start = starts.PLAIN_START.match(text, at, at + HOLD_LIMIT - 1)
    if start is None:
        return None
    if not start["fence"]:
        return Head("heading", start.end())
    head = Head("fence", start.end())
    head.detail = start["fence"]
    return head


def _read_code_line(text: str, at: int, context: Context) -> Head | None:
    if context.fence_indent or text[at] in " \t":
        return None
    if text[at] != context.fence[0]:
        return Head("more", at)
    closing = starts.PLAIN_START.match(text, at, at + HOLD_LIMIT - 1)
    if closing is None or closing["info"] or len(closing["fence"]) < len(context.fence):
        return None
    return Head("fence_end", at)


def _read_common(text: str, at: int, context: Context) -> Head | None:
    """The fast lane for what most lines are: text, or a list item with text, inside list items or nothing."""
    line = starts.COMMON_LINE.match(text, at, at + HOLD_LIMIT - 1)
    if line is None:
        return None
    indent, marker, padding = line.groups("")
    head = place_line(context, len(indent), marker, len(padding), in_paragraph=context.body == "paragraph")
    if head:
        head.at = line.end()
    return head


def place_line(context: Context, column: int, marker: str, padding: int, *, in_paragraph: bool) -> Head | None:
    """Where a line of text belongs that starts at a column, maybe behind a list marker and its padding."""
    base = matched = 0
    containers = context.containers
    for container in containers:
        if isinstance(container, Quote):
            return None
        if column - base < container.width:
            break
        base += container.width
        matched += 1
    indent = column - base
    if indent >= CODE_INDENT and (marker or not in_paragraph):
        return None
    head = Head("text", 0, matched)
    if not marker:
        head.interrupts = not in_paragraph
        return head
    is_ordinal = len(marker) > 1
    if matched >= MAX_DEPTH or (is_ordinal and in_paragraph and matched == len(containers) and int(marker[:-1]) != 1):
        return None
    head.opened = (Item(indent + len(marker) + padding),)
    if is_ordinal:
        head.ordinal = marker + " "
    return head
