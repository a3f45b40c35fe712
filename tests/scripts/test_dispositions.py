"""The page of dispositions has all of the table, and an example of each outcome."""

from scripts.docs.dispositions import page

from accord.core.work.fields import TABLE


def test_the_page_has_every_row_and_a_refused_and_a_labelled_example():
    text = page()
    for rows in TABLE.values():
        for name in rows:
            assert f"| `{name}` |" in text
    assert "accord-dispositions: seed=dropped, response_format.json_object=emulated" in text
    assert "seed: No backend can do this work" in text
