"""`/v1/admin`: keys, usage and what endpoints refused, for keys with the rule `is_admin` only.

Not for anonymous callers, on any address. The secret of a key is in the answer to the request that makes it, and
nowhere else. Who changed a key is logged.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import parse_qs

from accord.core.vocabulary import unknown_name
from accord.errors import ErrorCode, RefusedError
from accord.ports import Store
from accord.run.keys import change_rules, describe_key, find_key, make_key
from accord.servers.http.body import read_small_body
from accord.servers.http.exchange import Exchange, HttpEndpoint
from accord.servers.http.requests import not_found_error
from accord.servers.service import Service
from accord.wire.disposition import ForgottenRefusals
from accord.wire.keys import KeyChange, KeyList, KeyRequest, NewKey, UsageGroup, UsageReport
from accord.wire.routes import KEY_PATH, KEYS_PATH, REFUSALS_PATH, USAGE_PATH
from accord.wire.session import TokenRecord

NOT_ADMIN: Final = "This needs a key that may use the admin API; `accord keys add USER --admin` makes one"
NO_BACKEND: Final = "There is no backend of this name"
NO_KEY: Final = "There is no key of this id"
PARAMETERS: Final = ("by", "key", "since", "until")

LOGGER: Final = logging.getLogger("accord.servers")


class AdminEndpoints:
    """The handlers for keys and usage."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service

    def endpoints(self) -> list[HttpEndpoint]:
        """The endpoints of all paths of the admin API."""
        handlers = {
            KEYS_PATH: {"GET": self.list_keys, "POST": self.add_key},
            KEY_PATH: {"GET": self.show_key, "PATCH": self.change_key, "DELETE": self.revoke_key},
            USAGE_PATH: {"GET": self.show_usage},
            REFUSALS_PATH: {"DELETE": self.forget_refusals},
        }
        return [HttpEndpoint(self._service, route, methods) for route, methods in handlers.items()]

    async def list_keys(self, exchange: Exchange) -> int:
        """Answer with all keys."""
        store = self._check_admin(exchange)
        now = datetime.now(UTC)
        keys = [await describe_key(key, store, now) for key in await store.tokens()]
        return await exchange.answer(KeyList(keys=keys))

    async def add_key(self, exchange: Exchange) -> int:
        """Make a key and answer with its secret."""
        store = self._check_admin(exchange)
        request = KeyRequest.parse(await self._body(exchange))
        now = datetime.now(UTC)
        secret, record = make_key(request, now)
        await store.put_token(record)
        _log("A key was made", exchange, record.token_id)
        described = await describe_key(record, store, now)
        return await exchange.answer(NewKey(**vars(described), key=secret), 201)

    async def show_key(self, exchange: Exchange) -> int:
        """Answer with one key."""
        store = self._check_admin(exchange)
        return await self._answer_key(exchange, store, await self._find(exchange, store))

    async def change_key(self, exchange: Exchange) -> int:
        """Change the rules of a key and answer with it; this service and others notice within seconds."""
        store = self._check_admin(exchange)
        change = KeyChange.parse(await self._body(exchange))
        key = await self._find(exchange, store)
        rules = change_rules(key.rules, change.rules)
        if not await store.set_token_rules(key.token_id, rules):
            raise not_found_error(NO_KEY)  # revoked meanwhile
        _log("The rules of a key were changed", exchange, key.token_id)
        return await self._answer_key(exchange, store, key.model_copy(update={"rules": rules}))

    async def revoke_key(self, exchange: Exchange) -> int:
        """Revoke a key and answer with what it was; its usage stays."""
        store = self._check_admin(exchange)
        key = await self._find(exchange, store)
        if not await store.revoke_token(key.token_id):
            raise not_found_error(NO_KEY)
        _log("A key was revoked", exchange, key.token_id)
        return await self._answer_key(exchange, store, key)

    async def show_usage(self, exchange: Exchange) -> int:
        """Answer with usage, added up as the query says."""
        store = self._check_admin(exchange)
        query = _read_query(exchange)
        by, key = UsageGroup(query.get("by", UsageGroup.KEY)), query.get("key")
        since, until = _read_day(query, "since"), _read_day(query, "until")
        usage = await store.usage(by=by, key=key, since=since, until=until)
        return await exchange.answer(UsageReport(by=by, key=key, since=since, until=until, usage=usage))

    async def forget_refusals(self, exchange: Exchange) -> int:
        """Forget what a backend's endpoint refused, so that it is sent again; every process of the service does."""
        self._check_admin(exchange)
        name, dispatcher = exchange.path_parameter("backend"), self._service.sessions.engine.dispatcher
        if name not in dispatcher.backends:
            raise not_found_error(f"{NO_BACKEND}; the backends are {', '.join(dispatcher.backends)}")
        by = exchange.caller.key
        LOGGER.info(
            "What an endpoint refused was forgotten",
            extra={"fields": {"backend": name, "by_key": by.token_id if by else None}},
        )
        return await exchange.answer(ForgottenRefusals(backend=name, forgotten=dispatcher.refusals.forget(name)))

    def _check_admin(self, exchange: Exchange) -> Store:
        """The store; raises `RefusedError` if the caller's key may not use the admin API."""
        key, store = exchange.caller.key, self._service.keys
        if key is None or not key.limits.is_admin or store is None:
            raise RefusedError(NOT_ADMIN, ErrorCode.FORBIDDEN, {})
        return store

    async def _body(self, exchange: Exchange) -> bytes:
        return await read_small_body(exchange.receive, exchange.headers, self._service.settings)

    async def _find(self, exchange: Exchange, store: Store) -> TokenRecord:
        found = await find_key(store, exchange.path_parameter("key_id"))
        if found is None:
            raise not_found_error(NO_KEY)
        return found

    async def _answer_key(self, exchange: Exchange, store: Store, key: TokenRecord) -> int:
        return await exchange.answer(await describe_key(key, store, datetime.now(UTC)))


def _log(message: str, exchange: Exchange, key_id: str) -> None:
    by = exchange.caller.key
    LOGGER.info(message, extra={"fields": {"key": key_id, "by_key": by.token_id if by else None}})


def _read_query(exchange: Exchange) -> Mapping[str, str]:
    """The parameters of the query, each given once; raises `RefusedError` for an unknown or invalid one."""
    try:
        text = exchange.scope.get("query_string", b"").decode("latin-1")
        query = parse_qs(text, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise _invalid("?", "fewer parameters") from None
    for name, values in query.items():
        if name not in PARAMETERS:
            message = unknown_name("parameter", name[:100], PARAMETERS)
            raise RefusedError(str(message), ErrorCode.INVALID_MESSAGE, {"field": "query"})
        if len(values) > 1:
            raise _invalid(name, "one value")
    if "by" in query and query["by"][0] not in list(UsageGroup):
        raise _invalid("by", f"one of {', '.join(UsageGroup)}")
    return {name: values[0] for name, values in query.items()}


def _read_day(query: Mapping[str, str], name: str) -> date | None:
    text = query.get(name)
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise _invalid(name, "a day such as 2026-11-01") from None


def _invalid(name: str, expected: str) -> RefusedError:
    details: dict[str, Any] = {"field": name, "expected": expected}
    return RefusedError(f"{name}: expected {expected}", ErrorCode.INVALID_MESSAGE, details)
