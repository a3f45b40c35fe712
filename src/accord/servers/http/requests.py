"""`/v1/requests/{id}` and the paths below it: read, resume, cancel; receipt, verification, adaptation report, items.

A client that reads a turn may declare its own capabilities, and then gets the turn in its own view. A turn of another
user is answered like one that does not exist, so that request ids cannot be probed.
"""

import asyncio
from typing import Final
from uuid import UUID

from accord.core.receipt import canonical_object
from accord.errors import ErrorCode, RefusedError
from accord.run import Run, StoredRun
from accord.run.chain import verify_chain
from accord.run.sessions import NO_REQUEST
from accord.servers.http.assist import answer_turn, parse_last_event_id
from accord.servers.http.exchange import EVENT_STREAM, Exchange, HttpEndpoint
from accord.servers.service import Caller, Service
from accord.wire.routes import ADAPTATION_PATH, ITEM_PATH, RECEIPT_PATH, REQUEST_PATH, VERIFICATION_PATH
from accord.wire.session import ReceiptRecord


class RequestEndpoints:
    """The handlers for requests that were sent before."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._sessions: Final = service.sessions
        self._verifying: Final = asyncio.Lock()

    def endpoints(self) -> list[HttpEndpoint]:
        """The endpoints of all paths of a request."""
        handlers = {
            REQUEST_PATH: {"GET": self.read, "DELETE": self.cancel},
            RECEIPT_PATH: {"GET": self.receipt},
            VERIFICATION_PATH: {"GET": self.verification},
            ADAPTATION_PATH: {"GET": self.adaptation},
            ITEM_PATH: {"GET": self.item},
        }
        return [HttpEndpoint(self._service, route, methods) for route, methods in handlers.items()]

    async def read(self, exchange: Exchange) -> int:
        """Answer with the turn, or with the packets after Last-Event-ID, in the view of this reader."""
        after = parse_last_event_id(exchange.headers.get(b"last-event-id"))
        reader = exchange.read_reader()
        turn = await self._find_turn(exchange)
        chosen = exchange.choose_format()
        await self._sessions.raise_if_refused(turn)
        return await answer_turn(
            self._service, exchange, turn, after if chosen == EVENT_STREAM else None, reader=reader
        )

    async def cancel(self, exchange: Exchange) -> int:
        """Cancel a running turn, in whichever process it runs; its readers get an error and a close."""
        turn = await self._find_turn(exchange)
        await cancel_turn(self._service, turn)
        return await exchange.answer("{}", 202)

    async def receipt(self, exchange: Exchange) -> int:
        """Answer with the receipt as it was sealed."""
        return await exchange.answer((await self._find_receipt(exchange)).body)

    async def verification(self, exchange: Exchange) -> int:
        """Answer whether the receipts of the turn's session are unaltered, complete and in order."""
        record = await self._find_receipt(exchange)
        async with self._verifying:  # one at a time: it takes a processor
            found = await verify_chain(self._sessions.store, record.session_id, self._service.verify_signature)
        return await exchange.answer(found)

    async def adaptation(self, exchange: Exchange) -> int:
        """Answer with the adaptation report of the reader's view, of a running turn as far as it goes."""
        reader = exchange.read_reader()
        report = await self._sessions.report(await self._find_turn(exchange), reader)
        if report is None:
            raise not_found_error("This turn has no adaptation report")
        return await exchange.answer(report)

    async def item(self, exchange: Exchange) -> int:
        """Answer with an event as the agent made it, also if the client could not show it."""
        turn = await self._find_turn(exchange)
        item = await self._sessions.item(turn.request_id, exchange.path_parameter("item_id"))
        if item is None:
            raise not_found_error("This request has no item of this id")
        return await exchange.answer(canonical_object(item).decode())

    async def _find_receipt(self, exchange: Exchange) -> ReceiptRecord:
        record = await self._sessions.store.receipt((await self._find_turn(exchange)).request_id)
        if record is None:
            raise not_found_error("This turn has not ended yet and has no receipt; try again later")
        return record

    async def _find_turn(self, exchange: Exchange) -> Run | StoredRun:
        exchange.request_id = parse_request_id(exchange.path_parameter("request_id"))
        return await find_turn(self._service, exchange.request_id, exchange.caller)


def parse_request_id(text: str) -> str:
    """The canonical form of a request id; raises `RefusedError` for a text that is not one."""
    try:
        return str(UUID(text))
    except ValueError:
        raise not_found_error(NO_REQUEST) from None


async def find_turn(service: Service, request_id: str, caller: Caller) -> Run | StoredRun:
    """The caller's turn of this id; raises `RefusedError` if there is none."""
    if service.call_log is not None:
        await service.call_log.stored(request_id)
    turn = await service.sessions.find(request_id, caller.id)
    if turn is None:
        raise not_found_error(NO_REQUEST)
    return turn


async def cancel_turn(service: Service, turn: Run | StoredRun) -> None:
    """Cancel this turn; raises `RefusedError` if it has already ended."""
    if not await service.sessions.cancel(turn):
        message = "This turn has already ended and cannot be cancelled"
        raise RefusedError(message, ErrorCode.REQUEST_CONFLICT, {"request_id": turn.request_id})


def not_found_error(message: str) -> RefusedError:
    """The error for something that does not exist, or belongs to another user."""
    return RefusedError(message, ErrorCode.NOT_FOUND, {})
