"""The proxy between an editor and an agent.

Pure: `guard` (decides about every line), `pending` (requests without a response), `degrade` (replacements for
undeclared content), `declare` (what adapt declares for the agent), `shape` (checks what the agent sends). With I/O:
`pump` (moves the bytes, saves files), `log` (writes the log, and makes its entries readable).
"""

from accord.acp_tools.proxy.pump import Proxy

__all__ = ["Proxy"]
