"""The async client: questions as calls, answers as typed messages. How calls are sent is not known here."""

from typing import Any, Final, Self, Unpack, cast
from uuid import UUID

from pydantic_core import from_json

from accord.client.connection import HttpRequest, ServiceConnection
from accord.client.failure import setback_of_answer
from accord.client.settings import Options, Payload, make_sender, make_settings
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
    """Asks one service, as one user in one session. Every failure is raised as one of Accord's errors.

    Use it by `async with`, or end it with `aclose`. The options are those of `ClientSettings`.
    """

    def __init__(self, base_url: str, *, user: Identity | dict[str, Any] | str, **options: Unpack[Options]) -> None:
        settings = make_settings("client", **options)
        self._settings: Final = settings
        self._connection: Final = ServiceConnection(base_url, settings)
        self._sender: Final = make_sender(user, settings.session_id, settings.capabilities)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def session_id(self) -> str:
        """The session that every request belongs to."""
        return self._sender.session_id

    async def ask(self, query: str, **said: Unpack[Payload]) -> ServiceResponse:
        """The whole answer to this question."""
        request = self._sender.request(query, said)
        return ServiceResponse.parse(
            await self._connection.fetch(HttpRequest("POST", ASSIST_PATH, request.to_json().encode()))
        )

    def stream(self, query: str, **said: Unpack[Payload]) -> Stream:
        """The answer to this question as it is made; asked when the stream is first read."""
        request = self._sender.request(query, said)
        body = request.to_json().encode()
        return Stream(self._connection, self._settings, str(request.request_id), body=body)

    def resume(self, request_id: UUID | str, *, after: int = 0) -> Stream:
        """The packets of an earlier question that follow this number; all of them, unless told."""
        return Stream(self._connection, self._settings, str(request_id), body=None, after=after)

    async def cancel(self, request_id: UUID | str) -> None:
        """Have the service stop this turn."""
        await self._connection.fetch(HttpRequest("DELETE", fill_path(REQUEST_PATH, request_id=request_id)))

    async def receipt(self, request_id: UUID | str) -> Receipt:
        """What the service wrote down of a turn that is over."""
        return Receipt.parse(await self._fetch(RECEIPT_PATH, request_id=request_id))

    async def adaptation(self, request_id: UUID | str) -> AdaptationReport:
        """What became of everything the agent sent, for this client."""
        return AdaptationReport.parse(await self._fetch(ADAPTATION_PATH, request_id=request_id))

    async def item(self, request_id: UUID | str, item_id: str) -> dict[str, Any]:
        """What was kept back, as a notice in the stream told."""
        return _object("item", await self._fetch(ITEM_PATH, request_id=request_id, item_id=item_id))

    async def capabilities(self) -> dict[str, Any]:
        """What the agent accepts, and which backends can do what."""
        return _object("capabilities", await self._connection.fetch(HttpRequest("GET", CAPABILITIES_PATH)))

    async def health(self) -> HealthCheckResponse:
        """How the service is, asked once: a service in maintenance is an answer, one that is not there an error."""
        answer = await self._connection.probe(HttpRequest("GET", HEALTH_PATH))
        try:
            return HealthCheckResponse.parse(answer.body)
        except InvalidMessageError:
            if answer.is_success:
                raise
        raise setback_of_answer(answer.status, answer.retry_after, answer.body).error

    async def aclose(self) -> None:
        """Stop reading every stream and close every connection."""
        await self._connection.aclose()

    async def _fetch(self, path: str, **ids: UUID | str) -> bytes:
        return await self._connection.fetch(HttpRequest("GET", fill_path(path, **ids)))


def _object(name: str, body: bytes) -> dict[str, Any]:
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidMessageError(name, [Problem("(the message)", "a JSON object")])
    return cast("dict[str, Any]", found)
