"""Escaping control characters: which ones, how, and that JSON keeps its meaning."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.terminal import escape_controls, escape_line

ESCAPED = [
    ("\x1b[31m", "\\u001b[31m"),
    ("\x9b31m", "\\u009b31m"),
    ("\x00\x07\x08\x0b\x0c\x7f", "\\u0000\\u0007\\u0008\\u000b\\u000c\\u007f"),
    ("good\rbad", "good\\u000dbad"),
    ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
    ("\ud800", "\\ud800"),
]
UNTOUCHED = ["", "plain", "two\nlines\tand\r\na third", "naïve 你好 👩‍💻 \u200e\u200f é"]


@pytest.mark.parametrize(("text", "escaped"), ESCAPED)
def test_control_characters_are_escaped(text: str, escaped: str):
    assert escape_controls(text) == escaped
    assert escape_line(text) == escaped


@pytest.mark.parametrize("text", UNTOUCHED)
def test_other_text_is_not_changed(text: str):
    assert escape_controls(text) == text


def test_a_line_has_no_line_ends_and_no_tabs():
    assert escape_line("a\nb\r\nc\td") == "a\\u000ab\\u000d\\u000ac\\u0009d"


@given(st.text(st.characters(codec="utf-8")))
def test_no_control_character_is_left_and_no_other_is_changed(text: str):
    line = escape_line(text)
    assert not [character for character in line if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")]
    assert json.loads(f'"{line}"') == text if '"' not in text and "\\" not in text else True


@given(st.text(), st.data())
def test_escaping_pieces_is_as_safe_as_escaping_the_whole(text: str, data: st.DataObject):
    cut = data.draw(st.integers(0, len(text)))
    pieces = escape_controls(text[:cut]) + escape_controls(text[cut:])
    assert escape_controls(pieces) == pieces or text[cut - 1 : cut] == "\r"
    assert pieces.replace("\\u000d\n", "\r\n") == escape_controls(text).replace("\\u000d\n", "\r\n")


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_keeps_its_meaning(value: object):
    written = json.dumps(value, ensure_ascii=False, indent=2)
    assert json.loads(escape_controls(written)) == value
