"""Splitting markdown into finished blocks: the table of boundaries, and the laws that hold for every text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.markdown_splitter import MAX_CHARS, MAX_LINES, MarkdownSplitter, SourceBlock, SourceKind
from tests.core.output import MARKDOWN


def split(text: str, *, is_markdown: bool = True) -> list[SourceBlock]:
    splitter = MarkdownSplitter(is_markdown=is_markdown)
    return splitter.feed(text) + splitter.close()


ROWS: list[tuple[str, list[str]]] = [
    ("", []),
    ("words", ["words"]),
    ("one\ntwo\n\nthree", ["one\ntwo\n\n", "three"]),
    ("\n\none", ["\n", "\n", "one"]),
    ("# Title\ntext\n", ["# Title\n", "text\n"]),
    ("Title\n=====\n\ntext", ["Title\n=====\n\n", "text"]),
    ("> a\n> b\n\nc", ["> a\n> b\n\n", "c"]),
    ("| a |\n|---|\n| b |\n\nc", ["| a |\n|---|\n| b |\n\n", "c"]),
    # Every item of a list is a block, with what is nested in it.
    ("- a\n- b\n  - c\n- d\n", ["- a\n", "- b\n  - c\n", "- d\n"]),
    ("1. a\n\n   more\n2. b\n\nend", ["1. a\n\n   more\n", "2. b\n\n", "end"]),
    ("- a\nlazy\n\nend", ["- a\nlazy\n\n", "end"]),
    ("Steps:\n1. a\n2) b\n", ["Steps:\n", "1. a\n", "2) b\n"]),
    ("- a\n\n    - b\n\n  # c\n", ["- a\n\n    - b\n\n  # c\n"]),
    # A number that does not begin a list goes on with the paragraph.
    ("It was\n1986. A good year.\n", ["It was\n1986. A good year.\n"]),
    # Indented code may look like anything else.
    ("    - a\n    # b\n    ```\n\nc", ["    - a\n    # b\n    ```\n\n", "c"]),
]


@pytest.mark.parametrize(("text", "blocks"), ROWS)
def test_each_text_is_split_at_its_blocks(text: str, blocks: list[str]):
    found = split(text)
    assert [block.text for block in found] == blocks
    assert {block.kind for block in found} <= {SourceKind.MARKDOWN}


FENCE, CODE, TEXT, PLAIN = SourceKind.FENCE, SourceKind.CODE, SourceKind.MARKDOWN, SourceKind.PLAIN

CODES: list[tuple[str, list[tuple[SourceKind, str]]]] = [
    ("```py\na\n\nb\n```\nc", [(FENCE, "```py\n"), (CODE, "a\n"), (CODE, "\n"), (CODE, "b\n"), (FENCE, "```\n"), (TEXT, "c")]),
    ("text\n~~~\n```\n~~~~\n", [(TEXT, "text\n"), (FENCE, "~~~\n"), (CODE, "```\n"), (FENCE, "~~~~\n")]),
    ("```\n``\n", [(FENCE, "```\n"), (CODE, "``\n")]),
    ("```\n> ```\n```", [(FENCE, "```\n"), (CODE, "> ```\n"), (FENCE, "```")]),
    ("> ```\n> a\n> ```\nb", [(FENCE, "> ```\n"), (CODE, "> a\n"), (FENCE, "> ```\n"), (TEXT, "b")]),
    ("> ```\n> a\n\n# b\n", [(FENCE, "> ```\n"), (CODE, "> a\n"), (TEXT, "\n"), (TEXT, "# b\n")]),
    ("- ```\n  a\n  ```\n- b", [(FENCE, "- ```\n"), (CODE, "  a\n"), (FENCE, "  ```\n"), (TEXT, "- b")]),
    ("``` a `b` ```\n", [(TEXT, "``` a `b` ```\n")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "blocks"), CODES)
def test_fenced_code_comes_line_by_line(text: str, blocks: list[tuple[SourceKind, str]]):
    assert [(block.kind, block.text) for block in split(text)] == blocks


def test_what_follows_code_in_a_list_item_knows_how_far_it_is_indented():
    blocks = split("1. first\n   ```\n   code\n   ```\n   then\n2. second\n")
    assert [(block.text, block.indent) for block in blocks if block.kind is TEXT] == [
        ("1. first\n", 0),
        ("   then\n", 3),
        ("2. second\n", 0),
    ]


def test_a_long_table_is_continued_with_its_header():
    header = "| a | b |\n|---|---|\n"
    rows = [f"| {number} | {'x' * 90} |\n" for number in range(100)]
    first, *others = split(header + "".join(rows))
    assert first.before == ""
    assert first.text.startswith(header)
    assert len(others) > 1
    assert {block.before for block in others} == {header}


def test_a_line_that_is_too_long_is_cut_between_words_and_its_rest_is_no_markdown():
    first, second = split("word " * 900 + "# word\n- a\n")[:2]
    assert len(first.text) <= MAX_CHARS
    assert first.text.endswith(" ")
    assert (first.kind, second.kind) == (TEXT, PLAIN)


def test_without_markdown_every_line_is_a_block():
    blocks = split("# a\n```\n\n- b", is_markdown=False)
    assert [(block.kind, block.text) for block in blocks] == [(PLAIN, part) for part in ("# a\n", "```\n", "\n", "- b")]


PARTS = st.sampled_from(
    ["\n", "\n\n", " ", "   ", "\t", "- ", "2. ", "# ", "> ", "```", "```py\n", "~~~\n", "|", "|-|\n", "===", "word", "é", "`"]
)  # fmt: skip
LONG = st.sampled_from(
    ["w " * 2_100, "z" * 4_020 + "\n", "x" * 4_100, "- " + "y" * 3_990, "| a |\n|---|\n" + "| b |\n" * 700]
)
TEXTS = MARKDOWN | st.lists(PARTS, max_size=40).map("".join) | st.lists(PARTS | LONG, max_size=8).map("".join)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=6), is_markdown=st.booleans())
def test_blocks_do_not_depend_on_where_the_stream_was_cut(text: str, cuts: list[int], is_markdown: bool):
    splitter, blocks, start = MarkdownSplitter(is_markdown=is_markdown), list[SourceBlock](), 0
    for cut in cuts:
        blocks += splitter.feed(text[start : start + cut])
        start += cut
        assert "".join(block.text for block in blocks) + splitter.tail.text == text[:start]
    assert blocks + splitter.feed(text[start:]) + splitter.close() == split(text, is_markdown=is_markdown)


@given(text=TEXTS)
def test_blocks_do_not_depend_on_whether_the_text_comes_character_by_character(text: str):
    splitter = MarkdownSplitter()
    blocks = [block for char in text for block in splitter.feed(char)] + splitter.close()
    assert blocks == split(text)


@given(text=TEXTS, is_markdown=st.booleans())
def test_the_blocks_together_are_the_text_and_each_is_bounded(text: str, is_markdown: bool):
    splitter = MarkdownSplitter(is_markdown=is_markdown)
    blocks = splitter.feed(text)
    assert len(splitter.tail.text) <= 2 * MAX_CHARS + 1
    blocks += splitter.close()
    assert "".join(block.text for block in blocks) == text
    assert all(0 < len(block.text) <= MAX_CHARS + 1 for block in blocks)
    assert all(block.text.count("\n") <= MAX_LINES for block in blocks)
