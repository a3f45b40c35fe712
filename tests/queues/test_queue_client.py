"""examples/09_queue_worker.py with a real NATS, PostgreSQL and worker; they send what docs/asyncapi.yaml says."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from jsonschema import Draft7Validator
from nats.aio.client import Client
from nats.aio.msg import Msg

from accord.wire.queue_contract import queue_document
from tests.queues.nats_server import NatsServer, running_nats
from tests.stores.postgres_server import running_server

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false

PROGRAM = Path(__file__).parent.parent.parent / "examples" / "09_queue_worker.py"
WAIT_S = 40
AGENT = """
from accord import Agent

agent = Agent()


@agent
async def answer(turn):
    yield f"You said: {turn.text}."
    if turn.text == "fail":
        raise ValueError("SECRET")
"""
CONTRACT: dict[str, Any] = queue_document()
LINES = "application/x-ndjson"


@pytest.fixture(scope="module")
def broker() -> Iterator[NatsServer]:
    with running_nats() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with running_server() as server:
        yield server.make_database("queue_client")


async def run_client(broker: NatsServer, *arguments: str) -> tuple[int | None, str, str]:
    """The status and the output of the program, called as a user calls it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, broker.url, "answer", *arguments, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(WAIT_S):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running_worker(folder: Path, broker: NatsServer, database: str) -> AsyncGenerator[None]:
    """A running `accord worker`."""
    (folder / "answering.py").write_text(AGENT)
    options = ("--queue", broker.url, "--store", database)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "worker", "./answering.py:agent", *options),
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(WAIT_S):
            line = (await process.stderr.readline()).decode()
        assert line.startswith("Worker for answer"), line
        yield
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def watching(broker: NatsServer, subject: str) -> AsyncGenerator[tuple[Client, asyncio.Queue[Msg]]]:
    """A client, and what is published on this subject."""
    client = await nats.connect(broker.url)
    seen: asyncio.Queue[Msg] = asyncio.Queue()
    try:
        await client.subscribe(subject, cb=seen.put)
        await client.flush()
        yield client, seen
    finally:
        await client.close()


def description_of(message: Msg) -> str | None:
    """The name of the message in the document that fits this one on its channel."""
    text, headers = message.data.decode(), dict(message.headers or {})
    for channel in CONTRACT["channels"].values():
        head, brace, _ = channel["address"].partition("{")
        if message.subject != head if not brace else not message.subject.startswith(head):
            continue
        for name in channel["messages"]:
            described = CONTRACT["components"]["messages"][name]
            is_text = described["payload"].get("type") == "string"
            payload = text if is_text else json.loads(text)
            if fits(described.get("headers", {}), headers) and fits(described["payload"], payload):
                lines = text.split("\n") if described.get("contentType") == LINES else []
                return name if all(fits(described["payload"]["x-line"], json.loads(line)) for line in lines) else None
    return None


def fits(schema: dict[str, Any], value: Any) -> bool:
    return Draft7Validator({"allOf": [schema], "components": CONTRACT["components"]}).is_valid(value)


@pytest.mark.timeout(180)
def test_it_prints_the_answers_of_a_real_worker(tmp_path: Path, broker: NatsServer, database: str):
    async def run() -> list[Msg]:
        async with watching(broker, "accord.>") as (_, seen), running_worker(tmp_path, broker, database):
            assert await run_client(broker, "Hello") == (0, "You said: Hello.\n", "")
            status, out, err = await run_client(broker, "fail")
            assert (status, out) == (1, "You said: fail.\n")
            assert "The turn failed" in err
            assert "SECRET" not in err
            status, _, err = await run_client(broker, "Hello", "--session", "")
            assert status == 1
            assert err.startswith("Rejected: Not a valid ServiceRequest: context.session_id: ")
            return [seen.get_nowait() for _ in range(seen.qsize())]

    seen = asyncio.run(run())
    described = [(message.subject, description_of(message)) for message in seen]
    assert [subject for subject, name in described if name is None] == []
    assert {"request", "packets", "rejected"} <= {name for _, name in described}


def test_it_ignores_what_it_does_not_know(broker: NatsServer):
    async def run() -> tuple[int | None, str, str]:
        async with watching(broker, "other.work.*") as (client, seen):
            await client.jetstream().add_stream(name="OTHER", subjects=["other.work.*"])
            asking = asyncio.create_task(run_client(broker, "Hello", "--prefix", "other"))
            async with asyncio.timeout(WAIT_S):
                request = json.loads((await seen.get()).data)
            subject = f"other.packets.out.{request['request_id']}"
            await client.publish(subject, b"no headers")
            await client.publish(subject, b"", headers={"Accord-Seq": "0", "Accord-Fence": "1", "Accord-Epoch": "2"})
            await client.publish(subject, b"?", headers={"Accord-Seq": "one"})
            await client.publish(subject, b'{"op":"later"}\n{"op":"delta","p":"A"}', headers={"Accord-Seq": "1"})
            await client.publish(
                subject, b'{"op":"delta","p":"A"}\n{"op":"delta","p":"B"}', headers={"Accord-Seq": "2"}
            )
            await client.publish(subject, b"not JSON", headers={"Accord-Seq": "4"})
            await client.publish(subject, b'{"op":"close"}', headers={"Accord-Seq": "5", "Accord-Over": "1"})
            await client.flush()
            return await asking

    assert asyncio.run(run()) == (0, "AB\n", "")


@pytest.mark.parametrize("headers", [{"Accord-Seq": "2"}, {"Accord-Seq": "1", "Accord-Last": "9"}])
def test_it_says_where_to_read_what_it_has_missed(broker: NatsServer, headers: dict[str, str]):
    async def run() -> tuple[int | None, str, str]:
        async with watching(broker, "third.work.*") as (client, seen):
            await client.jetstream().add_stream(name="THIRD", subjects=["third.work.*"])
            asking = asyncio.create_task(run_client(broker, "Hello", "--prefix", "third"))
            async with asyncio.timeout(WAIT_S):
                request = json.loads((await seen.get()).data)
            await client.publish(f"third.packets.out.{request['request_id']}", b'{"op":"close"}', headers=headers)
            return await asking

    status, out, err = asyncio.run(run())
    assert (status, out) == (3, "\n")
    assert "read the rest over HTTP" in err
