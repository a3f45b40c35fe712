"""The end of a draft turn is found in state updates, and every wait for it has a time limit."""

import asyncio
import json
import sys
from typing import Any

import pytest

from accord.acp_tools.inspect.connection import AgentConnection, find_turn_end
from accord.acp_tools.inspect.replies import Answered, Gone, Reply, Silent
from accord.stdio import start_peer

RUNNING, SNAPSHOT, DONE = {"state": "running"}, {"state": "idle"}, {"state": "idle", "stopReason": "end_turn"}
PROGRAM = "import sys, time; print(sys.argv[1], flush=True); time.sleep(float(sys.argv[2]))"


@pytest.mark.parametrize(
    ("states", "stop_reason"),
    [
        ([DONE], "end_turn"),
        ([RUNNING, DONE], "end_turn"),
        ([SNAPSHOT, RUNNING, DONE], "end_turn"),
        ([RUNNING, SNAPSHOT, DONE], None),
    ],
)
def test_a_turn_ends_with_the_first_idle_state_after_work_or_with_a_reason(
    states: list[dict[str, Any]], stop_reason: str | None
):
    assert find_turn_end(states) == Answered({"stopReason": stop_reason})


@pytest.mark.parametrize("states", [[], [SNAPSHOT], [RUNNING], [SNAPSHOT, RUNNING]])
def test_a_turn_without_such_a_state_goes_on(states: list[dict[str, Any]]):
    assert find_turn_end(states) is None


def wait_for_end(states: list[dict[str, Any]], *, since: int = 0, runs_s: float, wait_s: float) -> Reply:
    """Wait for the turn's end at an agent that sends these states, and exits after so many seconds."""
    updates = [{"sessionId": "s", "update": {"sessionUpdate": "state_update", **state}} for state in states]
    lines = [json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": update}) for update in updates]

    async def run() -> Reply:
        peer = await start_peer([sys.executable, "-c", PROGRAM, "\n".join(lines), str(runs_s)])
        connection = AgentConnection(peer, 5)
        try:
            return await connection.turn_end_within("s", since, wait_s)
        finally:
            await connection.end()

    return asyncio.run(asyncio.wait_for(run(), 30))


def test_the_end_of_a_turn_is_awaited():
    assert wait_for_end([RUNNING, DONE], runs_s=60, wait_s=20) == Answered({"stopReason": "end_turn"})


def test_states_of_earlier_turns_do_not_count():
    assert wait_for_end([DONE, RUNNING], since=1, runs_s=60, wait_s=0.3) == Silent(0.3)


def test_a_turn_that_does_not_end_in_time_is_silent():
    assert wait_for_end([RUNNING], runs_s=60, wait_s=0.3) == Silent(0.3)


def test_an_agent_that_exits_during_a_turn_is_gone():
    assert wait_for_end([RUNNING], runs_s=0, wait_s=20) == Gone(0)
