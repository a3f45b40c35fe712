"""The stripper: what is released when, notes, messages, SSML."""

import pytest

from accord.core.output.markdown import ENGLISH, NoteKind, Profile, TextStripper, strip

LIMIT_AND_A_LINE = 256 + 1024


def test_prose_is_released_at_once() -> None:
    stripper = TextStripper()
    assert [stripper.feed(word) for word in ("Once", " upon", " a", " time")] == [
        "Once",
        " upon",
        " a",
        " time",
    ]


def test_feeding_a_closed_stripper_is_an_error() -> None:
    stripper = TextStripper()
    stripper.close()
    with pytest.raises(ValueError, match="after close"):
        stripper.feed("x")


def test_ssml_needs_the_speech_profile() -> None:
    with pytest.raises(ValueError, match="SPEECH"):
        TextStripper(Profile.PLAIN, ssml=True)


def test_speech_for_ssml_is_escaped() -> None:
    assert strip('Tom & "Jerry" 1 < 2', Profile.SPEECH, ssml=True) == "Tom &amp; &quot;Jerry&quot; 1 &lt; 2"


@pytest.mark.parametrize(
    "opening",
    [
        "**",
        "*",
        "_",
        "~~",
        "`",
        "[",
        "![",
        "[a](",
        '<a b="',
        "<!-- ",
        "$x",
        "\\(",
        "&a",
        "| a ",
        "https://e.com/",
    ],
)
def test_nothing_is_kept_back_beyond_the_limit_and_a_line(opening: str) -> None:
    stripper = TextStripper()
    released = 0
    for count in range(1, 700):
        released += len(stripper.feed((opening if count == 1 else "") + "word "))
        if opening not in ("[a](", "<!-- "):
            assert 5 * count - released <= LIMIT_AND_A_LINE
    stripper.feed("--> \n\n")
    assert stripper.feed("after it").strip() == "after it"


@pytest.mark.parametrize(
    ("markdown", "in_code"),
    [
        ("", False),
        ("A sentence. **B", False),
        ("```\ncode. ", True),
        ("```\ncode\n```\n", False),
        ("text\n\n    code", True),
        ("- ~~~\n  code", True),
    ],
)
def test_in_code_is_true_inside_code_blocks(markdown: str, in_code: bool) -> None:
    stripper = TextStripper()
    stripper.feed(markdown)
    assert stripper.in_code == in_code


@pytest.mark.parametrize(
    ("markdown", "kind", "position", "marker"),
    [
        ("a\n\n```py\nx\n```\n", NoteKind.CODE_BLOCK, 6, ""),
        ("a [b](https://c.d/e)", NoteKind.URL, 2, "c.d"),
        ("a https://c.d/e", NoteKind.URL, 2, "c.d"),
        ("\r\n\r\n![b](c.png)", NoteKind.IMAGE, 4, "c.png"),
        ("a <b>c", NoteKind.HTML, 2, "b"),
        ("a <!-- b -->", NoteKind.COMMENT, 2, ""),
        ("a **b", NoteKind.UNMATCHED_DELIMITER, 2, "**"),
        ("~~a~~", NoteKind.STRIKETHROUGH, 3, ""),
        ("a $b$", NoteKind.MATH, 2, ""),
        ("a[^1]", NoteKind.FOOTNOTE, 1, "1"),
        ("[a]: /b", NoteKind.REFERENCE_DEFINITION, 7, "a"),
        ("|a|\n|-|\n|b|", NoteKind.TABLE, 4, ""),
    ],
)
def test_what_is_removed_or_rewritten_has_a_note_with_its_position(
    markdown: str, kind: NoteKind, position: int, marker: str
) -> None:
    stripper = TextStripper(Profile.SPEECH)
    stripper.feed(markdown)
    stripper.close()
    assert [(note.kind, note.position, note.marker) for note in stripper.notes] == [(kind, position, marker)]


@pytest.mark.parametrize(
    ("markdown", "speech"),
    [
        ("```python\na\nb\n```", "(Python code, 2 lines)"),
        ("```\na\n```", "(Code, 1 line)"),
        ("    a\n\n    b\n", "(Code, 3 lines)"),
        ("    a\n\n    b", "(Code, 3 lines)"),
        ("    a\n\nb", "(Code, 1 line)\n\nb"),
        ("a\n\n```py\n```\n\nb", "a\n\nb"),
        ("| Name | Age |\n|---|---|\n| Bob | 42 |\n| Eve | |", "Name: Bob, Age: 42.\nName: Eve."),
        ("Name | Age\n---|---\nBob | 42", "Name, Age\nBob, Age: 42."),
        ("| a | b |\n|---|---|\n", "a, b"),
        ("see https://www.example.com/x?y.", "see the link to example.com."),
        ("[the docs](https://example.com)", "the docs"),
        ("open `https://example.com/x` or `curl x`", "open the link to example.com or curl x"),
        ("- [x] a\n- [ ] b", "a, checked\nb, not checked"),
        ("<script>\nlet x\n</script>\n\ny", "y"),
    ],
)
def test_speech_describes_code_tables_and_links(markdown: str, speech: str) -> None:
    assert strip(markdown, Profile.SPEECH) == speech


def test_messages_in_another_language_can_be_passed() -> None:
    german = {**ENGLISH, "code_block": "({language}-Code, {lines} Zeilen)", "link": "der Link zu {host}"}
    assert (
        strip("```py\na\nb\n```\nhttps://e.com", Profile.SPEECH, messages=german)
        == "(Python-Code, 2 Zeilen)\nder Link zu e.com"
    )


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("# A #\n## B\ntext", "A\nB\ntext"),
        ("> a\nb\n> > c", "a\nb\nc"),
        ("1. a\n   1) b\n\n      c\n2. d", "1. a\n1) b\n\nc\n2. d"),
        ("a\n\n    code\n\n      more\n\nb", "a\n\ncode\n\n  more\n\nb"),
        ("~~~\n```\n~~~\nb", "```\nb"),
        ("- ```py\n  x\n  ```\n- b", "x\nb"),
        ("<div>\n*a* &amp; b\n</div>\n\n*c*", "*a* & b\n\nc"),
        ("a | b\nc", "a | b\nc"),
        ("![a *b*](c) [d](<e f> 'g')", "a b d"),
        ("`` a`b `` and `c", "a`b and `c"),
        ("[a]\n\n[a]: /b 'c'\n\n[a] [A][] [d][a]", "[a]\n\na A d"),
        ("a\\\nb  \nc", "a\nb\nc"),
        ("one\n\n\n\n\ntwo\n\n\n", "one\n\ntwo"),
        ("- [ ] - a\n- [x] # b\n1. [ ] 2. c", "- a\n# b\n1. 2. c"),
        ("a |\n-\nb", "a |\nb"),
        ("a\n\n<!-- nobody\n\ncloses this", "a"),
        ("<ul><li>a</li><li>b</li></ul>", "a\nb"),
        ("<p>a</p>\n<p>b<br>\nc</p>\n\nd", "a\nb\nc\n\nd"),
        ("<table><tr><th>a</th><th>b</th></tr>\n<tr><td>c</td><td>d</td></tr></table>", "a, b\nc, d"),
        ("<table>\n<tr>\n<td>a</td>\n<td>b</td>\n</tr>\n</table>", "a\nb"),
    ],
)
def test_plain_text_has_the_text_of_every_construct(markdown: str, plain: str) -> None:
    assert strip(markdown) == plain
