"""`GET /v1/requests/{id}/receipt/verification`: whose chain is verified, and what the answer says."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from accord import Agent, Turn
from accord.agents import relay
from accord.assembly.signing import make_key
from accord.run.sessions import NO_REQUEST
from accord.servers.http.app import Application
from accord.servers.service import AllowAll, Caller, Headers
from accord.stores.receipt_text import unpack
from tests.servers.process import accord_serve
from tests.servers.transports import Answered, InMemory, alive, body, make_service, within


def path_of(number: int) -> str:
    return f"/v1/requests/{UUID(int=number)}/receipt/verification"


class HeaderIsUser(AllowAll):
    """Takes the name of the user from a header."""

    async def authenticate(self, headers: Headers) -> Caller:
        return Caller(headers.get(b"x-user", b"u").decode())


def with_app(agent: Agent, task: Callable[[InMemory], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        service = make_service(agent, "hi", authenticator=HeaderIsUser())
        async with alive(Application(service)) as app:
            return await task(InMemory(app))

    return within(run)


async def ask(app: InMemory, number: int, session: str = "s") -> None:
    given = await app.call("POST", "/v1/assist", json.dumps(body(number, session=session)).encode())
    assert given.status == 200


def test_the_chain_of_the_session_of_the_request_is_verified():
    async def run(app: InMemory) -> list[Answered]:
        for number, session in ((1, "s"), (2, "s"), (3, "other")):
            await ask(app, number, session)
        return [await app.call("GET", path_of(number)) for number in (1, 2, 3)]

    first, second, third = with_app(relay, run)
    assert [given.status for given in (first, second, third)] == [200, 200, 200]
    assert first.headers["cache-control"] == "no-store"
    assert first.json() == second.json()
    assert (first.json()["ok"], first.json()["count"], first.json()["wrong"]) == (True, 2, [])
    assert (third.json()["ok"], third.json()["count"]) == (True, 1)
    assert "signed" not in first.json()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (path_of(1), {"x_user": "eve"}),
        (path_of(9), {}),
        ("/v1/requests/nonsense/receipt/verification", {}),
    ],
    ids=["of another user", "unknown", "no id"],
)
def test_requests_of_other_users_are_answered_like_unknown_ones(path: str, headers: dict[str, str]):
    async def run(app: InMemory) -> Answered:
        await ask(app, 1)
        return await app.call("GET", path, b"", **headers)

    given = with_app(relay, run)
    assert (given.status, given.json()["detail"]) == (404, NO_REQUEST)


def test_a_running_turn_has_nothing_to_verify_yet():
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Turn) -> AsyncGenerator[str]:
        begun.set()
        await going_on.wait()
        yield "done"

    async def run(app: InMemory) -> list[int]:
        asking = asyncio.create_task(ask(app, 1))
        await begun.wait()
        first = await app.call("GET", path_of(1))
        going_on.set()
        await asking
        return [first.status, (await app.call("GET", path_of(1))).status]

    assert with_app(Agent(wait), run) == [404, 200]


def test_only_get_is_supported():
    assert with_app(relay, lambda app: app.call("POST", path_of(1))).status == 405


def test_with_a_signing_key_signatures_are_verified_and_a_change_of_the_database_is_found(tmp_path: Path):
    make_key(tmp_path / "key.pem")
    config = f'signing_key = "{tmp_path / "key.pem"}"\n[store]\npath = "accord.db"\n'

    async def run() -> list[Any]:
        async with (
            accord_serve(tmp_path, "accord.agents:relay", config=config) as served,
            aiohttp.ClientSession(served.address, raise_for_status=True) as client,
        ):
            for number in (1, 2):
                await client.post("/v1/assist", json=body(number))

            async def verified() -> Any:
                async with client.get(path_of(2)) as response:
                    return await response.json()

            first = await verified()
            with closing(sqlite3.connect(tmp_path / "accord.db")) as database, database:
                database.create_function("unpack", 1, unpack)
                changed = database.execute("UPDATE receipts SET body = replace(unpack(body), '\"relay\"', '\"other\"')")
                assert changed.rowcount == 2
            return [first, await verified()]

    before, after = asyncio.run(asyncio.wait_for(run(), 40))
    assert (before["ok"], before["count"], before["signed"]) == (True, 2, True)
    assert (after["ok"], [problem["state"] for problem in after["wrong"]]) == (False, ["altered", "altered"])
