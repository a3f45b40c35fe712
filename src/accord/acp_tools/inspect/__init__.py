"""Tries an ACP agent: starts it, sends it what editors send and what they should not, and reports what it did."""

from accord.acp_tools.inspect.probe import Settings
from accord.acp_tools.inspect.run import CHECKS, inspect_agent

__all__ = ["CHECKS", "Settings", "inspect_agent"]
