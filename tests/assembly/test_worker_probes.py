"""`accord worker --port`: probes and metrics of a real worker on a real PostgreSQL, which also goes away for a while."""

import asyncio
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accord.ports import QueuedWork
from accord.stores.postgres import PostgresStore
from accord.wire.routes import HEALTH_PATH, LIVE_PATH, METRICS_PATH, READY_PATH
from accord.wire.session import TokenRecord
from tests.stores.postgres_server import PostgresServer, running_server
from tests.stores.records import START, a_session, a_turn

WAIT_S = 30
TOKEN = {"token_id": "t", "user": "ada", "digest": "0" * 64, "created_at": START}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as started:
        yield started


@contextmanager
def worker(url: str, folder: Path, port: int = 0) -> Generator[str]:
    """The address of the probes of a worker."""
    command = [sys.executable, "-m", "accord", "worker", "demo", "--queue", url, "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if line.startswith("Probes at "))
            yield line.split()[2].removesuffix(READY_PATH)
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


def get(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"{address}{path}", method=method)  # noqa: S310 - our own address
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:  # noqa: S310
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


async def change(url: str, *, token: bool = False) -> None:
    """Put a turn into the queue that no worker of the test takes; or a token into the store."""
    store = PostgresStore(url, pool_size=1)
    await store.open()
    if token:
        await store.put_token(TokenRecord.model_validate(TOKEN))
    else:
        turn = a_turn("r1", "s1", runner="")
        await store.queue_turn(a_session("s1"), turn, QueuedWork("another agent", "{}"))
    await store.close()


def test_a_worker_answers_probes_and_reports_its_queue(server: PostgresServer, tmp_path: Path):
    url = server.make_database("probes")
    with worker(url, tmp_path) as address:
        asyncio.run(change(url))
        for path in (LIVE_PATH, READY_PATH, HEALTH_PATH):
            assert get(address, path)[0] == 200
        assert get(address, "/v1/assist", "POST")[0] == 404
        assert get(address, METRICS_PATH, "POST")[0] == 405
        status, text = get(address, METRICS_PATH)
        lines = text.splitlines()
        assert status == 200
        for line in (
            "accord_waiting_turns 1.0",
            "accord_channel_up 1.0",
            "accord_running_turns 0.0",
            "accord_turn_limit 100.0",
            "accord_queue_seconds_count 0.0",
            "accord_restarted_turns_total 0.0",
            "accord_given_up_turns_total 0.0",
            "accord_late_news_total 0.0",
            "accord_store_takeovers_total 0.0",
            'accord_turns_total{outcome="done"} 0.0',
        ):
            assert line in lines


def test_the_metrics_of_a_worker_need_a_token_where_the_service_needs_one(server: PostgresServer, tmp_path: Path):
    url = server.make_database("tokens")
    with worker(url, tmp_path) as address:
        assert get(address, METRICS_PATH)[0] == 200
        asyncio.run(change(url, token=True))
        until(lambda: get(address, METRICS_PATH)[0] == 401)
        assert get(address, READY_PATH)[0] == 200


def test_a_worker_without_its_database_is_alive_and_not_ready_until_the_database_is_back(tmp_path: Path):
    with running_server() as own:
        url = own.make_database("away")
        with worker(url, tmp_path) as address:
            own.stop()
            until(lambda: get(address, READY_PATH)[0] == 503)
            assert get(address, LIVE_PATH)[0] == 200
            assert get(address, METRICS_PATH)[0] == 503  # whether it needs a token cannot be known now
            own.start()
            until(lambda: get(address, READY_PATH)[0] == 200)
            until(lambda: "accord_channel_up 1.0" in get(address, METRICS_PATH)[1].splitlines())


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "accord", "worker", "demo", "--queue", "postgresql://localhost/x"]
        done = subprocess.run(
            [*command, "--port", port], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    assert done.returncode == 2
    assert "give another --port" in done.stderr
