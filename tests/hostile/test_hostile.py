"""One client attacks, another one is served: its answers come in time, and the server's memory stays bounded."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import aiohttp
import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules
from accord.wire.session import PREFIX, SECRET_BYTES, TokenRecord, token_digest
from tests.hostile import served_agent
from tests.hostile.attacks import ATTACKS, GROUP, USER
from tests.servers.process import ServedProcess, accord_serve

SECONDS = float(os.environ.get("ACCORD_HOSTILE_S", "5"))
SOURCE = Path(served_agent.__file__).read_text(encoding="utf-8")
MAX_P99_S = 0.2
MAX_MB = 300
PACE_S = 0.05
HONEST = "ada"

DEPTH = 30
NESTED = json.loads('{"a":' * DEPTH + "1" + "}" * DEPTH)
# A turn whose reader hangs up stops: else a flood that nobody reads would measure the disk.
CONFIG = f"""
[server]
unread = "stop"
[[backends]]
name = "scripted"
kind = "scripted"
manifest = "declared"
options.script = ['{json.dumps(NESTED)}']
[backends.overrides]
streaming = "native"
"""
BACKEND = """
[[backends]]
name = "model{number}"
kind = "openai"
model = "m"
base_url = "http://127.0.0.1:{port}/v1"
options.retries = 0
[backends.overrides]
streaming = "native"
structured_output_json_schema = "native"
[backends.price]
input = 0.000001
output = 0.000001
"""
BACKENDS = 12


def gateway(port: int) -> str:
    """The configuration of many backends at this endpoint, in one group."""
    names = [f"model{number}" for number in range(BACKENDS)]
    backends = "".join(BACKEND.format(number=number, port=port) for number in range(BACKENDS))
    return f"{backends}[groups.{GROUP}]\nbackends = {json.dumps(names)}\n"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured during one attack."""

    name: str
    rounds: int
    calm_p99_ms: float
    p99_ms: float
    worst_ms: float
    answers: int
    peak_mb: float

    def __str__(self) -> str:
        return (
            f"{ATTACKS[self.name][0]:>4} {self.name:24} {self.rounds:7} {self.answers:8} {self.calm_p99_ms:9.0f}"
            f" {self.p99_ms:9.0f} {self.worst_ms:9.0f} {self.peak_mb:8.0f}"
        )


@pytest.fixture(scope="module")
def table() -> Iterator[list[Figures]]:
    rows: list[Figures] = []
    yield rows
    print(
        f"\n     {'attack':24} {'rounds':>7} {'answers':>8} {'calm p99':>9} {'p99 ms':>9} {'worst ms':>9} {'peak MB':>8}"
    )
    for row in rows:
        print(row)


async def make_token(store: SqliteStore, user: str, *, budget_usd: float | None = None) -> str:
    token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    await store.put_token(
        TokenRecord(
            token_id=user,
            user=user,
            digest=token_digest(token),
            created_at=datetime.now(UTC),
            rules=None if budget_usd is None else KeyRules(budget_usd=budget_usd),
        )
    )
    return token


@asynccontextmanager
async def model_endpoint() -> AsyncGenerator[int]:
    """A model endpoint in a process of its own; gives its port."""
    command = [sys.executable, "-m", "tests.hostile.endpoint"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def ask(client: aiohttp.ClientSession) -> float:
    """One small turn of the honest client; how many seconds it took."""
    number, began_at = str(uuid4()), perf_counter()
    context = {"session_id": number, "user": {"id": HONEST, "name": "A"}}
    request = {"request_id": number, "context": context, "payload": {"query": "hi"}}
    async with client.post("/v1/assist", json=request) as response:
        assert response.status == 200, await response.text()
        assert (await response.json())["output"]["text"] == "hi"
    return perf_counter() - began_at


async def ask_until(client: aiohttp.ClientSession, is_over: asyncio.Event) -> list[float]:
    """A small turn every few milliseconds, until the attack is over; at most 20 a second, far below the rates."""
    took: list[float] = []
    while not is_over.is_set():
        took.append(await ask(client))
        await asyncio.sleep(PACE_S)
    return took


def p99_ms(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)] * 1000 if len(took) > 1 else took[0] * 1000


async def attacked(name: str, served: ServedProcess, honest: str, hostile: str) -> Figures:
    headers = {"authorization": f"Bearer {honest}"}
    timeout = aiohttp.ClientTimeout(30)
    async with aiohttp.ClientSession(served.address, headers=headers, timeout=timeout) as client:
        calm = [await ask(client) for _ in range(20)]
        command = ["-m", "tests.hostile.attacks", name, str(served.port), hostile, str(SECONDS)]
        attacker = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        assert attacker.stdout is not None
        try:
            assert await attacker.stdout.readline() == b"ready\n"
            is_over = asyncio.Event()
            asking = asyncio.create_task(ask_until(client, is_over))
            rounds = int(await attacker.stdout.readline())
            is_over.set()
            took = await asking
        finally:
            if attacker.returncode is None:
                attacker.kill()
            await attacker.wait()
    peak = served.memory_mb("VmHWM")
    return Figures(name, rounds, p99_ms(calm), p99_ms(took), max(took) * 1000, len(took), peak)


@pytest.mark.parametrize("name", ATTACKS)
def test_another_client_is_served_and_memory_is_bounded(name: str, tmp_path: Path, table: list[Figures]):
    async def run() -> Figures:
        store = SqliteStore(tmp_path / "accord.db")
        await store.open()
        honest = await make_token(store, HONEST)
        # A request of a model API is estimated for a budget; a key with one cannot begin turns.
        budget_usd = 1_000.0 if ATTACKS[name][0].startswith("C") else None
        hostile = await make_token(store, USER, budget_usd=budget_usd)
        await store.close()
        async with model_endpoint() as port:
            config = CONFIG + gateway(port) if budget_usd else CONFIG
            environ = {f"ACCORD_KEY_MODEL{number}": "a-key" for number in range(BACKENDS)}
            options: Any = {"config": config, "agent": SOURCE, "environ": environ}
            async with accord_serve(tmp_path, "--log-level", "error", **options) as served:
                return await attacked(name, served, honest, hostile)

    figures = asyncio.run(asyncio.wait_for(run(), 50 + SECONDS))
    table.append(figures)
    assert figures.rounds > 0
    # On a busy machine even a calm service takes its time.
    assert figures.p99_ms < MAX_P99_S * 1000 + figures.calm_p99_ms
    assert figures.peak_mb < MAX_MB
