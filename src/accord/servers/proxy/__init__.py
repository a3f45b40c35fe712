"""The proxy between an editor and an agent: a shell that pumps bytes and does what `core/guard` decides."""

from accord.servers.proxy.pump import Proxy
from accord.servers.proxy.trace import NoTrace, Trace, TraceFile

__all__ = ["NoTrace", "Proxy", "Trace", "TraceFile"]
