"""An ACP agent as a backend: a process with JSON-RPC on its standard input and output."""

from accord.backends.acp.backend import AcpBackend
from accord.backends.acp.permissions import AgentPermissions

__all__ = ["AcpBackend", "AgentPermissions"]
