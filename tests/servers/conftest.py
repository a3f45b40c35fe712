"""Queues for the tests that run over every transport: PostgreSQL alone, and NATS with PostgreSQL."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from accord.config import Config, LoadedConfig
from tests.queues.conftest import nats_server, postgres
from tests.queues.nats_server import NatsServer
from tests.stores.conftest import empty
from tests.stores.postgres_server import PostgresServer

__all__ = ["nats_server", "postgres"]  # fixtures

NUMBERS = count(1)


@pytest.fixture(scope="session")
def queue_database(postgres: PostgresServer) -> str:
    return postgres.make_database("queued")


NewQueue = Callable[[str | None], LoadedConfig | None]


@pytest.fixture
def new_queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> NewQueue:
    """Makes the configuration of an empty queue, with its addresses in the environment; None if no kind is named."""

    def make(kind: str | None) -> LoadedConfig | None:
        if kind is None:
            return None
        database: str = request.getfixturevalue("queue_database")
        monkeypatch.setenv("ACCORD_STORE_URL", database)
        asyncio.run(empty(database))
        queue: dict[str, Any] = {"kind": kind}
        if kind == "nats":
            server: NatsServer = request.getfixturevalue("nats_server")
            monkeypatch.setenv("ACCORD_QUEUE_URL", server.url)
            queue["prefix"] = f"queued{next(NUMBERS)}"
        return LoadedConfig(Config.model_validate({"store": {"kind": "postgres"}, "queue": queue}), {})

    return make
