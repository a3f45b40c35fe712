"""deploy/nats/users.conf: what each user needs is allowed, and nothing beyond it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import aiohttp
import nats
import pytest

from tests.queues.nats_server import free_port, listens
from tests.stores.postgres_server import running_server

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 40
PASSWORDS = {name: f"{name}-secret" for name in ("server", "worker", "publisher", "reader")}
AGENT = """
import asyncio
from accord import Agent

agent = Agent(restart="safe")


@agent
async def answer(turn):
    for number in range(int(turn.text)):
        yield f"{number} "
        await asyncio.sleep(0.002)
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a nats-server with these users."""
    folder, number = tmp_path, free_port()
    (folder / "users.conf").write_text((ROOT / "deploy/nats/users.conf").read_text(encoding="utf-8"))
    (folder / "nats.conf").write_text(
        f'listen: "127.0.0.1:{number}"\njetstream {{ store_dir: "{folder / "data"}" }}\ninclude "users.conf"\n'
    )
    environ = {f"NATS_{name.upper()}_PASSWORD": password for name, password in PASSWORDS.items()}
    program = [Path(sys.executable).parent / "nats-server", "-c", folder / "nats.conf", "-l", folder / "log"]
    with subprocess.Popen(program, env={**os.environ, **environ}) as process:
        try:
            until = time.monotonic() + WAIT_S
            while not listens(number):
                assert process.poll() is None
                assert time.monotonic() < until, "nats-server does not listen"
                time.sleep(0.01)
            yield number
        finally:
            process.kill()


def address(user: str, port: int) -> str:
    return f"nats://{user}:{PASSWORDS[user]}@127.0.0.1:{port}"


@asynccontextmanager
async def running_accord(
    folder: Path, database: str, port: int, command: str, *options: str
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """`accord serve` or `accord worker` as the user of that name, and the first line that it prints."""
    (folder / "counting.py").write_text(AGENT)
    (folder / "accord.toml").write_text("[server]\nlease_s = 1.0\n")
    user = "server" if command == "serve" else command
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", command, "./counting.py:agent", "--config", "accord.toml"),
        *("--queue", address(user, port), "--store", database, *options),
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(WAIT_S):
            while (line := (await process.stderr.readline()).decode()).startswith("Open "):
                pass  # the page
        assert line.startswith(("Serving", "Worker")), line
        yield process, line
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ask(client: aiohttp.ClientSession, query: str) -> str:
    body = {
        "request_id": str(uuid4()),
        "context": {"session_id": str(uuid4()), "user": {"id": "me", "name": "Me"}},
        "payload": {"query": query},
    }
    async with client.post("/v1/assist", json=body) as response:
        assert response.status == 200, await response.text()
        return (await response.json())["output"]["text"]


@pytest.mark.timeout(240)
def test_servers_workers_and_publishers_can_do_their_work(tmp_path: Path, port: int):
    """Also after a worker died: then a turn is fenced, read and run again. Of 600 packets the first are purged."""

    async def run(database: str) -> None:
        async with (
            running_accord(tmp_path, database, port, "serve", "--port", "0") as (_, line),
            aiohttp.ClientSession(line.split()[3], timeout=aiohttp.ClientTimeout(WAIT_S)) as client,
        ):
            async with running_accord(tmp_path, database, port, "worker") as (worker, _):
                assert await ask(client, "3") == "0 1 2 "
                asking = asyncio.create_task(ask(client, "600"))
                await _until_packets(port)
                worker.send_signal(signal.SIGKILL)
            async with running_accord(tmp_path, database, port, "worker"):
                assert await asking == "".join(f"{number} " for number in range(600))
                program = [sys.executable, ROOT / "examples/09_queue_worker.py"]
                options = [address("publisher", port), "answer", "2", "--inbox", "_INBOX_publisher"]
                process = await asyncio.create_subprocess_exec(
                    *map(str, [*program, *options]), stdout=asyncio.subprocess.PIPE
                )
                out, _ = await process.communicate()
                assert (process.returncode, out) == (0, b"0 1 \n")

    with running_server() as server:
        asyncio.run(run(server.make_database("users")))
    assert "Violation" not in (tmp_path / "log").read_text()


async def _until_packets(port: int) -> None:
    """Return when packets of a turn are published, as a reader sees them."""
    reader = await nats.connect(address("reader", port))
    try:
        packets = await reader.subscribe("accord.packets.out.*")
        for _ in range(20):
            await packets.next_msg(timeout=WAIT_S)
    finally:
        await reader.close()


FORBIDDEN = [
    ("reader", "publish", "accord.work.answer"),
    ("reader", "publish", "accord.packets.out.x"),
    ("reader", "subscribe", "accord.work.*"),
    ("reader", "subscribe", "_INBOX.>"),
    ("publisher", "publish", "accord.packets.in.x"),
    ("publisher", "publish", "accord.packets.out.x"),
    ("publisher", "publish", "accord.bus.cancel"),
    ("publisher", "publish", "accord.dead.x"),
    ("publisher", "publish", "$JS.API.STREAM.DELETE.ACCORD_WORK"),
    ("publisher", "subscribe", "accord.work.*"),
    ("publisher", "subscribe", "_INBOX.>"),
    ("server", "publish", "$JS.API.STREAM.DELETE.ACCORD_PACKETS"),
    ("server", "publish", "$JS.API.CONSUMER.MSG.NEXT.ACCORD_WORK.workers-answer"),
    ("worker", "publish", "$JS.API.STREAM.PURGE.ACCORD_WORK"),
    ("worker", "publish", "$JS.API.STREAM.UPDATE.ACCORD_PACKETS"),
]


def test_the_users_may_do_nothing_else(port: int):
    async def violation(user: str, action: str, subject: str) -> str:
        errors: asyncio.Queue[Exception] = asyncio.Queue()
        client = await nats.connect(address(user, port), error_cb=errors.put)
        try:
            if action == "publish":
                await client.publish(subject, json.dumps({}).encode())
            else:
                await client.subscribe(subject)
            await client.flush()
            async with asyncio.timeout(WAIT_S):
                return str(await errors.get())
        finally:
            await client.close()

    async def run() -> None:
        for user, action, subject in FORBIDDEN:
            assert "permissions violation" in (await violation(user, action, subject)).lower(), (user, subject)

    asyncio.run(run())
