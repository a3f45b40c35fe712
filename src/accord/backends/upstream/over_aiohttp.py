"""The way to an endpoint over aiohttp: keep-alive pool, the environment's proxies, the operator's certificates."""

import asyncio
import ssl
from collections.abc import Mapping
from io import BytesIO
from typing import Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from accord.backends.failure import Failure
from accord.backends.upstream.port import Reply, UpstreamError, UpstreamRequest, UpstreamTimes

LARGE_BYTES: Final = 1 << 20
"""aiohttp writes a body above this in pieces, so that nothing else has to wait for it."""


class AiohttpUpstream:
    """Connections to one endpoint. The pool belongs to the event loop that first uses it."""

    def __init__(self, times: UpstreamTimes | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._times: Final = times or UpstreamTimes()
        self._tls: Final = tls
        self._session: ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> Reply:
        """The reply, as soon as its head is there."""
        body = request.body
        data = BytesIO(body) if body is not None and len(body) > LARGE_BYTES else body
        session = self._opened()
        try:
            async with asyncio.timeout(self._times.first_byte_s):
                # A redirect would carry the prompt, and the key, to somebody who was not asked.
                reply = await session.request(
                    request.method,
                    URL(request.url, encoded=True),
                    data=data,
                    headers=request.headers,
                    allow_redirects=False,
                )
        except TimeoutError as error:
            raise UpstreamError(Failure.TIMED_OUT, _timed_out(error)) from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(Failure.UNREACHABLE, _told(error)) from None
        return _AiohttpReply(reply)

    async def aclose(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> ClientSession:
        if self._session is None:
            times = self._times
            self._session = ClientSession(
                connector=TCPConnector(limit=0, ssl=self._tls if self._tls is not None else True),
                timeout=ClientTimeout(total=None, sock_connect=times.connect_s, sock_read=times.gap_s),
                cookie_jar=DummyCookieJar(),
                auto_decompress=True,
                trust_env=True,
            )
        return self._session


class _AiohttpReply:
    """One answer of aiohttp's."""

    __slots__ = ("_reply", "headers", "status")

    def __init__(self, reply: ClientResponse) -> None:
        self._reply: Final = reply
        self.status: Final = reply.status
        self.headers: Final[Mapping[str, str]] = {name.lower(): value for name, value in reply.headers.items()}

    async def read(self) -> bytes:
        """What has come."""
        try:
            return await self._reply.content.readany()
        except TimeoutError:
            raise UpstreamError(Failure.TIMED_OUT, "nothing came for too long") from None
        except (ClientError, OSError, ValueError) as error:
            raise UpstreamError(Failure.BROKEN_OFF, _told(error)) from None

    async def close(self) -> None:
        """Give the connection back if all was read, and cut it if not."""
        self._reply.close()


def _timed_out(error: TimeoutError) -> str:
    return "no connection came about in time" if "connect" in str(error).lower() else "no answer began in time"


def _told(error: Exception) -> str:
    """The kind of an error: its text may hold addresses, headers and what else was sent."""
    return type(error).__name__
