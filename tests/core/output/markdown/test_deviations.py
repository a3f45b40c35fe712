"""Deviations from CommonMark on purpose: each has a name and at least one row here."""

import pytest

from accord.core.output.markdown import Profile, strip

DEVIATIONS = [
    ("digits-multiply", "2*3*4 and x**2 + y**2", "2*3*4 and x**2 + y**2"),
    ("digits-multiply", "*2*nd and **3**rd", "2nd and 3rd"),
    ("digits-multiply", "**5*3** is 15", "5*3 is 15"),
    ("strong-beside-punctuation", "**Note:**text", "Note:text"),
    ("strong-beside-punctuation", "これは**「重要」**です", "これは「重要」です"),
    ("strong-beside-punctuation", "これは*「重要」*です", "これは「重要」です"),
    ("footnote stars stay", "cost*, tax*", "cost*, tax*"),
    ("urls-are-opaque", "https://e.com/a_b_*c* _x_", "https://e.com/a_b_*c* x"),
    ("urls-are-opaque", "**https://e.com/a_b**", "https://e.com/a_b"),
    ("maths-is-opaque", "$a_1*b_2*c$ and \\(x_1*y_2*z\\)", "$a_1*b_2*c$ and (x_1*y_2*z)"),
    ("maths-is-opaque", "$$\na_1 * b * c\n$$", "$$\na_1 * b * c\n$$"),
    ("maths-is-opaque", "a\n$$\n*x* + _y_\n\n- [z](/u)\n$$\n*b*", "a\n$$\n*x* + _y_\n\n- [z](/u)\n$$\nb"),
    ("money-is-not-maths", "$5 *or* $6", "$5 or $6"),
    ("comments-vanish", "a <!-- b --> c", "a c"),
    ("unknown-names-are-words", "use <your-key> here", "use <your-key> here"),
    ("references-by-looks", "[text][later] but grid[i][j] and [1][2]", "text but grid[i][j] and [1][2]"),
    ("emphasis-crosses-link-edges", "*[bar*](/url)", "bar"),
    ("strikethrough-is-kept", "~~old~~ new", "old new"),
    ("footnote-marks-vanish", "Yes.[^1] But [^a-z]* stays", "Yes. But [^a-z]* stays"),
    ("long-destinations-are-links", f"![x](data:image/png;base64,{'A' * 5000}) y", "x y"),
]


@pytest.mark.parametrize(("_name", "markdown", "expected"), DEVIATIONS)
def test_each_deviation_has_its_output(_name: str, markdown: str, expected: str) -> None:
    assert strip(markdown) == expected


@pytest.mark.parametrize(
    ("markdown", "plain", "speech"),
    [
        ("a **b", "a **b", "a b"),
        ("f(**kwargs) and *args.\n\nx", "f(**kwargs) and *args.\n\nx", "f(kwargs) and *args.\n\nx"),
        ("x ** y", "x ** y", "x ** y"),
        ("x__y", "x__y", "x__y"),
    ],
)
def test_unmatched_strong_is_kept_in_plain_text_and_dropped_in_speech(markdown: str, plain: str, speech: str) -> None:
    assert (strip(markdown), strip(markdown, Profile.SPEECH)) == (plain, speech)
