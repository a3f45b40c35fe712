"""docs/comparison.md: every project has its row and its section, and what the page names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
SCRIPTS = sorted((ROOT / "docs/comparison").glob("*.py"))


def test_each_project_has_a_row_and_a_section_that_says_what_it_does_better():
    rows = re.findall(r"^\| \[([\w-]+)\]\(#([\w-]+)\)", PAGE, flags=re.MULTILINE)
    sections = dict(re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
    assert [name for name, _ in rows] == list(sections)
    assert [link for _, link in rows] == [name.lower() for name in sections]
    assert [name for name, text in sections.items() if "**Better than Accord" not in text] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_each_script_is_python_and_its_command_is_on_the_page(script: Path):
    assert ast.parse(script.read_text(encoding="utf-8"))
    assert f"docs/comparison/{script.name}" in PAGE


def test_each_file_on_the_page_exists():
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", PAGE)
    paths = re.findall(r"(?<![\w/])(?:tests|docs/comparison)/[\w/]+\.py", PAGE)
    assert len(links) > 5
    assert len(paths) > 5
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []
