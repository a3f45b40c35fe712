"""HTTP to a model endpoint with aiohttp: environment proxies, the operator's certificates, a connection per request."""

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

from accord.apis.failure import Failure
from accord.backends.upstream import UpstreamError, UpstreamReply, UpstreamRequest, UpstreamTimeouts
from accord.errors import UsageError
from accord.http_client import environment_proxy, read_piece

LARGE_BYTES: Final = 1 << 20
"""A larger body is given to aiohttp as a file, which it writes in pieces, so that it does not block the event loop."""
TLS_END_S: Final = 0.1
"""How long the last connections may take to end TLS properly; aiohttp does not say when they have."""


@lru_cache(maxsize=256)
def find_target(address: str) -> tuple[URL, str | None]:
    """Return an address as aiohttp takes it, and the proxy for it; a wrong setting of a proxy is `UpstreamError`."""
    url = URL(address, encoded=True)
    try:
        return url, environment_proxy(str(url.origin()))
    except UsageError as error:
        raise UpstreamError(Failure.UNREACHABLE, error.message) from None


class AiohttpUpstream:
    """Requests to one endpoint, each on a connection of its own. It belongs to the event loop that first uses it.

    `tls` holds the trusted certificates, if they are not the system's.
    """

    def __init__(self, timeouts: UpstreamTimeouts | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._timeouts: Final = timeouts or UpstreamTimeouts()
        self._tls: Final = tls
        self._session: ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Return the reply as soon as its headers have arrived."""
        body = request.body
        data = BytesIO(body) if body is not None and len(body) > LARGE_BYTES else body
        if self._session is None:
            self._session = ClientSession(
                # It takes what an endpoint sends unasked for the next reply: no connection is used again.
                connector=TCPConnector(limit=0, force_close=True, ssl=self._tls if self._tls is not None else True),
                # The waits for headers and for the body have limits of our own: aiohttp has one for both, and drops
                # it when it cannot parse a body (see `http_client.py`).
                timeout=ClientTimeout(total=None, sock_connect=self._timeouts.connect_s),
                cookie_jar=DummyCookieJar(),
            )
        try:
            url, proxy = find_target(request.url)
            async with asyncio.timeout(self._timeouts.first_byte_s):
                # A redirect would send the prompt and the key to a server that the operator did not choose.
                reply = await self._session.request(
                    request.method, url, data=data, headers=request.headers, proxy=proxy, allow_redirects=False
                )
        except TimeoutError as error:
            has_connected = "connect" not in str(error).lower()
            reason = "no answer began in time" if has_connected else "no connection was made in time"
            raise UpstreamError(Failure.TIMED_OUT, reason) from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(_failure_of(error), _reason(error)) from None
        return _AiohttpReply(reply, self._timeouts.gap_s)

    async def aclose(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(TLS_END_S)


class _AiohttpReply:
    """One reply of aiohttp."""

    __slots__ = ("_gap_s", "_reply", "headers", "status")

    def __init__(self, reply: ClientResponse, gap_s: float) -> None:
        self._reply: Final = reply
        self._gap_s: Final = gap_s
        self.status: Final = reply.status
        self.headers: Final[Mapping[str, str]] = reply.headers  # finds names in any letter case

    async def read(self) -> bytes:
        """Return what has arrived."""
        try:
            return await read_piece(self._reply, self._gap_s)
        except TimeoutError:
            raise UpstreamError(Failure.TIMED_OUT, "the answer stalled") from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(Failure.BROKEN_OFF, _reason(error)) from None

    async def close(self) -> None:
        """Close the connection."""
        self._reply.close()


def _failure_of(error: Exception) -> Failure:
    """Return the failure that this error of aiohttp means."""
    match error:
        case ClientConnectorCertificateError():
            return Failure.UNTRUSTED
        case ClientResponseError() | ClientPayloadError():
            return Failure.NOT_UNDERSTOOD
        case InvalidURL():
            return Failure.NO_SUCH_MODEL
        case _:
            return Failure.UNREACHABLE


def _reason(error: Exception) -> str:
    """Return the system's message or the error's type: its own text may hold addresses, headers and the request."""
    if isinstance(error, ClientConnectorDNSError):
        return "its name cannot be resolved"
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if number is None or number not in errorcode else os.strerror(number)
