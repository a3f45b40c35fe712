"""Inspect an ACP agent: start it, send it valid and invalid messages, and report whether it keeps its contract.

Pure: `declared` (what the agent declares), `replies` (judging replies), `session_results` (judging results about
sessions), `conduct` (judging every message of the agent), `blocks` (what is sent). With I/O: `connection` (one running
agent), `client` (what the inspector offers to it), `probe` (agents and sessions for the checks), `checks/` (every
check), `mcp_server` (started by agents), `run` (running the checks), `report` (the output).
"""

from accord.acp_tools.inspect.checks import CHECKS
from accord.acp_tools.inspect.inspection import InspectSettings
from accord.acp_tools.inspect.run import inspect_agent, select_checks

__all__ = ["CHECKS", "InspectSettings", "inspect_agent", "select_checks"]
