"""Responses that Accord keeps, so that `previous_response_id` continues them and `GET /v1/responses/{id}` returns them.

A response is stored as one packet of its call: the response, the new items of its input, and the id of the response
that it continues. No endpoint stores anything; the id that clients see is Accord's own, also when the answer is passed
on as it came.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec

from accord.engine.call_log import CallLog
from accord.errors import ErrorCode, RefusedError
from accord.ports import SessionStore
from accord.servers.http.exchange import Exchange
from accord.servers.http.model_endpoint import ModelEndpoint
from accord.servers.openai.responses_answer import ResponsesTranslation
from accord.servers.openai.responses_request import continue_from, input_items
from accord.servers.service import Service
from accord.wire.routes import RESPONSE_PATH

MAX_CHAIN: Final = 1_000
PREFIX: Final = "resp_"
UNKNOWN: Final = "There is no stored response of this id; it was not stored, has expired, or belongs to another user"
TOO_LONG: Final = f"The conversation has more than {MAX_CHAIN} stored responses; send its items as input"
_ID: Final = re.compile(rb'"id"\s*:\s*"(resp_[^"\\]{1,200})"')
_FINAL: Final = (b"response.completed", b"response.incomplete")

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def response_id(request_id: str) -> str:
    """The id of the response of this call."""
    return PREFIX + request_id.replace("-", "")


class StoredResponses:
    """Finds the responses that were stored."""

    def __init__(self, store: SessionStore, log: CallLog) -> None:
        self._store: Final = store
        self._log: Final = log

    async def find(self, given: str, owner: str | None) -> dict[str, Any]:
        """The stored response of this id: its packet's data; raises `RefusedError` if this owner has none."""
        try:
            request_id = str(UUID(given.removeprefix(PREFIX)))
        except ValueError:
            raise _not_found() from None
        await self._log.stored(request_id)
        turn = await self._store.turn(request_id)
        packets = await self._store.packets(request_id, after_seq=0, limit=1) if turn else []
        if turn is None or not packets or owner not in (None, turn.owner):
            raise _not_found()
        return _decode(packets[0].body)["p"]["data"]

    async def continued(self, body: dict[str, Any], owner: str | None) -> dict[str, Any]:
        """The request with the items of the responses that it continues before its own input."""
        items: list[list[dict[str, Any]]] = []
        previous: Any = body["previous_response_id"]
        while previous is not None:
            if not isinstance(previous, str) or len(items) >= MAX_CHAIN:
                message = TOO_LONG if isinstance(previous, str) else "previous_response_id: expected text"
                raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"field": "previous_response_id"})
            try:
                stored = await self.find(previous, owner)
            except RefusedError as error:
                details = {"field": "previous_response_id", "openai_code": "previous_response_not_found"}
                raise RefusedError(error.message, ErrorCode.INVALID_MESSAGE, details) from None
            items.append([*stored["input"], *stored["response"]["output"]])
            previous = stored["previous"]
        earlier = [item for turn in reversed(items) for item in turn]
        return continue_from(body, earlier)


def _not_found() -> RefusedError:
    return RefusedError(UNKNOWN, ErrorCode.NOT_FOUND, {})


class StoredResponseEndpoint(ModelEndpoint):
    """`GET /v1/responses/{id}`: a stored response."""

    def __init__(self, service: Service, stored: StoredResponses) -> None:
        super().__init__(service, RESPONSE_PATH, {"GET": self.get}, ResponsesTranslation())
        self._stored: Final = stored

    async def get(self, exchange: Exchange) -> int:
        """Answer with the response as it was sent."""
        stored = await self._stored.find(exchange.path_parameter("response_id"), exchange.caller.id)
        return await exchange.answer(_encode(stored["response"]).decode())


class ResponseKeeper:
    """Takes one response while it is sent: gives it Accord's id, and keeps it at its end.

    `body` is the request as the client sent it, without the items of earlier responses.
    """

    def __init__(self, body: Mapping[str, Any], request_id: str) -> None:
        self._input: Final = input_items(body)
        self._previous: Final = body.get("previous_response_id")
        self._id: Final = response_id(request_id).encode()
        self._endpoint_id: bytes | None = None
        self._response: dict[str, Any] | None = None

    def rename(self, data: bytes) -> bytes:
        """The bytes with Accord's id in the place of the endpoint's."""
        if self._endpoint_id is None:
            found = _ID.search(data)
            self._endpoint_id = found[1] if found else None
        return data.replace(self._endpoint_id, self._id) if self._endpoint_id else data

    def see_events(self, block: bytes) -> None:
        """Keep the response if these events end it."""
        if not any(name in block for name in _FINAL):
            return
        for event in block.split(b"\n\n"):
            if any(name in event for name in _FINAL):
                data = next((line[5:] for line in event.splitlines() if line.startswith(b"data:")), b"{}")
                response = _decode(data).get("response")
                self._response = response if isinstance(response, dict) else None

    def see(self, response: Mapping[str, Any]) -> None:
        """Keep this whole response."""
        self._response = {name: value for name, value in response.items() if name != "accord"}

    @property
    def packets(self) -> tuple[str, ...]:
        """What is stored of the response: one packet, or none if it did not end properly."""
        if self._response is None or not isinstance(self._response.get("output"), list):
            return ()
        data = {"response": self._response, "input": self._input, "previous": self._previous}
        packet = {"op": "event", "p": {"type": "model_response", "data": data}}
        return (_encode(packet).decode(),)
