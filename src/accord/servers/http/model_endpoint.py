"""What the endpoints of the model APIs share: authentication, bodies, and errors in the shape of the API."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from accord.apis.codec import ServedApi, api_status
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.servers.http.exchange import (
    Exchange,
    Handler,
    HttpEndpoint,
    Send,
    client_address,
    new_request_id,
    retry_after,
    send_response,
)
from accord.servers.service import ANONYMOUS, Caller, Service
from accord.wire.disposition import Api

ID_HEADERS: Final[Mapping[Api, bytes]] = {
    Api.CHAT: b"x-request-id",
    Api.RESPONSES: b"x-request-id",
    Api.MESSAGES: b"request-id",
}
"""Where the SDK of each API looks for the id of a request."""
JSON_TYPE: Final = (b"content-type", b"application/json")
NOT_AN_OBJECT: Final = "The body is not a JSON object; send the request as one"

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class ModelEndpoint(HttpEndpoint):
    """The ASGI application of one path of a model API."""

    def __init__(self, service: Service, route: str, methods: Mapping[str, Handler], codec: ServedApi) -> None:
        super().__init__(service, route, methods)
        self.codec: Final = codec

    async def authenticate(self, exchange: Exchange) -> Caller:
        """Authenticate the caller; of rate limits only those apply that the operator has set, also for the key.

        The default one is meant for people: coding agents send bursts of many requests.
        """
        if self._service.settings.rates is not None:
            return await super().authenticate(exchange)
        authenticator = self._service.authenticator
        try:
            caller = await authenticator.authenticate(exchange.headers)
        except RefusedError:
            await authenticator.count_request(ANONYMOUS, client_address(exchange.scope))
            raise
        await authenticator.count_key_request(caller)
        return caller

    async def send_error(self, exchange: Exchange, error: AccordError, allow: str) -> int:
        """Answer with this error in the shape of the API."""
        request_id = exchange.request_id or new_request_id()
        return await send_api_error(exchange.send, self.codec, error, request_id, allow)


def parse_object(raw: bytes) -> dict[str, Any]:
    """The body as an object; raises `RefusedError` if it is not one."""
    try:
        body = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError("The body is not JSON", ErrorCode.PARSE_ERROR, {}) from None
    if not isinstance(body, dict):
        raise RefusedError(NOT_AN_OBJECT, ErrorCode.INVALID_MESSAGE, {})
    return cast("dict[str, Any]", body)


async def send_api_error(send: Send, codec: ServedApi, error: AccordError, request_id: str, allow: str = "") -> int:
    """Answer with an error in the shape of the API; returns the status."""
    status = api_status(error)
    headers = [JSON_TYPE, (b"cache-control", b"no-store"), (ID_HEADERS[codec.api], request_id.encode())]
    if error.code is ErrorCode.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b'Bearer realm="accord"'))
    if (seconds := error.details.get("retry_after")) is not None:
        headers.append(retry_after(seconds))
    if allow:
        headers.append((b"allow", allow.encode()))
    await send_response(send, status, headers, _encode(codec.write_error(error, request_id)))
    return status
