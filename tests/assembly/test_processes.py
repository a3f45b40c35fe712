"""`accord serve --workers`: several processes at one address, as users and operators meet them."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from tests.servers.process import ServedProcess, accord_serve
from tests.servers.transports import body

pytestmark = pytest.mark.anyio

WAIT_S = 30.0
MOST_CONNECTIONS = 300
"""The kernel chooses the process of a connection by its port; that all these get the same one does not happen."""
AGENT = """
import asyncio
from accord import Agent

async def answer(turn):
    yield "begun"
    if turn.text == "stay":
        await asyncio.sleep(3600)
    yield " done"

agent = Agent(answer)
"""


async def process_of(served: ServedProcess) -> int:
    """The process that answers a new connection."""
    async with aiohttp.ClientSession() as client, client.get(f"{served.address}/metrics") as response:
        found = re.search(r'accord_process_info{pid="(\d+)"}', await response.text())
    assert found
    return int(found.group(1))


async def until_processes(served: ServedProcess, are_enough: Callable[[set[int]], bool]) -> set[int]:
    """The processes that answer new connections, as soon as they are enough."""
    found: set[int] = set()
    for _ in range(MOST_CONNECTIONS):
        found.add(await process_of(served))
        if are_enough(found):
            return found
    raise AssertionError(found)


async def until_ended(pid: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240 - it is no child of this process
            await asyncio.sleep(0.02)


async def test_the_processes_share_one_address_and_one_store(tmp_path: Path):
    async with accord_serve(tmp_path, "--workers", "2", agent=AGENT) as served:
        first, second = await until_processes(served, lambda found: len(found) == 2)
        assert served.process.pid not in {first, second}
        assert sum("Serving" in line for line in served.log_lines) == 1
        for number in range(10):  # each on a new connection
            async with (
                aiohttp.ClientSession() as client,
                client.post(f"{served.address}/v1/assist", json=body(number, "hello")) as response,
            ):
                assert (await response.json())["output"]["text"] == "begun done"
        served.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(served.process.wait(), WAIT_S) == 0
        for pid in (first, second):
            await until_ended(pid)


async def test_the_number_can_come_from_the_configuration(tmp_path: Path):
    async with accord_serve(tmp_path, config="[server]\nworkers = 2\n", agent=AGENT) as served:
        await until_processes(served, lambda found: len(found) == 2)


async def test_a_process_that_is_killed_is_started_again_while_the_others_serve(tmp_path: Path):
    async with accord_serve(tmp_path, "--workers", "2", agent=AGENT) as served:
        before = await until_processes(served, lambda found: len(found) == 2)
        killed, stays = before
        os.kill(killed, signal.SIGKILL)
        line = await served.until_logged("A process of the service has ended; starting another one")
        assert f"status={128 + signal.SIGKILL}" in line
        after = await until_processes(served, lambda found: len(found - {killed}) == 2)
        assert stays in after


async def test_the_first_signal_waits_for_turns_and_the_second_one_does_not(tmp_path: Path):
    config = "[server]\ndrain_s = 60.0\nkill_s = 0.5\n"
    async with accord_serve(tmp_path, "--workers", "2", config=config, agent=AGENT) as served:
        async with (
            aiohttp.ClientSession() as client,
            client.post(
                f"{served.address}/v1/assist", json=body(1, "stay"), headers={"accept": "text/event-stream"}
            ) as response,
        ):
            assert b"begun" in await response.content.readline() + await response.content.readline()
            served.process.send_signal(signal.SIGINT)
            await served.until_logged("Stopping when the running turns have ended", count=2)
            assert served.process.returncode is None
            served.process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(served.process.wait(), WAIT_S) in (0, 128 + signal.SIGINT)
        await served.until_logged("Stopping now: a second signal came")


async def test_a_hangup_reaches_every_process(tmp_path: Path):
    async with accord_serve(tmp_path, "--workers", "2", agent=AGENT) as served:
        (tmp_path / "accord.toml").write_text('policy = "strict"\n[store]\npath = "accord.db"\n')
        served.process.send_signal(signal.SIGHUP)
        await served.until_logged("Reloaded the configuration", count=2)


async def test_the_processes_stop_when_the_one_that_started_them_is_killed(tmp_path: Path):
    async with accord_serve(tmp_path, "--workers", "2", agent=AGENT) as served:
        pids = await until_processes(served, lambda found: len(found) == 2)
        served.process.kill()
        for pid in pids:
            await until_ended(pid)


def run_serve(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "accord", "serve", "--store", "s.db", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_an_agent_that_cannot_be_loaded_is_reported_once(tmp_path: Path):
    done = run_serve(tmp_path, "missing_agent:agent", "--workers", "3", "--port", "0")
    assert done.returncode == 2
    assert done.stderr.count("missing_agent") == run_serve(tmp_path, "missing_agent:agent").stderr.count(
        "missing_agent"
    )
    assert done.stdout == ""


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_port_that_is_taken_is_reported_once(tmp_path: Path, is_shared: bool):
    with socket.create_server(("127.0.0.1", 0), reuse_port=is_shared) as taken:
        port = str(taken.getsockname()[1])
        done = run_serve(tmp_path, "--workers", "2", "--port", port)
    assert done.returncode == 2
    assert done.stderr.count(f"Cannot listen at 127.0.0.1 port {port}: Address already in use") == 1


WRONG = {
    "none": (["--workers", "0"], "Invalid value for '--workers': Input should be greater than or equal to 1"),
    "negative": (["--workers", "-1"], "Invalid value for '--workers': Input should be greater than or equal to 1"),
    "reload": (
        ["--workers", "2", "--reload"],
        "--reload restarts one process, for development; leave out --workers, or --reload",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_combined_is_said(tmp_path: Path, case: str):
    arguments, message = WRONG[case]
    done = run_serve(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())


def test_a_memory_store_cannot_be_shared(tmp_path: Path):
    (tmp_path / "accord.toml").write_text('[store]\nkind = "memory"\n')
    command = [sys.executable, "-m", "accord", "serve", "--config", "accord.toml", "--workers", "2", "--port", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2
    assert (
        "--workers 2: with a memory store, each process would have sessions of its own; use a sqlite or postgres store, "
        "which they share, or --workers 1" in done.stderr
    )
