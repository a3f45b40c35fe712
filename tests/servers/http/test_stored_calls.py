"""What a gateway keeps of its calls: for how long, how much, and in which chains. Real processes over real stores."""

import asyncio
import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast
from uuid import uuid4

import aiohttp
import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest
from scripts.store_fixture import AGENT, LANDED, TEXT, run_accord, send, send_turn, served

from accord.run.call_log import CHAIN_CALLS
from tests.stores.postgres_server import PostgresServer

ECHO = '\n[[backends]]\nname = "echo"\nkind = "echo"\n\n[server]\nrates = []\n'
SQLITE = '\n[store]\nkind = "sqlite"\npath = "accord.db"\n'
POSTGRES = '\n[store]\nkind = "postgres"\nurl_env = "STORE_URL"\n'
MEMORY = '\n[store]\nkind = "memory"\n'
FORTY_DAYS = 40 * 24 * 3600 * 1_000_000
AGED = (
    f"UPDATE sessions SET created_at = created_at - {FORTY_DAYS}, updated_at = updated_at - {FORTY_DAYS}",  # noqa: S608
    f"UPDATE turns SET created_at = created_at - {FORTY_DAYS}, ended_at = ended_at - {FORTY_DAYS}",  # noqa: S608
)
LIMIT_S = 30

Execute = Callable[..., list[Any]]


def configure(folder: Path, store: str, *settings: str, limits: str = "") -> None:
    (folder / "accord.toml").write_text("\n".join([*settings, store, ECHO, limits]))
    (folder / "echo_agent.py").write_text(AGENT)


def on_sqlite(file: Path) -> Execute:
    """Run statements on the store of a service that has stopped; returns the rows of the last one."""

    def execute(*statements: str) -> list[Any]:
        with closing(sqlite3.connect(file)) as store, store:
            return [store.execute(statement).fetchall() for statement in statements][-1]

    return execute


def on_postgres(url: str) -> Execute:
    async def run(statements: tuple[str, ...]) -> list[Any]:
        connection = await cast("Any", asyncpg).connect(url)
        try:
            return [tuple(row) for row in [await connection.fetch(each) for each in statements][-1]]
        finally:
            await connection.close()

    return lambda *statements: asyncio.run(run(statements))


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Execute]:
    """The table of the configuration for a new store, and a function that runs statements on it."""
    if request.param == "sqlite":
        return SQLITE, on_sqlite(tmp_path / "accord.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.make_database(f"calls_{uuid4().hex[:8]}")
    monkeypatch.setenv("STORE_URL", url)
    return POSTGRES, on_postgres(url)


def call(address: str) -> str:
    """Send a call; returns its request id."""
    status, headers, answer = send(address, "/v1/chat/completions", "", TEXT)
    assert status == 200, answer
    return headers["Accord-Receipt"].split("/")[3]


def turn(address: str) -> tuple[int, str]:
    """Send a turn; returns the status and its request id."""
    request_id = str(uuid4())
    context = {"session_id": "s", "user": {"id": "ada", "name": "Ada"}}
    body = {"request_id": request_id, "context": context, "payload": {"query": "hello"}}
    return send_turn(address, "", body, streams=False)[0], request_id


def get(address: str, request_id: str, path: str = "/receipt/verification") -> tuple[int, Any]:
    status, _, answer = send(address, f"/v1/requests/{request_id}{path}", "")
    return status, json.loads(answer)


def wait_until_gone(address: str, request_ids: list[str]) -> None:
    until = monotonic() + LIMIT_S
    while {get(address, each)[0] for each in request_ids} != {404}:
        assert monotonic() < until, "the calls did not expire"
        sleep(0.05)


def test_calls_expire_after_thirty_days_and_conversations_stay(tmp_path: Path, stored: tuple[str, Execute]):
    store, execute = stored
    configure(tmp_path, store)
    with served(tmp_path) as address:
        calls = [call(address) for _ in range(20)]
        _, _, answer = send(address, "/v1/responses", "", {"model": "echo", "input": "remember"})
        response = json.loads(answer)["id"].removeprefix("resp_")
        status, conversation = turn(address)
        assert status == 200
        assert get(address, calls[0])[1]["count"] == 20
    execute(*AGED)
    with served(tmp_path) as address:
        fresh = call(address)
        wait_until_gone(address, [*calls, response])
        status, found = get(address, fresh)
        assert (status, found["ok"], found["count"]) == (200, True, 1)
        assert get(address, conversation)[1]["ok"]
        [total] = json.loads(run_accord(tmp_path, "sessions", "usage", "--json"))[1:]
        assert (total["kind"], total["sessions"]) == ("turns", 1)
        [session] = execute("SELECT session_id FROM sessions WHERE kind = 'calls'")
        (tmp_path / "receipts.jsonl").write_text(run_accord(tmp_path, "sessions", "receipts", session[0]))
        verified = json.loads(run_accord(tmp_path, "receipts", "verify", "receipts.jsonl", "--json"))
        assert (verified["ok"], verified["count"]) == (True, 1)
    for table in ("turns", "receipts"):
        assert execute(f"SELECT count(*) FROM {table}") == [(2,)]  # noqa: S608
    assert execute("SELECT sum(stored_bytes) FROM usage") == execute("SELECT sum(stored_bytes) FROM sessions")


@pytest.mark.parametrize(("days", "stays"), [(30, False), (50, True)])
def test_retention_days_reach_calls_and_conversations_alike(tmp_path: Path, days: int, stays: bool):
    configure(tmp_path, SQLITE, f"retention_days = {days}")
    with served(tmp_path) as address:
        old = [call(address), turn(address)[1]]
        assert get(address, old[0])[0] == 200
    on_sqlite(tmp_path / "accord.db")(*AGED)
    with served(tmp_path) as address:
        if stays:
            marker = call(address)  # the maintenance has run when it is stored
            assert get(address, marker)[1]["ok"]
            assert {get(address, each)[0] for each in old} == {200}
        else:
            wait_until_gone(address, old)


def test_old_sessions_of_calls_expire_after_an_upgrade(tmp_path: Path):
    landed = LANDED / "0009-demo"
    asked = json.loads((landed / "asked.json").read_text())
    (tmp_path / "accord.db").write_bytes(lzma.decompress((landed / "accord.db.xz").read_bytes()))
    execute = on_sqlite(tmp_path / "accord.db")
    execute(*AGED)
    configure(tmp_path, SQLITE)
    with served(tmp_path) as address:
        wait_until_gone(address, [each["id"].removeprefix("resp_") for each in asked["stored"]])
        for each in asked["turns"]:
            assert get(address, each["body"]["request_id"])[1]["ok"]
    assert execute("SELECT count(*) FROM turns") == [(len(asked["turns"]),)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "memory"])
def test_calls_alone_reach_the_quota(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("STORE_URL", server.make_database(f"calls_{uuid4().hex[:8]}"))
    store = {"sqlite": SQLITE, "postgres": POSTGRES, "memory": MEMORY}[kind]
    configure(tmp_path, store, limits="[limits]\nmax_user_bytes = 10000\n")
    with served(tmp_path) as address:
        status, headers, answer = send(address, "/v1/chat/completions", "", TEXT)
        for _ in range(50):
            if status != 200:
                break
            get(address, headers["Accord-Receipt"].split("/")[3])  # returns once it is stored
            status, headers, answer = send(address, "/v1/chat/completions", "", TEXT)
        assert status == 403
        assert "storage quota" in json.loads(answer)["error"]["message"]
        status, _, answer = send(address, "/v1/messages", "", TEXT)
        assert status == 403
        if kind != "memory":
            run_accord(tmp_path, "sessions", "delete-user", "anonymous", "--yes")
            assert call(address)


def test_a_chain_of_calls_is_bounded(tmp_path: Path):
    configure(tmp_path, SQLITE)
    count = CHAIN_CALLS + 20

    async def send_many(address: str) -> list[str]:
        async with aiohttp.ClientSession(address, connector=aiohttp.TCPConnector(limit=8)) as client:

            async def one() -> str:
                async with client.post("/v1/chat/completions", json=TEXT) as response:
                    await response.read()
                    return response.headers["Accord-Receipt"].split("/")[3]

            return await asyncio.gather(*(one() for _ in range(count)))

    with served(tmp_path) as address:
        calls = asyncio.run(send_many(address))
        assert get(address, calls[0])[1]["count"] <= CHAIN_CALLS
    # The service has stopped, and stored all calls.
    sizes = on_sqlite(tmp_path / "accord.db")("SELECT receipt_count FROM sessions")
    assert sorted(size for (size,) in sizes) == [20, CHAIN_CALLS]


def test_what_is_stored_is_shown_and_measured(tmp_path: Path):
    configure(tmp_path, SQLITE)
    with served(tmp_path) as address:
        get(address, call(address))
        send(address, "/v1/responses", "", {"model": "echo", "input": "remember"})
        turn(address)
        totals = json.loads(run_accord(tmp_path, "sessions", "usage", "--json"))
        assert [(each["kind"], each["sessions"]) for each in totals] == [("calls", 1), ("responses", 1), ("turns", 1)]
        _, _, metrics = send(address, "/metrics", "")
        for each in totals:
            assert each["bytes"] > 1_000
            assert f'accord_stored_bytes{{holds="{each["kind"]}"}} {each["bytes"]:.1f}' in metrics
            assert f'accord_stored_oldest_timestamp_seconds{{holds="{each["kind"]}"}} ' in metrics
        assert "calls" in run_accord(tmp_path, "sessions", "usage")


def test_calls_after_the_deletion_of_their_user_are_stored(tmp_path: Path):
    configure(tmp_path, SQLITE)
    with served(tmp_path) as address:
        before = call(address)
        assert get(address, before)[0] == 200
        run_accord(tmp_path, "sessions", "delete-user", "anonymous", "--yes")
        assert get(address, before)[0] == 404
        after = call(address)
        until = monotonic() + LIMIT_S
        while (found := get(address, after))[0] != 200:
            assert monotonic() < until, found
            sleep(0.05)
        assert (found[1]["ok"], found[1]["count"]) == (True, 1)
