"""An agent over ACP: editors speak to it on standard input and output (version 1, and the version 2 draft)."""

from accord.servers.acp.server import serve_acp

__all__ = ["serve_acp"]
