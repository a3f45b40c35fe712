"""`accord serve`: serve an agent over HTTP; with `--reload`, restart when a file changes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from accord.cli.options import ConfigOption, StoreOption, TrustOption, load
from accord.config import LoadedConfig, ServerConfig
from accord.terminal import unfiltered_streams

# `accord serve --reload`: runs the service in a child process and starts it again when a file has changed.
#
# For development. It looks at the modification times of Python files twice a second, which needs no other package. A
# module that cannot be loaded is no end: the child says what is wrong, and the next change starts it again.

POLL_S: Final = 0.5
STOP_S: Final = 3.0
"""How long running turns may hold up a restart; the signal is then sent again, which ends them, and at last a kill."""
MAX_FILES: Final = 5_000
"""More are not watched: walking through a home directory twice a second would keep a core busy."""
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Snapshot = dict[str, int]


def run_reloading(loaded: LoadedConfig, settings: ServerConfig, agent: str | None) -> int:
    """Run this very command without `--reload`, again after every change, until a signal; gives its exit status."""
    arguments = [each for each in sys.argv[1:] if each != "--reload"]
    if settings.port == 0:  # every restart should listen at the same port
        arguments += ["--port", str(_free_port(settings.host))]
    files = [] if loaded.file is None else [Path(loaded.file)]
    folders = [Path.cwd(), *_folder_of(loaded.config.agents.get(agent or "", agent or ""))]
    # -P: a file `typing.py` in the working directory must not become a part of Accord.
    supervisor = _Supervisor([sys.executable, "-P", "-m", "accord", *arguments], folders, files)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.stop)
    return supervisor.run()


def _free_port(host: str) -> int:
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        return server.getsockname()[1]


def _folder_of(place: str) -> list[Path]:
    """The folder of an agent that is named by its file; an agent's module is usually below the working directory."""
    file = Path(place.rpartition(":")[0] or place)
    return [file.resolve().parent] if file.suffix == ".py" and Path.cwd() not in file.resolve().parents else []


class _Supervisor:
    """Holds the child process. `stop` is a signal handler: it forwards the signal to the child."""

    def __init__(self, command: Sequence[str], folders: Sequence[Path], files: Sequence[Path]) -> None:
        self._command: Final = command
        self._folders: Final = folders
        self._files: Final = files
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped_by: int | None = None

    def run(self) -> int:
        while True:
            before = self._snapshot()
            # A session of its own: Ctrl-C in the terminal reaches this process only, which passes it on once.
            self._child = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - our own command
            if self._stopped_by is not None:  # it came before there was a child to pass it on to
                self._child.send_signal(self._stopped_by)
            changed = self._changed_since(before)
            if changed is None:
                return self._child.wait()
            print(f"accord: {changed} has changed; restarting", file=sys.stderr, flush=True)
            self._end_child()

    def stop(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._stopped_by = number
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.send_signal(number)

    def _changed_since(self, before: Snapshot) -> str | None:
        """The first file that changes; None if a signal stops everything."""
        assert self._child is not None  # noqa: S101 - `run` has made it
        has_ended = False
        while self._stopped_by is None:
            time.sleep(POLL_S)
            now = self._snapshot()
            if changed := [file for file in {**before, **now} if before.get(file) != now.get(file)]:
                return os.path.relpath(changed[0])
            if not has_ended and self._stopped_by is None and self._child.poll() is not None:
                has_ended = True
                print("accord: the service has ended; waiting for a change", file=sys.stderr, flush=True)
        return None

    def _end_child(self) -> None:
        assert self._child is not None  # noqa: S101 - `run` has made it
        for stop in (self._child.terminate, self._child.terminate, self._child.kill):
            if self._child.poll() is None:
                stop()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_S)
                return
        self._child.wait()

    def _snapshot(self) -> Snapshot:
        found: Snapshot = {}
        for file in self._watched():
            with suppress(OSError):  # it was deleted meanwhile
                found[file] = Path(file).stat().st_mtime_ns
        return found

    def _watched(self) -> Iterator[str]:
        yield from map(str, self._files)
        left = MAX_FILES
        for root in self._folders:
            for folder, below, files in os.walk(root):
                below[:] = [each for each in below if each not in SKIPPED and not each.startswith(".")]
                for file in files:
                    if left <= 0:
                        return
                    left -= 1
                    if file.endswith(".py"):
                        yield str(Path(folder) / file)


# `accord serve`: the flags. What is served is put together in `service.py`, which only this command has to load.


def serve_command(  # noqa: PLR0913 - one flag each
    agent: Annotated[
        str | None, typer.Argument(help="module:name, file.py:name, or an agent of the configuration.")
    ] = None,
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes any free one.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow access without authentication.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python file or the configuration changes; for development.")
    ] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write logs for a program.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
) -> None:
    """Serve an agent over HTTP. Without anything it is the demo agent, at http://127.0.0.1:8000."""
    # A server takes a second to load, which no other command should wait for.
    from accord.assembly.service import run_service  # noqa: PLC0415
    from accord.servers.observability import set_up_logging  # noqa: PLC0415

    loaded = load(config, trusts=trust, store=store)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    settings = loaded.config.server.model_copy(update=given)
    if reload:
        raise typer.Exit(run_reloading(loaded, settings, agent))
    set_up_logging(log_level, as_json=log_json)
    with unfiltered_streams():
        run_service(loaded, settings, agent, insecure=insecure)
