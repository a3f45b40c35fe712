"""The agents that come with Accord: `accord.agents:relay` and `accord.agents:demo`."""

from accord.agents.demo import demo
from accord.agents.relay import relay

__all__ = ["demo", "relay"]
