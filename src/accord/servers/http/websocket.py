"""`GET /v1/ws`: the same turns over one connection, several at once, each cancellable and resumable.

A client sends a `ServiceRequest` to begin a turn, `{"resume": request_id, "after": n}` to read one along, and
`{"cancel": request_id}` to stop one. It is sent packets with two members more: `request_id`, and `id`, their number.
A frame that is no good costs one error packet, never the connection. The token is checked again with every frame and
while the connection is idle; one that is revoked or has expired closes the connection.
"""

import asyncio
import json
from contextlib import aclosing, suppress
from typing import Any, Final, cast

from pydantic import Field
from pydantic_core import from_json

from accord.engine import LiveTurn, StoredTurn
from accord.errors import AccordError, ErrorCode, InvalidMessageError, RefusedError
from accord.servers.http.assist import MAX_ID
from accord.servers.http.body import read_request, too_large
from accord.servers.http.exchange import (
    ClientGoneError,
    Receive,
    Scope,
    Send,
    authenticate_caller,
    check_origin,
    client_address,
    close_code,
    read_headers,
    send_problem,
    to_accord_error,
)
from accord.servers.http.requests import cancel_turn, find_turn, parse_request_id
from accord.servers.service import Caller, Headers, Service, begin_turn
from accord.wire.message import Message
from accord.wire.packet import ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.request import ServiceRequest
from accord.wire.session import PacketRecord

PROTOCOL: Final = "accord"
BEARER: Final = "accord.bearer."
"""A browser cannot set headers on a WebSocket; it may offer its token as a subprotocol with this prefix."""
MAX_CONTROL_BYTES: Final = 1_024
MAX_TURNS: Final = 64
"""How many turns one connection may read at once."""
MAX_NAMED_BYTES: Final = 64 * 1024
"""Larger frames that are refused before they are checked are not searched for their request id."""


class Control(Message, frozen=True):
    """A frame that is not a request."""

    cancel: str | None = None
    resume: str | None = None
    after: int = Field(default=0, ge=0, le=MAX_ID)


class WebSocketEndpoint:
    """The transport for many turns on one connection."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        headers = with_offered_token(scope, read_headers(scope))
        await receive()  # websocket.connect
        try:
            check_origin(headers, self._service.settings.allow_origins)
            caller = await authenticate_caller(self._service, scope, headers)
            self._service.check_is_open()
        except Exception as error:  # noqa: BLE001 - who cannot be let in is told why in our words
            await refuse(scope, send, to_accord_error(error))
            return
        accepted = PROTOCOL if PROTOCOL in scope.get("subprotocols", ()) else None
        await send({"type": "websocket.accept", "subprotocol": accepted})
        with suppress(ClientGoneError):
            await _Connection(self._service, caller, headers, client_address(scope), send).serve(receive)


class _Connection:
    def __init__(self, service: Service, caller: Caller, headers: Headers, address: str, send: Send) -> None:
        self._service: Final = service
        self._caller: Final = caller
        self._headers: Final = headers
        self._address: Final = address
        self._send: Final = send
        self._is_closed = False
        self._reading: Final[dict[str, asyncio.Task[None]]] = {}

    async def serve(self, receive: Receive) -> None:
        """Take frames until the client is gone."""
        self._service.observer.stream_opened("websocket")
        rechecking = asyncio.create_task(self._recheck())
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                if not self._is_closed:
                    await self._take(message)
                    # Frames that are refused at once would be handled by the hundred before anyone else is served.
                    await asyncio.sleep(0)
        finally:
            self._service.observer.stream_closed("websocket")
            tasks = [rechecking, *self._reading.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _recheck(self) -> None:
        """Check the token of a connection that sends nothing, too: it may be reading."""
        while not self._is_closed:
            await asyncio.sleep(self._service.settings.recheck_s)
            # An identity provider or a store that does not answer now is no reason to close.
            with suppress(AccordError):
                await self._is_still_known()

    async def _is_still_known(self) -> bool:
        """Whether the token is still good; if not, the connection is closed."""
        try:
            await self._service.authenticator.authenticate(self._headers)
        except RefusedError as error:
            if error.code is not ErrorCode.UNAUTHENTICATED:
                raise
            await self._close(error)
            return False
        return True

    async def _close(self, error: AccordError) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._reading.values():
            task.cancel()
        with suppress(OSError, RuntimeError):  # the client may be gone already
            await self._send({"type": "websocket.close", "code": close_code(error), "reason": error.message[:100]})

    async def _take(self, message: Any) -> None:
        request_id: str | None = None
        try:
            if not await self._is_still_known():
                return
            frame = self._frame(message)
            request_id = _named_in(frame)
            await self._service.authenticator.count_request(self._caller, self._address)
            # A request is far longer than a control frame, and is checked and parsed in its own place.
            if len(frame) <= MAX_CONTROL_BYTES and (control := _control(frame)) is not None:
                request_id = control.cancel or control.resume
                await self._obey(control)
            else:
                request, _ = await read_request(frame, self._service.settings)
                request_id = str(request.request_id)
                await self._begin(request)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - one bad frame costs one reply
            await self._tell(to_accord_error(error), request_id)

    def _frame(self, message: Any) -> bytes:
        text = message.get("text")
        frame = text.encode() if text is not None else message.get("bytes") or b""
        if len(frame) > (most := self._service.settings.max_frame_bytes):
            raise too_large(most)
        return frame

    async def _begin(self, request: ServiceRequest) -> None:
        self._check_room()
        self._read(await begin_turn(self._service, self._caller, self._address, request), 0)

    async def _obey(self, control: Control) -> None:
        turn = await find_turn(self._service, parse_request_id(control.cancel or control.resume or ""), self._caller)
        if control.cancel is None:
            self._check_room()
            self._read(turn, control.after)
        else:
            await cancel_turn(self._service, turn)

    def _check_room(self) -> None:
        if len(self._reading) >= MAX_TURNS:
            raise RefusedError(f"One connection reads {MAX_TURNS} turns at most", ErrorCode.UNAVAILABLE, {})

    def _read(self, turn: LiveTurn | StoredTurn, after: int) -> None:
        """Send this turn's packets from now on; whoever asks again while it is being sent is sent nothing twice."""
        if turn.request_id in self._reading:
            return
        task = asyncio.create_task(self._pump(turn, after))
        self._reading[turn.request_id] = task
        task.add_done_callback(lambda _: self._reading.pop(turn.request_id, None))

    async def _pump(self, turn: LiveTurn | StoredTurn, after: int) -> None:
        # Who is gone is noticed by whoever waits for the next frame.
        with suppress(ClientGoneError):
            try:
                async with aclosing(turn.batches(after)) as batches:
                    async for batch in batches:
                        for kept in batch:
                            await self._write(_packet_frame(turn.request_id, kept))
            except ClientGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - a turn that cannot be read is told on its own connection
                await self._tell(to_accord_error(error), turn.request_id)

    async def _tell(self, error: AccordError, request_id: str | None) -> None:
        frame = ErrorPacket(p=stream_error(error)).to_json()
        await self._write(f'{{"request_id":{json.dumps(request_id)},{frame[1:]}' if request_id else frame)

    async def _write(self, frame: str) -> None:
        try:
            async with asyncio.timeout(self._service.settings.write_timeout_s):
                await self._send({"type": "websocket.send", "text": frame})
        except (OSError, RuntimeError):  # a timeout is an OSError; servers raise the other one after a close
            raise ClientGoneError from None


def _control(frame: bytes) -> Control | None:
    """The frame, if it asks for something other than a new turn."""
    try:
        control = Control.parse(frame)
    except InvalidMessageError:
        return None
    return control if (control.cancel is None) is not (control.resume is None) else None


def _named_in(frame: bytes) -> str | None:
    """The turn that a small frame is about, so that a refusal before it is checked can name it."""
    if len(frame) > MAX_NAMED_BYTES:
        return None
    try:
        content: Any = from_json(frame)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    members = cast("dict[str, Any]", content)
    named = (members.get(name) for name in ("request_id", "cancel", "resume"))
    return next((value for value in named if isinstance(value, str)), None)


def _packet_frame(request_id: str, kept: PacketRecord) -> str:
    """A packet as it was kept, with its place; it is not parsed again."""
    return f'{{"request_id":"{request_id}","id":{kept.seq},{kept.body[1:]}'


def with_offered_token(scope: Scope, headers: Headers) -> Headers:
    """The headers, with the token that a browser offered as a subprotocol where they have none."""
    if b"authorization" in headers:
        return headers
    offered = next((each for each in scope.get("subprotocols", ()) if each.startswith(BEARER)), None)
    if offered is None:
        return headers
    return {**headers, b"authorization": f"Bearer {offered.removeprefix(BEARER)}".encode("latin-1", "replace")}


async def refuse(scope: Scope, send: Send, error: AccordError) -> None:
    """Turn a connection away before it is one: as an HTTP answer where the server can, else with a close code."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": close_code(error), "reason": error.message[:100]})
        return

    async def renamed(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await send_problem(renamed, error)
