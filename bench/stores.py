"""What it costs to remember: appends and whole turns, in memory and in a SQLite file that flushes every commit.

Everything runs in turn in one process, several rounds, and the best round of each counts: the machine is shared. A
bare flush of four kilobytes on the same disk stands beside the figures, since most of SQLite's time is that.
"""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

from accord.ports import SessionStore
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.chat import ChatMessage, Role
from accord.wire.session import ReceiptRecord, SessionRecord, TurnRecord, TurnState

ROUNDS: Final = 5
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
PACKET: Final = '{"op":"delta","p":"A few words, as they come."}'
STREAMS: Final = 64
APPENDS: Final = 400
TURNS: Final = 100
PACKETS: Final = 10

Measured = Callable[[SessionStore, int], Awaitable[float]]


async def main() -> None:
    """Print the table."""
    print(f"a bare flush of 4 KiB   {min(flush() for _ in range(ROUNDS)) * 1e6:8.1f} µs\n")
    stores: dict[str, Callable[[Path], SessionStore]] = {"memory": lambda _: MemoryStore(), "sqlite": SqliteStore}
    for name, make in stores.items():
        with tempfile.TemporaryDirectory() as folder:
            store = make(Path(folder) / "bench.sqlite3")
            await store.open()
            await store.put_session(
                SessionRecord(session_id="s", owner="o", agent="demo", created_at=NOW, updated_at=NOW)
            )
            best = [await best_of(measured, store) for measured in MEASURED]
            await store.close()
        print(name)
        print(f"  append, 1 stream      {best[0] * 1e6:8.1f} µs")
        print(f"  append, {STREAMS} streams    {best[1] * 1e6:8.1f} µs")
        print(f"  turn, one at a time   {best[2] * 1e6:8.1f} µs  {1 / best[2]:8.0f} turns/s")
        print(f"  turn, {STREAMS} at a time    {best[3] * 1e6:8.1f} µs  {1 / best[3]:8.0f} turns/s")
        print(f"  turn, one append      {best[4] * 1e6:8.1f} µs  {1 / best[4]:8.0f} turns/s")


async def best_of(measured: Measured, store: SessionStore) -> float:
    """The best round's seconds for one of what is measured."""
    return min([await measured(store, number) for number in range(ROUNDS)])


async def one_stream(store: SessionStore, number: int) -> float:
    """Seconds an append takes that waits for the one before."""
    name = f"one-{number}"
    await begin(store, name)
    start = perf_counter()
    await stream(store, name, APPENDS)
    return (perf_counter() - start) / APPENDS


async def many_streams(store: SessionStore, number: int) -> float:
    """Seconds for each append of many streams at once."""
    names = [f"many-{number}-{stream}" for stream in range(STREAMS)]
    for name in names:
        await begin(store, name)
    start = perf_counter()
    await asyncio.gather(*(stream(store, name, APPENDS // 10) for name in names))
    return (perf_counter() - start) / (APPENDS // 10 * STREAMS)


async def one_turn(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn, one after another."""
    start = perf_counter()
    for turn in range(TURNS):
        await whole_turn(store, f"turn-{number}-{turn}", "s")
    return (perf_counter() - start) / TURNS


async def one_append(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn whose packets are handed over at once."""
    start = perf_counter()
    for turn in range(TURNS):
        await whole_turn(store, f"batch-{number}-{turn}", "s", at_once=True)
    return (perf_counter() - start) / TURNS


async def many_turns(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn, many sessions at once."""
    sessions = [f"session-{number}-{session}" for session in range(STREAMS)]
    for name in sessions:
        await store.put_session(SessionRecord(session_id=name, owner="o", agent="demo", created_at=NOW, updated_at=NOW))

    async def talk(name: str) -> None:
        for turn in range(TURNS // 10):
            await whole_turn(store, f"{name}-{turn}", name)

    start = perf_counter()
    await asyncio.gather(*map(talk, sessions))
    return (perf_counter() - start) / (TURNS // 10 * STREAMS)


async def whole_turn(store: SessionStore, name: str, session_id: str, *, at_once: bool = False) -> None:
    """Begin, ten packets one by one or at once, two messages and a receipt."""
    await begin(store, name, session_id)
    if at_once:
        await store.append_packets(name, 1, [PACKET] * PACKETS)
    else:
        await stream(store, name, PACKETS)
    said = [ChatMessage(role=Role.USER, content="Hi", timestamp=NOW) for _ in range(2)]
    previous = await store.last_receipt_hash(session_id)
    receipt = ReceiptRecord(request_id=name, session_id=session_id, body="{}", hash=name, previous_hash=previous)
    await store.end_turn(name, TurnState.DONE, NOW, messages=said, receipt=receipt)


async def begin(store: SessionStore, name: str, session_id: str = "s") -> None:
    """Begin a turn of that name."""
    turn = TurnRecord(request_id=name, session_id=session_id, owner="o", request_digest="d", created_at=NOW)
    await store.begin_turn(turn)


async def stream(store: SessionStore, name: str, count: int) -> None:
    """Append packets one by one."""
    for seq in range(1, count + 1):
        await store.append_packets(name, seq, [PACKET])


def flush() -> float:
    """Seconds that writing four kilobytes and flushing them takes."""
    with tempfile.TemporaryFile(buffering=0) as file:
        start = perf_counter()
        for _ in range(50):
            file.write(bytes(4096))
            os.fsync(file.fileno())
        return (perf_counter() - start) / 50


MEASURED: Final[tuple[Measured, ...]] = (one_stream, many_streams, one_turn, many_turns, one_append)

if __name__ == "__main__":
    asyncio.run(main())
