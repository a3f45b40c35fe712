"""Laws of the stripper, for any text."""

import xml.etree.ElementTree as ET
from itertools import pairwise, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accord.core.output.markdown import Profile, TextStripper, strip
from tests.core.output.markdown.oracle import oracle_words, words
from tests.laws import examples

MARKUP = """
    * ** *** _ __ ~~ ` `` ``` ~~~ [ ] ( ) ![ ]( ](http://a.b/c < <b> </b> <br> <!-- --> <div> <script>
    </script> & &amp; &#65; $ $$ $x$ \\ \\( \\) \\[ \\] - * + 1. 2) > # ## = === --- | |-|-| [a]: [^1] [^1]:
    [x] http www. h w ! https://e.com/a_b foo bar x 9 é は 「 」 。 . : , ```py @ <a@b.c> <http:x> {
"""
SPACES = [" ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", "\xa0"]
BLOCKS = ["\n\n    ", "- ", "* ", "1. ", "> ", "# ", "\n```\n", "[a]: /u\n", "- [x] ", "|a|b|\n|-|-|\n|c|d|\n"]
REFERENCES = ["[ab]", "![ab]", " [ab] ", "[ab]: /u\n", "\n\n[ab]: /u\n", "![](/u)", " ![](/u) "]
PIECES = [
    *MARKUP.split(),
    *SPACES,
    *BLOCKS,
    *REFERENCES,
    "\ud83d",
    "\ude00",
    "\0",
    "\x1b",
    "\x7f",
    "](\x1b)",
    "](\\ ",
    "word " * 30,
]
markdown = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
plain_words = st.text(st.sampled_from("abcdefgiklmnop éはß"), max_size=60)


def run(pieces: list[str], profile: Profile) -> tuple[str, object]:
    stripper = TextStripper(profile)
    return "".join(map(stripper.feed, pieces)) + stripper.close(), stripper.notes


@settings(max_examples=examples(400))
@example("```\nx\nb```\nc\n```\nd", Profile.PLAIN, [4, 7])
@example("an![image](http://e.com)", Profile.PLAIN, [2])
@given(markdown, st.sampled_from(Profile), st.lists(st.integers(0, 400), max_size=8))
def test_output_and_notes_do_not_depend_on_the_cuts(text: str, profile: Profile, cuts: list[int]) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(bounds)]
    whole = run([text], profile)
    assert run(pieces, profile) == whole
    assert run(list(text), profile) == whole
    for cut in cuts:
        # A single character is what fast paths get wrong: it may begin a construct that the next piece ends.
        assert run([text[:cut], text[cut : cut + 1], text[cut + 1 :]], profile) == whole


LINK_PARTS = ["(", ")", "\\", " ", "<", ">", '"', "\n", "\x1b", "\x7f", "a"]


@pytest.mark.parametrize("first", LINK_PARTS)
def test_the_end_of_a_link_does_not_depend_on_the_cuts(first: str) -> None:
    """Every short tail: the last defects that depended on the cuts were all of this kind."""
    for rest in product(LINK_PARTS, repeat=3):
        text = f"[]({first}{''.join(rest)}) b"
        assert run(list(text), Profile.PLAIN) == run([text], Profile.PLAIN), repr(text)


@settings(max_examples=examples(300))
@given(markdown)
def test_speech_for_ssml_is_always_well_formed(text: str) -> None:
    ET.fromstring(f"<speak>{strip(text, Profile.SPEECH, ssml=True)}</speak>")  # noqa: S314 - text made by this test


@settings(max_examples=examples(200))
@given(plain_words)
def test_text_without_markup_is_unchanged(text: str) -> None:
    r"""Stripping is idempotent for text without markup.

    It cannot hold for every output, since `\*a\*` must become `*a*`, which is markdown again.
    """
    assert words(strip(text)) == words(text)
    assert strip(strip(text)) == strip(text)


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(["*a*", "**b c**", "`d`", "[e](/f)", "g h", "~i", "2 * 3", "k_l"]), max_size=12))
def test_plain_text_has_every_word_of_markdown_it(pieces: list[str]) -> None:
    text = " ".join(pieces)
    assert words(strip(text)) == oracle_words(text)


@settings(max_examples=examples(300))
@given(markdown, st.sampled_from(Profile))
def test_notes_point_into_the_input_and_closing_twice_adds_nothing(text: str, profile: Profile) -> None:
    stripper = TextStripper(profile)
    stripper.feed(text)
    stripper.close()
    assert stripper.close() == ""
    assert all(0 <= note.position <= len(text) for note in stripper.notes)
