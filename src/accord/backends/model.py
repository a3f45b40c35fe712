"""The backend that any model behind HTTP is: it speaks one API over one upstream. How is theirs to know.

A request is sent again only while nothing of its answer has gone out, and only where that can help: the endpoint was
busy, failed, or the connection broke. It waits as long as the endpoint says, with jitter if it says nothing, and not
at all if that would be too long: then another backend may be quicker.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

from accord.backends.evidence import Layer, gather, manifest_of
from accord.backends.failure import EndpointError, Failure, FailureReport, text_of
from accord.backends.model_api import (
    AnswerReader,
    ApiRequest,
    MalformedAnswerError,
    ModelApi,
    ReportedError,
    UnsupportedByApiError,
    layers,
)
from accord.backends.upstream import Upstream, UpstreamError, UpstreamReply, UpstreamRequest
from accord.core.backoff import Jitter, delay_s, parse_retry_after
from accord.core.sse import EventDecoder, ServerEvent
from accord.errors import BackendError, InvalidMessageError
from accord.ports import Clock
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

OK: Final = 200
EVENT_STREAM: Final = "text/event-stream"
MAX_WHOLE_BYTES: Final = 64 << 20
MAX_STREAM_BYTES: Final = 256 << 20
"""Of a whole stream, most of which is not the answer. What is no piece yet, such as half a tool call, is held too."""
MAX_PROBLEM_BYTES: Final = 1 << 20
REST_S: Final = 0.25
"""How long the end of a stream may take after the answer's own end, for the connection to be used again."""
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent again, and how long is waited for that at most."""

    times: int = 2
    patience_s: float = 10.0
    jitter: Jitter = random.random
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is, which one is asked, with which key, and which headers' values are secret."""

    base_url: str
    model: str
    key: str | None = None
    secret_headers: Sequence[str] = ()

    @property
    def secrets(self) -> Sequence[str]:
        """What no message may repeat."""
        return [secret for secret in (self.key, *self.secret_headers) if secret]

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, {self.model!r})"


class ModelBackend:
    """A model behind an HTTP API. `known` is what is said of it by whoever counts before and after the API itself."""

    def __init__(  # noqa: PLR0913 - parts are handed in
        self,
        name: str,
        api: ModelApi,
        endpoint: Endpoint,
        upstream: Upstream,
        clock: Clock,
        *,
        declared: Layer | None = None,
        facts: Layer | None = None,
        retrying: RetryPolicy | None = None,
    ) -> None:
        self.name: Final = name
        self.api: Final = api
        self.model: Final = endpoint.model
        self._endpoint: Final = endpoint
        self._upstream: Final = upstream
        self._clock: Final = clock
        self._retrying: Final = retrying or RetryPolicy()
        self._declared: Final = declared or {}
        self._facts: Final = facts or {}
        self._headers: Final = {"content-type": "application/json", **api.headers(endpoint.key)}
        self._ending: Final = _Ending()
        self.evidence: Layer = {}
        self._manifest = self._learn({})

    @property
    def manifest(self) -> CapabilityManifest:
        """What it can do, as far as it is known."""
        return self._manifest

    async def discover(self) -> CapabilityManifest:
        """The manifest once the endpoint was asked; one that cannot be asked leaves it as it is."""
        try:
            self._learn(self.api.read_discovery(await self._looked(), self.model))
        except (BackendError, MalformedAnswerError):
            return self._manifest
        return self._manifest

    async def probe(self) -> None:
        """Return if the endpoint answers; raise `BackendError` if not."""
        await self._looked()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.at_rest()
        await self._upstream.aclose()

    async def at_rest(self) -> None:
        """Wait until no answered stream is still being read to its end."""
        await self._ending.over()

    async def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The answer as it comes."""
        try:
            asking = self.api.request(order, self.model)
        except UnsupportedByApiError as error:
            refused = error.capability if error.always else None
            failed = FailureReport(Failure.UNSUPPORTED, refused=refused, reason=error.reason)
            raise self._error(failed) from None
        request, tries = self._request(asking), 0
        while True:
            has_begun = False
            try:
                async with aclosing(self._batches(request, streams=order.stream)) as batches:
                    async for batch in batches:
                        has_begun = True
                        for piece in batch:
                            yield piece
                return
            except EndpointError as error:
                tries += 1
                if has_begun:
                    raise
                await self._wait_after(error, tries)

    async def _batches(self, request: UpstreamRequest, *, streams: bool) -> AsyncGenerator[Sequence[AnyPiece], None]:
        """The pieces of one attempt, as many at a time as have come: a step for each of them would cost more."""
        accept = EVENT_STREAM if streams else "application/json"
        async with self._replied(request, accept) as reply:
            kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            try:
                if kind == EVENT_STREAM:
                    async for batch in self._streamed(reply, self.api.answer_reader()):
                        yield batch
                elif kind.endswith("json"):
                    yield self.api.read_answer(await self._whole(reply, MAX_WHOLE_BYTES))
                else:
                    raise MalformedAnswerError("it is neither JSON nor a stream of events")
            except UpstreamError as error:
                raise self._error(FailureReport(error.failure, reason=error.reason)) from None
            except ReportedError as error:
                raise self._error(error.report) from None
            except (MalformedAnswerError, InvalidMessageError) as error:
                told = str(error) if isinstance(error, MalformedAnswerError) else "an event is too long"
                raise self._error(FailureReport(Failure.NOT_UNDERSTOOD, reason=told)) from None

    async def _streamed(self, reply: UpstreamReply, reading: AnswerReader) -> AsyncGenerator[Sequence[AnyPiece], None]:
        decoder, left = EventDecoder(), MAX_STREAM_BYTES
        while data := await reply.read():
            left -= len(data)
            if left < 0:
                raise MalformedAnswerError(f"it is longer than {MAX_STREAM_BYTES} bytes")
            batch: list[AnyPiece] = []
            try:
                has_ended = _read_events(decoder.feed(data), reading, batch)
            except (ReportedError, MalformedAnswerError, InvalidMessageError):
                if batch:  # what was said before it went wrong was said
                    yield batch
                raise
            if batch:
                yield batch
            if has_ended:
                self._ending.begin(reply)
                return
        yield reading.finish()

    async def _whole(self, reply: UpstreamReply, limit: int) -> bytes:
        held = bytearray()
        while data := await reply.read():
            held += data
            if len(held) > limit:
                raise MalformedAnswerError(f"it is longer than {limit} bytes")
        return bytes(held)

    @asynccontextmanager
    async def _replied(self, request: UpstreamRequest, accept: str) -> AsyncGenerator[UpstreamReply]:
        """The reply, if it is not an error; closed at once when it is not wanted any more."""
        headers = {"accept": accept, **request.headers}
        sent = UpstreamRequest(request.method, request.url, headers, request.body)
        try:
            reply = await self._upstream.send(sent)
        except UpstreamError as error:
            raise self._error(FailureReport(error.failure, reason=error.reason)) from None
        try:
            if reply.status != OK:
                raise self._error(await self._explained(reply))
            yield reply
        finally:
            if not self._ending.has(reply):
                await reply.close()

    async def _explained(self, reply: UpstreamReply) -> FailureReport:
        try:
            body = await self._whole(reply, MAX_PROBLEM_BYTES)
        except (UpstreamError, MalformedAnswerError):
            body = b""
        told = self.api.read_error(reply.status, body)
        wait_s = told.retry_after_s or seconds_of(reply.headers.get("retry-after"), self._clock)
        return replace(told, status=reply.status, retry_after_s=wait_s, message=told.message or text_of(body))

    def _error(self, explained: FailureReport) -> EndpointError:
        return EndpointError(self.name, explained, self._endpoint.secrets)

    async def _wait_after(self, error: EndpointError, tries: int) -> None:
        """Wait until the request may be sent again; raises the error if it is not worth it."""
        rules, retry_after_s = self._retrying, error.report.retry_after_s
        if not error.may_resend or tries > rules.times or (retry_after_s or 0.0) > rules.patience_s:
            raise error
        await rules.wait(min(delay_s(tries, retry_after_s=retry_after_s, jitter=rules.jitter), rules.patience_s))

    async def _looked(self) -> bytes:
        async with self._replied(self._request(self.api.discovery_request(self.model)), "application/json") as reply:
            try:
                return await self._whole(reply, MAX_WHOLE_BYTES)
            except UpstreamError as error:
                raise self._error(FailureReport(error.failure, reason=error.reason)) from None
            except MalformedAnswerError as error:
                raise self._error(FailureReport(Failure.NOT_UNDERSTOOD, reason=str(error))) from None

    def _request(self, asking: ApiRequest) -> UpstreamRequest:
        body = None if asking.body is None else _encode(asking.body)
        base = self._endpoint.base_url.rstrip("/")
        url = (root_of(base) if asking.at_root else base) + asking.path
        return UpstreamRequest(asking.method, url, {**self._headers, **asking.headers}, body)

    def _learn(self, discovered: Layer) -> CapabilityManifest:
        """Take in what the endpoint tells of itself: it counts after the operator's word, and before the facts."""
        self.evidence = gather(*layers(self.api, self._declared, discovered, self._facts))
        self._manifest = manifest_of(self.evidence)
        return self._manifest


def root_of(url: str) -> str:
    """The address of the server itself."""
    scheme, host, *_ = urlsplit(url)
    return f"{scheme}://{host}"


def _read_events(events: Iterable[ServerEvent], reading: AnswerReader, into: list[AnyPiece]) -> bool:
    """Add the pieces of these events; whether the answer is complete with them."""
    feed = reading.feed
    for event in events:
        if pieces := feed(event):
            into += pieces
            if isinstance(pieces[-1], EndPiece):
                return True
    return False


class _Ending:
    """Replies whose answer is complete, and whose last bytes nobody should have to wait for.

    They are read all the same: a connection with something unread could not be used again.
    """

    def __init__(self) -> None:
        self._tasks: Final[dict[int, asyncio.Task[None]]] = {}

    def has(self, reply: UpstreamReply) -> bool:
        """Whether this one is being read to its end."""
        return id(reply) in self._tasks

    def begin(self, reply: UpstreamReply) -> None:
        """Read the rest of this reply, and let go of it."""
        task = self._tasks[id(reply)] = asyncio.create_task(_read_rest(reply))
        task.add_done_callback(lambda _: self._tasks.pop(id(reply), None))

    async def over(self) -> None:
        """Wait for the last of them: it is a moment at most."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def _read_rest(reply: UpstreamReply) -> None:
    try:
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(REST_S):
                while await reply.read():
                    pass
    finally:
        await reply.close()


def seconds_of(retry_after: str | None, clock: Clock) -> float | None:
    """How long a `Retry-After` header asks to wait: it is a number of seconds, or a date."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if (seconds := parse_retry_after(text)) is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(text) - clock.now()).total_seconds())
    except (ValueError, TypeError):
        return None
