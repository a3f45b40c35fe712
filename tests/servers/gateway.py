"""A served gateway with a key, its store on disk and its usage, in the event loop of the test."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from accord.agent import Agent
from accord.agents import demo
from accord.assembly.parts import build_dispatcher, time_limits
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_authenticator, make_service
from accord.config import load_config
from accord.ports import ManagedBackend
from accord.run import Engine
from accord.run.budgets import Budgets
from accord.run.model_calls import ModelCallsRef
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules, UsageGroup, UsageTotal
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START
from tests.servers.transports import served

TOKEN = "accord_" + "a" * 43


@dataclass
class Gateway:
    """A served application, its store and its budgets."""

    address: str
    session: aiohttp.ClientSession
    store: SqliteStore
    budgets: Budgets

    async def add_key(self, name: str, **rules: Any) -> str:
        """Make another key; returns its secret."""
        secret = f"accord_{name:b<43}"
        members: dict[str, Any] = {"token_id": name, "user": "ada", "digest": token_digest(secret)}
        rules_of_key = KeyRules.model_validate(rules)
        await self.store.put_token(TokenRecord(**members, created_at=START, rules=rules_of_key))
        return secret

    async def post(self, path: str, request: dict[str, Any], key: str = TOKEN) -> aiohttp.ClientResponse:
        headers = {"authorization": f"Bearer {key}"}
        return await self.session.post(self.address + path, json=request, headers=headers)

    async def chat(self, model: str = "priced", text: str = "hi", **members: Any) -> tuple[int, Any]:
        request = {"model": model, "messages": [{"role": "user", "content": text}], **members}
        async with await self.post("/v1/chat/completions", request) as response:
            answer = await response.read() if members.get("stream") else await response.json()
            return response.status, answer

    async def receipt(self, path: str) -> dict[str, Any]:
        """The receipt at this path, which is stored a moment after the answer."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with asyncio.timeout(20):
            while True:
                async with self.session.get(self.address + path, headers=headers) as response:
                    if response.status == 200:
                        return await response.json()
                await asyncio.sleep(0.01)

    async def usage(self, by: UsageGroup = UsageGroup.KEY) -> list[UsageTotal]:
        await self.budgets.flush()
        return await self.store.usage(by=by)


@asynccontextmanager
async def gateway(folder: Path, config: str, *, agent: Agent = demo, **rules: Any) -> AsyncGenerator[Gateway]:
    """Serve this agent with this configuration, and one key that has these rules."""
    file = folder / "accord.toml"
    file.write_text(config)
    loaded = load_config(str(file), environ={})
    store, settings = SqliteStore(folder / "accord.db"), loaded.config.server.model_copy(update={"port": 0})
    await store.open()
    made: dict[str, Any] = {"token_id": "k1", "user": "ada", "digest": token_digest(TOKEN), "created_at": START}
    key = TokenRecord(**made, rules=KeyRules.model_validate(rules))
    await store.put_token(key)
    dispatcher = build_dispatcher(loaded, agent)
    engine = Engine(agent, dispatcher, limits=time_limits(loaded.config))
    service, metrics = make_service(loaded, settings, engine, store, make_authenticator(settings, store))
    calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
    assert service.budgets is not None
    try:
        async with (
            served(make_application(loaded, service, metrics, calls, loopback_only=False)) as address,
            aiohttp.ClientSession() as session,
        ):
            yield Gateway(address, session, store, service.budgets)
    finally:
        for backend in dispatcher.backends.values():
            if isinstance(backend, ManagedBackend):
                await backend.aclose()
        await store.close()
