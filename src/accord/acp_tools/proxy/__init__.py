"""The proxy between an editor and an agent.

Pure: `guard` (decides about every line), `pending` (requests without a response), `degrade` (replacements for
undeclared content), `declare` (what adapt declares for the agent), `shape` (checks what the agent sends). With I/O:
`pump` (moves the bytes, saves files, writes the trace).
"""

from accord.acp_tools.proxy.pump import Proxy
from accord.acp_tools.trace.writer import NoTrace, Trace, TraceFile

__all__ = ["NoTrace", "Proxy", "Trace", "TraceFile"]
