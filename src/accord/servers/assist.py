"""`POST /v1/assist`: one request in, one answer or a stream of packets out. The body is read and parsed once.

What goes wrong before the first byte of an answer is a problem body with its status; after it, a packet of the stream.
"""

from typing import Final

from accord.servers.accept import EVENT_STREAM
from accord.servers.address import Address, Exchange, client_address
from accord.servers.admission import begin_turn
from accord.servers.body import read_body, read_request
from accord.servers.events import last_event_id
from accord.servers.service import Service
from accord.servers.streaming import answer_turn
from accord.servers.watch import REQUEST_ID, continuing_trace

ROUTE: Final = "/v1/assist"


def assist(service: Service) -> Address:
    """The address that takes requests."""

    async def post(exchange: Exchange) -> int:
        wanted = exchange.wanted_format()
        after = last_event_id(exchange.headers.get(b"last-event-id"))
        body = await read_body(exchange.receive, exchange.headers, service.settings)
        request, warnings = await read_request(body, service.settings)
        exchange.request_id = str(request.request_id)
        REQUEST_ID.set(exchange.request_id)
        with continuing_trace(exchange.scope["headers"]):
            turn = await begin_turn(service, exchange.caller, client_address(exchange.scope), request)
        return await answer_turn(service, exchange, turn, after if wanted == EVENT_STREAM else None, warnings)

    return Address(service, ROUTE, {"POST": post})
