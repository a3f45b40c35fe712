"""Parts of Markdown that several generated pages have: the head of a page, tables, anchors."""

from collections.abc import Iterable, Sequence


def head(title: str, sources: str, text: str) -> str:
    """The begin of a page: who writes it from what, its title, and what it is about."""
    return f"<!-- Written by `make docs` from {sources}. Do not edit. -->\n\n# {title}\n\n{text.strip()}\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may have line breaks and `|`, which are escaped."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """A text as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(value: object) -> str:
    """Something as code."""
    return f"`{value}`"


def anchor(heading: str) -> str:
    """The address of a heading on its page, as GitHub and MkDocs make it."""
    kept = "".join(each for each in heading.lower() if each.isalnum() or each in " -_")
    return "#" + kept.strip().replace(" ", "-")


def first_paragraph(docstring: str | None) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())
