"""Sends calls to one service over HTTP and says what came of them. The only file here that knows aiohttp.

One pool of connections for everything. It does not know what the calls are about, and what did not work is told as a
`Setback`; repeating a call is for those that end by themselves (`fetch`), a stream repeats its own.
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

from accord.client.failure import Attempts, Setback, setback_of_answer, setback_of_connection, setback_of_unreachable
from accord.client.settings import ClientSettings
from accord.errors import InvalidMessageError, Problem, TimedOutError, UsageError
from accord.http_client import environment_proxy, read_piece

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_PIECE_BYTES: Final = 64 * 1024
"""A larger body is sent in pieces of this size: each is a sign of progress, and nothing else has to wait for it."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request; safe to be sent again."""

    method: str
    path: str
    body: bytes | None = None
    accept: str = JSON
    after: int | None = None
    """The number of the last packet that came, for a stream that goes on."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole HTTP answer."""

    status: int
    retry_after: str | None
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the service did what it was asked."""
        return 200 <= self.status < 300


class ServiceConnection:
    """The way to one service."""

    def __init__(self, base_url: str, settings: ClientSettings) -> None:
        self._base: Final = _checked(base_url)
        if settings.token is not None and "@" in urlsplit(base_url).netloc:
            raise UsageError("base_url: expected no user and password beside a token")
        self._settings: Final = settings
        self._session: ClientSession | None = None
        self._streams: Final[set[ClientResponse]] = set()
        self._is_closed = False

    async def fetch(self, call: HttpRequest) -> bytes:
        """The body of the answer, after as many attempts as it takes; raises our error if there is none."""
        attempts, limit_s = Attempts(self._settings), self._settings.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    got = await self.fetch_once(call)
                    if isinstance(got, HttpResponse) and got.is_success:
                        return got.body
                    await attempts.wait_after(_setback(got))
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {limit_s:g} s") from None

    async def probe(self, call: HttpRequest) -> HttpResponse:
        """Whatever is answered to one attempt; raises our error if nothing is."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                got = await self.fetch_once(call)
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {self._settings.timeout_s:g} s") from None
        if isinstance(got, Setback):
            raise got.error
        return got

    async def fetch_once(self, call: HttpRequest) -> HttpResponse | Setback:
        """The whole answer to one attempt, whatever its status."""
        # How long the agent may take is for the caller to bound.
        answer = await self._send(call, silence_s=None)
        if isinstance(answer, Setback):
            return answer
        try:
            async with answer:
                return await self._whole(answer)
        except (ClientError, OSError) as error:
            return _setback_of_error(error)

    async def open_stream(self, call: HttpRequest) -> ClientResponse | Setback:
        """An answer whose events can be read, piece by piece."""
        answer = await self._send(call, silence_s=self._settings.idle_s)
        if isinstance(answer, Setback):
            return answer
        if answer.status == 200 and answer.content_type == EVENT_STREAM:
            # Held, so that a stream that somebody forgot is closed here and not by Python's collector in any thread.
            self._streams.add(answer)
            return answer
        try:
            async with answer:
                if answer.status == 200:
                    return _not_valid("event stream", Problem("content-type", EVENT_STREAM))
                return _setback(await self._whole(answer))
        except (ClientError, OSError) as error:
            return _setback_of_error(error)

    def hang_up(self, answer: ClientResponse) -> None:
        """Close a stream at once; one that was read to its end has given its connection back already."""
        self._streams.discard(answer)
        answer.close()

    async def aclose(self) -> None:
        """Close every connection; there will be no others."""
        self._is_closed = True
        for answer in tuple(self._streams):
            self.hang_up(answer)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _send(self, call: HttpRequest, *, silence_s: float | None) -> ClientResponse | Setback:
        """Send the call and return the answer as soon as its head is there.

        `silence_s` bounds the time without progress: connecting, each piece of the body, the wait for the head.
        """
        headers = {"Accept": call.accept}
        if call.after is not None:
            headers["Last-Event-ID"] = str(call.after)
        if call.body is not None:
            headers |= {"Content-Type": JSON, "Content-Length": str(len(call.body))}
        # aiohttp's own limits do not cover a proxy that says nothing or a peer that does not read.
        limit = asyncio.timeout(None if silence_s is None else self._settings.connect_s + silence_s)
        try:
            async with limit:
                # A redirect would carry the question, and perhaps the token, to another server.
                return await self._opened().request(
                    call.method,
                    URL(self._base + call.path, encoded=True),
                    data=_in_pieces(call.body, limit, silence_s),
                    headers=headers,
                    timeout=ClientTimeout(total=None, sock_connect=self._settings.connect_s),
                    allow_redirects=False,
                )
        except (ClientError, OSError) as error:
            if limit.expired():
                return setback_of_connection("no answer began in time")
            if isinstance(error, ClientConnectorError) and _is_unreachable(error):
                return setback_of_unreachable(self._why_unreachable(error))
            return _setback_of_error(error)

    def _why_unreachable(self, error: ClientConnectorError) -> str:
        if isinstance(error, ClientProxyConnectionError):
            place = f"the proxy at {error.host}:{error.port}, which the environment names,"
        else:
            place = _without_user(self._base)
        inner = error.os_error
        if isinstance(inner, ConnectionRefusedError):
            return f"nothing listens at {place} (connection refused)"
        return f"no connection to {place} ({inner.strerror or inner})"

    async def _whole(self, answer: ClientResponse) -> HttpResponse | Setback:
        limit = self._settings.max_answer_bytes
        held = bytearray()
        while piece := await read_piece(answer, self._settings.idle_s):
            held += piece
            if len(held) > limit:
                return _not_valid("answer", Problem("(the message)", f"at most {limit} bytes"))
        return HttpResponse(answer.status, answer.headers.get("Retry-After"), bytes(held))

    def _opened(self) -> ClientSession:
        """The pool, made on first use: it belongs to the event loop that runs then."""
        if self._is_closed:
            raise UsageError("This client is closed")
        if self._session is None:
            token = self._settings.token
            self._session = ClientSession(
                connector=TCPConnector(limit=0, ssl=self._settings.ssl),
                headers={"Authorization": f"Bearer {token}"} if token else {},
                proxy=environment_proxy(self._base),
            )
        return self._session


async def next_piece(answer: ClientResponse, limit_s: float) -> bytes | Setback:
    """What has come of this answer, at least a byte; nothing at its end."""
    try:
        return await read_piece(answer, limit_s)
    except (ClientError, OSError) as error:
        return _setback_of_error(error)


def _in_pieces(
    body: bytes | None, limit: asyncio.Timeout, silence_s: float | None
) -> bytes | AsyncIterator[bytes] | None:
    """The body as aiohttp takes it; every piece of a large one moves the limit."""
    if body is None or len(body) <= _PIECE_BYTES:
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), _PIECE_BYTES):
            yield body[start : start + _PIECE_BYTES]
            if silence_s is not None:
                # An answer may begin before the body is sent; the limit is over then and takes no new time.
                with suppress(RuntimeError):
                    limit.reschedule(asyncio.get_running_loop().time() + silence_s)

    return pieces()


def _setback(got: HttpResponse | Setback) -> Setback:
    return got if isinstance(got, Setback) else setback_of_answer(got.status, got.retry_after, got.body)


def _setback_of_error(error: ClientError | OSError) -> Setback:
    # A certificate does not get better by looking at it again.
    is_passing = not isinstance(error, ClientConnectorCertificateError | ServerFingerprintMismatch)
    return setback_of_connection(str(error) or type(error).__name__, is_passing=is_passing)


def _not_valid(name: str, problem: Problem) -> Setback:
    return Setback(InvalidMessageError(name, [problem]), is_passing=False)


def _is_unreachable(error: ClientConnectorError) -> bool:
    """Whether no connection was made, as opposed to one that broke while TLS was set up."""
    is_refused = isinstance(error.os_error, ConnectionRefusedError)
    return is_refused or (not isinstance(error, ClientSSLError) and not isinstance(error.os_error, ConnectionError))


def _without_user(address: str) -> str:
    """The address without a user name and password: errors are logged."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        is_fine = parts.scheme in ("http", "https") and bool(URL(base_url).host) and not (parts.query or parts.fragment)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise UsageError("base_url: expected an http or https address such as http://127.0.0.1:8000")
    return base_url.rstrip("/")
