"""What must hold after every fault, and how it is counted."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

import aiohttp

from accord.core.receipt import verify
from accord.ports import SessionStore
from accord.wire.session import StoredState
from tests.faults.clients import Outcome
from tests.faults.service import LEASE_S

RECOVERED_WITHIN_S = 6 * LEASE_S + 5


def questions(count: int, question: str, *, sessions: int = 10) -> list[Outcome]:
    """So many turns to be asked, spread over some sessions."""
    return [Outcome(str(uuid4()), f"session-{number % sessions}", question) for number in range(count)]


def check_reading(outcome: Outcome, numbers: int, codes: Sequence[str] = ("unavailable",)) -> None:
    """One reader's packets: numbered without gap or repetition, counting from zero, with a proper end."""
    what = f"{outcome.request_id}: {outcome.packets[-3:]} {outcome.raised}"
    assert outcome.raised is None, what
    assert [number for number, _ in outcome.packets] == list(range(1, len(outcome.packets) + 1)), what
    assert outcome.packets[-1][1]["op"] == "close", what
    assert outcome.text == "".join(f"{number} " for number in range(len(outcome.text.split()))), what
    if outcome.error_code is None:
        assert len(outcome.text.split()) == numbers, what
    else:
        assert outcome.error_code in codes, what


async def check_stored(store: SessionStore, outcomes: Sequence[Outcome]) -> None:
    """The store agrees with every reader; no turn is left running; every turn has a receipt in an unbroken chain."""
    await store.open()
    try:
        for outcome in outcomes:
            await until(partial(_is_over, store, outcome), RECOVERED_WITHIN_S)
        for outcome in outcomes:
            stored = await store.packets(outcome.request_id, after_seq=0, limit=10_000)
            assert [(seq, json.loads(body)) for seq, body in stored] == outcome.packets
            assert await store.receipt(outcome.request_id) is not None
        for session in {outcome.session for outcome in outcomes}:
            chain = [json.loads(record.body) for record in await store.receipts(session)]
            assert verify(chain).ok
            expected = Counter(outcome.request_id for outcome in outcomes if outcome.session == session)
            assert Counter(receipt["request_id"] for receipt in chain) == expected
    finally:
        await store.close()


async def until(condition: Callable[[], Awaitable[bool]], within_s: float) -> None:
    """Wait until the condition holds; fails if it does not in time."""
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the condition is of another process
            await asyncio.sleep(0.05)


async def has_status(address: str, *statuses: str) -> bool:
    """Whether the service's health is one of these."""
    async with aiohttp.ClientSession(address) as http, http.get("/health") as response:
        return (await response.json())["status"] in statuses


async def _is_over(store: SessionStore, outcome: Outcome) -> bool:
    turn = await store.turn(outcome.request_id)
    return turn is not None and turn.state is not StoredState.RUNNING


async def ask_json(address: str, outcome: Outcome, *, timeout_s: float = 30) -> tuple[int, dict[str, object]]:
    """The status and the body of a whole answer."""
    body = {
        "request_id": outcome.request_id,
        "context": {"session_id": outcome.session, "user": {"id": "u", "name": "U"}},
        "payload": {"query": outcome.question},
    }
    limit = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(timeout=limit) as http, http.post(f"{address}/v1/assist", json=body) as response:
        return response.status, await response.json()


def print_figures(what: str, outcomes: Sequence[Outcome], **more: object) -> None:
    """One line of figures of a finished scenario; its assertions have passed, so the zeros are measured."""
    whole = sum(outcome.error_code is None for outcome in outcomes)
    packets = sum(len(outcome.packets) for outcome in outcomes)
    rest = "".join(f", {value} {name.replace('_', ' ')}" for name, value in more.items())
    print(
        f"\n{what}: {len(outcomes)} turns ({whole} whole, {len(outcomes) - whole} ended as unavailable), {packets} packets,"
        f" 0 lost, 0 repeated, 0 out of order, 0 left running{rest}",
        flush=True,
    )


def log_records(log: Path) -> list[dict[str, object]]:
    """The JSON records of a service's log."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
