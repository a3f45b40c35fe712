"""Tries an ACP agent: starts it, sends it what editors send and what they should not, and reports what it did."""

from accord.servers.inspect.checks import CHECKS
from accord.servers.inspect.probe import Settings
from accord.servers.inspect.run import inspect_agent

__all__ = ["CHECKS", "Settings", "inspect_agent"]
