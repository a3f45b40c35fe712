"""Killed at any moment, the store has everything that it acknowledged, in order and without gaps."""

import random
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Timer

import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.session import StoredState
from tests.stores.records import said

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 25
MANY = 10_000


class Child:
    """A writing process, and what it said before it was killed."""

    def __init__(self, file: Path, name: str, streams: int) -> None:
        command = [sys.executable, "-m", "tests.stores.writing_child", str(file), name, str(streams)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._limit = Timer(LIMIT_S, self._process.kill)
        self._limit.start()
        self.said: list[tuple[str, str]] = []

    def listen(self, lines: int) -> None:
        """Wait until it has said so much."""
        assert self._process.stdout
        for _ in range(lines):
            line = self._process.stdout.readline()
            assert line.endswith("\n"), "the child ended by itself"
            self._heard(line)

    def kill(self) -> None:
        """End it without warning, and take in what it had already said."""
        self._process.kill()
        assert self._process.stdout
        for line in self._process.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                self._heard(line)

    def close(self) -> None:
        self._limit.cancel()
        self._process.kill()
        self._process.wait(LIMIT_S)
        assert self._process.stdout
        self._process.stdout.close()

    def _heard(self, line: str) -> None:
        request_id, what = line.split()
        self.said.append((request_id, what))


async def check(file: Path, acknowledged: list[tuple[str, str]]) -> None:
    """Everything acknowledged is there, and nothing is there that does not fit."""
    store = SqliteStore(file)
    await store.open()
    last: dict[str, int] = {}
    ended: set[str] = set()
    for request_id, what in acknowledged:
        if what == "ended":
            ended.add(request_id)
        else:
            last[request_id] = 0 if what == "begun" else int(what)
    for request_id, seq in last.items():
        turn = await store.turn(request_id)
        assert turn is not None
        if request_id in ended:
            assert turn.state is StoredState.DONE
            assert await store.receipt(request_id) is not None
        packets = await store.packets(request_id, after_seq=0, limit=MANY)
        assert len(packets) >= seq
        assert [packet.seq for packet in packets] == list(range(1, turn.last_seq + 1))
        assert [packet.body for packet in packets] == [f"{request_id}:{packet.seq}" for packet in packets]
    for session_id in {request_id.rpartition("-")[0] for request_id in last}:
        chain = await store.receipts(session_id)
        assert [receipt.previous_hash for receipt in chain] == [None, *(receipt.hash for receipt in chain)][:-1]
        assert await store.history(session_id, limit=MANY) == said(*(receipt.request_id for receipt in chain))
    await store.close()


@pytest.mark.parametrize("streams", [1, 3])
async def test_nothing_acknowledged_is_lost_on_kill(tmp_path: Path, streams: int):
    points, file = random.Random(streams), tmp_path / "sessions.sqlite3"  # noqa: S311
    acknowledged: list[tuple[str, str]] = []
    for kill in range(3):
        with closing(Child(file, f"k{kill}", streams)) as child:
            child.listen(points.randrange(1, 120 * streams))
            child.kill()
        acknowledged += child.said
        await check(file, child.said)
    await check(file, acknowledged)
    assert len(acknowledged) > 50


async def test_several_writing_processes_lose_nothing_when_one_after_the_other_is_killed(tmp_path: Path):
    points, file = random.Random(7), tmp_path / "sessions.sqlite3"  # noqa: S311
    with ExitStack() as stack:
        # They also open, and migrate, the new file all at once.
        children = [stack.enter_context(closing(Child(file, f"p{number}", 4))) for number in range(4)]
        for child in children:
            child.listen(points.randrange(50, 150))
            child.kill()
    for child in children:
        assert len(child.said) >= 50
    await check(file, [line for child in children for line in child.said])
