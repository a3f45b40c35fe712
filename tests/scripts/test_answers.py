"""The page of answers has all of the tables, and an example that is labelled."""

from scripts.docs.answers import page

from accord.apis.answer_table import ANSWER_TABLE


def test_the_page_has_every_row_and_a_labelled_example():
    text = page()
    for rows in ANSWER_TABLE.values():
        for name in rows:
            assert f"| `{name}` |" in text
    assert '"part": "content[].text.citations' in text
