"""The proxy between an editor and an agent: a shell that pumps bytes and does what `acp_tools/proxy` decides."""

from accord.acp_tools.proxy.pump import Proxy
from accord.acp_tools.trace.writer import NoTrace, Trace, TraceFile

__all__ = ["NoTrace", "Proxy", "Trace", "TraceFile"]
