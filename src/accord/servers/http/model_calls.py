"""The endpoints of the model APIs: bytes in, a `ModelRequest`, the answer as one body or as a stream of events.

One shell for every API; what differs is in its `ServedApi`. Labels are in the headers, which are sent once a backend
has begun to answer, in the `accord` member of a body and of the first event of a stream, and in the receipt. Errors
have the shape of the API.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import msgspec

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import AnswerLabels, AnswerWriter, ServedApi
from accord.apis.messages.codec import MessagesCodec
from accord.apis.request_shape import CallShape, read_shape
from accord.apis.responses.codec import ResponsesCodec
from accord.apis.responses.read_request import continue_from
from accord.config import ServerConfig
from accord.core.work.dispositions import format_dispositions
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError, BackendRetriedError, ErrorCode, RefusedError
from accord.off_loop import off_loop
from accord.run.call_log import CallLog
from accord.run.costs import RunCosts
from accord.run.dispatch import WorkRecord
from accord.run.limits import CallLimit
from accord.run.model_call import ModelAnswer, ModelCall
from accord.run.model_calls import ModelCalls, ModelCallsRef
from accord.servers.http.assist import WATCH_AFTER_S, run_while_connected
from accord.servers.http.body import check_values, read_body
from accord.servers.http.exchange import (
    ClientGoneError,
    Exchange,
    HttpEndpoint,
    Send,
    client_address,
    forget_frames,
    header_value,
    new_request_id,
    send_response,
    to_accord_error,
    within,
)
from accord.servers.http.model_endpoint import ID_HEADERS, JSON_TYPE, ModelEndpoint, parse_object
from accord.servers.http.model_list import model_list_endpoints
from accord.servers.http.stored_responses import ResponseKeeper, StoredResponseEndpoint, StoredResponses
from accord.servers.http.token_counts import CountTokensEndpoint
from accord.servers.observability import REQUEST_ID, continuing_trace
from accord.servers.service import (
    Service,
    caller_key,
    check_account_references,
    check_model_allowed,
    counted_run,
    may_reference_account,
    payer_of,
    rights_of,
)
from accord.wire.disposition import Api, FieldPolicy
from accord.wire.keys import NO_RULES
from accord.wire.routes import (
    CHAT_PATH,
    DISPOSITIONS_HEADER,
    MESSAGES_PATH,
    POLICY_HEADER,
    RECEIPT_HEADER,
    RESPONSES_PATH,
    SERVED_BY_HEADER,
    receipt_path,
)
from accord.wire.work import EndPiece

PATHS: Final[Mapping[Api, str]] = {
    Api.CHAT: CHAT_PATH,
    Api.RESPONSES: RESPONSES_PATH,
    Api.MESSAGES: MESSAGES_PATH,
}
POLICY_NAME: Final = POLICY_HEADER.lower().encode()
PASSED_ON: Final = ("anthropic-beta", "openai-beta")
"""Headers of a client that belong to its request, and are passed on with it."""
ANONYMOUS_OWNER: Final = "anonymous"
STREAM_TYPE: Final = (b"content-type", b"text/event-stream; charset=utf-8")
FIXED_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]

_OBJECT_LINE: Final = re.compile(rb"^data:\s*\{", re.MULTILINE)
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class StreamedAnswer(NamedTuple):
    """A streamed answer: its first events, those that follow, and what writes the events of a failure after them."""

    first: bytes
    events: AsyncGenerator[bytes, None]
    fail: Callable[[AccordError, str], bytes]


class ModelApiEndpoint(ModelEndpoint):
    """The ASGI application of one model API."""

    def __init__(
        self, service: Service, codec: ServedApi, calls: ModelCallsRef, log: CallLog, stored: StoredResponses
    ) -> None:
        super().__init__(service, PATHS[codec.api], {"POST": self.post}, codec)
        self._calls: Final = calls
        self._log: Final = log
        self._stored: Final = stored
        self._writes: Final = [log.writes] if service.budgets is None else [log.writes, service.budgets.writes]

    async def post(self, exchange: Exchange) -> int:
        """Answer one request."""
        service = self._service
        service.check_is_open()
        self._log.check_is_open()
        await self._log.check_quota(exchange.caller.id or ANONYMOUS_OWNER)
        request_id = exchange.request_id = new_request_id()
        REQUEST_ID.set(request_id)
        raw = await read_body(exchange.receive, exchange.headers, service.settings)
        with counted_run(service, caller_key(exchange.caller.id, client_address(exchange.scope)), request_id):
            calls = self._calls.current
            call, keeper = await self._read_call(exchange, raw, calls)
            del raw  # it would take its memory as long as the answer lasts
            exchange.started_turn = request_id
            service.observer.turn_started(request_id)
            with continuing_trace(exchange.scope["headers"]):
                work = self._run(exchange, call, calls, keeper)
                return await run_while_connected(exchange.receive, work, WATCH_AFTER_S)

    async def _read_call(
        self, exchange: Exchange, raw: bytes, calls: ModelCalls
    ) -> tuple[ModelCall, ResponseKeeper | None]:
        """The call of a request, and what keeps its response; of a known shape only its words are read."""
        caller, request_id, size = exchange.caller, str(exchange.request_id), len(raw)
        digest, shape = await off_loop(size, _read_bytes, raw, self._service.settings)
        key, decision = None, None
        if shape is not None:
            key = self.codec.api, shape.key, exchange.headers.get(POLICY_NAME), rights_of(caller)
            decision = calls.decided(key)
        if decision is not None:
            body, policy = None, decision.policy
            request = decision.request.with_words(partial(self._read_request, raw))
        else:
            body = await off_loop(size, parse_object, raw)
            if not may_reference_account(caller):
                await off_loop(size, check_account_references, body)
            sent = body
            if self.codec.api is Api.RESPONSES and body.get("previous_response_id") is not None:
                earlier, more = await self._stored.earlier_items(body["previous_response_id"], caller.id)
                sent, size = continue_from(body, earlier), size + more
            request = await off_loop(size, self.codec.read_request, sent)
            check_model_allowed(caller, request.model)
            policy = read_policy(exchange, request.accord)
        clock, headers = self._service.sessions.engine.clock, exchange.headers
        call = ModelCall(
            request,
            request_id,
            caller.id or ANONYMOUS_OWNER,
            digest,
            clock.now(),
            clock.monotonic(),
            RunCosts(self._service.budgets, payer_of(caller), calls.dispatcher),
            rules=caller.key.limits if caller.key else NO_RULES,
            size=size,
            policy=policy,
            record=WorkRecord(request_id=request_id, caller=caller.id or ""),
            headers={name: value.decode("latin-1") for name in PASSED_ON if (value := headers.get(name.encode()))},
            shape=key,
            words=None if shape is None else shape.words,
            decision=decision,
        )
        if self.codec.api is not Api.RESPONSES:
            return call, None
        body = body or await off_loop(size, lambda: request.body)
        if body.get("store") is False:
            return call, None
        may_continue = len(raw) <= self._service.sessions.history_bytes
        return call, ResponseKeeper(body, request_id, may_continue=may_continue)

    def _read_request(self, raw: bytes) -> ModelRequest:
        return self.codec.read_request(parse_object(raw))

    async def _run(self, exchange: Exchange, call: ModelCall, calls: ModelCalls, keeper: ResponseKeeper | None) -> int:
        """Answer this call; whatever happens, it is recorded."""
        is_complete, limit = False, CallLimit(self._service.sessions.engine.limits.turn_s)
        self._log.begin(call, limit.cancel)
        try:
            request, names = call.request, calls.backends_of(call.request.model)
            await call.costs.reserve(names, request, answers=request.answers, size=call.size)
            async with limit:
                answer = await calls.answer(call)
            try:
                status = await self._send(exchange, call, answer, keeper, limit)
            finally:
                await answer.close()
            is_complete = True
            return status
        except ClientGoneError:
            raise
        except Exception as error:
            call.failure = to_accord_error(error)
            raise call.failure from error
        finally:
            if not call.packets:  # a stored response is recorded already
                self._log.end(call, is_complete=is_complete)
            for _, failure in call.record.failures:
                forget_frames(failure)

    async def _send(
        self, exchange: Exchange, call: ModelCall, answer: ModelAnswer, keeper: ResponseKeeper | None, limit: CallLimit
    ) -> int:
        labels = AnswerLabels(
            call.request_id.replace("-", ""),
            int(call.received_at.timestamp()),
            call.model or call.served_by or "",
            accord_member(call),
        )
        headers = label_headers(call, self.codec.api)
        if answer.body is None and answer.answers is None:
            return await self._stream(exchange, call, self._events(call, answer, labels, keeper), headers, limit)
        if answer.answers is not None:
            whole = self.codec.write_answer(call.request, labels, answer.answers)
            body = _encode(whole)
            if keeper is not None:
                keeper.see(whole)
        else:
            body = answer.body or b""
            if keeper is not None:
                body = keeper.rename(body)
                keeper.see(_decode(body))
            body = with_label(body, labels.accord)
        await self._end(call, keeper)
        await self._keep_up()
        await send_response(exchange.send, 200, [JSON_TYPE, *headers], body)
        return 200

    async def _stream(
        self,
        exchange: Exchange,
        call: ModelCall,
        answer: StreamedAnswer,
        headers: list[tuple[bytes, bytes]],
        limit: CallLimit,
    ) -> int:
        """Send the first events and those that follow; a failure after that is an event of the stream."""
        service, clock = self._service, self._service.sessions.engine.clock
        service.observer.stream_opened("sse")
        call.first_byte_ms = (clock.monotonic() - call.began_at) * 1_000
        writer = _StreamSender(exchange.send, service.settings.write_timeout_s)
        try:
            await exchange.send({"type": "http.response.start", "status": 200, "headers": [STREAM_TYPE, *headers]})
            async with aclosing(answer.events) as events:
                try:
                    async with limit:
                        await writer.write(answer.first)
                        async for block in events:
                            await self._keep_up()
                            await writer.write(block)
                except ClientGoneError:
                    raise
                except Exception as error:  # noqa: BLE001 - the status is sent: the failure is an event of the stream
                    call.failure = to_accord_error(error)
                    await writer.write(answer.fail(call.failure, call.request_id))
            await exchange.send({"type": "http.response.body", "body": b""})
        except OSError:
            raise ClientGoneError from None
        finally:
            service.observer.stream_closed("sse")
        return 200

    def _events(
        self, call: ModelCall, answer: ModelAnswer, labels: AnswerLabels, keeper: ResponseKeeper | None
    ) -> StreamedAnswer:
        """The events of a streamed answer in the client's API, the first ones with the label."""
        if answer.blocks is None:
            writer = self.codec.answer_writer(call.request, labels)
            events = _written(writer, answer, call)
            kept = events if keeper is None else self._kept(call, keeper, events)
            return StreamedAnswer(writer.start(), kept, writer.fail)
        first, fail = with_event_label(answer.first, labels.accord), self.codec.write_error_event
        if keeper is None:
            return StreamedAnswer(first, answer.blocks, fail)
        return StreamedAnswer(b"", self._kept(call, keeper, _after(first, answer.blocks), renames=True), fail)

    async def _kept(
        self, call: ModelCall, keeper: ResponseKeeper, events: AsyncGenerator[bytes, None], *, renames: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """The events of a response that is stored before its last event is sent."""
        async with aclosing(events):
            async for block in events:
                named = keeper.rename_events(block) if renames else block
                keeper.see_events(named)
                if keeper.is_over:
                    await self._end(call, keeper)
                yield named

    async def _end(self, call: ModelCall, keeper: ResponseKeeper | None) -> None:
        """Store the response of a call that is about to be sent completely; a later request may continue it at once."""
        if keeper is not None and not call.packets and keeper.is_over:
            call.packets = await off_loop(call.size, keeper.packets)
            self._log.end(call, is_complete=True)
            await self._log.stored(call.request_id)

    async def _keep_up(self) -> None:
        """Wait while calls that have ended are not stored: a process that is killed loses few."""
        for writes in self._writes:
            if writes.is_behind:
                await writes.keep_up()


def _read_bytes(raw: bytes, settings: ServerConfig) -> tuple[str, CallShape | None]:
    """The digest of a request and its shape; raises `RefusedError` if it exceeds a limit."""
    check_values(raw, settings)
    return sha256(raw).hexdigest(), read_shape(raw)


async def _written(writer: AnswerWriter, answer: ModelAnswer, call: ModelCall) -> AsyncGenerator[bytes, None]:
    """The pieces as events of the client's API."""
    async with aclosing(cast("AsyncGenerator[tuple[int, Any], None]", answer.pieces)) as pieces:
        async for number, piece in pieces:
            if block := writer.write(piece, number, end_label(call) if isinstance(piece, EndPiece) else None):
                yield block
    yield writer.finish()


async def _after(first: bytes, blocks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(blocks):
        yield first
        async for block in blocks:
            yield block


class _StreamSender:
    """Sends blocks of a stream; a client that does not read is disconnected."""

    def __init__(self, send: Send, timeout_s: float) -> None:
        self._send: Final = send
        self._timeout_s: Final = timeout_s

    async def write(self, block: bytes) -> None:
        if not block:
            return
        try:
            await within(self._timeout_s, self._send({"type": "http.response.body", "body": block, "more_body": True}))
        except (TimeoutError, OSError):
            raise ClientGoneError from None


def read_policy(exchange: Exchange, accord: Mapping[str, Any]) -> FieldPolicy:
    """The policy of the request, of its header, of the key, or the default; the strictest that is named counts."""
    header = exchange.headers.get(POLICY_NAME, b"").decode("latin-1").strip().lower()
    of_key = exchange.caller.key.limits.policy if exchange.caller.key else None
    named = {str(accord.get("policy") or "").lower(), header, of_key or ""} - {""}
    for name in named:
        if name not in tuple(FieldPolicy):
            message = f"accord.policy: expected {' or '.join(FieldPolicy)}"
            raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"field": "accord.policy"})
    return FieldPolicy.STRICT if FieldPolicy.STRICT in named else FieldPolicy.LABELLED


def accord_member(call: ModelCall) -> dict[str, Any]:
    """The `accord` object of an answer."""
    member: dict[str, Any] = {
        "request_id": call.request_id,
        "receipt": receipt_path(call.request_id),
        "served_by": call.served_by,
        "model": call.model,
        "dispositions": [
            {"field": each.field, "disposition": each.disposition.value, "reason": each.reason}
            | ({"learned": True} if each.learned else {})
            for each in call.labels
        ],
    }
    # One that was asked again without a field is no fallback: the field's disposition says so.
    failed = [name for name, error in call.record.failures if not isinstance(error, BackendRetriedError)]
    if failed:
        member["fallbacks"] = list(dict.fromkeys(failed))
    if call.summary.label is not None:
        member["upstream"] = call.summary.label
    return member | (end_label(call) or {})


def end_label(call: ModelCall) -> dict[str, Any] | None:
    """What became of the parts of the answer, for the last event of a stream; None while answers have not ended."""
    if not call.record.answer or not call.has_ended:
        return None
    return {"answer": [each.dump() for each in call.record.answer]}


def label_headers(call: ModelCall, api: Api) -> list[tuple[bytes, bytes]]:
    """The headers that say which backend answered and what became of the fields."""
    served = f"{call.served_by}; model={call.model}" if call.model else str(call.served_by)
    headers = [
        *FIXED_HEADERS,
        (SERVED_BY_HEADER.lower().encode(), header_value(served)),
        (RECEIPT_HEADER.lower().encode(), receipt_path(call.request_id).encode()),
        (ID_HEADERS[api], call.request_id.encode()),
    ]
    if call.labels:
        headers.append((DISPOSITIONS_HEADER.lower().encode(), header_value(format_dispositions(call.labels))))
    return headers


def with_label(body: bytes, accord: Mapping[str, Any]) -> bytes:
    """A JSON object without an `accord` member with this one; nothing else of it is changed."""
    return _labelled(body, body.index(b"{") + 1, accord)


def with_event_label(block: bytes, accord: Mapping[str, Any]) -> bytes:
    """Events of which the first has an object, which gets the `accord` member."""
    found = _OBJECT_LINE.search(block)
    return _labelled(block, found.end(), accord) if found else block


def _labelled(text: bytes, start: int, accord: Mapping[str, Any]) -> bytes:
    separator = b"" if text[start:].lstrip()[:1] == b"}" else b","
    return b"%b%b%b%b%b" % (text[:start], b'"accord":', _encode(accord), separator, text[start:])


def model_endpoints(service: Service, calls: ModelCallsRef) -> dict[str, HttpEndpoint]:
    """The endpoints of every model API, by their paths."""
    if service.call_log is None:
        return {}
    sessions = service.sessions
    stored = StoredResponses(sessions.store, service.call_log, sessions.history_bytes, service.settings.max_values)
    made: list[HttpEndpoint] = [
        *(ModelApiEndpoint(service, each, calls, service.call_log, stored) for each in SERVED_APIS),
        StoredResponseEndpoint(service, stored),
        CountTokensEndpoint(service, calls),
        *model_list_endpoints(service, calls),
    ]
    return {each.route: each for each in made}


SERVED_APIS: Final[tuple[ServedApi, ...]] = (ChatCodec(), ResponsesCodec(), MessagesCodec())
"""Every served model API."""
