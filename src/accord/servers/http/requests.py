"""`/v1/requests/{id}` and what hangs on it: the stream again, the receipt, the adaptation, what was kept for later.

Everything here belongs to somebody. Whoever is not its owner is told what a stranger is told: there is no such thing.
"""

from typing import Final
from uuid import UUID

from accord.engine import LiveTurn, StoredTurn
from accord.engine.sessions import NO_REQUEST
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.assist import answer_turn, last_event_id
from accord.servers.http.exchange import EVENT_STREAM, Exchange, HttpEndpoint
from accord.servers.service import Caller, Service
from accord.wire.routes import ADAPTATION_PATH, ITEM_PATH, RECEIPT_PATH, REQUEST_PATH


class RequestEndpoints:
    """What can be asked of a request, by its owner."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._sessions: Final = service.sessions

    def addresses(self) -> list[HttpEndpoint]:
        """Every address below a request."""
        answers = {
            REQUEST_PATH: {"GET": self.again, "DELETE": self.cancel},
            RECEIPT_PATH: {"GET": self.receipt},
            ADAPTATION_PATH: {"GET": self.adaptation},
            ITEM_PATH: {"GET": self.item},
        }
        return [HttpEndpoint(self._service, route, methods) for route, methods in answers.items()]

    async def again(self, exchange: Exchange) -> int:
        """The answer again, or the rest of it."""
        after = last_event_id(exchange.headers.get(b"last-event-id"))
        turn = await self._turn(exchange)
        wanted = exchange.wanted_format()
        return await answer_turn(self._service, exchange, turn, after if wanted == EVENT_STREAM else None)

    async def cancel(self, exchange: Exchange) -> int:
        """Stop a running turn, in whatever process it runs; its readers get an error and a close."""
        turn = await self._turn(exchange)
        await cancel_turn(self._service, turn)
        return await exchange.answer("{}", 202)

    async def receipt(self, exchange: Exchange) -> int:
        """The receipt, as it was sealed."""
        kept = await self._sessions.store.receipt((await self._turn(exchange)).request_id)
        if kept is None:
            raise missing("This turn is not over yet: it has no receipt")
        return await exchange.answer(kept.body)

    async def adaptation(self, exchange: Exchange) -> int:
        """What the client got instead of what was sent."""
        turn = await self._turn(exchange)
        if isinstance(turn, LiveTurn):
            return await exchange.answer(turn.running.adapter.report)
        report = (await self._sessions.receipt(turn.request_id)).adaptation
        if report is None:
            raise missing("Nothing is known of how this turn was adapted")
        return await exchange.answer(report)

    async def item(self, exchange: Exchange) -> int:
        """What could not be shown, and was kept."""
        turn = await self._turn(exchange)
        kept = await self._sessions.store.item(turn.request_id, exchange.named("item_id"))
        if kept is None:
            raise missing("There is no such item")
        return await exchange.answer(kept)

    async def _turn(self, exchange: Exchange) -> LiveTurn | StoredTurn:
        exchange.request_id = parse_request_id(exchange.named("request_id"))
        return await find_turn(self._service, exchange.request_id, exchange.caller)


def parse_request_id(asked: str) -> str:
    """The request id, however it is spelled; raises our error for what cannot be one."""
    try:
        return str(UUID(asked))
    except ValueError:
        raise missing(NO_REQUEST) from None


async def find_turn(service: Service, request_id: str, caller: Caller) -> LiveTurn | StoredTurn:
    """The caller's turn of this id; raises our error if there is none."""
    turn = await service.sessions.find(request_id, caller.id)
    if turn is None:
        raise missing(NO_REQUEST)
    return turn


async def cancel_turn(service: Service, turn: LiveTurn | StoredTurn) -> None:
    """Stop this turn; raises our error if it is already over."""
    if not await service.sessions.cancel(turn):
        raise RefusedError("This turn is already over", ErrorCode.REQUEST_CONFLICT, {"request_id": turn.request_id})


def missing(told: str) -> RefusedError:
    """What is said of a thing that is not there, or is not the caller's."""
    return RefusedError(told, ErrorCode.NOT_FOUND, {})
