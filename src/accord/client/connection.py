"""Sends HTTP requests to one service. The only file of the client that knows aiohttp.

One pool of connections serves all requests. What the requests are about is not known here. A failure is returned as a
`FailedAttempt`; `fetch` repeats a request by itself, a stream repeats its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientProxyConnectionError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ServerFingerprintMismatch,
    TCPConnector,
)
from yarl import URL

from accord.client.failure import Attempts, FailedAttempt, connect_failed, connection_failed, response_failed
from accord.client.settings import ClientSettings
from accord.errors import InvalidMessageError, Problem, TimedOutError, UsageError
from accord.http_client import environment_proxy, read_piece
from accord.wire.routes import CAPABILITIES_HEADER

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_PIECE_BYTES: Final = 64 * 1024
"""A larger body is sent in pieces of this size: each shows progress, and other requests need not wait for it."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request. It is safe to send it again."""

    method: str
    path: str
    body: bytes | None = None
    accept: str = JSON
    after: int | None = None
    """The number of the last packet that was received, to resume a stream."""
    capabilities: str | None = None
    """The capabilities of the reader of an earlier request, in ASCII; None for those that the request declared."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole HTTP response."""

    status: int
    retry_after: str | None
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class ServiceConnection:
    """The connections to one service."""

    def __init__(self, base_url: str, settings: ClientSettings) -> None:
        try:
            parts = urlsplit(base_url)
            is_http = parts.scheme in ("http", "https") and bool(URL(base_url).host)
            is_valid = is_http and not (parts.query or parts.fragment)
        except ValueError:
            is_valid = False
        if not is_valid:
            raise UsageError("base_url: expected an http or https address such as http://127.0.0.1:8000")
        if settings.token is not None and "@" in urlsplit(base_url).netloc:
            raise UsageError("base_url: expected no user and password beside a token; remove one of them")
        self._base: Final = base_url.rstrip("/")
        self._settings: Final = settings
        self._session: ClientSession | None = None
        self._streams: Final[set[ClientResponse]] = set()
        self._is_closed = False

    async def fetch(self, request: HttpRequest) -> bytes:
        """The body of a successful response, after as many attempts as the settings allow; raises an `AccordError`."""
        attempts, limit_s = Attempts(self._settings), self._settings.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    result = await self._fetch_once(request)
                    if isinstance(result, HttpResponse) and result.is_success:
                        return result.body
                    await attempts.wait_after(_to_failure(result))
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {limit_s:g} s") from None

    async def probe(self, request: HttpRequest) -> HttpResponse:
        """The response to a single attempt, whatever its status; raises an `AccordError` if there is none."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                result = await self._fetch_once(request)
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {self._settings.timeout_s:g} s") from None
        if isinstance(result, FailedAttempt):
            raise result.error
        return result

    async def _fetch_once(self, request: HttpRequest) -> HttpResponse | FailedAttempt:
        # No limit on silence: how long the agent may take is limited by the caller.
        response = await self._send(request, silence_s=None)
        return response if isinstance(response, FailedAttempt) else await self._read_response(response)

    async def open_stream(self, request: HttpRequest) -> ClientResponse | FailedAttempt:
        """A response whose events can be read piece by piece."""
        response = await self._send(request, silence_s=self._settings.idle_s)
        if isinstance(response, FailedAttempt):
            return response
        if response.status != 200:
            return _to_failure(await self._read_response(response))
        if response.content_type != EVENT_STREAM:
            response.close()
            return _invalid_response("event stream", Problem("content-type", EVENT_STREAM))
        # Kept here, so that a stream that was not closed is closed with the client, not by the garbage collector.
        self._streams.add(response)
        return response

    def close_stream(self, response: ClientResponse) -> None:
        """Close a stream at once; one that was read to its end has returned its connection to the pool already."""
        self._streams.discard(response)
        response.close()

    async def aclose(self) -> None:
        """Close every connection. No request can be sent afterwards."""
        self._is_closed = True
        for response in tuple(self._streams):
            self.close_stream(response)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(self, request: HttpRequest, *, silence_s: float | None) -> ClientResponse | FailedAttempt:
        """Send the request and return the response as soon as its headers have arrived.

        `silence_s` limits the time without progress: connecting, each piece of the body, the wait for the headers.
        """
        headers = {"Accept": request.accept}
        if request.after is not None:
            headers["Last-Event-ID"] = str(request.after)
        if request.capabilities is not None:
            headers[CAPABILITIES_HEADER] = request.capabilities
        if request.body is not None:
            headers |= {"Content-Type": JSON, "Content-Length": str(len(request.body))}
        # aiohttp's own limits do not cover a silent proxy or a peer that does not read.
        limit = asyncio.timeout(None if silence_s is None else self._settings.connect_s + silence_s)
        try:
            async with limit:
                # A redirect would take the request, and perhaps the token, to another server.
                return await self._open_session().request(
                    request.method,
                    URL(self._base + request.path, encoded=True),
                    data=_in_pieces(request.body, limit, silence_s),
                    headers=headers,
                    timeout=ClientTimeout(total=None, sock_connect=self._settings.connect_s),
                    allow_redirects=False,
                )
        except (ClientError, OSError) as error:
            if limit.expired():
                return connection_failed("no answer began in time")
            if isinstance(error, ClientConnectorError) and _is_unreachable(error):
                return connect_failed(self._why_unreachable(error))
            return _network_failure(error)

    def _why_unreachable(self, error: ClientConnectorError) -> str:
        if isinstance(error, ClientProxyConnectionError):
            place = f"the proxy at {error.host}:{error.port}, which the environment names,"
        else:
            # Without user name and password: errors are logged.
            parts = urlsplit(self._base)
            place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        inner = error.os_error
        if isinstance(inner, ConnectionRefusedError):
            return f"nothing listens at {place} (connection refused)"
        return f"no connection to {place} ({inner.strerror or inner})"

    async def _read_response(self, response: ClientResponse) -> HttpResponse | FailedAttempt:
        limit = self._settings.max_answer_bytes
        body = bytearray()
        try:
            async with response:
                while piece := await read_piece(response, self._settings.idle_s):
                    body += piece
                    if len(body) > limit:
                        return _invalid_response("answer", Problem("(the message)", f"at most {limit} bytes"))
        except (ClientError, OSError) as error:
            return _network_failure(error)
        return HttpResponse(response.status, response.headers.get("Retry-After"), bytes(body))

    def _open_session(self) -> ClientSession:
        """The pool, made on first use: it belongs to the event loop that runs then."""
        if self._is_closed:
            raise UsageError("This client is closed; create a new one")
        if self._session is None:
            token = self._settings.token
            self._session = ClientSession(
                connector=TCPConnector(limit=0, ssl=self._settings.ssl),
                headers={"Authorization": f"Bearer {token}"} if token else {},
                proxy=environment_proxy(self._base) if self._settings.use_proxy else None,
            )
        return self._session


async def next_piece(response: ClientResponse, limit_s: float) -> bytes | FailedAttempt:
    """What has arrived of this response, at least one byte; nothing at its end."""
    try:
        return await read_piece(response, limit_s)
    except (ClientError, OSError) as error:
        return _network_failure(error)


def _in_pieces(
    body: bytes | None, limit: asyncio.Timeout, silence_s: float | None
) -> bytes | AsyncIterator[bytes] | None:
    """The body as aiohttp takes it; every piece of a large one extends the limit."""
    if body is None or len(body) <= _PIECE_BYTES:
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), _PIECE_BYTES):
            yield body[start : start + _PIECE_BYTES]
            if silence_s is not None:
                # A response may begin before the body is sent; the limit is over then and cannot be changed.
                with suppress(RuntimeError):
                    limit.reschedule(asyncio.get_running_loop().time() + silence_s)

    return pieces()


def _to_failure(result: HttpResponse | FailedAttempt) -> FailedAttempt:
    if isinstance(result, FailedAttempt):
        return result
    return response_failed(result.status, result.retry_after, result.body)


def _network_failure(error: ClientError | OSError) -> FailedAttempt:
    # A certificate that is not accepted will not be accepted the next time either.
    is_retryable = not isinstance(error, ClientConnectorCertificateError | ServerFingerprintMismatch)
    return connection_failed(str(error) or type(error).__name__, is_retryable=is_retryable)


def _invalid_response(name: str, problem: Problem) -> FailedAttempt:
    return FailedAttempt(InvalidMessageError(name, [problem]), is_retryable=False)


def _is_unreachable(error: ClientConnectorError) -> bool:
    """Whether no connection was made, as opposed to one that broke during the TLS handshake."""
    is_refused = isinstance(error.os_error, ConnectionRefusedError)
    return is_refused or (not isinstance(error, ClientSSLError) and not isinstance(error.os_error, ConnectionError))
