"""HTTP to a model endpoint with aiohttp: keep-alive pool, environment proxies, the operator's certificates."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from errno import errorcode
from functools import lru_cache
from io import BytesIO
from typing import Final

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientError,
    ClientPayloadError,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    InvalidURL,
    TCPConnector,
)
from yarl import URL

from accord.backends.failure import Failure
from accord.backends.upstream import UpstreamError, UpstreamReply, UpstreamRequest, UpstreamTimeouts
from accord.errors import UsageError
from accord.http_client import environment_proxy, read_piece

# The proxy for an endpoint, looked up once; what is wrong with it is told as any failure on the way is.


@lru_cache(maxsize=256)
def proxy_of(origin: str) -> str | None:
    """The address of the proxy for this origin, such as `https://models.example`, or None."""
    try:
        return environment_proxy(origin)
    except UsageError as error:
        raise UpstreamError(Failure.UNREACHABLE, error.message) from None


# The way to an endpoint over aiohttp: keep-alive pool, the environment's proxies, the operator's certificates.

LARGE_BYTES: Final = 1 << 20
"""aiohttp writes a body above this in pieces, so that nothing else has to wait for it."""


class AiohttpUpstream:
    """Connections to one endpoint. The pool belongs to the event loop that first uses it.

    `tls` says whose certificates are trusted, if not those that the system trusts.
    """

    def __init__(self, times: UpstreamTimeouts | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._times: Final = times or UpstreamTimeouts()
        self._tls: Final = tls
        self._session: ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """The reply, as soon as its head is there."""
        body = request.body
        data = BytesIO(body) if body is not None and len(body) > LARGE_BYTES else body
        session = self._opened()
        try:
            url = URL(request.url, encoded=True)
            proxy = proxy_of(str(url.origin()))
            async with asyncio.timeout(self._times.first_byte_s):
                # A redirect would carry the prompt, and the key, to somebody who was not asked.
                reply = await session.request(
                    request.method, url, data=data, headers=request.headers, proxy=proxy, allow_redirects=False
                )
        except TimeoutError as error:
            raise UpstreamError(Failure.TIMED_OUT, _timed_out(error)) from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(_failure(error), _told(error)) from None
        return _AiohttpReply(reply, self._times.gap_s)

    async def aclose(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True),
                # The waits for a head and for the next bytes have limits of our own: aiohttp has one for both, and
                # drops it when it cannot parse a body (see `http_body`).
                timeout=ClientTimeout(total=None, sock_connect=self._times.connect_s),
                cookie_jar=DummyCookieJar(),
            )
        return self._session


class _AiohttpReply:
    """One answer of aiohttp's."""

    __slots__ = ("_gap_s", "_reply", "headers", "status")

    def __init__(self, reply: ClientResponse, gap_s: float) -> None:
        self._reply: Final = reply
        self._gap_s: Final = gap_s
        self.status: Final = reply.status
        self.headers: Final[Mapping[str, str]] = {name.lower(): value for name, value in reply.headers.items()}

    async def read(self) -> bytes:
        """What has come."""
        try:
            return await read_piece(self._reply, self._gap_s)
        except TimeoutError:
            raise UpstreamError(Failure.TIMED_OUT, "nothing came for too long") from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(Failure.BROKEN_OFF, _told(error)) from None

    async def close(self) -> None:
        """Cut the connection, unless all was read: then aiohttp has taken it back already."""
        self._reply.close()


def _failure(error: Exception) -> Failure:
    """What it means that no reply came about."""
    match error:
        case ClientConnectorCertificateError():
            return Failure.UNTRUSTED
        case ClientResponseError() | ClientPayloadError():
            return Failure.NOT_UNDERSTOOD
        case InvalidURL():
            return Failure.NO_SUCH_MODEL
        case _:
            return Failure.UNREACHABLE


def _timed_out(error: TimeoutError) -> str:
    return "no connection came about in time" if "connect" in str(error).lower() else "no answer began in time"


def _told(error: Exception) -> str:
    """What is wrong, in the system's words or by its kind: the text may hold addresses, headers and what was sent."""
    if isinstance(error, ClientConnectorDNSError):
        return "its name cannot be found"
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if number is None or number not in errorcode else os.strerror(number)
