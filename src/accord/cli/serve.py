"""`accord serve`: serve an agent over HTTP; with `--reload`, restart when a file changes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from accord.assembly.processes import PROCESS_OPTION, ProcessSockets, check_process_count, run_processes
from accord.assembly.service import print_start, run_service
from accord.cli.configuration import load, load_if_trusted
from accord.cli.options import (
    AgentArgument,
    ConfigOption,
    LogJsonOption,
    LogLevelOption,
    QueueOption,
    StoreOption,
    TrustOption,
)
from accord.config import LoadedConfig, ServerConfig
from accord.errors import UsageError
from accord.servers.observability import set_up_logging
from accord.terminal import unfiltered_streams

POLL_S: Final = 0.5
STOP_S: Final = 3.0
"""Seconds that running turns may delay a restart; then the signal is sent again, and at last the child is killed."""
MAX_FILES: Final = 5_000
"""The most files to watch: walking through a home directory twice a second would keep a core busy."""
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Snapshot = dict[str, int]


def serve_command(  # noqa: PLR0913 - one flag each
    agent: AgentArgument = None,
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow remote access without authentication.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart when a Python file or the configuration changes; for development.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes that serve the address; one for each processor core is best."),
    ] = None,
    log_json: LogJsonOption = False,
    log_level: LogLevelOption = "info",
    config: ConfigOption = None,
    trust: TrustOption = False,
    store: StoreOption = None,
    queue: QueueOption = None,
    process: Annotated[
        str | None, typer.Option(PROCESS_OPTION, hidden=True, help="Set by --workers for the processes that it starts.")
    ] = None,
) -> None:
    """Serve an agent over HTTP, SSE and WebSocket.

    Without options it serves the demo agent at http://127.0.0.1:8000.

    Examples:
      accord serve my_agent.py
      accord serve my_agent:agent --port 9000 --reload
      accord serve my_agent:agent --workers 4
      accord serve my_agent.py --queue nats://db --store postgresql://db/accord
    """
    loaded = load(config, trusted=trust, store=store, queue=queue)
    given = {name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None}
    settings = loaded.config.server.model_copy(update=given)
    if reload:
        if workers is not None:
            raise UsageError("--reload restarts one process, for development; leave out --workers, or --reload")
        raise typer.Exit(run_with_reload(loaded, settings, agent))
    set_up_logging(log_level, as_json=log_json)
    if process is None and settings.workers > 1:
        check_process_count(loaded, settings.workers)
        command = [sys.executable, "-P", "-m", "accord", *sys.argv[1:]]
        started = partial(print_start, has_page=settings.page, retention_days=loaded.config.retention_days)
        raise typer.Exit(run_processes(command, settings, started=lambda message: started(**message)))
    with unfiltered_streams():
        # Without a terminal to ask on, a changed file is used only if it is trusted.
        reread = (
            partial(load, config, trusted=True, store=store, queue=queue)
            if trust
            else partial(load_if_trusted, config, store=store, queue=queue)
        )
        sockets = None if process is None else ProcessSockets(process)
        run_service(loaded, settings, agent, insecure=insecure, reread=reread, sockets=sockets)


def run_with_reload(loaded: LoadedConfig, settings: ServerConfig, agent: str | None) -> int:
    """Run this command without `--reload` in a child process, again after every change; return its exit status.

    Polls the modification times of Python files, which needs no other package. A module that cannot be loaded does not
    end this: the child prints what is wrong, and the next change starts it again.
    """
    arguments = [each for each in sys.argv[1:] if each != "--reload"] + ["--workers", "1"]
    if settings.port == 0:  # every restart should listen at the same port
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        with socket.create_server((settings.host, 0), family=family) as server:
            arguments += ["--port", str(server.getsockname()[1])]
    files = [] if loaded.file is None else [Path(loaded.file)]
    folders = [Path.cwd()]
    place = loaded.config.agents.get(agent or "", agent or "")
    agent_file = Path(place.rpartition(":")[0] or place).resolve()
    if agent_file.suffix == ".py" and Path.cwd() not in agent_file.parents:  # a module is usually below it
        folders.append(agent_file.parent)
    # -P: a file `typing.py` in the working directory must not become a part of Accord.
    supervisor = _Supervisor([sys.executable, "-P", "-m", "accord", *arguments], folders, files)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.stop)
    return supervisor.run()


class _Supervisor:
    """Starts the child process again and again. `stop` is a signal handler that forwards the signal to the child."""

    def __init__(self, command: Sequence[str], folders: Sequence[Path], files: Sequence[Path]) -> None:
        self._command: Final = command
        self._folders: Final = folders
        self._files: Final = files
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped_by: int | None = None

    def run(self) -> int:
        while True:
            before = self._snapshot()
            # In another session, so that Ctrl-C in the terminal reaches this process only, which forwards it once.
            self._child = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - our own command
            if self._stopped_by is not None:  # before there was a child to forward it to
                self._child.send_signal(self._stopped_by)
            changed = self._wait_for_change(before)
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

    def _wait_for_change(self, before: Snapshot) -> str | None:
        """Return the first file that changes, or None if a signal stops everything."""
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
            with suppress(OSError):  # deleted meanwhile
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
