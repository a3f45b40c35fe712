"""Which tests `make test` leaves out: those that are measured as slow, and those that were added by hand."""

from tests.slow import is_slow, names_of, slow_names

TIMES = [
    ("tests/a/test_one.py::test_quick", 0.01, 0.01),
    ("tests/a/test_one.py::test_busy[1]", 0.5, 0.5),
    ("tests/a/test_one.py::test_busy[2]", 0.2, 0.2),
    ("tests/a/test_one.py::test_mostly_quick[1]", 0.5, 0.5),
    ("tests/a/test_one.py::test_mostly_quick[2]", 0.01, 0.01),
    ("tests/a/test_one.py::test_waits", 0.01, 2.0),
    ("tests/b/test_two.py::test_busy", 2.0, 2.0),
    ("tests/b/test_three.py::test_quick", 0.01, 0.01),
    ("tests/c/test_four.py::test_busy", 2.0, 2.0),
]


def test_a_function_is_listed_by_its_average_and_a_file_if_it_has_no_others():
    assert list(slow_names(TIMES, {})) == [
        "tests/a/test_one.py::test_busy",
        "tests/a/test_one.py::test_waits",
        "tests/b/test_two.py",
        "tests/c/test_four.py",
    ]


def test_a_line_with_a_comment_stays_and_stands_for_all_that_is_under_it():
    kept = {"tests/c/": "a browser", "tests/b/test_three.py": "needs an SDK", "tests/a/test_one.py::test_gone": ""}
    assert slow_names(TIMES, kept) == {
        "tests/a/test_one.py::test_busy": "",
        "tests/a/test_one.py::test_waits": "",
        "tests/b/test_three.py": "needs an SDK",
        "tests/b/test_two.py": "",
        "tests/c/": "a browser",
    }


def test_a_test_is_named_by_its_function_its_file_and_its_folders():
    names = {"tests/a/test_b.py::test_c", "tests/a/test_b.py", "tests/a/", "tests/", "./"}
    assert names_of("tests/a/test_b.py::test_c[x]") == names


def test_the_tests_in_a_browser_are_slow_and_these_are_not():
    assert is_slow("tests/page/test_chat.py::test_anything")
    assert not is_slow("tests/scripts/test_slow.py::test_anything")
