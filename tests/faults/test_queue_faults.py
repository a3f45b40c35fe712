"""Turns of a service with a queue under faults that never stop: processes, NATS, PostgreSQL and networks."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.queues.nats_server import running_cluster, running_nats
from tests.queues.storm import Storm
from tests.stores.postgres_server import PostgresServer, running_server

pytestmark = pytest.mark.timeout(1_800)

SEED = int(os.environ.get("ACCORD_SEED", "11"))
"""The faults of a run; another seed gives others."""
OFTEN = (0.3, 1.5)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A server of each test's own, since it is killed."""
    with running_server() as server:
        yield server


def test_turns_of_a_queue_over_nats_under_every_fault(tmp_path: Path, postgres: PostgresServer):
    with running_nats() as nats:
        storm = Storm(tmp_path, postgres.make_database("storm"), postgres, nats, SEED)
        asyncio.run(storm.run(500, at_once=16, every_s=OFTEN))
    assert sum(storm.counts.values()) >= 40, storm.counts
    print(f"\nqueue over NATS, {storm.figures()}", flush=True)


def test_turns_of_a_queue_over_postgresql_alone_under_every_fault(tmp_path: Path, postgres: PostgresServer):
    storm = Storm(tmp_path, postgres.make_database("storm"), postgres, None, SEED)
    asyncio.run(storm.run(200, at_once=16, every_s=OFTEN))
    print(f"\nqueue over PostgreSQL, {storm.figures()}", flush=True)


def test_turns_of_a_queue_over_a_cluster_that_loses_its_leader(tmp_path: Path, postgres: PostgresServer):
    with running_cluster() as cluster:
        asyncio.run(cluster.until_ready())
        storm = Storm(tmp_path, postgres.make_database("storm"), postgres, cluster, SEED)
        asyncio.run(storm.run(200, at_once=16, every_s=OFTEN, only=("kill leader", "kill worker", "duplicates")))
    assert storm.counts["kill leader"] >= 2, storm.counts
    print(f"\nqueue over a cluster, {storm.figures()}", flush=True)
