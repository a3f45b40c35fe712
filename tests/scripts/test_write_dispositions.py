"""The page of dispositions is what its script writes from the table."""

from scripts.write_dispositions import PAGE, page

from accord.core.work.fields import TABLE


def test_the_page_is_not_stale():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs-tables`"


def test_the_page_has_every_row_and_a_refused_and_a_labelled_example():
    text = page()
    for rows in TABLE.values():
        for name in rows:
            assert f"| `{name}` |" in text
    assert "accord-dispositions: seed=dropped, response_format.json_object=emulated" in text
    assert "seed: No backend can do this work" in text
