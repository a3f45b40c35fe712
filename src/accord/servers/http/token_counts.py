"""`POST /v1/messages/count_tokens`: counted by the endpoint that would answer, or estimated and labelled so."""

from contextlib import suppress
from typing import Final

import msgspec

from accord.apis.messages.codec import MessagesCodec
from accord.backends.model import ModelBackend
from accord.core.work.estimate_tokens import estimate_tokens
from accord.core.work.fields import ModelRequest
from accord.errors import BackendError, TimedOutError
from accord.off_loop import off_loop
from accord.run.circuit import BackendAttempt
from accord.run.limits import CallLimit
from accord.run.model_calls import ModelCallsRef
from accord.servers.http.body import check_values, read_body
from accord.servers.http.exchange import Exchange, new_request_id, send_response
from accord.servers.http.model_endpoint import ID_HEADERS, JSON_TYPE, ModelEndpoint, parse_object
from accord.servers.service import Service, check_account_references, check_model_allowed, may_reference_account
from accord.wire.disposition import Api
from accord.wire.keys import NO_RULES
from accord.wire.routes import COUNT_TOKENS_PATH, DISPOSITIONS_HEADER, SERVED_BY_HEADER

ESTIMATED: Final = "input_tokens=emulated"
ESTIMATE_NOTE: Final = "estimated by Accord: no backend of this model has counted them"

_encode: Final = msgspec.json.Encoder().encode


class CountTokensEndpoint(ModelEndpoint):
    """Counts the tokens of a request without answering it. Nothing is recorded: it costs nothing."""

    def __init__(self, service: Service, calls: ModelCallsRef) -> None:
        self._messages: Final = MessagesCodec()
        super().__init__(service, COUNT_TOKENS_PATH, {"POST": self.post}, self._messages)
        self._calls: Final = calls

    async def post(self, exchange: Exchange) -> int:
        """Answer with the number of input tokens."""
        request_id = exchange.request_id = new_request_id()
        settings = self._service.settings
        raw = await read_body(exchange.receive, exchange.headers, settings)
        await off_loop(len(raw), check_values, raw, settings)
        body = await off_loop(len(raw), parse_object, raw)
        if not may_reference_account(exchange.caller):
            await off_loop(len(raw), check_account_references, body)
        request = await off_loop(len(raw), self._messages.read_count_request, body)
        check_model_allowed(exchange.caller, request.model)
        counted, backend = await self._count(request, len(raw), exchange)
        headers = [JSON_TYPE, (ID_HEADERS[Api.MESSAGES], request_id.encode())]
        answer = self._messages.write_count(counted)
        if backend is None:
            answer["accord"] = {
                "dispositions": [{"field": "input_tokens", "disposition": "emulated", "reason": ESTIMATE_NOTE}]
            }
            headers.append((DISPOSITIONS_HEADER.lower().encode(), ESTIMATED.encode()))
        else:
            headers.append((SERVED_BY_HEADER.lower().encode(), backend.encode("ascii", "replace")))
        await send_response(exchange.send, 200, headers, _encode(answer))
        return 200

    async def _count(self, request: ModelRequest, size: int, exchange: Exchange) -> tuple[int, str | None]:
        """The count of the first backend of this model that can count, and its name; else an estimate.

        A backend whose circuit is open is not requested: there is always the estimate.
        """
        calls, rules = self._calls.current, exchange.caller.key.limits if exchange.caller.key else NO_RULES
        circuits = calls.dispatcher.circuits
        beta = exchange.headers.get(b"anthropic-beta")
        headers = {"anthropic-beta": beta.decode("latin-1")} if beta else {}
        limits = self._service.sessions.engine.limits
        limit = CallLimit(min(limits.backend_first_s, limits.turn_s))
        group = calls.group_of(request.model, rules)
        with suppress(TimedOutError):
            for name in group.backends:
                backend = calls.dispatcher.backends[name]
                if isinstance(backend, ModelBackend) and backend.can_count and not circuits.is_open(name):
                    with suppress(BackendError), BackendAttempt(circuits, name, others=True, skipped=False):
                        async with limit:
                            return await backend.count_tokens(request.body, headers), name
        return await off_loop(size, estimate_tokens, request.order), None
