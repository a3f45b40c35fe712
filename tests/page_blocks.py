"""Runs the blocks of a documentation page as its reader would: in order, in one folder, each file where the page says.

A sentence that ends with a file name in backticks and a colon names the file of the block below it. A block of shell
commands that begins with `accord serve` starts a service, which ends with the page; any other one, and any program, is run
to its end. The `text` or `json` block below it is what it prints, on standard output and standard error.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

DOCS: Final = Path(__file__).parent.parent / "docs"
WAIT_S: Final = 30
INTERPRETERS: Final = {"sh": ("sh", "-c"), "python": (sys.executable, "-c")}
FILE_NAME: Final = re.compile(r"`([\w./-]+)`:\s*$")
CHANGING: Final = (
    (re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"), "UUID"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)"), "TIME"),
    (re.compile(r"\d+\.\d+ ?(ms|s)\b"), r"0 \1"),
    (re.compile(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b"), "HASH"),
    (re.compile(r'("(?:duration_ms|last)":\s*)[^,}\s]+'), r"\1…"),
)
"""What differs from one run to the next."""


@dataclass(frozen=True, slots=True)
class Block:
    """A code block, and the text between the block before it and itself."""

    language: str
    text: str
    before: str

    @property
    def file_name(self) -> str | None:
        """The name that the sentence before the block gives it."""
        found = FILE_NAME.search(self.before.rstrip())
        return found[1] if found else None


def read_blocks(page: str) -> list[Block]:
    """The code blocks of a page of docs/."""
    text = (DOCS / page).read_text(encoding="utf-8")
    parts = re.split(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(parts[at + 1], parts[at + 2], parts[at]) for at in range(0, len(parts) - 1, 3)]


def settle(text: str) -> Any:
    """The same without ids and times; JSON as an object."""
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    text = "\n".join(line.rstrip() for line in text.strip().splitlines())
    try:
        return json.loads(re.sub(r'(":\s*)…', r"\1null", text))
    except ValueError:
        return text


@dataclass(slots=True)
class Reader:
    """Someone with a shell in this folder; `addresses` maps those of the page to those of the services."""

    folder: Path
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    services: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def follow(self, blocks: list[Block]) -> list[tuple[str, str, str]]:
        """Do what the blocks say; gives the command, what the page says of it and what it printed."""
        done: list[tuple[str, str, str]] = []
        try:
            for at, block in enumerate(blocks):
                if block.file_name is not None:
                    (self.folder / block.file_name).write_text(block.text, encoding="utf-8")
                elif block.language == "sh" and block.text.startswith("accord serve"):
                    self.serve(block.text.strip())
                elif block.language in INTERPRETERS:
                    printed = self.run(block.text, *INTERPRETERS[block.language])
                    following = blocks[at + 1] if at + 1 < len(blocks) else None
                    if following is not None and following.language in ("text", "json") and not following.file_name:
                        done.append((block.text, following.text, printed))
        finally:
            for service in self.services:
                service.send_signal(signal.SIGTERM)
            for service in self.services:
                service.communicate(timeout=WAIT_S)
        return done

    @property
    def _environ(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        state = {"ACCORD_STATE_DIR": str(self.folder / "state"), "COLUMNS": "120", "ACCORD_DEMO_PACE": "0"}
        return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **state}

    def serve(self, command: str) -> None:
        """Start a service at any free port instead of the one that the page names."""
        named = re.search(r" --port (\d+)", command)
        chosen = [*command.replace(named[0] if named else "", "").split(), "--port", "0"]
        with (self.folder / "serve.log").open("a") as log:
            service = subprocess.Popen(
                chosen, cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.services.append(service)
        assert service.stdout is not None
        assert select.select([service.stdout], [], [], WAIT_S)[0], f"{command} does not start"
        found = re.search(r"http://[\d.]+:\d+", service.stdout.readline())  # of the request that it prints
        assert found is not None
        self.addresses[f"http://127.0.0.1:{named[1] if named else 8000}"] = found[0]

    def run(self, command: str, *interpreter: str) -> str:
        """Run a block of shell commands, or of another language; gives what it prints, with the addresses of the page."""
        for shown, real in self.addresses.items():
            command = command.replace(shown, real)
        done = subprocess.run(
            [*(interpreter or INTERPRETERS["sh"]), command],
            cwd=self.folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        printed = done.stdout.replace(str(self.folder), ".")
        for shown, real in self.addresses.items():
            printed = printed.replace(real, shown)
        return printed
