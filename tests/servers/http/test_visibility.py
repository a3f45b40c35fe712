"""What each kind of caller sees of others: endpoint by endpoint, over HTTP, of a real service."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules
from accord.wire.session import PREFIX, TokenRecord, token_digest
from tests.servers.process import accord_serve

CONFIG = """
[[backends]]
name = "cheap"
kind = "echo"
[backends.price]
input = 1.0
output = 1.0
[[backends]]
name = "secret"
kind = "scripted"
manifest = "declared"
options.script = ["hi"]
[backends.price]
input = 1.0
output = 1.0
[backends.overrides]
tool_use = "native"
[groups.both]
backends = ["cheap", "secret"]
"""
KEYS = {
    "ordinary": None,
    "limited": KeyRules.model_validate({"models": ["cheap", "other-*"]}),
    "admin": KeyRules.model_validate({"is_admin": True}),
}
TOKENS = {name: PREFIX + name[0] * 43 for name in KEYS}
PLAN = {"requirements": {"required": [{"capability": "tool_use", "min_support": "native"}]}}
CHAT: Any = {"messages": [{"role": "user", "content": "hi"}]}
TOOL = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}

ENDPOINTS: dict[str, tuple[str, str, Any]] = {
    "metrics": ("GET", "/metrics", None),
    "capabilities": ("GET", "/v1/capabilities", None),
    "plan": ("POST", "/v1/plan", PLAN),
    "models": ("GET", "/v1/models", None),
    "model": ("GET", "/v1/models/secret", None),
    "model info": ("GET", "/v1/model/info", None),
    "keys": ("GET", "/v1/admin/keys", None),
    "usage": ("GET", "/v1/admin/usage?by=key", None),
    "health": ("GET", "/health", None),
    "other model": ("POST", "/v1/chat/completions", {"model": "secret", **CHAT}),
    "unable model": ("POST", "/v1/chat/completions", {"model": "cheap", **CHAT, **TOOL}),
    "unknown model": ("POST", "/v1/chat/completions", {"model": "other-x", **CHAT}),
    "tokens of an unknown model": ("POST", "/v1/messages/count_tokens", {"model": "other-x", **CHAT}),
}

# The status, and which of the backend `secret` and the other keys' names the answer contains.
EXPECTED: dict[tuple[str, str], tuple[int, set[str]]] = {
    ("metrics", "none"): (401, set()),
    ("metrics", "ordinary"): (403, set()),
    ("metrics", "limited"): (403, set()),
    ("metrics", "admin"): (200, {"secret", "keys"}),
    ("capabilities", "none"): (401, set()),
    ("capabilities", "ordinary"): (200, {"secret"}),
    ("capabilities", "limited"): (200, set()),
    ("capabilities", "admin"): (200, {"secret"}),
    ("plan", "none"): (401, set()),
    ("plan", "ordinary"): (200, {"secret"}),
    ("plan", "limited"): (200, set()),
    ("plan", "admin"): (200, {"secret"}),
    ("models", "none"): (401, set()),
    ("models", "ordinary"): (200, {"secret"}),
    ("models", "limited"): (200, set()),
    ("models", "admin"): (200, {"secret"}),
    ("model", "none"): (401, set()),
    ("model", "ordinary"): (200, {"secret"}),
    ("model", "limited"): (404, {"secret"}),  # the name that the client sent
    ("model", "admin"): (200, {"secret"}),
    ("model info", "none"): (401, set()),
    ("model info", "ordinary"): (200, {"secret"}),
    ("model info", "limited"): (200, set()),
    ("model info", "admin"): (200, {"secret"}),
    ("keys", "none"): (401, set()),
    ("keys", "ordinary"): (403, set()),
    ("keys", "limited"): (403, set()),
    ("keys", "admin"): (200, {"keys"}),
    ("usage", "none"): (401, set()),
    ("usage", "ordinary"): (403, set()),
    ("usage", "limited"): (403, set()),
    ("usage", "admin"): (200, {"keys"}),
    ("health", "none"): (200, set()),
    ("health", "ordinary"): (200, set()),
    ("health", "limited"): (200, set()),
    ("health", "admin"): (200, set()),
    ("other model", "none"): (401, set()),
    ("other model", "ordinary"): (200, {"secret"}),
    ("other model", "limited"): (403, set()),
    ("other model", "admin"): (200, {"secret"}),
    ("unable model", "none"): (401, set()),
    ("unable model", "ordinary"): (400, {"secret"}),
    ("unable model", "limited"): (400, set()),
    ("unable model", "admin"): (400, {"secret"}),
    ("unknown model", "none"): (401, set()),
    ("unknown model", "ordinary"): (404, {"secret"}),
    ("unknown model", "limited"): (404, set()),
    ("unknown model", "admin"): (404, {"secret"}),
    ("tokens of an unknown model", "none"): (401, set()),
    ("tokens of an unknown model", "ordinary"): (404, {"secret"}),
    ("tokens of an unknown model", "limited"): (404, set()),
    ("tokens of an unknown model", "admin"): (404, {"secret"}),
}


async def send(client: aiohttp.ClientSession, address: str, endpoint: str, token: str | None) -> tuple[int, str]:
    method, path, body = ENDPOINTS[endpoint]
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with client.request(method, address + path, json=body, headers=headers) as response:
        return response.status, await response.text()


async def answers(folder: Path, *, keys: bool) -> dict[tuple[str, str], tuple[int, set[str]]]:
    store = SqliteStore(folder / "accord.db")
    await store.open()
    for name, rules in KEYS.items() if keys else ():
        made: Any = {"digest": token_digest(TOKENS[name]), "created_at": datetime.now(UTC), "rules": rules}
        await store.put_token(TokenRecord(token_id=f"key-{name}", user=f"user-{name}", **made))
    await store.close()
    found: dict[tuple[str, str], tuple[int, set[str]]] = {}
    async with accord_serve(folder, "--log-level", "error", config=CONFIG) as served, aiohttp.ClientSession() as client:
        callers = {"none": None, **(TOKENS if keys else {})}
        for token in callers.values():  # so that there are metrics and usage of every key
            body = {"model": "cheap", **CHAT}
            headers = {"authorization": f"Bearer {token}"} if token else {}
            async with client.post(f"{served.address}/v1/chat/completions", json=body, headers=headers) as response:
                assert response.status == (401 if keys and not token else 200)
        async with asyncio.timeout(20):
            usage = "usage", TOKENS["admin"]
            while keys and "key-limited" not in (await send(client, served.address, *usage))[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)  # it is written behind the answers
        for endpoint in ENDPOINTS:
            for caller, token in callers.items():
                status, text = await send(client, served.address, endpoint, token)
                others = {name for name in KEYS if name != caller}
                seen = {"keys"} if any(f"key-{name}" in text for name in others) else set[str]()
                found[endpoint, caller] = status, seen | ({"secret"} if "secret" in text else set())
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[int, set[str]]]:
    return asyncio.run(answers(tmp_path_factory.mktemp("visibility"), keys=True))


@pytest.mark.parametrize("case", EXPECTED, ids=json.dumps)
def test_a_caller_sees_what_it_may_use_and_nothing_of_others(
    found: dict[tuple[str, str], tuple[int, set[str]]], case: tuple[str, str]
):
    assert found[case] == EXPECTED[case]


def test_a_service_without_authentication_shows_everything_but_the_admin_api(tmp_path: Path):
    found = asyncio.run(answers(tmp_path, keys=False))
    assert {endpoint: status for (endpoint, _), (status, _) in found.items()} == {
        **dict.fromkeys(ENDPOINTS, 200),
        "keys": 403,
        "usage": 403,
        "unable model": 400,
        "unknown model": 404,
        "tokens of an unknown model": 404,
    }
    assert "secret" in found["metrics", "none"][1] | found["capabilities", "none"][1]
