"""A process is killed in the middle of a stream: what a client had got is stored, and the chain is whole."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from accord.core.receipt import verify
from accord.stores.sqlite import SqliteStore
from accord.wire.session import StoredState

KILLS = 4


def told_until_killed(path: Path, first: int, lines: int) -> list[list[str]]:
    """Let a child stream until it has said so much, then kill it; gives everything it said."""
    command = [sys.executable, "-m", "tests.run.streaming_child", str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        said += child.stdout.readlines()
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_a_client_has_got_survives_the_process(tmp_path: Path, seed: int):
    dice, path = Random(seed), tmp_path / "accord.db"  # noqa: S311 - repeatable on purpose
    packets: dict[int, int] = {}
    ended: set[int] = set()
    for round_number in range(KILLS):
        for kind, number, *seq in told_until_killed(path, 1 + round_number * 1_000, dice.randint(1, 200)):
            if kind == "packet":
                packets[int(number)] = int(seq[0])
            else:
                ended.add(int(number))

    async def look() -> None:
        store = SqliteStore(path)
        await store.open()
        for number, last in packets.items():
            kept = await store.packets(str(UUID(int=number)), after_seq=0, limit=1_000)
            assert [record.seq for record in kept][:last] == list(range(1, last + 1))
        for number in ended:
            turn = await store.turn(str(UUID(int=number)))
            assert turn is not None
            assert turn.state is StoredState.DONE
            assert await store.receipt(str(UUID(int=number))) is not None
        receipts = [json.loads(record.body) for record in await store.receipts("s")]
        assert verify(receipts).ok
        assert len(receipts) >= len(ended)
        said = [message.content for message in await store.history("s", limit=10_000)]
        assert all(f"question {number}" in said for number in ended)
        await store.close()

    asyncio.run(asyncio.wait_for(look(), 30))
