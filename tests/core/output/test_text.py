"""The text channel: spacing, lazy reading, and whether the text was changed."""

import pytest

from accord.core.output.describe import MessageCatalogue, TextFormatter
from accord.core.output.insertion import InsertionPoint
from accord.core.output.profile import TextForm
from accord.core.output.text import MAX_UNREAD, LineSpacing, TextChannel


def channel(form: TextForm) -> TextChannel:
    return TextChannel(TextFormatter(form, MessageCatalogue()))


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
def test_a_block_has_one_blank_line_on_each_side(before: str, after: str, page: str, cut: bool):
    spacing = LineSpacing()
    pieces = (list(before), list(after)) if cut else ([before], [after])
    out = [spacing.add_text(piece) for piece in pieces[0]]
    out.append(spacing.add_block("BLOCK"))
    out += [spacing.add_text(piece) for piece in pieces[1]]
    assert "".join(out) == page


def test_two_blocks_are_one_blank_line_apart():
    spacing = LineSpacing()
    assert spacing.add_block("ONE") + spacing.add_block("TWO") == "ONE\n\nTWO"


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
def test_the_channel_records_whether_the_text_was_changed(form: TextForm, text: str, same: bool):
    one = channel(form)
    for char in text:
        one.feed(char)
    one.close()
    assert one.is_unchanged is same
    assert one.deltas == len(text)


def test_text_is_read_in_bulk():
    one = channel(TextForm.PLAIN)
    for _ in range(3 * MAX_UNREAD):
        one.feed("x")
        assert len(one.unread) < MAX_UNREAD
    assert one.deltas == 3 * MAX_UNREAD
    assert one.insertion_point is InsertionPoint.NONE


def test_a_closed_channel_can_be_fed_again_and_keeps_its_notes():
    one = channel(TextForm.SPEECH)
    text = one.feed("```py\nx\n") + one.close() + one.feed("```py\ny\n```\n") + one.close()
    assert text.count("Python code") == 2
    assert one.notes == {"code_block": 2}


def test_without_markdown_only_the_end_of_a_block_is_an_insertion_point():
    one = channel(TextForm.PLAIN)
    one.feed("A sentence.\n")
    assert one.insertion_point is InsertionPoint.NONE
    one.feed("\n")
    assert one.insertion_point is InsertionPoint.BLOCK


def test_nothing_is_inserted_before_text_that_is_kept_back_for_a_reference():
    one = channel(TextForm.PLAIN)
    assert one.feed("See [the guide].\n\n") == "See "
    assert one.insertion_point is InsertionPoint.NONE
    assert one.feed("word " * 60 + "\n\n").startswith("[the guide].\n\nword")
    assert one.insertion_point is InsertionPoint.BLOCK
