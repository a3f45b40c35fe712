"""Builds the documentation site with Zensical, and brings the files outside of docs/ that its pages link to.

    python -m scripts.build_site

A page links to a file of the repository as `../examples/a.py`, which works where the repository is read. On the site
such a link would lead out of it: the file is copied to `repository/` and the link changed. Markdown outside of docs/ is
named and not linked, because Zensical would not make a page of it. Broken links and anchors are errors.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

COPIES: Final = "repository"
LINK: Final = re.compile(r'href="(\.\./[^"#?]+)')


def build_site(root: Path) -> int:
    """Build the site of the repository at `root`; the exit status is that of Zensical."""
    site = root / tomllib.loads((root / "zensical.toml").read_text(encoding="utf-8"))["project"]["site_dir"]
    shutil.rmtree(site, ignore_errors=True)  # Zensical keeps the pages of files that are gone
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=root, check=False)
    if done.returncode != 0:
        return done.returncode
    for page in site.rglob("*.html"):

        def bring_file(found: re.Match[str], folder: Path = page.parent) -> str:
            target = Path(os.path.normpath(folder / found[1]))
            if target.is_relative_to(site):
                return found[0]
            path = target.relative_to(site.parent)  # the site is to its parent what docs/ is to the repository
            copy = site / COPIES / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, copy)
            return f'href="{os.path.relpath(copy, folder)}'

        page.write_text(LINK.sub(bring_file, page.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"The site is in {site.relative_to(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(build_site(Path(__file__).parent.parent))
