"""Everything under docs/ that is made from the code is as the code makes it now."""

import re
from pathlib import Path

import pytest
from scripts.docs.messages import definitions_of_messages, examples_of
from scripts.docs.pages import DOCS, PAGES

from accord.wire.contract import MESSAGES

GENERATED = [*DOCS.glob("reference/*.md"), *DOCS.glob("diagrams/*.svg")]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_makes(name: str):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert text == PAGES[name](), f"docs/{name} is stale: run make docs"


def test_every_field_of_a_message_has_a_description():
    fields = [
        (f"{name}.{field}", schema)
        for name, definition in definitions_of_messages().items()
        for field, schema in definition.get("properties", {}).items()
    ]
    # A constant, which names the kind of a message, needs none.
    assert [field for field, schema in fields if "description" not in schema and "const" not in schema] == []


def test_every_published_message_has_an_example():
    assert [model.__name__ for model in MESSAGES if not [*examples_of(model.__name__)]] == []


def test_the_index_has_every_page_and_every_diagram():
    text = (DOCS / "reference" / "README.md").read_text(encoding="utf-8")
    linked = {Path(target).name for target in re.findall(r"\]\(([^)]+)\)", text)}
    assert {path.name for path in GENERATED} <= linked


def test_no_generated_file_is_left_over():
    assert [str(path.relative_to(DOCS)) for path in GENERATED if str(path.relative_to(DOCS)) not in PAGES] == []


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("reference/")])
def test_every_link_of_a_page_leads_to_a_heading_or_a_file(name: str):
    page = DOCS / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, fragment = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        if fragment:
            assert fragment in headings(found), target


def headings(page: Path) -> set[str]:
    """The anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
