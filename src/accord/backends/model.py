"""The backend for any model behind an HTTP API: one `ModelApi` over one `Upstream`.

A request is sent again only while no part of its answer has been passed on, and only for failures that a second attempt
may cure: the endpoint is busy or failed, or the connection broke. The wait is the endpoint's `Retry-After`, or a random
time; if it would be too long, the error is raised at once, so that another backend can be tried.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import chain, islice
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.apis.arrived import ArrivedAnswer
from accord.apis.codec import (
    AnswerReader,
    ApiRequest,
    AssumingApi,
    CountingApi,
    MalformedAnswerError,
    ModelApi,
    RelayedApi,
    ReportedError,
    UnsupportedByApiError,
    layers,
)
from accord.apis.failure import EndpointError, Failure, FailureReport, text_of
from accord.backends.evidence import gather, manifest_of
from accord.backends.relay import (
    LONG_PREAMBLE,
    MAX_PREAMBLE_BYTES,
    MAX_STREAM_BYTES,
    TOO_LONG,
    RelayedReply,
    RelayedRequest,
)
from accord.backends.upstream import Upstream, UpstreamError, UpstreamReply, UpstreamRequest
from accord.core.backoff import Jitter, delay_s, parse_retry_after
from accord.core.sse import EventDecoder, ServerEvent
from accord.core.work.backend_call import BackendCall, BeginCall
from accord.core.work.evidence import Layer
from accord.core.work.fields import COLUMNS, FieldColumn, ModelRequest
from accord.errors import BackendError, InvalidMessageError, UsageError
from accord.off_loop import off_loop, size_of
from accord.ports import Clock, MayResend
from accord.wire.capability import REASONING_HISTORY
from accord.wire.conversation import ConversationMessage, TextPart
from accord.wire.disposition import Api
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

OK: Final = 200
EVENT_STREAM: Final = "text/event-stream"
MAX_ANSWER_BYTES: Final = 64 << 20
MAX_ERROR_BYTES: Final = 1 << 20
DRAIN_S: Final = 0.25
"""How long the end of a stream may take after the end of the answer, for its connection to be used again."""
Fault = UpstreamError | ReportedError | MalformedAnswerError | InvalidMessageError
FAULTS: Final = (UpstreamError, ReportedError, MalformedAnswerError, InvalidMessageError)
"""What may be wrong with an answer while it is read."""
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent again, and the longest wait before that."""

    times: int = 2
    max_wait_s: float = 10.0
    jitter: Jitter = random.random
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model, its name there, the key, the operator's headers, and which of their values are secret."""

    base_url: str
    model: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    secret_values: Sequence[str] = ()

    @property
    def secrets(self) -> Sequence[str]:
        """Values that no message may repeat."""
        return [secret for secret in (self.key, *self.secret_values) if secret]

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, {self.model!r})"


class ModelBackend:
    """A model behind an HTTP API. `declared` counts before what the endpoint reports of itself, `facts` after it."""

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
        retries: RetryPolicy | None = None,
    ) -> None:
        self.name: Final = name
        self.api: Final = api
        # Once: asking an object for a protocol costs as much as sending a request.
        self._relays: Final = api if isinstance(api, RelayedApi) else None
        self.model: Final = endpoint.model
        self._endpoint: Final = endpoint
        self._upstream: Final = upstream
        self._clock: Final = clock
        self._retries: Final = retries or RetryPolicy()
        self._declared: Final = declared or {}
        self._check_declared()
        self._facts: Final = facts or {}
        self._draining: Final[dict[int, asyncio.Task[None]]] = {}
        self._relay_head: tuple[str, Mapping[str, str]] | None = None
        """The address and the headers of requests that are passed on, which are the same for most of them."""
        self.evidence: Layer = {}
        self._manifest = self._update_manifest({})

    def _check_declared(self) -> None:
        """Raise `UsageError` for earlier reasoning that is declared and has no field: it would be left out unsaid.

        Whatever else is declared and the API cannot carry is refused with the request that has it.
        """
        reason, stated = self.api.unsupported.get(REASONING_HISTORY), self._declared.get(REASONING_HISTORY)
        if reason is not None and stated is not None and stated.level.kind != "unsupported":
            raise UsageError(f"backends.{self.name}: {REASONING_HISTORY} is {stated.level.kind}, but {reason}")

    @property
    def manifest(self) -> CapabilityManifest:
        """The capabilities that are known so far."""
        return self._manifest

    async def discover(self) -> CapabilityManifest:
        """Return the manifest after asking the endpoint; an endpoint that does not answer leaves it unchanged."""
        with suppress(BackendError, MalformedAnswerError):
            self._update_manifest(self.api.read_discovery(await self._fetch_description(), self.model))
        return self._manifest

    async def probe(self) -> None:
        """Return if the endpoint answers; raise `BackendError` if not."""
        await self._fetch_description()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.drained()
        await self._upstream.aclose()

    async def drained(self) -> None:
        """Wait until the replies of complete answers are read to their end, which takes at most `DRAIN_S`."""
        await asyncio.gather(*self._draining.values(), return_exceptions=True)

    def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Yield the pieces of the answer as they arrive."""
        return self.answer_recorded(order, lambda: BackendCall(self.name, order), may_resend=lambda _: True)

    async def answer_recorded(
        self, order: WorkOrder, begin: BeginCall, *, may_resend: MayResend | None
    ) -> AsyncGenerator[AnyPiece, None]:
        """Yield the pieces of the answer as they arrive, and record every request that is sent for it."""
        try:
            size = size_of([order.conversation.messages, order.tools])
            request = await off_loop(size, lambda: self._upstream_request(self.api.write_request(order, self.model)))
        except UnsupportedByApiError as error:
            report = FailureReport(Failure.UNSUPPORTED, reason=error.reason, capability=error.capability)
            raise self._error(report) from None
        attempts = 0
        while True:
            has_begun, call = False, begin()
            try:
                async with aclosing(self._batches(request, call, streams=order.stream)) as batches:
                    async for batch in batches:
                        has_begun = True
                        if isinstance(end := batch[-1] if batch else None, EndPiece):
                            call.report(end.usage, end.model)
                            call.complete()
                        for piece in batch:
                            yield piece
                return
            except EndpointError as error:
                attempts, call.has_failed = attempts + 1, True
                if has_begun:
                    raise
                await self._wait_to_resend(error, attempts, may_resend)

    async def _wait_to_resend(self, error: EndpointError, attempts: int, may_resend: MayResend | None) -> None:
        """Wait until the request may be sent again; raise the error if it may not, or only after too long a wait."""
        policy, retry_after_s = self._retries, error.report.retry_after_s
        too_long = (retry_after_s or 0.0) > policy.max_wait_s
        if not error.may_resend or attempts > policy.times or too_long or may_resend is None or not may_resend(error):
            raise error
        wait_s = delay_s(attempts, retry_after_s=retry_after_s, jitter=policy.jitter)
        await policy.wait(min(wait_s, policy.max_wait_s))

    @property
    def column(self) -> FieldColumn:
        """Its column of the field table."""
        return getattr(self.api, "column", None) or COLUMNS[self.api.api]

    @property
    def api_name(self) -> Api:
        """The API that the endpoint speaks: a column of the field table."""
        return self.api.api

    def relayed_request(self, body: dict[str, Any], request: ModelRequest) -> RelayedRequest:
        """This request with this body as it is sent to the endpoint."""
        keeps_reasoning = self._manifest.get("extended_thinking") is not None
        api = self._relayed_api()
        members, hides_usage = api.relayed_body(body, self.model, keeps_reasoning=keeps_reasoning)
        return RelayedRequest(members, request.is_streamed, request.answers, hides_usage)

    async def relay(
        self,
        request: RelayedRequest,
        size: int,
        headers: Mapping[str, str],
        begin: BeginCall,
        *,
        may_resend: MayResend | None = None,
    ) -> RelayedReply:
        """Send a request of this API; raises `BackendError` if it is not accepted.

        `headers` are the client's own that belong to the request, such as the features that it turns on. It is sent
        again after failures that may pass, as long as `may_resend` allows it.
        """
        api = self._relayed_api()
        known = self._relay_head
        if known is None or headers:
            head = self._upstream_request(ApiRequest(api.path, None, headers))
            known = head.url, {"accept": "*/*", **head.headers}
            if not headers:
                self._relay_head = known
        encoded = await off_loop(size, _encode, request.members)
        to_send, attempts = UpstreamRequest("POST", known[0], known[1], encoded), 0
        while True:
            call = begin()
            try:
                reply = await self._send_relayed(to_send)
                break
            except EndpointError as error:
                attempts, call.has_failed = attempts + 1, True
                await self._wait_to_resend(error, attempts, may_resend)
        if ("event-stream" in reply.headers.get("content-type", "")) is not request.is_streamed:
            await reply.close()
            message = f"{self.name}: the endpoint answered in another form than was requested"
            raise BackendError(message, is_outage=False)
        read_error = partial(self.api.read_error, OK)
        return RelayedReply(reply, api, self._error, read_error, call, request)

    async def _send_relayed(self, request: UpstreamRequest) -> UpstreamReply:
        try:
            reply = await self._upstream.send(request)
        except FAULTS as error:
            raise self._error(_report_of(error)) from None
        if reply.status != OK:
            try:
                raise self._error(await self._failure_report(reply))
            finally:
                await reply.close()
        return reply

    def _relayed_api(self) -> RelayedApi:
        if self._relays is None:
            raise TypeError(f"{self.api.name} passes no requests on")
        return self._relays

    def assumed(self, order: WorkOrder) -> Mapping[str, str]:
        """What has to be chosen for this order because the API requires it, and why."""
        return self.api.assumed(order) if isinstance(self.api, AssumingApi) else {}

    @property
    def can_count(self) -> bool:
        """Whether the endpoint may be able to count the tokens of a request."""
        return isinstance(self.api, CountingApi)

    async def count_tokens(self, body: dict[str, Any], headers: Mapping[str, str]) -> int:
        """Return the endpoint's count of the input tokens of this request."""
        if not isinstance(self.api, CountingApi):
            raise TypeError(f"{self.api.name} counts no tokens")
        to_send = self.api.count_request(body, self.model, headers)
        request = await off_loop(size_of(to_send.body), self._upstream_request, to_send)
        async with self._open_reply(request, "application/json") as reply:
            try:
                return self.api.read_count(await _read_body(reply, MAX_ERROR_BYTES))
            except (UpstreamError, MalformedAnswerError):
                raise self._error(FailureReport(Failure.NOT_UNDERSTOOD, reason="it is not a count of tokens")) from None

    def read_pieces(self, data: bytes, *, streamed: bool) -> Sequence[AnyPiece]:
        """The pieces of a whole answer of this API, streamed or not; raises `BackendError` if it is malformed."""
        try:
            if not streamed:
                return self.api.read_answer(data)
            reader, pieces = self.api.answer_reader(), list[AnyPiece]()
            if not _read_events(EventDecoder().feed(data), reader, pieces):
                pieces += reader.finish()
        except FAULTS as error:
            raise self._error(_report_of(error)) from None
        return pieces

    def with_messages(self, body: dict[str, Any], added: Sequence[ConversationMessage]) -> dict[str, Any]:
        """The body of a request of this API with further messages at the end of its conversation."""
        texts = [
            (message.role.value, "".join(part.text for part in message.content if isinstance(part, TextPart)))
            for message in added
        ]
        return self._relayed_api().with_texts(body, texts)

    async def _batches(
        self, request: UpstreamRequest, call: BackendCall, *, streams: bool
    ) -> AsyncGenerator[Sequence[AnyPiece], None]:
        """Yield the pieces of one attempt, all that have arrived at a time: one step for each piece would cost more."""
        async with self._open_reply(request, EVENT_STREAM if streams else "application/json") as reply:
            call.arrived = arrived = ArrivedAnswer()
            kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            try:
                if kind == EVENT_STREAM:
                    reader = self.api.answer_reader()
                    async for batch in self._read_stream(reply, reader, arrived):
                        if call.model is None:
                            call.report(None, reader.model)
                        yield batch
                elif kind.endswith("json"):
                    yield self.api.read_answer(await _read_body(reply, MAX_ANSWER_BYTES, arrived))
                else:
                    raise MalformedAnswerError("it is neither JSON nor an event stream")
            except FAULTS as error:
                raise self._error(_report_of(error)) from None

    async def _read_stream(
        self, reply: UpstreamReply, reader: AnswerReader, arrived: ArrivedAnswer
    ) -> AsyncGenerator[Sequence[AnyPiece], None]:
        decoder, size, has_begun = EventDecoder(), 0, False
        while data := await reply.read():
            size += len(data)
            arrived.add_events(data)
            if size > MAX_STREAM_BYTES:
                raise MalformedAnswerError(TOO_LONG.format(MAX_STREAM_BYTES))
            batch: list[AnyPiece] = []
            try:
                events = decoder.feed(data)
                if not has_begun:
                    has_begun, events = _look_for_first(events, size - decoder.pending_bytes)
                is_complete = _read_events(events, reader, batch)
            except FAULTS:
                if batch:  # pieces before the error are part of the answer
                    yield batch
                raise
            if batch:
                yield batch
            if is_complete:
                self._drain(reply)
                return
        yield reader.finish()

    @asynccontextmanager
    async def _open_reply(self, request: UpstreamRequest, accept: str) -> AsyncGenerator[UpstreamReply]:
        """Send the request; give the reply if its status is 200, and close it as soon as it is left."""
        headers = {"accept": accept, **request.headers}
        try:
            reply = await self._upstream.send(UpstreamRequest(request.method, request.url, headers, request.body))
        except FAULTS as error:
            raise self._error(_report_of(error)) from None
        try:
            if reply.status != OK:
                raise self._error(await self._failure_report(reply))
            yield reply
        finally:
            if id(reply) not in self._draining:
                await reply.close()

    async def _failure_report(self, reply: UpstreamReply) -> FailureReport:
        try:
            body = await _read_body(reply, MAX_ERROR_BYTES)
        except (UpstreamError, MalformedAnswerError):
            body = b""
        report = self.api.read_error(reply.status, body)
        wait_s = report.retry_after_s or retry_after_seconds(reply.headers.get("retry-after"), self._clock)
        page = None if report.message else text_of(body)
        return replace(report, status=reply.status, retry_after_s=wait_s, page=page)

    def _drain(self, reply: UpstreamReply) -> None:
        """Read the rest of a complete answer's reply in the background.

        A connection with unread bytes could not be used again, and the reader of the answer should not wait for them.
        """

        async def read_rest() -> None:
            try:
                with suppress(UpstreamError, TimeoutError):
                    async with asyncio.timeout(DRAIN_S):
                        while await reply.read():
                            pass
            finally:
                await reply.close()

        task = self._draining[id(reply)] = asyncio.create_task(read_rest())
        task.add_done_callback(lambda _: self._draining.pop(id(reply), None))

    async def _fetch_description(self) -> bytes:
        """Return the reply to the API's discovery request."""
        request = self._upstream_request(self.api.discovery_request(self.model))
        async with self._open_reply(request, "application/json") as reply:
            try:
                return await _read_body(reply, MAX_ANSWER_BYTES)
            except FAULTS as error:
                raise self._error(_report_of(error)) from None

    def _upstream_request(self, request: ApiRequest) -> UpstreamRequest:
        base = self._endpoint.base_url.rstrip("/")
        if request.at_root:
            parts = urlsplit(base)
            base = f"{parts.scheme}://{parts.netloc}"
        body = None if request.body is None else _encode(request.body)
        # The operator's headers count last, whatever the letter case in which the API writes the same name.
        given = (self.api.headers(self._endpoint.key), request.headers, self._endpoint.headers)
        headers = {"content-type": "application/json"}
        headers.update((name.lower(), value) for each in given for name, value in each.items())
        return UpstreamRequest(request.method, base + request.path, headers, body)

    def _error(self, report: FailureReport) -> EndpointError:
        return EndpointError(self.name, report, self._endpoint.secrets)

    def _update_manifest(self, discovered: Layer) -> CapabilityManifest:
        self.evidence = gather(*layers(self.api, self._declared, discovered, self._facts))
        self._manifest = manifest_of(self.evidence)
        return self._manifest


def _report_of(error: Fault) -> FailureReport:
    """What an answer that broke off, or could not be read, says went wrong."""
    match error:
        case UpstreamError():
            return FailureReport(error.failure, reason=error.reason)
        case ReportedError():
            return error.report
        case _:
            reason = str(error) if isinstance(error, MalformedAnswerError) else "an event is too long"
            return FailureReport(Failure.NOT_UNDERSTOOD, reason=reason)


def _look_for_first(events: Iterator[ServerEvent], size: int) -> tuple[bool, Iterator[ServerEvent]]:
    """Whether the first event is among these, and all of them; raises if only comments came, and too many of them."""
    first = [*islice(events, 1)]
    if not first and size > MAX_PREAMBLE_BYTES:
        raise MalformedAnswerError(LONG_PREAMBLE)
    return bool(first), chain(first, events)


def _read_events(events: Iterable[ServerEvent], reader: AnswerReader, batch: list[AnyPiece]) -> bool:
    """Add the pieces of these events; return whether the answer is complete."""
    feed = reader.feed
    for event in events:
        if pieces := feed(event):
            batch += pieces
            if isinstance(pieces[-1], EndPiece):
                return True
    return False


async def _read_body(reply: UpstreamReply, limit: int, arrived: ArrivedAnswer | None = None) -> bytes:
    body = bytearray()
    while data := await reply.read():
        body += data
        if arrived is not None:
            arrived.add_body(data)
        if len(body) > limit:
            raise MalformedAnswerError(f"it is longer than {limit} bytes")
    return bytes(body)


def retry_after_seconds(header: str | None, clock: Clock) -> float | None:
    """Return the wait that a `Retry-After` header asks for: it holds a number of seconds, or a date."""
    if header is None:
        return None
    text = header.strip()
    if (seconds := parse_retry_after(text)) is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(text) - clock.now()).total_seconds())
    except (ValueError, TypeError):
        return None
