"""The text on its way: margins, laziness, and whether it came out as it went in."""

import pytest

from accord.core.output.describe import Catalogue, Pen
from accord.core.output.insertion import Boundary
from accord.core.output.profile import TextForm
from accord.core.output.text import MAX_UNREAD, Margin, TextChannel


def channel(form: TextForm) -> TextChannel:
    return TextChannel(Pen(form, Catalogue()))


@pytest.mark.parametrize(
    ("before", "after", "page"),
    [
        ("", "text", "BLOCK\n\ntext"),
        ("text", "text", "text\n\nBLOCK\n\ntext"),
        ("text\n", "\ntext", "text\n\nBLOCK\n\ntext"),
        ("text\n\n", "\n\ntext", "text\n\nBLOCK\n\ntext"),
        ("text\n\n\n", "\n\n\ntext", "text\n\n\nBLOCK\n\n\ntext"),
        ("text", "", "text\n\nBLOCK"),
    ],
)
@pytest.mark.parametrize("cut", [True, False])
def test_a_blank_line_stands_on_either_side_of_a_block_and_no_more_than_needed(
    before: str, after: str, page: str, cut: bool
):
    margin = Margin()
    pieces = (list(before), list(after)) if cut else ([before], [after])
    out = [margin.text(piece) for piece in pieces[0]]
    out.append(margin.block("BLOCK"))
    out += [margin.text(piece) for piece in pieces[1]]
    assert "".join(out) == page


def test_two_blocks_are_one_blank_line_apart():
    margin = Margin()
    assert margin.block("ONE") + margin.block("TWO") == "ONE\n\nTWO"


@pytest.mark.parametrize(
    ("form", "text", "same"),
    [
        (TextForm.MARKDOWN, "**bold**", True),
        (TextForm.PLAIN, "**bold**", False),
        (TextForm.PLAIN, "Nothing to take off.\n\nNothing.\n", True),
        (TextForm.SPEECH, "Nothing to take off.", True),
        (TextForm.SPEECH, "`code`", False),
    ],
)
def test_whether_the_text_came_out_as_it_went_in_is_known(form: TextForm, text: str, same: bool):
    one = channel(form)
    for char in text:
        one.feed(char)
    one.close()
    assert one.is_same is same
    assert one.deltas == len(text)


def test_text_that_nobody_asks_about_is_read_in_bulk():
    one = channel(TextForm.PLAIN)
    for _ in range(3 * MAX_UNREAD):
        one.feed("x")
        assert len(one.unread) < MAX_UNREAD
    assert one.deltas == 3 * MAX_UNREAD
    assert one.boundary is Boundary.NONE


def test_a_channel_starts_again_after_it_was_closed_and_keeps_its_account():
    one = channel(TextForm.SPEECH)
    text = one.feed("```py\nx\n") + one.close() + one.feed("```py\ny\n```\n") + one.close()
    assert text.count("Python code") == 2
    assert one.notes == {"code_block": 2}


def test_without_markdown_only_the_end_of_a_block_is_a_boundary():
    one = channel(TextForm.PLAIN)
    one.feed("A sentence.\n")
    assert one.boundary is Boundary.NONE
    one.feed("\n")
    assert one.boundary is Boundary.BLOCK
