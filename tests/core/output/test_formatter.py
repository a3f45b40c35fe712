"""Foreign text in sentences: it is never markup, never more than one line, and its URLs are never spoken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.output.describe import MAX_QUOTED_CHARS, MessageCatalogue, TextFormatter
from accord.core.output.profile import TextForm

MARKDOWN, SCREEN, VOICE = (TextFormatter(form, MessageCatalogue()) for form in TextForm)
SSML = TextFormatter(TextForm.SPEECH, MessageCatalogue(), ssml=True)


@pytest.mark.parametrize(
    ("formatter", "text", "quoted"),
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
def test_text_is_quoted_for_the_form_of_the_client(formatter: TextFormatter, text: str, quoted: str):
    assert formatter.quote(text) == quoted


@given(st.text())
def test_quoted_text_is_one_short_line(text: str):
    for formatter in (SCREEN, VOICE):
        assert "\n" not in formatter.quote(text)
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
def test_names_are_joined_to_one_phrase(names: list[str], phrase: str):
    assert VOICE.join_names(names) == phrase


def test_a_url_in_markdown_cannot_close_its_brackets():
    assert MARKDOWN.format_url("https://a.example/<x> y") == "<https://a.example/%3Cx%3E%20y>"
    assert SCREEN.format_url("https://a.example/x") == "https://a.example/x"


@pytest.mark.parametrize(
    ("formatter", "text", "out"),
    [
        (VOICE, "Done..", "Done."),
        (VOICE, "Really?.", "Really?"),
        (SCREEN, "Done..", "Done.."),
        (SSML, "a < b & c", "a &lt; b &amp; c"),
    ],
)
def test_a_spoken_sentence_ends_once_and_is_escaped_for_ssml(formatter: TextFormatter, text: str, out: str):
    assert formatter.finish(text) == out


@pytest.mark.parametrize(
    ("formatter", "text", "changed"),
    [
        (MARKDOWN, "**b**\n```py\nx\n```", False),
        (SCREEN, "b\nx", True),
        (VOICE, "b\n(Python code, 1 line)", True),
    ],
)
def test_markdown_is_formatted_for_the_client_with_its_code_closed(formatter: TextFormatter, text: str, changed: bool):
    written = formatter.format_markdown("\n**b**\n```py\nx")
    assert (written.text, written.changed) == (text, changed)


def test_half_a_surrogate_pair_is_replaced():
    assert MARKDOWN.format_markdown("a\ud800").text == "a\ufffd"
