"""Rules of the stripper as tables: addresses, gaps that something removed leaves, streams that are cut off.

Every row is fed whole, in pieces of three characters and character by character.
"""

import pytest

from accord.core.output.markdown import NoteKind, Profile, TextStripper, strip
from tests.core.output.markdown.feeding import feed_all


def strip_however_cut(markdown: str, profile: Profile) -> str:
    threes = [markdown[at : at + 3] for at in range(0, len(markdown), 3)]
    outputs = {feed_all(pieces, profile) for pieces in ([markdown], threes, list(markdown))}
    assert len(outputs) == 1
    return outputs.pop()


ADDRESSES = [
    ("See https://e.com/a_ now", "See https://e.com/a_ now", "See the link to e.com now"),
    ("See https://e.com/a_b_. Then", "See https://e.com/a_b_. Then", "See the link to e.com. Then"),
    ("See https://e.com/a__ now", "See https://e.com/a__ now", "See the link to e.com now"),
    ("See https://e.com/a* now", "See https://e.com/a* now", "See the link to e.com now"),
    ("See https://e.com/~ now", "See https://e.com/~ now", "See the link to e.com now"),
    ("(https://e.com/a_)", "(https://e.com/a_)", "(the link to e.com)"),
    ("'https://e.com/a_', he said", "'https://e.com/a_', he said", "'the link to e.com', he said"),
    ("See <https://e.com/a_> now", "See https://e.com/a_ now", "See the link to e.com now"),
    ("See `https://e.com/a_` now", "See https://e.com/a_ now", "See the link to e.com now"),
    ("See [a](https://e.com/a_) now", "See a now", "See a now"),
    ("https://e.org/Foo_(bar)_ x", "https://e.org/Foo_(bar)_ x", "the link to e.org x"),
    ("_https://e.com/a_ now", "https://e.com/a now", "the link to e.com now"),
    ("_See https://e.com/a_._ Then", "See https://e.com/a_. Then", "See the link to e.com. Then"),
    ("**https://e.com/a_** now", "https://e.com/a_ now", "the link to e.com now"),
    ("**https://e.com/a.** Now", "https://e.com/a. Now", "the link to e.com. Now"),
    ("**_https://e.com/a_** now", "https://e.com/a now", "the link to e.com now"),
    ("**a https://e.com/b* c** d", "a https://e.com/b* c d", "a the link to e.com c d"),
    ("~~https://e.com/a~~ now", "https://e.com/a now", "the link to e.com now"),
    ("| a |\n|---|\n| www.e.com/b_ |", "a\nwww.e.com/b_", "a: the link to e.com."),
]


@pytest.mark.parametrize(("markdown", "plain", "speech"), ADDRESSES)
def test_an_address_is_one_unit_with_the_marks_at_its_end(markdown: str, plain: str, speech: str) -> None:
    assert strip_however_cut(markdown, Profile.PLAIN) == plain
    assert strip_however_cut(markdown, Profile.SPEECH) == speech


GAPS = [
    ("a ![](x.png) b", "a b"),
    ("a ![ ](x.png) b", "a b"),
    ("a  ![](x.png)  b", "a  b"),
    ("![](x.png) b", "b"),
    ("a ![](x.png)", "a"),
    ("a![](x.png) b", "a b"),
    ("a ![](x.png)b", "a b"),
    ("a ![](x.png) ![](y.png) b", "a b"),
    ("a *![](x.png)* b", "a b"),
    ("*a ![](x.png) b*", "a b"),
    ("a **_![](x.png)_** b", "a b"),
    ("a [![](x.png)](/y) b", "a b"),
    ("a [](/y) b", "a b"),
    ("a ![][x] b", "a b"),
    ("a [b ![](x.png) c](/y) d", "a b c d"),
    ("a ![](x.png) *b*", "a b"),
    ("a\n![](x.png)\nb", "a\nb"),
    ("a\n![](x.png) \n![](y.png)\nb", "a\nb"),
    ("a ![](x.png)\nb", "a\nb"),
    ("# ![](x.png) a", "a"),
    ("- ![](x.png) a\n- b ![](x.png) c", "a\nb c"),
    ("1. ![](x.png) a", "1. a"),
    ("| a |\n|---|\n| b ![](x.png) c |\n| ![](x.png) d |", "a\nb c\nd"),
    ("a <!-- b --> c", "a c"),
    ("a <b></b> c", "a c"),
    ('Hello <br>bold</b> <span class="x">two</span>', "Hello\nbold two"),
    ("a [^1] b", "a b"),
    ("a ![ b ](x.png) c", "a  b  c"),
]


@pytest.mark.parametrize(("markdown", "expected"), GAPS)
def test_what_has_no_text_leaves_no_gap(markdown: str, expected: str) -> None:
    assert strip_however_cut(markdown, Profile.PLAIN) == expected


CUT_OFF = [
    ("a *b", "a *b", "a b"),
    ("a *b c.", "a *b c.", "a b c."),
    ("a **b*", "a *b", "a b"),
    ("a _b c", "a _b c", "a b c"),
    ("a __b", "a __b", "a b"),
    ("a ~~b", "a ~~b", "a b"),
    ("a ~~b~", "a ~~b~", "a b"),
    ("a ~", "a ~", "a"),
    ("a **", "a **", "a"),
    ("a *b **c _d", "a *b **c _d", "a b c d"),
    ("# a **b", "a **b", "a b"),
    ("> a *b", "a *b", "a b"),
    ("| a |\n|---|\n| b *c", "a\nb *c", "a: b c."),
    ("Run `git pu", "Run `git pu", "Run git pu"),
    ("Run `x[0", "Run `x[0", "Run x[0"),
    ("Run ``a`", "Run ``a`", "Run a"),
    ("*Run `a", "*Run `a", "Run a"),
    ("a [b", "a [b", "a b"),
    ("a [*b", "a [*b", "a b"),
    ("a [b](", "a [b](", "a b"),
    ("a [b c](https://exam", "a [b c](https://exam", "a b c"),
    ("a [b](<https://exam", "a [b](<https://exam", "a b"),
    ('a [b](/c "the ti', 'a [b](/c "the ti', "a b"),
    ("a [b](https://e.com/c_", "a [b](https://e.com/c_", "a b"),
    ("a [b][c", "a [b][c", "a b"),
    ("a [*b*](/c", "a [b](/c", "a b"),
    ("a ![b", "a ![b", "a b"),
    ("a ![b]", "a ![b]", "a b"),
    ("a ![b](/c.p", "a ![b](/c.p", "a b"),
    ("a [![b](/c)](/d", "a [b](/d", "a b"),
    ("a.[^1", "a.[^1", "a."),
    ("a <https://exam", "a <https://exam", "a"),
    ("a <https://e.com/b", "a <https://e.com/b", "a the link to e.com"),
    ("a https://", "a https://", "a"),
    ("a https://exam", "a https://exam", "a"),
    ("a https://e.com/b_", "a https://e.com/b_", "a the link to e.com"),
    ("a http://localhost", "a http://localhost", "a the link to localhost"),
    ('a <a href="https://e.com/b', 'a <a href="https://e.com/b', "a"),
    # No markup was cut off: these are text.
    ("Call _reset in my_module.", "Call _reset in my_module.", "Call _reset in my_module."),
    ("Use the ` key and **press** it.", "Use the ` key and press it.", "Use the ` key and press it."),
    ("a*b", "a*b", "a*b"),
    ("array[0", "array[0", "array[0"),
    ("a * b", "a * b", "a * b"),
    ("a [b]", "a [b]", "a [b]"),
    ("a [b](c and d", "a [b](c and d", "a [b](c and d"),
    ("*a\n\nb", "*a\n\nb", "*a\n\nb"),
]


@pytest.mark.parametrize(("markdown", "plain", "speech"), CUT_OFF)
def test_a_stream_that_is_cut_off_keeps_its_words(markdown: str, plain: str, speech: str) -> None:
    """Plain text shows unfinished markup as it was written; a voice does not speak its marks and targets."""
    assert strip_however_cut(markdown, Profile.PLAIN) == plain
    assert strip_however_cut(markdown, Profile.SPEECH) == speech


def test_no_mark_and_no_half_address_is_spoken_wherever_a_stream_is_cut_off() -> None:
    text = (
        "See *one* and **two three** _four_ `five` [six](https://a.example/b_) ![seven](/c.png) <https://d.example/e> f"
    )
    for stop in range(len(text)):
        spoken = strip(text[:stop], Profile.SPEECH)
        assert not set("*_~`<>") & set(spoken)
        assert "http" not in spoken
        assert "d.ex" not in spoken or "d.example" in spoken


def test_marks_that_are_dropped_at_the_end_are_noted() -> None:
    stripper = TextStripper(Profile.SPEECH)
    stripper.feed("a *b [c")
    stripper.close()
    unmatched = [note for note in stripper.notes if note.kind is NoteKind.UNMATCHED_DELIMITER]
    assert [(note.position, note.marker) for note in unmatched] == [(2, "*"), (5, "[")]


DEFINED = "\n\n[RFC 9110]: https://www.rfc-editor.org/rfc/rfc9110"
REFERENCES = [
    # Full, collapsed and shortcut references agree.
    ("See [it][RFC 9110] now." + DEFINED, "See it now."),
    ("See [RFC 9110][] now." + DEFINED, "See RFC 9110 now."),
    ("See [RFC 9110] now." + DEFINED, "See RFC 9110 now."),
    ("See [rfc  9110], now." + DEFINED, "See rfc  9110, now."),
    ("See [RFC\n9110] now." + DEFINED, "See RFC\n9110 now."),
    ("[RFC 9110]" + DEFINED, "RFC 9110"),
    ("See *[RFC 9110]* and **x [RFC 9110]**." + DEFINED, "See RFC 9110 and x RFC 9110."),
    ("See [`open`].\n\n[`open`]: /open", "See open."),
    ("See ![a chart].\n\n[a chart]: /chart.png", "See a chart."),
    ("# [RFC 9110]\n\n- [RFC 9110], x\n\n> [RFC 9110]" + DEFINED, "RFC 9110\n\nRFC 9110, x\n\nRFC 9110"),
    ("| [RFC 9110] |\n|---|\n| [RFC 9110] |" + DEFINED, "RFC 9110\nRFC 9110"),
    ("[one two] and [three] and [four].\n\n[three]: /3\n[one two]: /12", "one two and three and [four]."),
    ("See [RFC 9110].\n\n```\n[RFC 9110]\n```" + DEFINED, "See RFC 9110.\n\n[RFC 9110]"),
    ("See [RFC 9110]." + DEFINED + "\n\nAnd [RFC 9110] again.", "See RFC 9110.\n\nAnd RFC 9110 again."),
    # Without a definition, text in brackets stays as it is.
    ("This is so [citation needed] today.", "This is so [citation needed] today."),
    ("Dear [Your Name],\n\nthe end", "Dear [Your Name],\n\nthe end"),
    ("[Note] *a* and `[b c]` and [d e]", "[Note] a and [b c] and [d e]"),
    ("![an image] here", "![an image] here"),
    # These are never references, also if such a label is defined later.
    ("array[ab] and f(x)[ab].\n\n[ab]: /u", "array[ab] and f(x)[ab]."),
    ("See [1] and [2].\n\n[1]: /one\n[2]: /two", "See [1] and [2]."),
    ("The box [x] is ticked.\n\n[x]: /u", "The box [x] is ticked."),
    # A definition that comes later than a live stream can wait for.
    ("See [RFC 9110]. " + "word " * 60 + DEFINED, "See [RFC 9110]. " + "word " * 59 + "word"),
]


@pytest.mark.parametrize(("markdown", "expected"), REFERENCES)
def test_a_shortcut_reference_is_a_link_if_its_definition_follows_soon(markdown: str, expected: str) -> None:
    assert strip_however_cut(markdown, Profile.PLAIN) == expected


def test_text_after_a_possible_reference_is_kept_back_for_256_characters() -> None:
    stripper = TextStripper()
    released = [stripper.feed(piece) for piece in ["See [RFC 9110] ", *["word "] * 60]]
    assert released[0] == "See "
    assert not any(released[1:50])
    assert released[50].startswith("[RFC 9110] word ")
    assert released[51] == " word"


def test_a_possible_reference_is_escaped_for_ssml() -> None:
    text = "See [R&D Guide] and [A&B].\n\n[r&d guide]: /u"
    assert strip(text, Profile.SPEECH, ssml=True) == "See R&amp;D Guide and [A&amp;B]."
