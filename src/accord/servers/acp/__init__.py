"""The ACP server: an agent on standard input and output, in protocol version 1 and in the version 2 draft.

Pure: `messages` (`initialize`, prompts, JSON-RPC errors) and `updates` (packets to `session/update` lines).
With I/O: `server` (the methods), `permissions` (permission requests), `sessions` (open and stored sessions) and
`replay` (loaded conversations).
"""

from accord.servers.acp.replay import ReplayLimits
from accord.servers.acp.server import serve_acp

__all__ = ["ReplayLimits", "serve_acp"]
