"""Responses that Accord keeps, so that `previous_response_id` continues them and `GET /v1/responses/{id}` returns them.

A response is stored as one packet of its call: the response, the new items of its input, and the id of the response
that it continues. No endpoint stores anything; the id that clients see is Accord's own, also when the answer is passed
on as it came.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast
from uuid import UUID

import msgspec

from accord.apis.responses.codec import ResponsesCodec
from accord.apis.responses.read_answer import LAST_EVENTS
from accord.apis.responses.read_request import input_items
from accord.core.sizes import find_excess
from accord.core.sse import parse_block, split_events
from accord.errors import ErrorCode, RefusedError
from accord.off_loop import off_loop
from accord.ports import SessionStore
from accord.run.call_log import CallLog
from accord.servers.http.exchange import Exchange
from accord.servers.http.model_endpoint import ModelEndpoint
from accord.servers.service import Service
from accord.wire.routes import RESPONSE_PATH

MAX_CHAIN: Final = 1_000
MAX_SAME_MEMBERS: Final = 20
"""How many members of the same name and text are tried for the one that is at its place; usually the first is it."""
PREFIX: Final = "resp_"
UNKNOWN: Final = "There is no stored response of this id; it was not stored, has expired, or belongs to another user"
SEND_AS_INPUT: Final = "send the items that matter as input, without previous_response_id"
_EVENT_IDS: Final = (("response", "id"), ("response_id",))
"""Where an event has the id of its response."""
_MAY_NAME_IT: Final = (b'"response"', b'"response_id"')
_MAY_END_IT: Final = tuple(name.encode() for name in LAST_EVENTS)
"""Without these, an event need not be parsed; with one of them in its text, it is nothing else than without."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def response_id(request_id: str) -> str:
    """The id of the response of this call."""
    return PREFIX + request_id.replace("-", "")


class _Response(msgspec.Struct):
    output: msgspec.Raw


class _Stored(msgspec.Struct):
    """A stored response; nothing of it is parsed that is not needed."""

    response: msgspec.Raw
    input: msgspec.Raw
    previous: Any = None


class _Event(msgspec.Struct, tag_field="type", tag="model_response"):
    data: _Stored


class _PacketBody(msgspec.Struct):
    p: _Event


_read_packet: Final = msgspec.json.Decoder(_PacketBody).decode
_read_output: Final = msgspec.json.Decoder(_Response).decode


class StoredResponses:
    """Finds the responses that were stored. At most `max_bytes` of them continue one another in one request."""

    def __init__(self, store: SessionStore, log: CallLog, max_bytes: int, max_values: int) -> None:
        self._store: Final = store
        self._log: Final = log
        self._max_bytes: Final = max_bytes
        self._max_values: Final = max_values
        self._reading: Final = asyncio.Lock()

    async def _find(self, given: str, owner: str | None) -> str:
        """The request id of the call with this response; raises `RefusedError` if this owner has none."""
        try:
            request_id = str(UUID(given.removeprefix(PREFIX)))
        except ValueError:
            raise _not_found() from None
        await self._log.stored(request_id)
        turn = await self._store.turn(request_id)
        if turn is None or not turn.last_seq or owner not in (None, turn.owner):
            raise _not_found()
        return request_id

    async def response(self, given: str, owner: str | None) -> bytes:
        """The stored response of this id as JSON; raises `RefusedError` if this owner has none."""
        request_id = await self._find(given, owner)
        async with self._reading:  # one at a time: with its input it may be as long as any request
            packets = await self._store.packets(request_id, after_seq=0, limit=1)
            if not packets:
                raise _not_found()
            stored = await off_loop(len(packets[0].body), _read_stored, packets[0].body)
        return bytes(stored.response)

    async def earlier_items(self, previous: Any, owner: str | None) -> tuple[list[dict[str, Any]], int]:
        """The items of the responses that a request continues, oldest first, and their bytes.

        Raises `RefusedError` if they are too long: a conversation without its beginning is another one.
        """
        turns: list[tuple[bytes, bytes]] = []
        left = self._max_bytes
        while previous is not None:
            if not isinstance(previous, str) or len(turns) >= MAX_CHAIN:
                if isinstance(previous, str):
                    raise _too_long(f"{MAX_CHAIN} stored responses")
                message = "previous_response_id: expected text"
                raise RefusedError(message, ErrorCode.INVALID_MESSAGE, {"field": "previous_response_id"})
            try:
                request_id = await self._find(previous, owner)
                packets = await self._store.packets(request_id, after_seq=0, limit=1, max_bytes=left)
                stored = _read_stored(packets[0].body) if packets else None
            except RefusedError as error:
                details = {"field": "previous_response_id", "openai_code": "previous_response_not_found"}
                raise RefusedError(error.message, ErrorCode.INVALID_MESSAGE, details) from None
            if stored is None or bytes(stored.input) == b"null":
                raise _too_long(f"{self._max_bytes} bytes, which is the limit (limits.max_history_bytes)")
            turns.append((bytes(stored.input), bytes(_read_output(stored.response).output)))
            left -= sum(map(len, turns[-1]))
            previous = stored.previous
        size = self._max_bytes - left
        return await off_loop(size, self._decode_items, [items for turn in reversed(turns) for items in turn]), size

    def _decode_items(self, turns: Sequence[bytes]) -> list[dict[str, Any]]:
        text = b"[%b]" % b",".join(turns)
        if find_excess(text, max_values=self._max_values) is not None:
            raise _too_long(f"{self._max_values} JSON values, which is the limit (server.max_values)")
        return [item for items in _decode(text) for item in items]


def _read_stored(body: str) -> _Stored:
    try:
        return _read_packet(body).p.data
    except msgspec.ValidationError:  # the id of an agent's turn
        raise _not_found() from None


def _too_long(limit: str) -> RefusedError:
    message = f"previous_response_id: the responses that it continues have more than {limit}; {SEND_AS_INPUT}"
    details = {"field": "previous_response_id", "openai_code": "context_length_exceeded"}
    return RefusedError(message, ErrorCode.INVALID_MESSAGE, details)


def _not_found() -> RefusedError:
    return RefusedError(UNKNOWN, ErrorCode.NOT_FOUND, {})


class StoredResponseEndpoint(ModelEndpoint):
    """`GET /v1/responses/{id}`: a stored response."""

    def __init__(self, service: Service, stored: StoredResponses) -> None:
        super().__init__(service, RESPONSE_PATH, {"GET": self.get}, ResponsesCodec())
        self._stored: Final = stored

    async def get(self, exchange: Exchange) -> int:
        """Answer with the response as it was sent."""
        stored = await self._stored.response(exchange.path_parameter("response_id"), exchange.caller.id)
        return await exchange.answer(stored.decode())


class ResponseKeeper:
    """Takes one response while it is sent: gives it Accord's id, and keeps it at its end.

    `body` is the request as the client sent it, without the items of earlier responses. Its input is only stored if a
    later request may continue the response.
    """

    def __init__(self, body: Mapping[str, Any], request_id: str, *, may_continue: bool = True) -> None:
        self._input: Final = input_items(body) if may_continue else None
        self._previous: Final = body.get("previous_response_id")
        self._id: Final = response_id(request_id)
        self._response: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the response has ended properly, and can be stored."""
        return self._response is not None and isinstance(self._response.get("output"), list)

    def rename(self, answer: bytes) -> bytes:
        """A whole answer with Accord's id in the place of the endpoint's."""
        return _with_text(answer, ("id",), self._id)

    def rename_events(self, block: bytes) -> bytes:
        """The same events with Accord's id in the place of the endpoint's."""
        if not any(mark in block for mark in _MAY_NAME_IT):
            return block
        return b"".join(self._rename_event(event) for event in split_events(block))

    def _rename_event(self, block: bytes) -> bytes:
        event = parse_block(block)
        if event is None or not event.data.lstrip().startswith(b"{"):
            return block
        renamed = event.data
        for path in _EVENT_IDS:
            renamed = _with_text(renamed, path, self._id)
        if renamed == event.data:
            return block
        if event.data in block:
            return block.replace(event.data, renamed)
        name = f"event: {event.name}\n" if event.name else ""  # the data has several lines
        return b"%bdata: %b\n\n" % (name.encode(), renamed.replace(b"\n", b"\ndata: "))

    def see_events(self, block: bytes) -> None:
        """Keep the response if these events end it."""
        if not any(mark in block for mark in _MAY_END_IT):
            return
        for each in split_events(block):
            event = parse_block(each)
            if event is None or not event.data.lstrip().startswith(b"{"):
                continue
            members: dict[str, Any] = _decode(event.data)
            if members.get("type") in LAST_EVENTS and isinstance(response := members.get("response"), dict):
                self._response = cast("dict[str, Any]", response)

    def see(self, response: Mapping[str, Any]) -> None:
        """Keep this whole response."""
        self._response = {name: value for name, value in response.items() if name != "accord"}

    def packets(self) -> tuple[str, ...]:
        """What is stored of the response: one packet, or none if it did not end properly."""
        if not self.is_over:
            return ()
        data = {"response": self._response, "input": self._input, "previous": self._previous}
        packet = {"op": "event", "p": {"type": "model_response", "data": data}}
        return (_encode(packet).decode(),)


def _with_text(data: bytes, path: Sequence[str], text: str) -> bytes:
    """A JSON object with this text in the place of the one at this path, if there is one; nothing else is changed."""
    members = _decode(data)
    *outer, name = path
    place = _value_at(members, outer)
    old = _value_at(place, [name])
    if not isinstance(old, str):
        return data
    member = re.compile(rb'"%b"\s*:\s*(%b)' % (name.encode(), re.escape(_encode(old))))
    for found in islice(member.finditer(data), MAX_SAME_MEMBERS):
        changed = data[: found.start(1)] + _encode(text) + data[found.end(1) :]
        if _value_at(_decode(changed), path) == text:
            return changed
    place[name] = text  # it is written in another form
    return _encode(members)


def _value_at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value
