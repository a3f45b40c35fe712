"""A user with an empty folder, a clean home and the installed `accord`: runs commands, serves, speaks over pipes."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener
from uuid import uuid4

from tests.roles.install import Installation
from tests.servers.acp.editor import Editor

WAIT_S = 30
HTTP = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP."""

    status: int
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def packets(self) -> list[dict[str, Any]]:
        """The packets of an event stream."""
        return [json.loads(line.removeprefix("data:")) for line in self.text.splitlines() if line.startswith("data:")]


@dataclass(frozen=True, slots=True)
class Served:
    """A running `accord serve`: the line that it printed, and where it listens."""

    process: subprocess.Popen[str]
    curl: str
    log_file: Path

    @property
    def address(self) -> str:
        found = re.search(r"http://[^/\s]+", self.curl)
        assert found, self.curl
        return found.group()

    @property
    def log(self) -> str:
        """What it wrote to standard error so far."""
        return self.log_file.read_text(encoding="utf-8")

    def ask(self, query: str, session: str = "mine", *, accept: str = "application/json", **payload: Any) -> Answer:
        """Ask it this as a request of its own."""
        request = {
            "request_id": str(uuid4()),
            "context": {"session_id": session, "user": {"id": "me", "name": "Me"}},
            "payload": {"query": query, **payload},
        }
        return self.fetch("/v1/assist", json.dumps(request).encode(), accept=accept)

    def fetch(self, path: str, body: bytes | None = None, *, accept: str = "application/json") -> Answer:
        headers = {"accept": accept, "content-type": "application/json"}
        try:
            with HTTP.open(Request(self.address + path, body, headers), timeout=WAIT_S) as response:  # noqa: S310
                return Answer(response.status, response.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode())

    def press_ctrl_c(self) -> int:
        """End it as a terminal does; gives its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@dataclass(frozen=True, slots=True)
class User:
    """One user. Nothing of the environment that runs the tests is visible to their commands but the system's PATH."""

    installed: Installation
    home: Path
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def environ(self) -> dict[str, str]:
        path = f"{self.installed.commands}{os.pathsep}{os.environ['PATH']}"
        # Without the pauses of the demo agent, which are there to be watched.
        plain = {"LANG": "C.UTF-8", "COLUMNS": "200", "ACCORD_DEMO_PACE": "0"}
        return {"PATH": path, "HOME": str(self.home), **plain, **self.variables}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def write_json(self, name: str, value: Any) -> Path:
        return self.write(name, json.dumps(value))

    def run(self, *command: str, status: int = 0, timeout_s: float = WAIT_S) -> subprocess.CompletedProcess[str]:
        """Run this in the user's folder, to its end, which must have this exit status and no stack trace."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def accord(self, *arguments: str, status: int = 0, timeout_s: float = WAIT_S) -> subprocess.CompletedProcess[str]:
        return self.run("accord", *arguments, status=status, timeout_s=timeout_s)

    def shell(self, line: str) -> str:
        """What this line prints when it is pasted into a shell."""
        return self.run("sh", "-c", line).stdout

    @contextmanager
    def serve(self, *arguments: str) -> Generator[Served]:
        """`accord serve` at a free port until the block ends."""
        log = self.folder / "serve.log"
        with (
            log.open("w", encoding="utf-8") as errors,
            subprocess.Popen(
                ["accord", "serve", "--port", "0", *arguments],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                # One that cannot start ends, and then there is no line; pytest's limit bounds the wait.
                curl = next((line for line in process.stdout if line.startswith("curl ")), "")
                assert curl, log.read_text(encoding="utf-8")
                yield Served(process, curl, log)
            finally:
                process.terminate()  # first, so that --reload ends the service that it has started
                try:
                    process.wait(WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()

    @contextmanager
    def editor(self, *command: str) -> Generator[Editor]:
        """An editor that has started this command and speaks to it over pipes."""
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=self.folder, env=self.environ, stdin=pipe, stdout=pipe) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            editor = Editor(process.stdin, process.stdout, process)
            try:
                yield editor
            finally:
                editor.close()
