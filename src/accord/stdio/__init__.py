"""How programs talk over pipes: a JSON-RPC connection, and peers that are started. Knows no protocol above JSON-RPC."""

from accord.stdio.connection import PeerGoneError, RpcConnection, RpcError, Sink
from accord.stdio.pipes import open_stdio
from accord.stdio.process import Peer, PeerStartError, start_peer

__all__ = [
    "Peer",
    "PeerGoneError",
    "PeerStartError",
    "RpcConnection",
    "RpcError",
    "Sink",
    "open_stdio",
    "start_peer",
]
