"""`accord top`: its layout as tables, and the command against a real worker and a real PostgreSQL."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.cli.top import draw, format_seconds
from accord.console import Console
from accord.ports import ListedRun, LongestRuns, QueueDepth, QueuedWork
from accord.servers.observability.overview import Overview, ProcessRow
from accord.stores.postgres import PostgresStore
from tests.cli.on_terminal import TAKE_TERMINAL
from tests.servers.observability.test_status import a_status
from tests.stores.postgres_server import running_server
from tests.stores.records import a_session, a_turn

WAIT_S = 30
HOSTILE = "\x1b[2J\u202eada\nroot"
ESCAPED = "\\u001b[2J\\u202eada\\u000aroot"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0123, "12ms"), (1.23, "1.2s"), (99.94, "99.9s"), (150, "2m"), (7_200, "2h"), (864_000, "10d")],
)
def test_durations_are_short(seconds: float, text: str):
    assert format_seconds(seconds) == text


def an_overview() -> Overview:
    rows = [
        ProcessRow(a_status(runner="a", host="first", agents=(HOSTILE,)), 1.0),
        ProcessRow(a_status(runner="b", host="second"), 9.0),
    ]
    turns = [ListedRun(f"request-{n}", HOSTILE, "demo", "a", 1, 5, 3.0) for n in range(30)]
    return Overview(rows, LongestRuns(250, turns), [QueueDepth("demo", 3, 1.5)], problem=None)


def drawn(overview: Overview, width: int, height: int | None = None) -> list[str]:
    console = Console()
    console.file, console.width = StringIO(), width
    console.print(draw(overview, width, height))
    return console.file.getvalue().splitlines()


def test_a_wide_table_has_everything():
    text = "\n".join(drawn(an_overview(), 400))
    for word in ("first:7", "second:7", "silent 9.0s", "2/100", "10ms 20ms", "1.0s 2.0s", "25%", ESCAPED, "request-29"):
        assert word in text
    assert "2 processes (1 silent) · 250 of at most 100 turns running · 3 waiting (the first for 1.5s)" in text
    assert "… and 220 more turns" in text


@pytest.mark.parametrize("width", [80, 40])
def test_a_narrow_table_has_the_columns_that_matter_most(width: int):
    lines = drawn(an_overview(), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for word in ("PROCESS", "first:7", "silent 9.0s", "2/100", "WAITING", "OWNER"):
        assert word in text
    assert ("WAIT p50 p99" in text, "VERSION" in text) == (width == 80, False)


def test_no_more_turns_are_shown_than_the_terminal_has_lines_for():
    assert 20 < len(drawn(an_overview(), 200, 24)) <= 24
    assert len(drawn(an_overview(), 200)) > 30


def test_a_store_that_cannot_be_read_is_named_and_its_message_escaped():
    problem = Overview([], LongestRuns(0, ()), [], problem=HOSTILE)
    text = "\n".join(drawn(problem, 200))
    assert f"The store cannot be read: {ESCAPED}" in text
    assert "No process has sent a status" in text


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database with a worker of the demo agent, and turns whose owners and agents are hostile."""
    folder = tmp_path_factory.mktemp("top")
    with running_server() as server:
        url = server.make_database("top")
        command = [sys.executable, "-m", "accord", "worker", "demo", "--queue", url, "--turns", "7"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as worker:
            try:
                assert worker.stderr is not None
                assert "Worker for demo" in worker.stderr.readline()
                asyncio.run(add_turns(url))
                yield url
            finally:
                worker.send_signal(signal.SIGINT)
                worker.communicate(timeout=WAIT_S)


async def add_turns(url: str) -> None:
    """A turn that waits for an agent that no worker has, and one that a process runs which never sent a status."""
    store = PostgresStore(url, pool_size=1)
    await store.open()
    session = a_session("s1", owner=HOSTILE)
    waiting = a_turn("r1", "s1", owner=HOSTILE, runner="")
    await store.queue_turn(session, waiting, QueuedWork(HOSTILE, "{}"))
    await store.begin_turn(session, replace(a_turn("r2", "s1", owner=HOSTILE), runner="gone"), history=0)
    await store.close()


def top(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "accord", "top", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | environ
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def test_a_program_gets_the_state_of_a_real_service(service: str):
    done = top("--store", service, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    (worker,) = found["processes"]
    assert (worker["role"], worker["agents"], worker["turn_limit"], worker["is_silent"]) == (
        "worker",
        ["demo"],
        7,
        False,
    )
    assert worker["cpu_s"] > 0
    assert worker["memory_mb"] > 10
    assert [(depth["agent"], depth["waiting"]) for depth in found["queue"]] == [(HOSTILE, 1)]
    assert found["problem"] is None


def test_one_snapshot_is_printed_where_there_is_no_terminal(service: str):
    for arguments in ((), ("--once",)):
        done = top("--store", service, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 process · " in done.stdout
        assert ESCAPED in done.stdout
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout


def test_a_server_on_a_sqlite_file_is_shown(tmp_path: Path):
    store = str(tmp_path / "accord.db")
    command = [sys.executable, "-m", "accord", "serve", "demo", "--port", "0", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            assert "curl" in server.stdout.readline()
            done = top("--store", store, "--json")
        finally:
            server.terminate()
            server.communicate(timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    (process,) = json.loads(done.stdout)["processes"]
    assert (process["role"], process["pid"]) == ("both", server.pid)


def test_without_a_shared_store_the_message_says_what_to_use(tmp_path: Path):
    missing = top("--store", str(tmp_path / "accord.db"), "--once")
    assert missing.returncode == 2
    assert "accord.db" in missing.stderr
    in_memory = top("--once", ACCORD_STORE_KIND="memory")
    assert in_memory.returncode == 2
    assert "Give the --store of the service" in in_memory.stderr


ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


class LiveScreen:
    """A command on a terminal, while it runs."""

    def __init__(self, terminal: int) -> None:
        self.terminal = terminal
        self.received = ""

    def resize(self, columns: int, lines: int = 30) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, found: Callable[[str], bool]) -> str:
        """What the terminal receives from now on, until this is true of it or the command has ended."""
        start, end = len(self.received), time.monotonic() + WAIT_S
        while time.monotonic() < end and not found(self.received[start:]):
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    self.received += os.read(self.terminal, 65_536).decode(errors="replace")
                except OSError:  # the command has ended
                    break
        assert found(self.received[start:]), self.received[start:]
        return self.received[start:]


@contextmanager
def live_top(*arguments: str, **environ: str) -> Generator[tuple[LiveScreen, "subprocess.Popen[bytes]"]]:
    ours, theirs = pty.openpty()
    screen = LiveScreen(ours)
    screen.resize(100)
    env = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, "top", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**env, "TERM": "xterm-256color", **environ},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield screen, process
    finally:
        process.kill()
        process.wait(WAIT_S)
        os.close(ours)


def test_the_live_view_follows_the_size_of_the_terminal_and_ends_with_ctrl_c(service: str):
    with live_top("--store", service, "--interval", "30") as (screen, process):
        first = screen.read_until(lambda text: "OWNER" in text or "WAITING" in text)
        assert ENTER_SCREEN in first
        assert "STATE" in first
        assert "ROLE" in first
        screen.resize(40)  # the next read of the store is far away: it is drawn because of the new size
        narrow = screen.read_until(lambda text: "WAITING" in text)
        assert "ROLE" not in narrow
        os.write(screen.terminal, b"\x03")
        last = screen.read_until(lambda text: LEAVE_SCREEN in text)
        assert "Traceback" not in last
        assert process.wait(WAIT_S) == 130
    assert "\x1b[2J" not in screen.received
    assert ESCAPED[:10] in screen.received


def test_the_live_view_has_no_colours_if_that_is_wanted_and_leaves_the_screen_when_it_is_terminated(service: str):
    with live_top("--store", service, NO_COLOR="1") as (screen, process):
        screen.read_until(lambda text: "WAITING" in text)
        process.send_signal(signal.SIGTERM)
        screen.read_until(lambda text: LEAVE_SCREEN in text)
        assert process.wait(WAIT_S) == 143
    assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0-7]|38|9[0-7])[;m]", screen.received)
