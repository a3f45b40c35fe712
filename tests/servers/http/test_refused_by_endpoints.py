"""What an endpoint refuses to one caller does not change what others get: real keys, real sockets, a picky endpoint."""

# Long because one endpoint and one table of refusals serve every test here.

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web

from accord.agent import Agent, Turn, Yielded
from accord.assembly.parts import build_backends
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_authenticator, make_service
from accord.config import load_config
from accord.ports import ManagedBackend
from accord.run import Dispatcher, Engine
from accord.run.model_calls import ModelCallsRef
from accord.run.refusals import MAX_PER_BACKEND
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START, ManualClock, run
from tests.servers.process import accord_serve
from tests.servers.transports import served

Refuse = Callable[[dict[str, Any]], "dict[str, Any] | None"]
"""Returns the error for a request, or None if the endpoint answers it."""
KEYS = {name: f"accord_{name[0] * 43}" for name in ("ada", "bob", "cy", "root")}
CONFIG = """
[[backends]]
name = "chat"
kind = "openai"
model = "m"
base_url = "{url}/v1"
manifest = "declared"
options = {{ retries = 0 }}
[backends.overrides]
streaming = "native"
tool_use = "native"
temperature = "native"
extended_thinking = "native"
max_tokens = "native"
stop_sequences = "native"
audio = "native"
structured_output_json_schema = "native"

[[backends]]
name = "messages"
kind = "anthropic"
model = "m"
base_url = "{url}"
manifest = "declared"
options = {{ retries = 0 }}
[backends.overrides]
streaming = "native"
tool_use = "native"
"""
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
TOOLS = [TOOL]


def strict_tool(value: bool = True) -> list[Any]:
    return [{**TOOL, "function": {**TOOL["function"], "strict": value}}]


def error(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", "code": code, "param": param}


@dataclass
class PickyEndpoint:
    """Answers chat completions and messages unless `refuse` says otherwise, and keeps every body."""

    refuse: Refuse = field(default=lambda _: None)
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if (refusal := self.refuse(body)) is not None:
            return web.json_response({"error": refusal}, status=400)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "well"}
            return web.json_response({"id": "1", "model": "m", "choices": [{**choice, "message": message}]})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        ends: list[dict[str, Any]] = [{"delta": {"content": "well"}, "finish_reason": None}, {"delta": {}}]
        for end in ends:
            await reply.write(f"data: {json.dumps({'id': '1', 'choices': [{**choice, **end}]})}\n\n".encode())
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async def messages(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if (refusal := self.refuse(body)) is not None:
            return web.json_response({"type": "error", "error": refusal}, status=400)
        content = [{"type": "text", "text": "well"}]
        return web.json_response({"id": "1", "model": "m", "content": content, "stop_reason": "end_turn", "usage": {}})


async def asks(turn: Turn) -> AsyncIterator[Yielded]:
    """Ask as the request's `meta` says."""
    question: dict[str, Any] = turn.request.payload.meta["ask"]
    async for text in turn.ask(**question):
        yield text


@dataclass
class Gateway:
    """A served application with keys of several users."""

    address: str
    session: aiohttp.ClientSession
    endpoint: PickyEndpoint
    clock: ManualClock
    turns: int = 0

    async def send(self, method: str, path: str, user: str, body: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {KEYS[user]}"} if user in KEYS else {}
        async with self.session.request(method, self.address + path, json=body, headers=headers) as response:
            data = await response.read()
            is_json = response.headers.get("content-type", "").startswith("application/json")
            return response.status, json.loads(data) if is_json else data.decode()

    async def chat(self, user: str, members: dict[str, Any]) -> tuple[int, Any]:
        """Send a chat completion of this user."""
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], **members}
        return await self.send("POST", "/v1/chat/completions", user, body)

    async def turn(self, user: str, ask: dict[str, Any]) -> tuple[int, Any]:
        """Send a turn of this user, whose agent asks like this."""
        self.turns += 1
        request: dict[str, Any] = {
            "request_id": str(UUID(int=self.turns)),
            "context": {"session_id": f"s-{user}-{self.turns}", "user": {"id": user, "name": user}},
            "payload": {"query": "hi", "meta": {"ask": ask}},
        }
        return await self.send("POST", "/v1/assist", user, request)

    async def remembered(self) -> list[dict[str, Any]]:
        status, found = await self.send("GET", "/v1/capabilities", "root")
        assert status == 200
        return found["remembered"]


@asynccontextmanager
async def running(endpoint: PickyEndpoint) -> AsyncGenerator[str]:
    """The endpoint on a port of its own; gives the configuration that names it."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.chat)
    app.router.add_post("/v1/messages", endpoint.messages)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield CONFIG.format(url=f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gateway(folder: Path, refuse: Refuse, *, is_open: bool = False) -> AsyncGenerator[Gateway]:
    endpoint, clock = PickyEndpoint(refuse), ManualClock()
    async with running(endpoint) as config, _gateway(folder, endpoint, clock, config, is_open=is_open) as made:
        yield made


@asynccontextmanager
async def _gateway(
    folder: Path, endpoint: PickyEndpoint, clock: ManualClock, config: str, *, is_open: bool
) -> AsyncGenerator[Gateway]:
    file = folder / "accord.toml"
    file.write_text(config)
    loaded = load_config(str(file), environ={})
    store, settings = SqliteStore(folder / "accord.db"), loaded.config.server.model_copy(update={"port": 0})
    await store.open()
    for user in () if is_open else KEYS:
        record: dict[str, Any] = {"token_id": user, "user": user, "digest": token_digest(KEYS[user])}
        await store.put_token(TokenRecord(**record, created_at=START, rules=KeyRules(is_admin=user == "root")))
    backends = [each.backend for each in build_backends(loaded)]
    engine = Engine(Agent(asks), Dispatcher(backends, clock=clock))
    service, metrics = make_service(loaded, settings, engine, store, make_authenticator(settings, store))
    calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
    try:
        async with (
            served(make_application(loaded, service, metrics, calls, loopback_only=False)) as address,
            aiohttp.ClientSession() as session,
        ):
            yield Gateway(address, session, endpoint, clock)
    finally:
        for backend in backends:
            if isinstance(backend, ManagedBackend):
                await backend.aclose()
        await store.close()


def has(name: str, message: str, code: str | None = None, param: str | None = None) -> Refuse:
    """Refuse requests with this member."""
    return lambda body: error(message, code, param or name) if name in body else None


def at(name: str, value: Any, message: str, code: str | None = None) -> Refuse:
    """Refuse this value of a member."""
    return lambda body: error(message, code, name) if body.get(name) == value else None


def unsupported(name: str) -> str:
    return f"Unsupported parameter: '{name}' is not supported with this model."


def no_tools(body: dict[str, Any]) -> dict[str, Any] | None:
    return error("m does not support tools") if body.get("tools") else None


def strict_is_unknown(body: dict[str, Any]) -> dict[str, Any] | None:
    if any("strict" in each["function"] for each in body.get("tools", ())):
        return error("Unknown parameter: 'tools[0].function.strict'.", "unknown_parameter", "tools[0].function.strict")
    return None


def cache_point_is_unknown(body: dict[str, Any]) -> dict[str, Any] | None:
    for number, message in enumerate(body["messages"]):
        if message["role"] == "assistant" and "prompt_cache_breakpoint" in message["content"][0]:
            name = f"messages[{number}].content[0].prompt_cache_breakpoint"
            return error(f"Unknown parameter: '{name}'.", "unknown_parameter", name)
    return None


def x_is_unknown(body: dict[str, Any]) -> dict[str, Any] | None:
    if "x" in (body.get("metadata") or {}):
        return error("Unknown parameter: 'metadata.x'.", "unknown_parameter", "metadata.x")
    return None


def not_beside_reasoning(body: dict[str, Any]) -> dict[str, Any] | None:
    if {"temperature", "reasoning_effort"} <= set(body):
        message = "Unsupported parameter: 'temperature' is not supported when reasoning is enabled."
        return error(message, "unsupported_parameter", "temperature")
    return None


def echoes(body: dict[str, Any]) -> dict[str, Any] | None:
    text = json.dumps(body["messages"])
    return error(f"Could not parse the messages: {text}") if "does not support" in text else None


CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "[1]"}}
BROKEN_HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "seen"},
]


CACHED = {"type": "text", "text": "hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
CACHED_HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [CACHED]},
    {"role": "user", "content": "go on"},
]


@dataclass(frozen=True)
class Case:
    """What the endpoint refuses, what ada sends, with the status she gets, and what bob sends then."""

    name: str
    refuse: Refuse
    first: dict[str, Any]
    status: int
    then: dict[str, Any]


CALLS = [
    Case("Accord's own refusal", lambda _: None, {"model": "messages", "messages": BROKEN_HISTORY, "tools": TOOLS}, 400,
         {"model": "messages", "tools": TOOLS}),
    Case("max_tokens, a value", at("max_tokens", 999999, "max_tokens is too large: 999999."), {"max_tokens": 999999}, 400,
         {"max_tokens": 100}),
    Case("max_tokens, the member", has("max_tokens", unsupported("max_tokens"), "unsupported_parameter"),
         {"max_tokens": 5}, 400, {"max_tokens": 100}),
    Case("temperature, a value", at("temperature", 3, "Invalid 'temperature': expected a value <= 2.", "decimal_above_max_value"),
         {"temperature": 3}, 200, {"temperature": 0.5}),
    Case("an effort", at("reasoning_effort", "minimal", "Unsupported value: 'reasoning_effort' does not support 'minimal'.", "unsupported_value"),
         {"reasoning_effort": "minimal"}, 200, {"reasoning_effort": "high"}),
    Case("an unknown member", has("foo", "Unrecognized request argument supplied: foo"), {"foo": 1}, 200,
         {"foo": 1, "seed": 7}),
    Case("an unknown member of a member", x_is_unknown, {"metadata": {"x": "1", "y": "2"}}, 200,
         {"metadata": {"y": "3"}, "user": "u"}),
    Case("a member of a tool", strict_is_unknown, {"tools": strict_tool()}, 200, {"tools": TOOLS}),
    Case("the same member of a tool", strict_is_unknown, {"tools": strict_tool()}, 200, {"tools": strict_tool()}),
    Case("a member of the assistant's text", cache_point_is_unknown, {"messages": CACHED_HISTORY}, 200,
         {"messages": [{"role": "user", "content": [CACHED]}]}),
    Case("a setting of tools", has("parallel_tool_calls", unsupported("parallel_tool_calls"), "unsupported_parameter"),
         {"tools": TOOLS, "parallel_tool_calls": False}, 200, {"tools": TOOLS, "parallel_tool_calls": False}),
    Case("the choice of a tool", has("tool_choice", unsupported("tool_choice"), "unsupported_parameter"),
         {"tools": TOOLS, "tool_choice": "required"}, 400, {"tools": TOOLS}),
    Case("tools in passing", lambda body: error("Invalid messages: after tools comes a user message") if len(body["messages"]) > 1 else None,
         {"messages": BROKEN_HISTORY[:2], "tools": TOOLS}, 400, {"tools": TOOLS}),
    Case("words of a prompt", echoes, {"messages": [{"role": "user", "content": "m does not support tools"}], "tools": TOOLS}, 400,
         {"tools": TOOLS}),
    Case("a capability", no_tools, {"tools": TOOLS}, 400, {"tools": TOOLS}),
    Case("two that exclude each other", not_beside_reasoning, {"temperature": 0.7, "reasoning_effort": "high"}, 200,
         {"temperature": 0.7}),
    Case("stop", has("stop", unsupported("stop"), "unsupported_parameter"), {"stop": ["x"]}, 400, {"stop": ["x"]}),
    Case("a strict request", has("seed", unsupported("seed"), "unsupported_parameter"),
         {"seed": 1, "accord": {"policy": "strict"}}, 400, {"seed": 1}),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_what_one_key_is_refused_is_sent_for_another_key(tmp_path: Path, case: Case, stream: bool):
    async def check() -> None:
        async with gateway(tmp_path, case.refuse) as served:
            streams: dict[str, Any] = {"stream": True} if stream else {}
            for _ in range(2):
                status, answer = await served.chat("ada", case.first | streams)
                assert status == case.status, answer
            before = len(served.endpoint.bodies)
            await served.chat("bob", case.then | streams)
            body = served.endpoint.bodies[before]
            if case.then.get("model") == "messages":
                assert [tool["name"] for tool in body["tools"]] == ["look"]
            else:
                assert {name: body.get(name) for name in case.then} == case.then

    run(check())


SOUND = {"type": "audio", "mimeType": "audio/flac", "data": "AAAA"}
ASK_TOOL: dict[str, Any] = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
TURNS = [
    Case("Accord's own refusal", lambda _: None, {"content": [SOUND]}, 502, {"content": [SOUND | {"mimeType": "audio/wav"}]}),
    Case("a value", at("temperature", 3, "Unsupported value: 'temperature' does not support 3.", "unsupported_value"),
         {"parameters": {"temperature": 3}}, 502, {"parameters": {"temperature": 0.5}}),
    Case("max_tokens", has("max_tokens", unsupported("max_tokens"), "unsupported_parameter"),
         {"parameters": {"max_tokens": 5}}, 502, {"parameters": {"max_tokens": 7}}),
    Case("stop", has("stop", unsupported("stop"), "unsupported_parameter"), {"stop": ["x"]}, 200, {"stop": ["x"]}),
    Case("a setting", has("temperature", unsupported("temperature"), "unsupported_parameter"),
         {"parameters": {"temperature": 1}}, 502, {"parameters": {"temperature": 1}}),
    Case("a capability", no_tools, {"tools": [ASK_TOOL]}, 502, {"tools": [ASK_TOOL]}),
]  # fmt: skip


@pytest.mark.parametrize("case", TURNS, ids=lambda case: case.name)
def test_what_the_turn_of_one_key_is_refused_is_sent_for_another_key(tmp_path: Path, case: Case):
    async def check() -> None:
        async with gateway(tmp_path, case.refuse) as served:
            status, answer = await served.turn("ada", case.first)
            assert status == case.status, answer
            before = len(served.endpoint.bodies)
            await served.turn("bob", case.then)
            body = json.dumps(served.endpoint.bodies[before])
            if wanted := case.then.get("parameters"):
                assert {name: served.endpoint.bodies[before].get(name) for name in wanted} == wanted
            else:
                words = {"tools": '"look"', "content": "input_audio", "stop": '"stop"'}
                assert all(words[name] in body for name in case.then)

    run(check())


def no_seed(body: dict[str, Any]) -> dict[str, Any] | None:
    return error(unsupported("seed"), "unsupported_parameter", "seed") if "seed" in body else None


def no_penalty(body: dict[str, Any]) -> dict[str, Any] | None:
    return (
        error(unsupported("presence_penalty"), "unsupported_parameter", "presence_penalty")
        if "presence_penalty" in body
        else None
    )


def label_of(answer: Any, field_name: str) -> dict[str, Any]:
    return next(each for each in answer["accord"]["dispositions"] if each["field"] == field_name)


def test_a_refused_field_is_not_sent_again_for_the_same_key_and_the_label_says_so(tmp_path: Path):
    async def check() -> None:
        async with gateway(tmp_path, no_seed) as served:
            reason = f"the endpoint refused it (once since {START:%Y-%m-%d %H:%M} UTC)"
            for seed in (1, 2):
                _, answer = await served.chat("ada", {"seed": seed})
                label = {"field": "seed", "disposition": "dropped", "reason": reason, "learned": True}
                assert label_of(answer, "seed") == label
            assert [("seed" in body) for body in served.endpoint.bodies] == [True, False, False]

    run(check())


@pytest.mark.parametrize(("field", "refuse"), [("seed", no_seed), ("presence_penalty", no_penalty)])
def test_what_two_keys_were_refused_is_not_sent_for_any_key_until_it_expires(
    tmp_path: Path, field: str, refuse: Refuse
):
    async def is_tried(served: Gateway, user: str) -> bool:
        before = len(served.endpoint.bodies)
        assert (await served.chat(user, {field: 1}))[0] == 200
        return field in served.endpoint.bodies[before]

    async def check() -> None:
        async with gateway(tmp_path, refuse) as served:
            assert await is_tried(served, "ada")
            assert await is_tried(served, "bob")
            assert not await is_tried(served, "cy")
            (kept,) = await served.remembered()
            assert (kept["backend"], kept["field"], kept["times"], kept["for_all"]) == ("chat", field, 2, True)
            assert UUID(kept["example"])
            for keep_s in (600, 1200, 2400):
                served.clock.elapsed_s += keep_s - 1
                assert not await is_tried(served, "cy")
                served.clock.elapsed_s += 1
                assert await served.remembered() == []
                assert await is_tried(served, "ada")
                assert await is_tried(served, "bob")
            for _ in range(6):
                served.clock.elapsed_s += 86_400
                assert await is_tried(served, "cy")

    run(check())


@pytest.mark.parametrize("transport", ["call", "turn"])
def test_a_capability_is_planned_without_once_two_keys_were_refused_it(tmp_path: Path, transport: str):
    async def check() -> None:
        async with gateway(tmp_path, no_tools) as served:

            async def send(user: str) -> tuple[int, Any]:
                if transport == "call":
                    return await served.chat(user, {"tools": TOOLS})
                return await served.turn(user, {"tools": [ASK_TOOL], "requirements": {"required": []}})

            for user in ("ada", "bob"):
                await send(user)
            before = len(served.endpoint.bodies)
            status, answer = await send("cy")
            if transport == "call":
                assert status == 400
                assert len(served.endpoint.bodies) == before
                assert "refused by the endpoint before (2 times since 2026-01-31 12:00 UTC)" in json.dumps(answer)
            kept = next(each for each in await served.remembered() if each["backend"] == "chat")
            assert (kept["capability"], kept["for_all"], kept["times"]) == ("tool_use", True, 2)
            served.clock.elapsed_s += 600
            assert (await send("cy"))[0] == (400 if transport == "call" else 502)

    run(check())


def test_an_ordinary_key_sees_no_values_and_requests_of_others(tmp_path: Path):
    refuse = at("user", "secret", "Unsupported value: 'user' does not support 'secret'.", "unsupported_value")

    async def check() -> None:
        async with gateway(tmp_path, refuse) as served:
            for user in ("ada", "bob"):
                await served.chat(user, {"user": "secret"})
                _, found = await served.send("GET", "/v1/capabilities", "cy")
                assert [each["field"] for each in found["remembered"]] == (["user"] if user == "bob" else [])
                assert "secret" not in json.dumps(found["remembered"])
                assert not any("example" in each for each in found["remembered"])
            (kept,) = await served.remembered()
            assert kept["value"] == '"secret"'

    run(check())


@pytest.mark.parametrize("user", ["", "ada"])
@pytest.mark.parametrize("transport", ["call", "turn"])
def test_one_request_takes_a_capability_from_nobody(tmp_path: Path, user: str, transport: str):
    async def check() -> None:
        async with gateway(tmp_path, no_tools, is_open=not user) as served:
            if transport == "call":
                for _ in range(3):
                    assert (await served.chat(user, {"tools": TOOLS}))[0] == 400
            else:
                for _ in range(3):
                    await served.turn(user or "somebody", {"tools": [ASK_TOOL]})
            tried = [body for body in served.endpoint.bodies if body["model"] == "m" and "tools" in body]
            assert len(tried) == 2 * len({"chat"} if transport == "call" else {"chat", "messages"})

    run(check())


def test_one_request_with_a_schema_that_no_answer_fits_takes_nothing_from_its_own_caller(tmp_path: Path):
    schema = {"type": "object", "required": ["n"]}
    wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}

    async def check() -> None:
        async with gateway(tmp_path, lambda _: None) as served:
            for requests, is_sent in enumerate((True, True, False)):
                before = len(served.endpoint.bodies)
                await served.chat("ada", wanted)
                assert ("response_format" in served.endpoint.bodies[before]) is is_sent, requests

    run(check())


def test_a_limit_that_an_endpoint_refuses_fails_the_request_with_its_reason(tmp_path: Path):
    async def check() -> None:
        async with gateway(tmp_path, has("max_tokens", unsupported("max_tokens"), "unsupported_parameter")) as served:
            status, answer = await served.chat("ada", {"max_tokens": 5})
            assert status == 400
            assert unsupported("max_tokens") in answer["error"]["message"]
            assert len(served.endpoint.bodies) == 1
            assert await served.remembered() == []

    run(check())


def test_answers_that_contradict_a_manifest_count_for_the_key_that_got_them(tmp_path: Path):
    schema = {"type": "object", "required": ["n"]}
    wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}

    async def check() -> None:
        async with gateway(tmp_path, lambda _: None) as served:
            for _ in range(2):
                await served.chat("ada", wanted)
            (kept,) = await served.remembered()
            assert kept["capability"] == "structured_output_json_schema"
            assert (kept["contradicted"], kept["for_all"]) == (True, False)
            before = len(served.endpoint.bodies)
            await served.chat("bob", wanted)
            assert served.endpoint.bodies[before]["response_format"] == wanted["response_format"]

    run(check())


def test_only_an_admin_key_makes_the_service_forget(tmp_path: Path):
    path = "/v1/admin/backends/chat/refusals"

    async def check() -> None:
        async with gateway(tmp_path, no_seed) as served:
            await served.chat("ada", {"seed": 1})
            assert (await served.send("DELETE", path, "ada"))[0] == 403
            assert (await served.send("DELETE", path.replace("chat", "none"), "root"))[0] == 404
            assert len(await served.remembered()) == 1
            assert await served.send("DELETE", path, "root") == (200, {"backend": "chat", "forgotten": 1})
            assert await served.remembered() == []
            before = len(served.endpoint.bodies)
            await served.chat("ada", {"seed": 1})
            assert "seed" in served.endpoint.bodies[before]

    run(check())


def test_the_memory_is_bounded(tmp_path: Path):
    def unknown(body: dict[str, Any]) -> dict[str, Any] | None:
        name = next((name for name in body if name.startswith("own_")), None)
        return None if name is None else error(f"Unrecognized request argument supplied: {name}")

    async def check() -> None:
        async with gateway(tmp_path, unknown) as served:
            for number in range(MAX_PER_BACKEND + 5):
                assert (await served.chat("ada", {f"own_{number}": 1}))[0] == 200
            assert len(await served.remembered()) == MAX_PER_BACKEND

    run(check())


async def accord(folder: Path, *arguments: str) -> tuple[int | None, str, str]:
    command = [sys.executable, "-m", "accord", *arguments, "--config", "accord.toml"]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def kept_in(folder: Path) -> list[dict[str, Any]]:
    _, out, _ = await accord(folder, "backends", "--json")
    return json.loads(out)["refused"]


async def chat_on_new_connection(address: str) -> None:
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "seed": 1}
    async with aiohttp.ClientSession() as client, client.post(f"{address}/v1/chat/completions", json=body) as response:
        assert response.status == 200


@pytest.mark.timeout(180)
def test_the_command_shows_and_clears_what_every_process_keeps(tmp_path: Path):
    async def check() -> None:
        async with (
            running(PickyEndpoint(no_seed)) as config,
            accord_serve(tmp_path, "--workers", "2", config=config) as service,
        ):
            kept: list[dict[str, Any]] = []
            for _ in range(5):  # until both processes have met it
                await asyncio.gather(*(chat_on_new_connection(service.address) for _ in range(20)))
                if len(kept := await kept_in(tmp_path)) == 2:
                    break
            assert [(each["backend"], each["field"], each["for_all"]) for each in kept] == [("chat", "seed", False)] * 2
            _, out, _ = await accord(tmp_path, "backends")
            assert "seed (chat)" in out
            code, out, _ = await accord(tmp_path, "backends", "forget", "chat")
            assert (code, out) == (0, "chat: forgot 2 refusals; processes that answered: 2\n")
            assert await kept_in(tmp_path) == []
            await chat_on_new_connection(service.address)
            assert len(await kept_in(tmp_path)) == 1
            service.process.send_signal(signal.SIGHUP)
            await service.until_logged("Reloaded the configuration", count=2)
            assert await kept_in(tmp_path) == []

    asyncio.run(asyncio.wait_for(check(), 170))


def test_the_command_says_when_no_service_answers(tmp_path: Path):
    async def check() -> None:
        async with running(PickyEndpoint()) as config, accord_serve(tmp_path, config=config):
            pass
        code, _, err = await accord(tmp_path, "backends", "forget", "chat")
        assert code == 1
        assert "No process of a service on this store answered" in err
        code, _, err = await accord(tmp_path, "backends", "forget", "chta")
        assert code == 2
        assert "chta" in err

    run(check())
