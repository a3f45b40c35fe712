"""Every check, a module for each group. A check names its clause and level, sends something, and judges the reply.

A check is a decorated function that gets an `AgentProbe`; the sentences of its outcomes are in `replies`.
"""

from typing import Final

from accord.acp_tools.inspect.checks.authentication import AUTHENTICATION
from accord.acp_tools.inspect.checks.client import CLIENT
from accord.acp_tools.inspect.checks.content import CONTENT
from accord.acp_tools.inspect.checks.handshake import HANDSHAKE
from accord.acp_tools.inspect.checks.lines import LINES
from accord.acp_tools.inspect.checks.mcp import MCP
from accord.acp_tools.inspect.checks.messages import MESSAGES
from accord.acp_tools.inspect.checks.process import PROCESS, SURVIVAL
from accord.acp_tools.inspect.checks.session import SESSION
from accord.acp_tools.inspect.checks.settings import SETTINGS
from accord.acp_tools.inspect.checks.stored_sessions import STORED
from accord.acp_tools.inspect.checks.table import Check, Needs
from accord.acp_tools.inspect.checks.turn import RECOVERY, TURN

CHECKS: Final[tuple[Check, ...]] = (
    *HANDSHAKE,
    *AUTHENTICATION,
    *SESSION,
    *STORED,
    *SETTINGS,
    *MCP,
    *CONTENT,
    *TURN,
    *CLIENT,
    *LINES,
    *PROCESS,
    *MESSAGES,
    *RECOVERY,
    *SURVIVAL,
)

__all__ = ["CHECKS", "Check", "Needs"]
