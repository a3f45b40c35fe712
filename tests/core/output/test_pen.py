"""Foreign words in our sentences: they never become markup, never break a line, are never read aloud as an address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.describe import MAX_QUOTED_CHARS, Catalogue, Pen
from accord.core.output.profile import TextForm

MARKDOWN, SCREEN, VOICE = (Pen(form, Catalogue()) for form in TextForm)
SSML = Pen(TextForm.SPEECH, Catalogue(), ssml=True)


@pytest.mark.parametrize(
    ("pen", "text", "quoted"),
    [
        (MARKDOWN, "a *b* [c](d) `e` <f>", r"a \*b\* \[c\](d) \`e\` \<f\>"),
        (MARKDOWN, "file_name.py _x_", r"file_name.py \_x\_"),
        (MARKDOWN, "two\n# lines", r"two \# lines"),
        (SCREEN, "a *b*\n\n c", "a *b* c"),
        (SCREEN, "\x1b[31mred\x07", "[31mred"),
        (SCREEN, "abc\u202edef", "abc def"),
        (VOICE, "see https://a.example/x?y=1 now", "see the link to a.example now"),
        (VOICE, "www.a.example/x", "the link to www.a.example"),
        (VOICE, "https://[broken", "the link to …"),
    ],
)
def test_words_are_quoted_for_the_clients_text(pen: Pen, text: str, quoted: str):
    assert pen.quote(text) == quoted


@given(st.text())
def test_a_quotation_is_one_short_line(text: str):
    for pen in (SCREEN, VOICE):
        assert "\n" not in pen.quote(text)
    assert len(SCREEN.quote(text * 50)) <= MAX_QUOTED_CHARS


@pytest.mark.parametrize(
    ("names", "phrase"),
    [
        (["A"], "A"),
        (["A", "B"], "A and B"),
        (["A", "B", "C"], "A, B and C"),
        (["A", "B", "C", "D", "E"], "A, B and 3 more"),
    ],
)
def test_names_become_one_phrase(names: list[str], phrase: str):
    assert VOICE.listed(names) == phrase


def test_an_address_in_markdown_cannot_leave_its_brackets():
    assert MARKDOWN.link("https://a.example/<x> y") == "<https://a.example/%3Cx%3E%20y>"
    assert SCREEN.link("https://a.example/x") == "https://a.example/x"


@pytest.mark.parametrize(
    ("pen", "text", "out"),
    [
        (VOICE, "Done..", "Done."),
        (VOICE, "Really?.", "Really?"),
        (SCREEN, "Done..", "Done.."),
        (SSML, "a < b & c", "a &lt; b &amp; c"),
    ],
)
def test_a_finished_sentence_ends_once_and_is_escaped_where_asked(pen: Pen, text: str, out: str):
    assert pen.finish(text) == out


@pytest.mark.parametrize(
    ("pen", "text", "changed"),
    [
        (MARKDOWN, "**b**\n```py\nx\n```", False),
        (SCREEN, "b\nx", True),
        (VOICE, "b\n(Python code, 1 line)", True),
    ],
)
def test_an_authors_block_comes_in_the_clients_form_with_its_code_closed(pen: Pen, text: str, changed: bool):
    written = pen.author("\n**b**\n```py\nx")
    assert (written.text, written.changed) == (text, changed)


def test_an_authors_half_character_is_replaced():
    assert MARKDOWN.author("a\ud800").text == "a\ufffd"
