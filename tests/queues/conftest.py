"""A PostgreSQL and a NATS for all tests of the queue; each test or module has a database and a prefix of its own."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.queues.fleet import Place
from tests.queues.nats_server import NatsServer, running_nats
from tests.stores.postgres_server import PostgresServer, running_server

NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    with running_nats() as server:
        yield server


@pytest.fixture(scope="session")
def new_place(
    postgres: PostgresServer, nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Place]:
    """Makes a place where processes meet, over NATS or over PostgreSQL alone."""

    def make(kind: str) -> Place:
        number = next(NUMBERS)
        folder: Path = tmp_path_factory.mktemp("place")
        nats = nats_server.url if kind == "nats" else None
        return Place(folder, postgres.make_database(f"place_{number}"), nats, f"p{number}")

    return make
