"""The application under another server: its shutdown waits for running turns."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

from accord.agent import Agent, Turn, Yielded
from accord.servers.http.app import Application
from accord.stores.sqlite import SqliteStore
from accord.wire.request import ServiceRequest
from tests.servers.transports import body, make_service, within


def test_the_end_of_the_application_waits_for_its_turns(tmp_path: Path):
    async def slow(_: Turn) -> AsyncIterator[Yielded]:
        yield "a"
        await asyncio.sleep(0.1)
        yield "b"

    async def run() -> None:
        service = make_service(Agent(slow), store=SqliteStore(tmp_path / "accord.db"))
        to_app: asyncio.Queue[Any] = asyncio.Queue()
        from_app: asyncio.Queue[Any] = asyncio.Queue()
        life = asyncio.create_task(Application(service)({"type": "lifespan"}, to_app.get, from_app.put))
        await to_app.put({"type": "lifespan.startup"})
        assert (await from_app.get())["type"] == "lifespan.startup.complete"
        turn = await service.sessions.begin(ServiceRequest.model_validate(body()))
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await from_app.get())["type"] == "lifespan.shutdown.complete"
        await life
        assert turn.is_over
        await service.sessions.store.open()
        assert (await service.sessions.receipt(str(UUID(int=1)))).outcome.status == "done"
        await service.sessions.store.close()

    within(run)
