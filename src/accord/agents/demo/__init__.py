"""The demo agent."""

from accord.agents.demo.tour import demo

__all__ = ["demo"]
