"""The process: it ends with its input, survives every message, and writes only messages to stdout."""

from typing import Final

from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import CheckOutcome, failed, judge_noise, passed
from accord.wire.inspection import CheckGroup

STDIO: Final = "ACP: Transports – stdio"

PROCESS: Final = CheckTable(CheckGroup.PROCESS)
SURVIVAL: Final = CheckTable(CheckGroup.PROCESS, reports_all=True)


@PROCESS.check("ends", "the agent exits when its input is closed", STDIO, SHOULD, quick=False)
async def _ends(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.fresh(initialized=True)
    if await connection.exits_within(connection.timeout_s):
        return passed("The agent exited when its input was closed")
    return failed(f"The agent still ran {connection.timeout_s:g} s after its input was closed")


@SURVIVAL.check("stays", "no check ended the agent", "JSON-RPC 2.0 §5: a request gets a response", MUST)
async def _stays(probe: AgentProbe) -> CheckOutcome:
    if crashed_in := list(dict.fromkeys(probe.inspection.crashed_in)):
        return failed(f"The agent ended during: {', '.join(crashed_in)}")
    return passed("The agent survived every check")


@SURVIVAL.check("clean-stdout", "only messages are written to stdout", STDIO, MUST, Needs.NOTHING)
async def _clean_stdout(probe: AgentProbe) -> CheckOutcome:
    return judge_noise(probe.inspection.noise)
