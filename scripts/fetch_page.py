"""Fetches the libraries of the page with npm, unless the right ones are there already.

    python scripts/fetch_page.py            fetch what is missing or differs
    python scripts/fetch_page.py --check    print what is missing or differs, and exit with status 1 if anything is
    python scripts/fetch_page.py --write    fetch, and write vendor.json, after a change of package-lock.json

package-lock.json has the version and the hash of each package, which npm checks. vendor.json has the size and the hash
of each file that is made of them, so that files which are there already can be checked without npm. The lock
is written by `npm install --package-lock-only --omit-lockfile-registry-resolved`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha512
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

PAGE: Final = Path(__file__).parent.parent / "src" / "accord" / "servers" / "page"
VENDOR: Final = PAGE / "static" / "vendor"
EXPECTED: Final = PAGE / "vendor.json"
MAX_BYTES: Final = 80_000

MODULES: Final[Mapping[str, str]] = {
    "lit-html.js": "lit-html/lit-html.js",
    "purify.js": "dompurify/dist/purify.min.js",
    "streaming-markdown.js": "streaming-markdown/smd.min.js",
}
"""The file of a package that each of our files is made of."""
WRAPPED: Final[Mapping[str, tuple[str, str]]] = {
    "purify.js": ("const exports = {}, module = { exports };\n", "export default module.exports;\n"),
}
"""What is put around a file that is not an ES module: DOMPurify has no minified one."""
LICENCES: Final[Mapping[str, str]] = {
    "dompurify": "LICENSE",  # Apache-2.0, of the two that it offers
    "lit-html": "LICENSE",
    "streaming-markdown": "license",
}
LICENCES_FILE: Final = "LICENSES.txt"

NO_NPM: Final = (
    "The libraries of the page could not be fetched: npm failed ({problem}). It needs the package registry that it is "
    "configured for (NPM_CONFIG_REGISTRY names another one). When it can be reached, try again, or run `make page`."
)


class FetchError(Exception):
    """The libraries cannot be had as they are expected."""


def make_files(packages: Path) -> dict[str, bytes]:
    """Return the files of the page, made of the packages that npm installed in this folder."""
    files: dict[str, bytes] = {}
    for name, source in MODULES.items():
        text = (packages / source).read_text(encoding="utf-8")
        # There is no map, and browsers would look for it.
        text = re.sub(r"^//# sourceMappingURL=.*\n?", "", text, flags=re.MULTILINE)
        before, after = WRAPPED.get(name, ("", ""))
        files[name] = f"{before}{text.rstrip()}\n{after}".encode()
    licences = [
        f"{package}\n{'=' * len(package)}\n\n{(packages / package / name).read_text(encoding='utf-8').strip()}\n"
        for package, name in LICENCES.items()
    ]
    return {**files, LICENCES_FILE: "\n\n".join(licences).encode()}


def describe(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the size and the hash of each file: the content of vendor.json."""
    return {
        name: {"bytes": len(content), "sha512": sha512(content).hexdigest()} for name, content in sorted(files.items())
    }


def find_problems(files: Mapping[str, bytes], expected: Mapping[str, Any]) -> list[str]:
    """Return how these files differ from the expected ones, and what no file of the page may be like."""
    described = describe(files)
    problems = [f"{name} is missing" for name in expected if name not in files]
    problems += [f"{name} is not expected" for name in files if name not in expected]
    problems += [
        f"{name} differs from vendor.json" for name in files if described[name] != expected.get(name, described[name])
    ]
    # Anything that a module imports would have to be there as well.
    problems += [
        f"{name} imports another module" for name in MODULES if re.search(rb"\bimport\b", files.get(name, b""))
    ]
    size = sum(map(len, files.values()))
    return problems if size < MAX_BYTES else [*problems, f"{size} bytes are too many; the limit is {MAX_BYTES}"]


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files in this folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def fetch_files() -> dict[str, bytes]:
    """Install the packages of the lock into a temporary folder and return the files that are made of them."""
    from npm import install_npm  # noqa: PLC0415 - beside this script, when it is run; tests import this as a module

    with TemporaryDirectory(prefix="accord-page-") as folder:
        try:
            install_npm(PAGE, Path(folder), ("ci", "--ignore-scripts"))
        except (subprocess.CalledProcessError, OSError) as error:
            # Not the command itself, which is long and says nothing; npm has printed the reason.
            problem = f"exit status {error.returncode}" if isinstance(error, subprocess.CalledProcessError) else error
            raise FetchError(NO_NPM.format(problem=problem)) from None
        return make_files(Path(folder) / "node_modules")


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit status."""
    expected: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    problems = find_problems(read_files(VENDOR), expected)
    if arguments == ["--check"]:
        print(*problems, sep="\n", end="\n" if problems else "")
        return 1 if problems else 0
    if not problems and not arguments:
        return 0
    print("Fetching the libraries of the page ...", file=sys.stderr)
    try:
        files = fetch_files()
        expected = describe(files) if arguments == ["--write"] else expected
        if problems := find_problems(files, expected):
            raise FetchError(f"The libraries of the page are not as expected: {'; '.join(problems)}.")
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name in read_files(VENDOR).keys() - files.keys():
        (VENDOR / name).unlink()
    for name, content in files.items():
        (VENDOR / name).write_bytes(content)
    if arguments == ["--write"]:
        EXPECTED.write_text(f"{json.dumps(expected, indent=2)}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
