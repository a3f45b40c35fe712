"""A short storm: some turns under faults of every kind. `make test-faults` has the long one."""

import asyncio
from pathlib import Path

import pytest

from tests.queues.nats_server import running_nats
from tests.queues.storm import Storm
from tests.stores.postgres_server import running_server

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("seed", [1])
def test_turns_survive_a_short_storm(tmp_path: Path, seed: int):
    with running_server() as postgres, running_nats() as nats:
        storm = Storm(tmp_path, postgres.make_database("storm"), postgres, nats, seed)
        asyncio.run(storm.run(30, at_once=10, every_s=(0.3, 1.0)))
    print(f"\n{storm.figures()}")
