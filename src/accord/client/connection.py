"""Sends calls to one service over HTTP and says what came of them. The only file here that knows aiohttp.

One pool of connections for everything. It does not know what the calls are about, and what did not work is told as a
`Setback`; repeating a call is for those that end by themselves (`fetch`), a stream repeats its own.
"""

import asyncio
from dataclasses import dataclass
from io import BytesIO
from typing import Final
from urllib.parse import quote, urlsplit

from aiohttp import (
    ClientConnectorCertificateError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ServerFingerprintMismatch,
    TCPConnector,
)
from yarl import URL

from accord.client.attempts import Attempts
from accord.client.failure import Setback, setback_of_answer, setback_of_connection
from accord.client.settings import Settings
from accord.errors import InvalidMessageError, Problem, TimedOutError, UsageError
from accord.proxies import environment_proxy

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

_LARGE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request; safe to be sent again."""

    method: str
    path: str
    body: bytes | None = None
    accept: str = JSON
    after: int | None = None
    """The number of the last packet that came, for a stream that goes on."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    retry_after: str | None
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the service did what it was asked."""
        return 200 <= self.status < 300


class Connection:
    """The way to one service."""

    def __init__(self, base_url: str, settings: Settings) -> None:
        self._base: Final = _checked(base_url)
        if settings.token is not None and "@" in urlsplit(base_url).netloc:
            raise UsageError("base_url: expected no user and password beside a token")
        self._settings: Final = settings
        self._session: ClientSession | None = None
        self._streams: Final[set[ClientResponse]] = set()
        self._is_closed = False

    async def fetch(self, call: Call) -> bytes:
        """The body of the answer, after as many attempts as it takes; raises our error if there is none."""
        attempts, limit_s = Attempts(self._settings), self._settings.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    got = await self.fetch_once(call)
                    if isinstance(got, Answer) and got.is_success:
                        return got.body
                    await attempts.wait_after(_setback(got))
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {limit_s:g} s") from None

    async def probe(self, call: Call) -> Answer:
        """Whatever is answered to one attempt; raises our error if nothing is."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                got = await self.fetch_once(call)
        except TimeoutError:
            raise TimedOutError(f"The service did not answer within {self._settings.timeout_s:g} s") from None
        if isinstance(got, Setback):
            raise got.error
        return got

    async def fetch_once(self, call: Call) -> Answer | Setback:
        """The whole answer to one attempt, whatever its status."""
        answer = await self._sent(call, sock_read_s=None)
        if isinstance(answer, Setback):
            return answer
        try:
            async with answer:
                return await self._whole(answer)
        except (ClientError, OSError) as error:
            return _setback_of_error(error)

    async def open_stream(self, call: Call) -> ClientResponse | Setback:
        """An answer whose events can be read, piece by piece."""
        answer = await self._sent(call, sock_read_s=self._settings.idle_s)
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

    async def _sent(self, call: Call, *, sock_read_s: float | None) -> ClientResponse | Setback:
        headers = {"Accept": call.accept}
        if call.body is not None:
            headers["Content-Type"] = JSON
        if call.after is not None:
            headers["Last-Event-ID"] = str(call.after)
        timeout = ClientTimeout(total=None, sock_connect=self._settings.connect_s, sock_read=sock_read_s)
        url = URL(self._base + call.path, encoded=True)
        try:
            # A redirect would carry the question, and perhaps the token, to somebody who was not asked.
            return await self._opened().request(
                call.method, url, data=_sendable(call.body), headers=headers, timeout=timeout, allow_redirects=False
            )
        except (ClientError, OSError) as error:
            return _setback_of_error(error)

    async def _whole(self, answer: ClientResponse) -> Answer | Setback:
        limit = self._settings.max_answer_bytes
        held = bytearray()
        async for piece in answer.content.iter_any():
            held += piece
            if len(held) > limit:
                return _not_valid("answer", Problem("(the message)", f"at most {limit} bytes"))
        return Answer(answer.status, answer.headers.get("Retry-After"), bytes(held))

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


async def next_piece(answer: ClientResponse) -> bytes | Setback:
    """What has come of this answer, at least a byte; nothing at its end."""
    try:
        return await answer.content.readany()
    except (ClientError, OSError) as error:
        return _setback_of_error(error)


def step_of(id: object) -> str:
    """An id as one step of a path, whatever is in it."""
    # Two dots would be a step up, and quoting leaves them as they are.
    return quote(str(id), safe="").replace(".", "%2E")


def _sendable(body: bytes | None) -> bytes | BytesIO | None:
    """The body as aiohttp likes it: a large one is written in pieces, so that nothing else has to wait for it."""
    return BytesIO(body) if body is not None and len(body) > _LARGE_BYTES else body


def _setback(got: Answer | Setback) -> Setback:
    return got if isinstance(got, Setback) else setback_of_answer(got.status, got.retry_after, got.body)


def _setback_of_error(error: ClientError | OSError) -> Setback:
    # A certificate does not get better by looking at it again.
    is_passing = not isinstance(error, ClientConnectorCertificateError | ServerFingerprintMismatch)
    return setback_of_connection(str(error) or type(error).__name__, is_passing=is_passing)


def _not_valid(name: str, problem: Problem) -> Setback:
    return Setback(InvalidMessageError(name, [problem]), is_passing=False)


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        is_fine = parts.scheme in ("http", "https") and bool(URL(base_url).host) and not (parts.query or parts.fragment)
    except ValueError:
        is_fine = False
    if not is_fine:
        raise UsageError("base_url: expected an http or https address such as http://127.0.0.1:8000")
    return base_url.rstrip("/")
