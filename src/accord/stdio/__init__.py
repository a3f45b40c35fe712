"""Talk JSON-RPC over pipes: a connection, this process's standard streams, and child processes. It is not ACP-aware."""

from accord.stdio.connection import PeerGoneError, RpcConnection, RpcError, Sink
from accord.stdio.pipes import is_hung_up, open_stdio
from accord.stdio.process import Peer, PeerStartError, start_peer

__all__ = [
    "Peer",
    "PeerGoneError",
    "PeerStartError",
    "RpcConnection",
    "RpcError",
    "Sink",
    "is_hung_up",
    "open_stdio",
    "start_peer",
]
