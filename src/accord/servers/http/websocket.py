"""`GET /v1/ws`: the same turns over one connection, several at once, each of which can be cancelled and resumed.

A client sends a `ServiceRequest` to start a turn, `{"resume": request_id, "after": n}` to read one that was started
before, in its own view if it adds its `capabilities`, and `{"cancel": request_id}` to cancel one. It receives packets
with two more members: `request_id`, and `id`, their number. A refused request and an invalid frame are answered with
one error packet, which has no `id`; the connection stays open. The token is checked with every frame and also while the
connection is idle; when it is revoked or has expired, the connection is closed.
"""

import asyncio
import json
from contextlib import aclosing, suppress
from typing import Any, Final, cast

from pydantic import Field
from pydantic_core import from_json

from accord.errors import AccordError, ErrorCode, InvalidMessageError, RefusedError
from accord.run import Reader, Run, StoredRun
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
    parse_reader,
    read_headers,
    send_problem,
    send_response,
    to_accord_error,
)
from accord.servers.http.requests import cancel_turn, find_turn, parse_request_id
from accord.servers.service import Caller, Headers, Service, begin_turn
from accord.wire.message import FreeObject, Message
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.routes import RESPONSES_PATH

PROTOCOL: Final = "accord"
UPGRADE_REQUIRED: Final = 426
BEARER: Final = "accord.bearer."
"""A browser cannot set headers on a WebSocket; it may offer its token as a subprotocol with this prefix."""
MAX_CONTROL_BYTES: Final = 16 * 1024
MAX_TURNS: Final = 64
"""How many turns one connection may read at once."""
MAX_NAMED_BYTES: Final = 64 * 1024
"""Larger frames are not searched for their request id when they are refused before they are parsed."""
LAST_PACKET: Final = ClosePacket().to_json()


class ControlFrame(Message, frozen=True):
    """A frame that cancels or resumes a turn."""

    cancel: str | None = None
    resume: str | None = None
    after: int = Field(default=0, ge=0, le=MAX_ID)
    capabilities: FreeObject | str | None = None


class WebSocketEndpoint:
    """The endpoint for many turns on one connection."""

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
        except Exception as error:  # noqa: BLE001 - every failure is answered in one form
            await reject_websocket(scope, send, to_accord_error(error))
            return
        accepted = PROTOCOL if PROTOCOL in scope.get("subprotocols", ()) else None
        await send({"type": "websocket.accept", "subprotocol": accepted})
        with suppress(ClientGoneError):
            await _WebSocketConnection(self._service, caller, headers, client_address(scope), send).serve(receive)


class _WebSocketConnection:
    """One open connection: reads frames, and sends the packets of the turns that the client reads."""

    def __init__(self, service: Service, caller: Caller, headers: Headers, address: str, send: Send) -> None:
        self._service: Final = service
        self._caller: Final = caller
        self._headers: Final = headers
        self._address: Final = address
        self._send: Final = send
        self._is_closed = False
        self._readers: Final[dict[str, asyncio.Task[None]]] = {}

    async def serve(self, receive: Receive) -> None:
        """Handle frames until the client disconnects."""
        self._service.observer.stream_opened("websocket")
        rechecking = asyncio.create_task(self._recheck_token())
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                if not self._is_closed:
                    await self._handle_frame(message)
                    # Frames that are refused at once would otherwise be handled by the hundred before other clients.
                    await asyncio.sleep(0)
        finally:
            self._service.observer.stream_closed("websocket")
            tasks = [rechecking, *self._readers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _recheck_token(self) -> None:
        """Check the token also while the client sends nothing: it may be reading."""
        while not self._is_closed:
            await asyncio.sleep(self._service.settings.recheck_s)
            # A store or an identity provider that does not answer now is no reason to close.
            with suppress(AccordError):
                await self._is_token_valid()

    async def _is_token_valid(self) -> bool:
        """Check the token again; close the connection if it is not valid any more."""
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
        for task in self._readers.values():
            task.cancel()
        with suppress(OSError, RuntimeError):  # the client may have disconnected already
            await self._send({"type": "websocket.close", "code": close_code(error), "reason": error.message[:100]})

    async def _handle_frame(self, message: Any) -> None:
        request_id: str | None = None
        try:
            if not await self._is_token_valid():
                return
            text = message.get("text")
            frame: bytes = text.encode() if text is not None else message.get("bytes") or b""
            if len(frame) > (limit := self._service.settings.max_frame_bytes):
                raise too_large(limit)
            request_id = _find_request_id(frame)
            await self._service.authenticator.count_request(self._caller, self._address)
            # A request is far longer than a control frame, and is checked and parsed by `read_request`.
            if len(frame) <= MAX_CONTROL_BYTES and (control := _parse_control(frame)) is not None:
                request_id = control.cancel or control.resume
                await self._control(control)
            else:
                request, _, sent = await read_request(frame, self._service.settings)
                request_id = str(request.request_id)
                self._check_turns()
                turn = await begin_turn(self._service, self._caller, self._address, request, sent=sent)
                self._start_reader(turn, 0)
        except ClientGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - a bad frame is answered with one error packet
            await self._write_error(to_accord_error(error), request_id)

    async def _control(self, control: ControlFrame) -> None:
        turn = await find_turn(self._service, parse_request_id(control.cancel or control.resume or ""), self._caller)
        if control.cancel is None:
            reader = None if control.capabilities is None else parse_reader(control.capabilities)
            self._check_turns()
            await self._service.sessions.raise_if_refused(turn)
            self._start_reader(turn, control.after, reader)
        else:
            await cancel_turn(self._service, turn)

    def _check_turns(self) -> None:
        if len(self._readers) >= MAX_TURNS:
            message = f"This connection already reads {MAX_TURNS} turns, which is the limit; open another connection"
            raise RefusedError(message, ErrorCode.UNAVAILABLE, {})

    def _start_reader(self, turn: Run | StoredRun, after: int, reader: Reader | None = None) -> None:
        """Send the packets of this turn as they come; a turn that is being sent already is not sent twice."""
        if turn.request_id in self._readers:
            if reader is None:
                return
            message = "This connection already reads this turn; open another connection to read it in another view"
            raise RefusedError(message, ErrorCode.REQUEST_CONFLICT, {"request_id": turn.request_id})
        task = asyncio.create_task(self._send_packets(turn, after, reader))
        self._readers[turn.request_id] = task
        task.add_done_callback(lambda _: self._readers.pop(turn.request_id, None))

    async def _send_packets(self, turn: Run | StoredRun, after: int, reader: Reader | None) -> None:
        # `serve`, which waits for the next frame, notices the disconnect.
        with suppress(ClientGoneError):
            try:
                async with aclosing(self._service.sessions.read(turn, after, reader)) as batches:
                    async for batch in batches:
                        for record in batch.packets:
                            # The stored text of the packet with two members before its own; it is not parsed again.
                            place = f'{{"request_id":"{turn.request_id}","id":{record.seq},'
                            await self._write(place + record.body[1:])
                            if record.body == LAST_PACKET:
                                return  # at once: a client that has it may resume this turn with its next frame
            except ClientGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - a turn that cannot be read costs one error packet
                await self._write_error(to_accord_error(error), turn.request_id)

    async def _write_error(self, error: AccordError, request_id: str | None) -> None:
        frame = ErrorPacket(p=stream_error(error)).to_json()
        await self._write(f'{{"request_id":{json.dumps(request_id)},{frame[1:]}' if request_id else frame)

    async def _write(self, frame: str) -> None:
        try:
            async with asyncio.timeout(self._service.settings.write_timeout_s):
                await self._send({"type": "websocket.send", "text": frame})
        except (OSError, RuntimeError):  # a timeout is an OSError; servers raise RuntimeError after a close
            raise ClientGoneError from None


def _parse_control(frame: bytes) -> ControlFrame | None:
    """The frame, if it either cancels or resumes a turn; raises `InvalidMessageError` if it does so in a wrong way."""
    try:
        control = ControlFrame.parse(frame)
    except InvalidMessageError:
        if _names_turn(frame):
            raise
        return None
    return control if (control.cancel is None) is not (control.resume is None) else None


def _names_turn(frame: bytes) -> bool:
    """Whether a frame is meant to cancel or resume a turn, and not to start one."""
    try:
        content: Any = from_json(frame)
    except ValueError:
        return False
    return isinstance(content, dict) and "payload" not in content and ("cancel" in content or "resume" in content)


def _find_request_id(frame: bytes) -> str | None:
    """The request id in a small frame, so that an error before the frame is parsed can contain it."""
    if len(frame) > MAX_NAMED_BYTES:
        return None
    try:
        content: Any = from_json(frame)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    members = cast("dict[str, Any]", content)
    values = (members.get(name) for name in ("request_id", "cancel", "resume"))
    return next((value for value in values if isinstance(value, str)), None)


def with_offered_token(scope: Scope, headers: Headers) -> Headers:
    """The headers, completed by the token that a browser offers as a subprotocol."""
    if b"authorization" in headers:
        return headers
    offered = next((each for each in scope.get("subprotocols", ()) if each.startswith(BEARER)), None)
    if offered is None:
        return headers
    return {**headers, b"authorization": f"Bearer {offered.removeprefix(BEARER)}".encode("latin-1", "replace")}


async def reject_websocket(scope: Scope, send: Send, error: AccordError) -> None:
    """Refuse a handshake: with an HTTP response if the server supports that, otherwise with a close code."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": close_code(error), "reason": error.message[:100]})
        return

    async def send_renamed(message: Any) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    if scope["path"] == RESPONSES_PATH:
        # Codex tries a WebSocket first; this status makes it send a POST at once, any other one only after retries.
        headers = [(b"content-type", b"text/plain"), (b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")]
        await send_response(send_renamed, UPGRADE_REQUIRED, headers, b"Send a POST; there is no WebSocket here\n")
    else:
        await send_problem(send_renamed, error)
