"""How programs talk over pipes: a JSON-RPC connection, and peers that are started. Knows no protocol above JSON-RPC."""

from accord.stdio.connection import Connection, PeerGoneError, RpcError, Sink
from accord.stdio.pipes import own_pipes
from accord.stdio.process import Peer, PeerFailedError, start_peer

__all__ = [
    "Connection",
    "Peer",
    "PeerFailedError",
    "PeerGoneError",
    "RpcError",
    "Sink",
    "own_pipes",
    "start_peer",
]
