"""HTTP to a model endpoint without a library in between: a keep-alive pool of `UpstreamConnection`s.

It does what the requests of a model backend need and nothing else: no redirects, no cookies, no compression, no proxies
(`model_options.py` uses aiohttp where the environment names one). It exists because a request costs a sixth of what it
costs with aiohttp, and a read of a stream half (`make bench-backends`).
"""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType] - a bare tuple in it

from accord.apis.failure import Failure
from accord.backends.upstream import CALLER, UpstreamError, UpstreamReply, UpstreamRequest, UpstreamTimeouts
from accord.backends.upstream_connection import CLOSED, ClosedUnansweredError, UpstreamConnection, reason_of
from accord.version import package_version

NEXT_ADDRESS_S: Final = 0.25
"""How long one address of a host is tried before the next one is tried beside it."""
MAX_HEADS: Final = 64
"""Request heads that are kept in encoded form."""
OWN_HEADERS: Final = frozenset({"accept-encoding", "connection", "content-length", "transfer-encoding"})
"""Headers that describe how the message is transferred, which is decided here: given ones are left out."""
REST_S: Final = 1.0
"""How long a connection must have been silent before it serves another caller."""
DISTRUST_S: Final = 600.0
"""How long no connections are kept to an endpoint that sent bytes unasked."""
UNASKED: Final = "The endpoint sent bytes unasked; its connections are not kept"
LOG: Final = logging.getLogger("accord.backends")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_TARGET: Final = re.compile(r"[!-~]+")
_MISMATCHES: Final = (62, 63, 64)
"""OpenSSL's numbers for a certificate of another host, mail address or IP address; its messages repeat the address."""


@dataclass(frozen=True, slots=True)
class UpstreamServer:
    """A server: its host as DNS and TLS take it, its port, and whether it speaks TLS."""

    host: str
    port: int
    is_tls: bool


class KeptConnections:
    """The connections to one server that wait for a request.

    HTTP/1.1 does not say which request a reply belongs to: bytes that an endpoint sends too many would answer the next
    request. So a connection is used again only if nothing has arrived on it, for another caller only after a rest, in
    which late bytes close it; and none is kept for a while after an endpoint was seen to send such bytes. The one that
    was used last is used next, since those that are not needed are to be closed.
    """

    def __init__(self, server: UpstreamServer) -> None:
        self._server: Final = server
        self._idle: Final[dict[str, list[UpstreamConnection]]] = {}
        """By caller: first the caller whose connections have waited longest."""
        self._distrusted_until = 0.0

    def take(self, caller: str, now: float) -> UpstreamConnection | None:
        """Return a connection for a request of this caller, if there is one."""
        while self._idle:
            owner = caller if caller in self._idle else next(iter(self._idle))
            connections = self._idle[owner]
            if owner != caller and now - connections[0].idle_since < REST_S:
                return None
            connection = connections.pop(-1 if owner == caller else 0)
            if not connections:
                del self._idle[owner]
            # One on which something has arrived is left to the event loop, which closes it when it reads that.
            if connection.is_open and connection.is_silent:
                return connection
        return None

    def keep(self, connection: UpstreamConnection) -> None:
        """Keep this connection for another request."""
        if connection.idle_since < self._distrusted_until:
            connection.abort()
        else:
            self._idle.setdefault(connection.caller, []).append(connection)

    def drop(self, connection: UpstreamConnection) -> None:
        """Forget a connection that is closed."""
        connections = self._idle.get(connection.caller, [])
        if connection in connections:
            connections.remove(connection)
            if not connections:
                del self._idle[connection.caller]

    def distrust(self) -> None:
        """Close all connections and keep none for a while: the endpoint sent bytes that no request asked for."""
        now = asyncio.get_running_loop().time()
        if now >= self._distrusted_until:
            fields = {"host": self._server.host, "port": self._server.port, "seconds": DISTRUST_S}
            LOG.warning(UNASKED, extra={"fields": fields})
        self._distrusted_until = now + DISTRUST_S
        for connections in list(self._idle.values()):
            for connection in list(connections):
                connection.abort()
        self._idle.clear()


class DirectUpstream:
    """Connections to one endpoint. The pool belongs to the event loop that first uses it.

    One without requests is closed after a while. If the endpoint has
    closed a connection of the pool before a byte of the reply arrived, the request is sent once more, on a new
    connection. RFC 9110 (9.2.2) lets a client repeat a POST only if it knows that the first one was not processed: an
    endpoint that closes an idle connection has not read the request, and one that crashed over it is not met again,
    since a request on a new connection is never repeated here.

    `tls` holds the trusted certificates, if they are not the system's.
    """

    def __init__(self, timeouts: UpstreamTimeouts | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._timeouts: Final = timeouts or UpstreamTimeouts()
        self._tls: Final = tls
        self._kept: Final[dict[UpstreamServer, KeptConnections]] = {}
        self._connections: Final[set[UpstreamConnection]] = set()
        self._heads: Final[dict[tuple[str, str], tuple[Mapping[str, str], UpstreamServer, bytes]]] = {}

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Return the reply as soon as its head has arrived."""
        known = self._heads.get((request.method, request.url))
        if known is None or known[0] != request.headers:
            known = self._encode_head(request)
        _, server, head = known
        body = request.body
        if body is not None or request.method != "GET":
            body = body or b""
            head = b"%scontent-length: %d\r\n\r\n" % (head, len(body))
        else:
            head, body = head + b"\r\n", b""
        caller = CALLER.get()
        kept = self._kept.get(server)
        if kept is None:
            kept = self._kept[server] = KeptConnections(server)
        if (connection := kept.take(caller, asyncio.get_running_loop().time())) is not None:
            connection.caller = caller
            with suppress(ClosedUnansweredError):
                return await connection.send(head, body)
        connection = await self._connect(server, kept)
        connection.caller = caller
        return await connection.send(head, body)

    async def aclose(self) -> None:
        """Close every connection."""
        self._kept.clear()
        if connections := list(self._connections):
            for connection in connections:
                connection.abort()
            await asyncio.wait([connection.lost for connection in connections], timeout=self._timeouts.connect_s)

    def _encode_head(self, request: UpstreamRequest) -> tuple[Mapping[str, str], UpstreamServer, bytes]:
        """Return the head without `content-length`, and keep it for later requests to the same address."""
        server, host, target = _parse_url(request.url)
        headers = {"host": host, "user-agent": _user_agent(), "accept": "*/*"}
        headers.update((name.lower(), value) for name, value in request.headers.items())
        lines = [f"{request.method} {target} HTTP/1.1", "accept-encoding: identity"]
        for name, value in headers.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise UpstreamError(Failure.BAD_REQUEST, "a header has characters that HTTP does not allow")
            if name not in OWN_HEADERS:
                lines.append(f"{name}: {value}")
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        known = dict(request.headers), server, "\r\n".join([*lines, ""]).encode()
        self._heads[request.method, request.url] = known
        return known

    async def _connect(self, server: UpstreamServer, kept: KeptConnections) -> UpstreamConnection:
        def forget(connection: UpstreamConnection) -> None:
            self._connections.discard(connection)
            kept.drop(connection)

        loop = asyncio.get_running_loop()
        connection = UpstreamConnection(loop, self._timeouts, kept.keep, forget, kept.distrust)
        self._connections.add(connection)
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                opened = await start_connection(await _addresses(server), happy_eyeballs_delay=NEXT_ADDRESS_S)
                await self._begin(connection, opened, server)
        except BaseException as error:
            connection.abort()
            self._connections.discard(connection)
            if isinstance(error, OSError | ValueError):
                raise _connect_error(error) from None
            raise
        return connection

    async def _begin(self, connection: UpstreamConnection, opened: socket.socket, server: UpstreamServer) -> None:
        tls, name = (self._tls or _system_tls(), server.host) if server.is_tls else (None, None)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, sock=opened, ssl=tls, server_hostname=name)
        except BaseException:
            opened.close()  # the event loop has taken it over only if this succeeds
            raise


@lru_cache(maxsize=256)
def _parse_url(url: str) -> tuple[UpstreamServer, str, str]:
    """Return the server of an address, its `host` header, and the target of the request."""
    try:
        parts = urlsplit(url)
        is_tls, name = parts.scheme == "https", parts.hostname or ""
        host = name if name.isascii() else name.encode("idna").decode()
        port = parts.port or (443 if is_tls else 80)
    except ValueError:
        raise UpstreamError(Failure.NO_SUCH_MODEL, "its address is malformed") from None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme not in ("http", "https") or not _TARGET.fullmatch(host) or not _TARGET.fullmatch(target):
        raise UpstreamError(Failure.NO_SUCH_MODEL, "its address is malformed")
    shown = f"[{host}]" if ":" in host else host
    return UpstreamServer(host, port, is_tls), shown if parts.port is None else f"{shown}:{port}", target


async def _addresses(server: UpstreamServer) -> list[Any]:
    """Return the addresses of a server as `getaddrinfo` does; an IP address is not looked up."""
    try:
        address = ip_address(server.host)
    except ValueError:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    if address.version == 4:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (server.host, server.port))]
    return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (server.host, server.port, 0, 0))]


def _connect_error(error: OSError | ValueError) -> UpstreamError:
    """Return the error of a connection that was not made."""
    match error:
        case TimeoutError():
            return UpstreamError(Failure.TIMED_OUT, "no connection was made in time")
        case ssl.SSLCertVerificationError():
            is_mismatch = error.verify_code in _MISMATCHES
            return UpstreamError(Failure.UNTRUSTED, "it is for another name" if is_mismatch else error.verify_message)
        case ssl.SSLError():
            return UpstreamError(Failure.UNREACHABLE, "TLS could not be established")
        case socket.gaierror() | UnicodeError():
            return UpstreamError(Failure.UNREACHABLE, "its name cannot be resolved")
        case _:
            reason = reason_of(error, CLOSED if isinstance(error, ConnectionError) else "no connection could be made")
            return UpstreamError(Failure.UNREACHABLE, reason)


@lru_cache(maxsize=1)
def _system_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@lru_cache(maxsize=1)
def _user_agent() -> str:
    return f"accord/{package_version()}"
