"""Several processes over one store: a turn is cancelled through any of them, and a reader in any of them counts.

Each `Sessions` here stands for a process; tests/servers/http/test_shared.py does the same over real ones.
"""

import asyncio
from pathlib import Path

import pytest

from accord.backends.scripted import Pause
from accord.ports import SessionStore
from accord.run import Run, StoredRun
from accord.run import sessions as sessions_module
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import StreamPacket
from accord.wire.session import StoredState
from tests.run.playing import read_turn
from tests.run.test_sessions import request, sessions, within

GRACE_S = 0.3


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SessionStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "accord.db")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "CANCEL_POLL_S", 0.02)


def test_a_turn_is_cancelled_through_a_process_that_does_not_run_it(store: SessionStore):
    first, backend = sessions(store, "one", Pause(60))
    second, _ = sessions(store, "never")

    async def run() -> None:
        turn = await first.begin(request())
        other = await second.find(turn.request_id, "u")
        assert isinstance(other, StoredRun)
        assert await second.cancel(other)
        packets = [StreamPacket.parse(kept.body) async for kept in read_turn(turn)]
        assert [packet.op for packet in packets[-2:]] == ["error", "close"]
        assert packets[-2].p.code == "cancelled"
        assert backend.closed == 1
        assert not await second.cancel(other)
        assert not await first.cancel(turn)

    within(store, run)


async def state_of(store: SessionStore, turn: Run | StoredRun) -> StoredState:
    kept = await store.turn(turn.request_id)
    assert kept is not None
    return kept.state


def test_a_reader_that_comes_back_within_the_grace_period_keeps_the_turn_alive(store: SessionStore):
    made, _ = sessions(store, "one", Pause(3 * GRACE_S), "two", stop_unread_after_s=GRACE_S)

    async def run() -> None:
        turn = await made.begin(request())
        for _ in range(4):
            packets = read_turn(turn)
            await anext(packets)
            await packets.aclose()
            await asyncio.sleep(GRACE_S / 4)
        assert [kept.seq async for kept in read_turn(turn)][-1] == 4
        assert await state_of(store, turn) is StoredState.DONE

    within(store, run)


def test_a_reader_in_another_process_keeps_the_turn_alive_and_no_longer(store: SessionStore):
    first, _ = sessions(store, *["one ", Pause(0.02)] * 500, stop_unread_after_s=GRACE_S)
    second, _ = sessions(store, "never", stop_unread_after_s=GRACE_S)

    async def run() -> None:
        turn = await first.begin(request())
        packets = read_turn(turn)
        await anext(packets)
        other = await second.find(turn.request_id, "u")
        assert isinstance(other, StoredRun)
        reading = read_turn(other)
        await anext(reading)
        await packets.aclose()
        until = asyncio.get_running_loop().time() + 3 * GRACE_S
        async for _ in reading:
            if asyncio.get_running_loop().time() > until:
                break
        assert await state_of(store, turn) is StoredState.RUNNING
        await reading.aclose()
        assert isinstance(turn, Run)
        await asyncio.wait_for(turn.task, 5)
        assert await state_of(store, turn) is StoredState.CANCELLED

    within(store, run)


def test_a_turn_that_is_never_read_stops_after_the_grace_period(store: SessionStore):
    made, _ = sessions(store, "one", Pause(60), stop_unread_after_s=GRACE_S)

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        await asyncio.wait_for(turn.task, 5)
        assert await state_of(store, turn) is StoredState.CANCELLED

    within(store, run)
