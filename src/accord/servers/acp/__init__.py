"""The ACP server: an agent on standard input and output, in protocol version 1 and in the version 2 draft.

Pure: `messages` (`initialize`, prompts, JSON-RPC errors) and `updates` (packets to `session/update` lines).
With I/O: `server` (the methods), `permissions` (permission requests) and `sessions` (open and stored sessions).
"""

from accord.servers.acp.server import serve_acp

__all__ = ["serve_acp"]
