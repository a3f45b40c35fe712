"""docs/queue.md tells the truth: its commands work, and its names and figures are those of the code."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from accord.config import LimitsConfig, QueueConfig, ServerConfig
from accord.queues.nats.connection import DEAD_AGE_S, PACKETS_AGE_S
from accord.queues.nats.work import ACK_WAIT_S
from accord.run import run, sessions, stored
from accord.run.followers import CHECK_S
from accord.servers.queue.worker import LOOK_EVERY_S, MAX_DELIVERIES
from accord.stores.postgres import POOL_SIZE
from accord.wire.queue_messages import Names
from tests.queues.nats_server import running_nats
from tests.stores.postgres_server import running_server

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/queue.md").read_text(encoding="utf-8")
SIZING = (ROOT / "docs/sizing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
COMMANDS = [body for language, body in BLOCKS if language == "sh"]
TEXTS = [body for language, body in BLOCKS if language == "text"]
QUERIES = next(body for language, body in BLOCKS if language == "sql")
WAIT_S = 40


@asynccontextmanager
async def started(command: str, folder: Path, *more: str) -> AsyncGenerator[str]:
    """Run a command of the page; yields the first line that it prints."""
    words = [sys.executable, "-m", *shlex.split(command), *more]
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(WAIT_S):
            while (line := (await process.stderr.readline()).decode()).startswith("Open "):
                pass  # the page
        assert line.startswith(("Serving", "Worker")), line
        yield line
    finally:
        process.kill()
        await process.communicate()


async def run_shell(command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    async with asyncio.timeout(WAIT_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.timeout(180)
def test_the_commands_work(tmp_path: Path):
    serve, work, ask = COMMANDS

    async def run(database: str, nats: str) -> None:
        def placed(command: str) -> str:
            own = command.replace("postgresql://127.0.0.1/accord", shlex.quote(database))
            return own.replace("nats://127.0.0.1:4222", nats)

        async with started(placed(serve), tmp_path, "--port", "0") as line, started(placed(work), tmp_path):
            answer = await run_shell(ask.replace("http://127.0.0.1:8000", line.split()[3]))
            assert answer.strip() == TEXTS[0].strip()
            program, answer = TEXTS[1].removeprefix("$ python").split("\n", 1)
            assert await run_shell(f"{shlex.quote(sys.executable)} {placed(program)}") == answer.replace(
                "there", "there "
            )
        connection = await cast("Any", asyncpg).connect(database)
        try:
            for query in QUERIES.strip().split(";\n"):
                await connection.fetch(query)
        finally:
            await connection.close()

    with running_server() as server, running_nats() as broker:
        asyncio.run(run(server.make_database("page"), broker.url))


@pytest.mark.parametrize(
    "sentence",
    [
        f"`lease_s` ({ServerConfig().lease_s:.0f} s)",
        f"`server.drain_s` ({ServerConfig().drain_s:.0f} s)",
        f"`kill_s` ({ServerConfig().kill_s:.0f} s)",
        f"read there every {CHECK_S:.0f} s, idle workers look there every {LOOK_EVERY_S:.0f} s",
        f"silent for {ACK_WAIT_S:.0f} s is delivered again",
        f"| {QueueConfig().turns} | turns that a worker runs at once",
        f"| {ServerConfig().turns_per_caller} | turns of one user",
        "nother one ran the agent again, and its answer differs from what was sent already",
        stored.LOST,
        *(f"| `{Names().stream(name)}` |" for name in ("WORK", "PACKETS", "DEAD")),
    ],
)
def test_the_page_says_what_the_code_does(sentence: str):
    assert sentence in " ".join(PAGE.split())
    assert not sentence.startswith("nother") or sentence in run.RUN_DIFFERS


def test_figures_in_words_are_those_of_the_code():
    assert (PACKETS_AGE_S, DEAD_AGE_S) == (3_600, 7 * 86_400)
    assert "| one hour |" in PAGE
    assert "| seven days |" in PAGE
    assert sessions.MAX_RUNS == 3
    assert "at most three times" in PAGE
    assert MAX_DELIVERIES == 5
    assert "failed five times" in PAGE
    assert LimitsConfig().turn_s < PACKETS_AGE_S


def test_the_page_of_sizes_has_the_connections_of_the_code():
    assert f"| up to {POOL_SIZE} |" in SIZING
    assert "11 for each process with NATS and 13 without" in SIZING
