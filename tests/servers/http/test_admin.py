"""The admin API over real HTTP and a real SQLite file: who may use it, what it answers, and what it changes."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.agents import demo
from accord.ports import SystemClock
from accord.run.budgets import BackendUse, Budgets
from accord.servers.http.admin import NOT_ADMIN
from accord.servers.http.app import Application
from accord.servers.http.authentication import TokenAuthenticator
from accord.servers.http.body import SMALL_BYTES
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules, UsageRecord
from accord.wire.session import TokenRecord, looks_like_token, token_digest
from tests.servers.clock import START, ManualClock, run
from tests.servers.transports import make_service, served

ADMIN, PLAIN = "accord_" + "a" * 43, "accord_" + "b" * 43
KEYS, USAGE = "/v1/admin/keys", "/v1/admin/usage"


@dataclass
class Answer:
    """A status and a JSON body."""

    status: int
    json: Any
    headers: Any


@dataclass
class Admin:
    """A served application, its store, and the clock of its authenticator."""

    address: str
    session: aiohttp.ClientSession
    store: SqliteStore
    clock: ManualClock
    budgets: Budgets

    async def send(self, method: str, path: str, body: Any = None, token: str | None = ADMIN, **options: Any) -> Answer:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with self.session.request(
            method, self.address + path, json=body, headers=headers | options.pop("headers", {}), **options
        ) as response:
            return Answer(response.status, json.loads(await response.read()), response.headers)


def a_key(token: str, name: str, rules: KeyRules | None) -> TokenRecord:
    return TokenRecord(token_id=name, user="root", digest=token_digest(token), created_at=START, rules=rules)


@asynccontextmanager
async def admin(folder: Path, *keys: TokenRecord) -> AsyncGenerator[Admin]:
    store, clock = SqliteStore(folder / "accord.db"), ManualClock()
    await store.open()
    for key in keys or (a_key(ADMIN, "admin", KeyRules(is_admin=True)), a_key(PLAIN, "plain", KeyRules())):
        await store.put_token(key)
    authenticator = TokenAuthenticator(store, None, [], clock)
    service = make_service(demo, store=store, authenticator=authenticator)
    service.keys, service.budgets = store, Budgets(store, SystemClock())
    async with served(Application(service)) as address, aiohttp.ClientSession() as session:
        await store.open()  # the application closes it at its end
        yield Admin(address, session, store, clock, service.budgets)


PATHS = [
    ("GET", KEYS), ("POST", KEYS), ("GET", f"{KEYS}/plain"), ("PATCH", f"{KEYS}/plain"), ("DELETE", f"{KEYS}/plain"),
    ("GET", USAGE),
]  # fmt: skip


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("accord_" + "c" * 43, 401), (PLAIN, 403)])
def test_only_a_key_with_the_rule_is_let_in(tmp_path: Path, token: str | None, status: int):
    async def check() -> None:
        async with admin(tmp_path) as service:
            for method, path in PATHS:
                answer = await service.send(method, path, {"user": "eve"}, token=token)
                assert (answer.status, answer.json["status"]) == (status, status)
                assert answer.headers["content-type"] == "application/problem+json"
            assert len(await service.store.tokens()) == 2

    run(check())


def test_an_open_service_on_loopback_has_no_admin(tmp_path: Path):
    async def check() -> None:
        store = SqliteStore(tmp_path / "accord.db")
        service = make_service(demo, store=store, authenticator=TokenAuthenticator(store, None, [], ManualClock()))
        service.keys = store
        async with (
            served(Application(service)) as address,
            aiohttp.ClientSession() as session,
            session.get(address + KEYS) as response,
        ):
            assert (response.status, (await response.json())["detail"]) == (403, NOT_ADMIN)

    run(check())


def test_a_key_is_made_with_its_secret_and_works_at_once(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            rules = {"models": ["gpt-*"], "budget_usd": 5, "budget_period": "day", "is_admin": True}
            made = await service.send("POST", KEYS, {"user": "ada", "label": "ci", "days": 7, "rules": rules})
            assert made.status == 201
            secret = made.json["key"]
            assert looks_like_token(secret)
            assert made.headers["cache-control"] == "no-store"
            assert made.json["rules"] == {**rules, "budget_usd": 5.0}
            assert (made.json["user"], made.json["label"], made.json["spent_usd"]) == ("ada", "ci", 0.0)
            listed = await service.send("GET", KEYS, token=None, headers={"x-api-key": secret})
            assert [key["key_id"] for key in listed.json["keys"]] == ["admin", "plain", made.json["key_id"]]
            shown = await service.send("GET", f"{KEYS}/{made.json['key_id']}")
            assert shown.json == {name: value for name, value in made.json.items() if name != "key"}
            for answer in (listed, shown):
                assert secret not in str(answer.json)
                assert token_digest(secret) not in str(answer.json)

    run(check())


def test_rules_are_changed_member_by_member_and_noticed_within_seconds(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            steps: list[tuple[Any, Any]] = [
                ({"models": ["a"], "budget_usd": 1}, {"models": ["a"], "budget_usd": 1.0, "budget_period": "total", "is_admin": False}),
                ({"models": None}, {"budget_usd": 1.0, "budget_period": "total", "is_admin": False}),
                ({"budget_period": "month"}, {"budget_usd": 1.0, "budget_period": "month", "is_admin": False}),
                (None, None),
                ({"is_admin": True}, {"budget_period": "total", "is_admin": True}),
            ]  # fmt: skip
            assert (await service.send("GET", KEYS, token=PLAIN)).status == 403
            for change, rules in steps:
                answer = await service.send("PATCH", f"{KEYS}/plain", {"rules": change})
                assert (answer.status, answer.json.get("rules")) == (200, rules)
            service.clock.elapsed_s = 5
            assert (await service.send("GET", KEYS, token=PLAIN)).status == 200

    run(check())


def test_a_revoked_key_is_refused_within_seconds(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            assert (await service.send("GET", KEYS, token=PLAIN)).status == 403
            revoked = await service.send("DELETE", f"{KEYS}/plain")
            assert (revoked.status, revoked.json["key_id"]) == (200, "plain")
            service.clock.elapsed_s = 5
            assert (await service.send("GET", KEYS, token=PLAIN)).status == 401
            for method in ("GET", "DELETE"):
                assert (await service.send(method, f"{KEYS}/plain")).status == 404

    run(check())


def test_usage_is_added_up_and_limited_as_the_query_says(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            days = [date(2026, 11, day) for day in (1, 2)]
            rows = [
                UsageRecord(key_id=key, user="ada", backend="b", model=key, day=day, cost_micro=500_000, priced=1)
                for key in ("plain", "admin")
                for day in days
            ]
            await service.store.add_usage(rows)
            whole = (await service.send("GET", USAGE)).json
            assert (whole["by"], [total["name"] for total in whole["usage"]]) == ("key", ["admin", "plain"])
            one = await service.send("GET", f"{USAGE}?by=day&key=plain&since=2026-11-02&until=2026-11-30")
            assert one.json == {
                "by": "day",
                "key": "plain",
                "since": "2026-11-02",
                "until": "2026-11-30",
                "usage": [
                    {
                        "name": "2026-11-02",
                        "requests": 1,
                        "failed": 0,
                        "input_tokens": 0,
                        "output_tokens": 0,
                        "cached_input_tokens": 0,
                        "cost_usd": 0.5,
                        "priced_requests": 1,
                        "estimated_requests": 0,
                    }
                ],
            }
            keys = (await service.send("GET", KEYS)).json["keys"]
            assert {key["key_id"]: key["spent_usd"] for key in keys} == {"admin": 1.0, "plain": 1.0}

    run(check())


@pytest.mark.parametrize(
    ("method", "path", "body", "answered"),
    [
        ("POST", KEYS, {}, (400, "user: Field required")),
        ("POST", KEYS, {"user": ""}, (400, "user: ")),
        ("POST", KEYS, {"user": "a", "budget": 5}, (400, "budget: Extra inputs are not permitted")),
        ("POST", KEYS, {"user": "a", "rules": {"budget": 5}}, (400, "rules.budget: Extra inputs are not permitted")),
        ("POST", KEYS, {"user": "a", "rules": {"rates": ["often"]}}, (400, "rules.rates.0: ")),
        ("POST", KEYS, {"user": "a", "days": 0}, (400, "days: ")),
        ("POST", KEYS, [], (400, "KeyRequest")),
        ("PATCH", f"{KEYS}/plain", {}, (400, "rules: Field required")),
        ("PATCH", f"{KEYS}/plain", {"rules": {"budget_usd": "much"}}, (400, "budget_usd: ")),
        ("PATCH", f"{KEYS}/plain", {"rules": {"spend": 1}}, (400, "spend: Extra inputs are not permitted")),
        ("PATCH", f"{KEYS}/none", {"rules": None}, (404, "There is no key of this id")),
        ("POST", KEYS, {"user": "a", "label": "x" * SMALL_BYTES}, (413, "longer than the limit")),
        ("PUT", f"{KEYS}/plain", {}, (405, "use GET, PATCH, DELETE")),
        ("DELETE", USAGE, None, (405, "use GET")),
        ("GET", f"{USAGE}?by=week", None, (400, "by: expected one of key, user, model, backend, day")),
        ("GET", f"{USAGE}?since=now", None, (400, "since: expected a day such as 2026-11-01")),
        ("GET", f"{USAGE}?sinse=2026-11-01", None, (400, "did you mean since?")),
        ("GET", f"{USAGE}?by=day&by=key", None, (400, "by: expected one value")),
        ("GET", USAGE + "?" + "a=1&" * 50, None, (400, "expected fewer parameters")),
    ],
)  # fmt: skip
def test_each_mistake_is_one_problem_body_and_changes_nothing(
    tmp_path: Path, method: str, path: str, body: Any, answered: tuple[int, str]
):
    status, words = answered

    async def check() -> None:
        async with admin(tmp_path) as service:
            before = await service.store.tokens()
            answer = await service.send(method, path, body)
            assert (answer.status, answer.json["status"]) == (status, status)
            assert words in answer.json["detail"]
            assert await service.store.tokens() == before

    run(check())


def test_usage_that_was_counted_is_written_when_the_service_stops(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            service.budgets.count("", "ada", BackendUse("b", "m", cost=5))
        await service.store.open()
        try:
            assert await service.store.spent("", None) == 5
        finally:
            await service.store.close()

    run(check())


def test_several_changes_at_once_each_get_an_answer(tmp_path: Path):
    async def check() -> None:
        async with admin(tmp_path) as service:
            answers = await asyncio.gather(*(service.send("POST", KEYS, {"user": f"u{each}"}) for each in range(20)))
            assert {answer.status for answer in answers} == {201}
            assert len((await service.send("GET", KEYS)).json["keys"]) == 22

    run(check())
