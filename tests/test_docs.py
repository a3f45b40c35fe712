"""The pages of docs/ belong together: one table, links that lead somewhere, a site that loads nothing."""

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer
import typer.main
from scripts.build_site import COPIES, build_site

from accord.cli.app import app
from accord.config import read_config
from tests.page_blocks import read_blocks

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
NAV: list[dict[str, Any]] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
LONG = {"acp-agents.md", "answers.md", "dispositions.md"}
"""Pages that are tables made by a program."""
SOME_BACKENDS = "".join(
    f'[[backends]]\nname = "{name}"\nkind = "openai"\nmodel = "m"\nbase_url = "http://localhost/v1"\n'
    for name in ("small", "large", "first", "second", "spare")
)
"""Those to which tables of groups on the pages refer."""
MAX_LINES = 400
CODE_BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
LOADED = re.compile(r"""(?:src|href)=["']?(?:https?:)?//[^\s"'>]+|(?:url\(|@import\s*)["']?(?:https?:)?//[^\s"')]+""")
LOADING_TAG = re.compile(r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def listed_pages(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The pages of the navigation, in their order."""
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from listed_pages(value)


def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, by GitHub's rule."""
    text = CODE_BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation_and_in_the_overview_in_the_same_order():
    listed = [*listed_pages(NAV)]
    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in PAGES]
    overview = LINK.findall((DOCS / "README.md").read_text(encoding="utf-8"))
    assert ["README.md", *(link for link in overview if link.endswith(".md"))] == listed


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(path: Path):
    for found in LINK.finditer(CODE.sub("", path.read_text(encoding="utf-8"))):
        link = found[1]
        url = urlsplit(link)
        if url.scheme:
            continue
        target = (path.parent / unquote(url.path)).resolve() if url.path else path
        assert target.is_file(), link
        assert not url.fragment or url.fragment in anchors(target), link
        if path in PAGES and target.suffix == ".md":
            assert target.is_relative_to(DOCS), f"{link}: name Markdown outside of docs/, the site has no page for it"


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_page_has_one_title_and_is_short(path: Path):
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"^# ", CODE.sub("", text), flags=re.MULTILINE)) == 1
    assert len(text.splitlines()) <= MAX_LINES or path.name in LONG or path.parent.name == "reference"


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_list_begins_after_an_empty_line(path: Path):
    # GitHub does not need it, but the site would show the items as one paragraph.
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    assert not re.findall(r"^(?![-*\s]|\d+\. ).+\n(?:[-*]|\d+\.) .*", text, flags=re.MULTILINE)


def commands(path: Path) -> Iterator[str]:
    """The lines of a page that call `accord`, from its blocks and from the code in its text."""
    text = path.read_text(encoding="utf-8")
    for block in re.finditer(r"^```(?:sh|text)?\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        for line in block[1].replace("\\\n", " ").splitlines():
            yield from re.findall(r"(?:^|\$ |\| |; )(accord [a-z].*)", line)
    for code in re.finditer(r"`(accord [a-z][^`]*[^`\s])`", CODE_BLOCK.sub("", text)):
        yield " ".join(code[1].split())


def wrong_words(line: str) -> list[str]:
    """The options of this call that its command does not have; the name of a command that does not exist."""
    command: Any = typer.main.get_command(app)
    words = re.split(r"[\s|;>]+", line.partition(" -- ")[0].partition("  #")[0].replace("\\|", " ").strip())[1:]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        found = command.get_command(typer.Context(command), words[0])
        if found is None:
            return [words[0]] if words[0].islower() else []  # a placeholder such as COMMAND
        command, words = found, words[1:]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return [
        word for word in words if re.fullmatch(r"--[a-z-]+", word) and word not in {*options, "--help", "--version"}
    ]


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_every_call_of_accord_names_a_command_and_options_that_exist(path: Path):
    assert {line: wrong for line in commands(path) if (wrong := wrong_words(line))} == {}


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_every_configuration_json_object_and_program_on_a_page_can_be_read(path: Path):
    for block in read_blocks(str(path.relative_to(DOCS))):
        if block.language == "toml":
            text = block.text if "[[backends]]" in block.text or "[" not in block.text else SOME_BACKENDS + block.text
            assert read_config(text).config, block.text
        elif block.language == "json" and block.text[0] in "[{":
            json.loads(block.text)
        elif block.language == "python" and path.parent == DOCS:  # the reference has signatures
            compile(block.text, path.name, "exec")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the site is made of."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    for path in (
        path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name not in ("build", "docs")
    ):
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    return folder


def test_the_site_has_every_page_and_loads_nothing_from_another_host(checkout: Path):
    assert build_site(checkout) == 0
    site = checkout / "build" / "site"
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css") and COPIES not in path.parts]
    assert len([path for path in files if path.suffix == ".html"]) == len(PAGES) + 1  # and 404.html
    for path in files:
        text = path.read_text(encoding="utf-8")
        loading = "".join(LOADING_TAG.findall(text)) if path.suffix == ".html" else text
        assert LOADED.findall(loading) == [], path
    for page in (path for path in files if path.suffix == ".html" and path.name != "404.html"):
        for found in re.finditer(r'href="([^"#?]*)', page.read_text(encoding="utf-8")):
            if not urlsplit(found[1]).scheme:
                target = (page.parent / unquote(found[1])).resolve()
                assert target.is_relative_to(site), (page, found[1])
                assert target.exists(), (page, found[1])


def test_a_broken_link_fails_the_build(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Title\n\n[a](#no-such-heading)\n", encoding="utf-8")
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "A"\nsite_dir = "site"\n', encoding="utf-8")
    assert build_site(tmp_path) == 1
