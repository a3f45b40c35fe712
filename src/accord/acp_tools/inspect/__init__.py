"""Tries an ACP agent: starts it, sends it what editors send and what they should not, and reports what it did."""

from accord.acp_tools.inspect.probe import InspectSettings
from accord.acp_tools.inspect.run import CHECKS, inspect_agent, select_checks

__all__ = ["CHECKS", "InspectSettings", "inspect_agent", "select_checks"]
