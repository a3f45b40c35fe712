"""The async client: requests as method calls, answers as typed messages. Sending is in `connection.py`."""

from typing import Any, Final, Self, Unpack, cast
from uuid import UUID

from pydantic_core import from_json

from accord.client.connection import HttpRequest, ServiceConnection
from accord.client.failure import response_failed
from accord.client.settings import Options, Payload, ReadAs, declaration_text, make_sender, make_settings
from accord.client.stream import Stream
from accord.errors import InvalidMessageError, Problem
from accord.wire.adaptation import AdaptationReport
from accord.wire.receipt import Receipt
from accord.wire.request import Identity, ServiceResponse
from accord.wire.routes import (
    ADAPTATION_PATH,
    ASSIST_PATH,
    CAPABILITIES_PATH,
    HEALTH_PATH,
    ITEM_PATH,
    RECEIPT_PATH,
    REQUEST_PATH,
    fill_path,
)
from accord.wire.service import HealthCheckResponse


class AsyncClient:
    """A client of one service, for one user in one session. Every failure is raised as an `AccordError`.

    Use it with `async with`, or close it with `aclose`. The options are those of `ClientSettings`.
    """

    def __init__(self, base_url: str, *, user: Identity | dict[str, Any] | str, **options: Unpack[Options]) -> None:
        settings = make_settings("client", **options)
        self._settings: Final = settings
        self._connection: Final = ServiceConnection(base_url, settings)
        self._sender: Final = make_sender(user, settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def session_id(self) -> str:
        """The session of every request."""
        return self._sender.session_id

    async def ask(self, query: str, **payload: Unpack[Payload]) -> ServiceResponse:
        """Send a query and return the whole answer."""
        request = self._sender.make_request(query, payload)
        return ServiceResponse.parse(
            await self._connection.fetch(HttpRequest("POST", ASSIST_PATH, request.to_json().encode()))
        )

    def stream(self, query: str, **payload: Unpack[Payload]) -> Stream:
        """Stream the answer to a query. The request is sent when the stream is first read."""
        request = self._sender.make_request(query, payload)
        body = request.to_json().encode()
        return Stream(self._connection, self._settings, str(request.request_id), body=body)

    def resume(self, request_id: UUID | str, *, after: int = 0, capabilities: ReadAs = None) -> Stream:
        """Stream the packets of an earlier request that come after this number; by default all of them.

        With `capabilities`, or a name such as "voice", the packets are as a client with these gets them. The numbers of
        packets belong to one declaration: resume with the one that the stream was begun with.
        """
        declared = declaration_text(capabilities)
        return Stream(self._connection, self._settings, str(request_id), body=None, after=after, capabilities=declared)

    async def answer(self, request_id: UUID | str, *, capabilities: ReadAs = None) -> ServiceResponse:
        """The whole answer to an earlier request, once it is there; with `capabilities`, as for `resume`."""
        return ServiceResponse.parse(await self._read(REQUEST_PATH, request_id, capabilities))

    async def cancel(self, request_id: UUID | str) -> None:
        """Cancel a running turn."""
        await self._connection.fetch(HttpRequest("DELETE", fill_path(REQUEST_PATH, request_id=request_id)))

    async def receipt(self, request_id: UUID | str) -> Receipt:
        """The receipt of a turn that has ended."""
        return Receipt.parse(await self._fetch(RECEIPT_PATH, request_id=request_id))

    async def adaptation(self, request_id: UUID | str, *, capabilities: ReadAs = None) -> AdaptationReport:
        """The adaptation report of a turn: what its client got of everything the agent sent, or would get."""
        return AdaptationReport.parse(await self._read(ADAPTATION_PATH, request_id, capabilities))

    async def item(self, request_id: UUID | str, item_id: str) -> dict[str, Any]:
        """An event as the agent made it, by its id; the notice of a deferred one names it."""
        return _parse_object("item", await self._fetch(ITEM_PATH, request_id=request_id, item_id=item_id))

    async def capabilities(self) -> dict[str, Any]:
        """What the agent accepts, and what each backend supports."""
        return _parse_object("capabilities", await self._connection.fetch(HttpRequest("GET", CAPABILITIES_PATH)))

    async def health(self) -> HealthCheckResponse:
        """The health of the service, from a single attempt. Maintenance is an answer; no connection is an error."""
        response = await self._connection.probe(HttpRequest("GET", HEALTH_PATH))
        try:
            return HealthCheckResponse.parse(response.body)
        except InvalidMessageError:
            if response.is_success:
                raise
        raise response_failed(response.status, response.retry_after, response.body).error

    async def aclose(self) -> None:
        """Close every stream and every connection."""
        await self._connection.aclose()

    async def _read(self, path: str, request_id: UUID | str, capabilities: ReadAs) -> bytes:
        declared = declaration_text(capabilities)
        return await self._connection.fetch(
            HttpRequest("GET", fill_path(path, request_id=request_id), capabilities=declared)
        )

    async def _fetch(self, path: str, **ids: UUID | str) -> bytes:
        return await self._connection.fetch(HttpRequest("GET", fill_path(path, **ids)))


def _parse_object(name: str, body: bytes) -> dict[str, Any]:
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidMessageError(name, [Problem("(the message)", "a JSON object")])
    return cast("dict[str, Any]", value)
