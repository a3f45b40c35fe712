"""The stored chain of a session is verified: what was done to it, and what is reported."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from accord.core.receipt import VerifySignature, seal_members
from accord.errors import ErrorCode, RefusedError
from accord.ports import SessionStore, WholeRun
from accord.run.chain import MAX_PROBLEMS, verify_chain
from accord.stores import opened_store
from accord.stores.memory import MemoryStore
from accord.stores.receipt_text import unpack
from accord.stores.sqlite import SqliteStore
from accord.wire.receipt import ReceiptVerification
from accord.wire.session import ReceiptRecord, StoredState
from tests.receipts import a_body
from tests.stores.records import a_session, a_turn, at

SIGN: Callable[[bytes], str] = lambda data: data.decode()[::-1]  # noqa: E731 - the counterpart of the check below
IS_SIGNED: VerifySignature = lambda data, signature: SIGN(data) == signature  # noqa: E731


def a_chain(count: int, signed: int = 0) -> list[ReceiptRecord]:
    """A chain of receipts; the first `signed` ones have a signature."""
    made: list[ReceiptRecord] = []
    for number in range(count):
        previous = made[-1].hash if made else None
        sealed = seal_members(a_body(number, previous).hashed(), SIGN if number < signed else None)
        made.append(
            ReceiptRecord(
                request_id=f"r{number}", session_id="s1", body=sealed.json, hash=sealed.hash, previous_hash=previous
            )
        )
    return made


async def add(store: SessionStore, chain: list[ReceiptRecord]) -> None:
    turns = [WholeRun(a_turn(each.request_id, state=StoredState.DONE, ended_at=at(1)), each) for each in chain]
    await store.add_turns(a_session(), turns)


def verified(file: Path, chain: list[ReceiptRecord], change: str = "", **options: Any) -> ReceiptVerification:
    """What is found out about this chain after someone has changed the database."""

    async def run() -> ReceiptVerification:
        store = SqliteStore(file)
        async with opened_store(store):
            await add(store, chain)
            with closing(sqlite3.connect(file)) as database:
                database.create_function("unpack", 1, unpack)
                database.executescript(change)
            return await verify_chain(store, "s1", **options)

    return asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_an_untouched_chain_of_any_length_is_ok(tmp_path: Path, count: int):
    chain = a_chain(count)
    assert verified(tmp_path / "accord.db", chain).dump() == {
        "ok": True,
        "count": count,
        "last": chain[-1].hash,
        "wrong": [],
    }


MOVE = """
    UPDATE receipts SET position = 1005 - position WHERE position IN (2, 3);
    UPDATE receipts SET position = position - 1000 WHERE position > 1000;
"""
CHANGES = {
    "altered": (
        "UPDATE receipts SET body = replace(unpack(body), 'demo', 'omed') WHERE position = 2",
        [(2, "altered")],
    ),
    "altered in a later page": (
        "UPDATE receipts SET body = replace(unpack(body), 'demo', 'omed') WHERE position = 121",
        [(121, "altered")],
    ),
    "not JSON": ("UPDATE receipts SET body = '{' WHERE position = 2", [(2, "altered"), (3, "missing")]),
    "a name twice": (
        "UPDATE receipts SET body = '{\"version\":1,' || substr(unpack(body), 2) WHERE position = 2",
        [(2, "altered"), (3, "missing")],
    ),
    "cut off": ("UPDATE receipts SET body = substr(body, 1, 99) WHERE position = 2", [(2, "altered"), (3, "missing")]),
    "packed otherwise": ("UPDATE receipts SET body = x'01ff' WHERE position = 2", [(2, "altered"), (3, "missing")]),
    "not even text": ("UPDATE receipts SET body = x'ff' WHERE position = 2", [(2, "altered"), (3, "missing")]),
    "removed": ("DELETE FROM receipts WHERE position = 2", [(2, "missing")]),
    "removed between two pages": ("DELETE FROM receipts WHERE position IN (100, 101)", [(100, "missing")]),
    "removed at the start": ("DELETE FROM receipts WHERE position = 1", [(1, "missing")]),
    "removed at the end": ("DELETE FROM receipts WHERE position = 150", [(150, "missing")]),
    "a whole page removed": ("DELETE FROM receipts WHERE position <= 100", [(1, "missing")]),
    "all removed": ("DELETE FROM receipts", [(1, "missing")]),
    "moved": (
        MOVE,
        [(2, "missing"), (3, "out of order"), (4, "out of order")],
    ),
    "the last hash of the session": ("UPDATE sessions SET receipt_hash = 'another'", [(151, "missing")]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_every_change_is_found(tmp_path: Path, case: str):
    change, expected = CHANGES[case]
    found = verified(tmp_path / "accord.db", a_chain(150), change)
    assert not found.ok
    assert [(problem.number, problem.state.value) for problem in found.wrong] == expected
    assert all(problem.reason for problem in found.wrong)


@pytest.mark.parametrize(("signed", "is_signed"), [(3, True), (2, False), (0, False)])
def test_with_a_key_every_receipt_needs_a_signature(tmp_path: Path, signed: int, is_signed: bool):
    found = verified(tmp_path / "accord.db", a_chain(3, signed), verify_signature=IS_SIGNED)
    assert (found.signed, found.ok) == (is_signed, is_signed)
    assert [problem.state.value for problem in found.wrong] == ["unsigned"] * (3 - signed)


def test_a_signature_of_another_key_is_reported(tmp_path: Path):
    def is_signed(*_: Any) -> bool:
        return False

    found = verified(tmp_path / "accord.db", a_chain(1, 1), verify_signature=is_signed)
    assert (found.ok, found.signed, found.wrong[0].state.value) == (False, False, "forged")


def test_without_receipts_nothing_is_verified():
    async def run() -> ReceiptVerification:
        store = MemoryStore()
        async with opened_store(store):
            return await verify_chain(store, "s1")

    assert asyncio.run(run()).dump() == {"ok": False, "count": 0, "wrong": []}


def test_only_the_first_problems_are_listed(tmp_path: Path):
    found = verified(tmp_path / "accord.db", a_chain(50), verify_signature=IS_SIGNED)
    assert len(found.wrong) == MAX_PROBLEMS


def test_receipts_that_are_added_meanwhile_do_no_harm():
    class Growing(MemoryStore):
        """Gets another receipt after its last hash was read."""

        async def last_receipt_hash(self, session_id: str) -> str | None:
            last = await super().last_receipt_hash(session_id)
            if last == chain[149].hash:
                await add(self, chain[150:])
            return last

    chain = a_chain(151)

    async def run() -> ReceiptVerification:
        store = Growing()
        async with opened_store(store):
            await add(store, chain[:150])
            return await verify_chain(store, "s1")

    found = asyncio.run(asyncio.wait_for(run(), 20))
    assert (found.ok, found.count, found.last) == (True, 150, chain[149].hash)


def test_a_chain_that_is_too_long_is_refused_and_the_message_names_the_command(tmp_path: Path):
    assert verified(tmp_path / "fits.db", a_chain(200), max_receipts=200).ok
    with pytest.raises(RefusedError, match="more than 200 receipts") as refused:
        verified(tmp_path / "accord.db", a_chain(201), max_receipts=200)
    assert refused.value.code is ErrorCode.TOO_LARGE
    assert "accord receipts verify -" in refused.value.message


def test_the_event_loop_is_free_while_a_page_is_verified(tmp_path: Path):
    threads: set[threading.Thread] = set()

    def check(data: bytes, signature: str) -> bool:
        threads.add(threading.current_thread())
        return IS_SIGNED(data, signature)

    assert verified(tmp_path / "accord.db", a_chain(3, 3), verify_signature=check).ok
    assert threads
    assert threading.main_thread() not in threads
