"""The words of a text as markdown-it-py parses it: what a reader of the rendered page would see.

The tokens of `MarkdownIt("commonmark")` with tables are read in order: text and code as they stand, an
image's alternative text, a list item's ordinal, nothing of a link's destination, HTML without its tags and
comments. Cells of a row are separated by a comma, as in the plain profile. Two texts count as equal if their words,
split at white space, are equal.
"""

import re
from collections.abc import Iterable
from html import unescape
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER: Final = MarkdownIt("commonmark").enable("table")
COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)
RAW: Final = re.compile(r"(<(script|style|pre|textarea)\b[^>]*>)(.*?)(</\2>|\Z)", re.DOTALL | re.IGNORECASE)
TAG: Final = re.compile(r"</?[A-Za-z][^>]*>|<![A-Za-z][^>]*>")


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


def oracle_words(markdown: str) -> list[str]:
    """Return the words of a markdown text as markdown-it-py parses it."""
    return words("".join(_read(PARSER.parse(markdown))))


def _read(tokens: Iterable[Token]) -> Iterable[str]:
    cells = 0
    for token in tokens:
        match token.type:
            case "inline":
                yield "".join(_read_inline(token.children or []))
                yield "\n" if not cells else ""
            case "fence" | "code_block":
                yield token.content + "\n"
            case "html_block":
                yield _without_tags(token.content) + "\n"
            case "list_item_open" if token.info:
                yield f"{token.info}{token.markup} "
            case "th_open" | "td_open":
                yield ", " if cells else ""
                cells += 1
            case "tr_close":
                cells = 0
                yield "\n"
            case _:
                pass


def _read_inline(tokens: Iterable[Token]) -> Iterable[str]:
    for token in tokens:
        match token.type:
            case "text" | "code_inline" | "text_special":
                yield token.content
            case "softbreak" | "hardbreak":
                yield "\n"
            case "image":
                yield "".join(_read_inline(token.children or []))
            case "html_inline":
                yield " \n" if token.content.lower().startswith("<br") else ""
            case _:
                pass


def _without_tags(html: str) -> str:
    kept = RAW.sub(lambda match: match[3].replace("<", "&lt;").replace("&", "&amp;"), COMMENT.sub("", html))
    return unescape(unescape(TAG.sub("", kept)) if "&amp;" in kept else TAG.sub("", kept))
