"""An agent that blocks the event loop is logged, with its stack, while it still blocks."""

import asyncio
import json
from pathlib import Path

import aiohttp

from tests.servers.process import accord_serve
from tests.servers.transports import body, within

AGENT = """
import time
from accord import Agent

agent = Agent(name="sleeper")

def wait_for_file():
    while not open("go").read():
        time.sleep(0.02)

@agent
async def answer(turn):
    yield "begun"
    wait_for_file()
    yield "ended"
"""


def test_what_blocks_the_event_loop_is_logged_while_it_does_and_counted_afterwards(tmp_path: Path):
    async def run() -> None:
        go = tmp_path / "go"
        go.write_text("")
        async with (
            accord_serve(tmp_path, "--log-json", config="[server]\nstall_s = 0.2\n", agent=AGENT) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            asking = asyncio.create_task(client.post("/v1/assist", json=body(1)))
            line = json.loads(await served.until_logged("The event loop is blocked"))
            fields = line["fields"]
            assert line["level"] == "error"
            assert fields["blocked_s"] >= 0.2
            assert fields["agent"] == "sleeper"
            assert "served_agent.py" in fields["agent_at"]
            assert fields["agent_at"].split()[-1] == "wait_for_file"
            assert any(each.endswith(" answer") for each in fields["stack"])
            await served.until_logged("The event loop is blocked", count=3)
            reports = [json.loads(each)["fields"]["blocked_s"] for each in served.log_lines if "is blocked" in each]
            assert reports[2] - reports[1] > reports[1] - reports[0]  # further apart each time
            go.write_text("now")
            async with await asking as response:
                assert response.status == 200
            await served.until_logged("The event loop runs again")
            async with client.get("/metrics") as response:
                metrics = await response.text()
            late = next(each for each in metrics.splitlines() if each.startswith("accord_loop_lag_seconds_sum"))
            assert float(late.split()[-1]) >= 0.2

    within(run)
