"""What it costs to remember: appends and whole turns, in memory and in a SQLite file that flushes every commit.

Everything runs in turn in one process, many short rounds, and the best round of each counts: the machine is shared.
Beside the figures stand a bare flush of four kilobytes on the same disk, and the same turn written by hand: plain
`sqlite3`, no thread, no checks, the same rows into the same tables with the same two commits.
"""

import asyncio
import os
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter
from typing import Final

from accord.ports import PacketBatch, RunEnd, SessionStore
from accord.stores.memory import MemoryStore
from accord.stores.receipt_text import pack
from accord.stores.sqlite import SqliteStore
from accord.wire.conversation import ChatMessage, Role
from accord.wire.session import ReceiptRecord, RunRecord, SessionRecord, StoredState

ROUNDS: Final = 30
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
PACKET: Final = '{"op":"delta","p":"A few words, as they come."}'
SAID: Final = [ChatMessage(role=Role.USER, content="Hi", timestamp=NOW) for _ in range(2)]
RECEIPT: Final = '{"a":"' + "x" * 3000 + '"}'
STREAMS: Final = 64
APPENDS: Final = 50
TURNS: Final = 40
AT_ONCE: Final = 32
PACKETS: Final = 3
HISTORY: Final = 20

ADD_SESSION: Final = """
    INSERT INTO sessions (session_id, owner, agent, negotiated, created_at, updated_at)
    VALUES (?, 'o', 'demo', '{}', ?, ?)
"""
ADD_TURN: Final = """
    INSERT INTO turns (request_id, session_id, owner, request_digest, runner, state, created_at, leased_at)
    VALUES (?, ?, 'o', 'd', 'r', 'running', ?, ?)
"""

Measured = Callable[[SessionStore, int], Awaitable[float]]


async def main() -> None:
    """Print the table."""
    with TemporaryDirectory() as folder, closing(await plain_file(Path(folder) / "plain.sqlite3")) as by_hand:
        stores: dict[str, SessionStore] = {
            "memory": MemoryStore(),
            "sqlite": SqliteStore(Path(folder) / "ours.sqlite3"),
        }
        for store in stores.values():
            await store.open()
        best: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for number in range(ROUNDS):
            best["bare", "flush of 4 KiB"].append(flush(Path(folder)))
            best["bare", "turn, plain sqlite3"].append(plain_turns(by_hand, number))
            for name, store in stores.items():
                for label, measured in MEASURED.items():
                    best[name, label].append(await measured(store, number))
        for store in stores.values():
            await store.close()
    plain = min(best["bare", "turn, plain sqlite3"])
    for (name, label), took in best.items():
        ratio = f"{min(took) / plain:6.2f} of plain" if "turn" in label else ""
        print(f"{name:8}{label:22}{min(took) * 1e6:8.1f} µs, median {median(took) * 1e6:8.1f} {ratio}")


async def one_stream(store: SessionStore, number: int) -> float:
    """Seconds an append takes that waits for the one before."""
    name = f"one-{number}"
    await begin(store, name, name)
    start = perf_counter()
    await stream(store, name, APPENDS)
    return (perf_counter() - start) / APPENDS


async def many_streams(store: SessionStore, number: int) -> float:
    """Seconds for each append of many streams at once."""
    names = [f"many-{number}-{stream}" for stream in range(STREAMS)]
    for name in names:
        await begin(store, name, name)
    start = perf_counter()
    await asyncio.gather(*(stream(store, name, APPENDS // 5) for name in names))
    return (perf_counter() - start) / (APPENDS // 5 * STREAMS)


async def one_turn(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn, one after another, each in a session of its own."""
    start = perf_counter()
    for turn in range(TURNS):
        await whole_turn(store, f"turn-{number}-{turn}", f"one-by-one-{number}-{turn}")
    return (perf_counter() - start) / TURNS


async def one_talk(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn of one session, with its history."""
    start = perf_counter()
    for turn in range(TURNS):
        await whole_turn(store, f"talk-{number}-{turn}", f"talk-{number}")
    return (perf_counter() - start) / TURNS


async def many_turns(store: SessionStore, number: int) -> float:
    """Seconds for each whole turn, many sessions at once."""

    async def talk(name: str) -> None:
        for turn in range(TURNS // 8):
            await whole_turn(store, f"{name}-{turn}", f"{name}-{turn}")

    start = perf_counter()
    await asyncio.gather(*(talk(f"session-{number}-{session}") for session in range(AT_ONCE)))
    return (perf_counter() - start) / (TURNS // 8 * AT_ONCE)


async def whole_turn(store: SessionStore, name: str, session_id: str) -> None:
    """Begin, and end with three packets, two messages and a receipt."""
    previous = await begin(store, name, session_id)
    receipt = ReceiptRecord(request_id=name, session_id=session_id, body=RECEIPT, hash=name, previous_hash=previous)
    await store.end_turn(RunEnd(PacketBatch(name, 1, [PACKET] * PACKETS), StoredState.DONE, NOW, SAID, receipt))


async def begin(store: SessionStore, name: str, session_id: str) -> str | None:
    """Begin a turn of that name; the hash that its receipt has to name."""
    session = SessionRecord(session_id=session_id, owner="o", agent="demo", created_at=NOW, updated_at=NOW)
    turn = RunRecord(request_id=name, session_id=session_id, owner="o", request_digest="d", runner="r", created_at=NOW)
    return (await store.begin_turn(session, turn, history=HISTORY)).last_receipt_hash


async def stream(store: SessionStore, name: str, count: int) -> None:
    """Append packets one by one."""
    for seq in range(1, count + 1):
        await store.append_packets(PacketBatch(name, seq, [PACKET]))


def flush(folder: Path) -> float:
    """Seconds that writing four kilobytes and flushing them takes."""
    with TemporaryFile(buffering=0, dir=folder) as file:
        start = perf_counter()
        for _ in range(TURNS):
            file.write(bytes(4096))
            os.fsync(file.fileno())
        return (perf_counter() - start) / TURNS


async def plain_file(path: Path) -> sqlite3.Connection:
    """A connection with a store's tables and settings, but for one: SQLite moves the log by itself."""
    made = SqliteStore(path)
    await made.open()
    await made.close()
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def plain_turns(connection: sqlite3.Connection, number: int) -> float:
    """Seconds for each whole turn of a loop that writes what a store would, and does nothing else."""
    start = perf_counter()
    for turn in range(TURNS):
        plain_turn(connection, f"turn-{number}-{turn}")
    return (perf_counter() - start) / TURNS


def plain_turn(connection: sqlite3.Connection, name: str) -> None:
    """One turn by hand."""
    at = int(NOW.timestamp() * 1e6)
    run = connection.execute
    run("BEGIN IMMEDIATE")
    run(ADD_SESSION, (name, at, at))
    run(ADD_TURN, (name, name, at, at))
    run("COMMIT")
    run("BEGIN IMMEDIATE")
    run("UPDATE turns SET state = 'done', last_seq = 3, ended_at = ? WHERE request_id = ?", (at, name))
    for seq in range(1, PACKETS + 1):
        run("INSERT INTO packets VALUES (?, ?, ?)", (name, seq, PACKET))
    for place, message in enumerate(SAID, start=1):
        body = message.to_json()
        values = (name, place, len(body), body)
        run("INSERT INTO messages (session_id, position, size, body) VALUES (?, ?, ?, ?)", values)
    run("INSERT INTO receipts VALUES (?, 1, ?)", (name, pack(RECEIPT)))
    run("UPDATE sessions SET message_count = 2, receipt_count = 1, receipt_hash = ? WHERE session_id = ?", (name, name))
    run("COMMIT")


MEASURED: Final[dict[str, Measured]] = {
    "append, 1 stream": one_stream,
    f"append, {STREAMS} streams": many_streams,
    "turn, one at a time": one_turn,
    "turn, one long talk": one_talk,
    f"turn, {AT_ONCE} at a time": many_turns,
}

if __name__ == "__main__":
    asyncio.run(main())
