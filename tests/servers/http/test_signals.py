"""Signals to a real `accord serve`: SIGHUP reloads, and a second SIGTERM ends it whatever an agent does."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from tests.servers.process import accord_serve, healthy_in
from tests.servers.transports import body, within

CONFIG = "[server]\ndrain_s = 60.0\nkill_s = 0.5\n"
IGNORES_CANCELLATION = """
import asyncio
from accord import Agent

agent = Agent()

@agent
async def answer(turn):
    yield "begun"
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""
BLOCKS_THE_LOOP = """
import asyncio, time
from accord import Agent

agent = Agent()

@agent
async def answer(turn):
    yield "begun"
    await asyncio.sleep(0.3)  # so that the first packet goes out
    time.sleep(3600)
"""


async def until_silent(address: str) -> None:
    """Wait until the service answers nothing any more."""
    while True:
        try:
            await healthy_in(address, 1)
        except TimeoutError:
            return


async def signalled_to_the_end(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM again and again, since two that come at once may be delivered as one."""
    while process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.2)


def test_sighup_is_survived_again_and_again(tmp_path: Path):
    async def run() -> None:
        async with accord_serve(tmp_path) as served:
            for count in (1, 2):
                served.process.send_signal(signal.SIGHUP)
                await served.until_logged("Reloaded the configuration", count=count)
                await healthy_in(served.address)
            assert served.process.returncode is None

    within(run)


@pytest.mark.parametrize("agent", [IGNORES_CANCELLATION, BLOCKS_THE_LOOP], ids=["ignores cancellation", "blocks"])
def test_a_second_signal_ends_the_process_within_a_limit_whatever_an_agent_does(tmp_path: Path, agent: str):
    async def run() -> None:
        async with (
            accord_serve(tmp_path, config=CONFIG, agent=agent) as served,
            aiohttp.ClientSession(served.address) as client,
            client.post("/v1/assist", json=body(1), headers={"accept": "text/event-stream"}) as response,
        ):
            await response.content.readuntil(b"begun")
            if agent == BLOCKS_THE_LOOP:
                await until_silent(served.address)
            async with asyncio.timeout(10):
                await signalled_to_the_end(served.process)
            # By our own hand, or by a signal that came when the server was gone and only the agent's task was left.
            assert served.process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)

    within(run)
