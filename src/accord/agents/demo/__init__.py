"""The demo agent, a tour of what Accord does, and the backends that it has if none are configured.

Neither needs a key or a network, and the backends are scripts: what they answer is computed from what they are given.
"""

from accord.agents.demo.tour import demo

__all__ = ["demo"]
