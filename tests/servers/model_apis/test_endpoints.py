"""What a client sees of the endpoint behind: the model that answered, how long to wait; and what it is asked for."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

from accord.apis.chat.codec import ChatCodec
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.ports import SystemClock
from accord.servers.http.model_calls import PATHS
from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.examples import BASES
from tests.servers.model_apis.in_process import model_application
from tests.servers.model_apis.recorder import MODEL, Recorder, recording
from tests.servers.model_apis.test_table import backends
from tests.servers.transports import served

CONFIGURED: Final = "configured-1"
BACKENDS: Final = ("chat", "responses", "messages", "gemini")


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 20))


@asynccontextmanager
async def serving(backends: list[Any]) -> AsyncGenerator[aiohttp.ClientSession]:
    async with served(model_application(backends)) as address, aiohttp.ClientSession(address) as client:
        try:
            yield client
        finally:
            for each in backends:
                if isinstance(each, ModelBackend):
                    await each.aclose()


def models_in(text: str) -> set[str]:
    """The models that the events of a stream name."""
    events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data: {")]
    places = [(event, event.get("response"), event.get("message")) for event in events]
    return {place["model"] for group in places for place in group if isinstance(place, dict) and "model" in place}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("api", SERVED)
def test_an_answer_names_the_model_that_gave_it(api: Api, backend: str, stream: bool):
    async def work() -> None:
        async with recording() as recorder, serving(backends(recorder.address, model=CONFIGURED)) as client:
            body = {"model": backend, **BASES[api], "stream": stream}
            async with client.post(PATHS[api], json=body) as reply:
                text = await reply.text()
            assert recorder.sent[-1][1].get("model", CONFIGURED) == CONFIGURED
            assert (models_in(text) if stream else {json.loads(text)["model"]}) == {MODEL}
            assert reply.headers["accord-served-by"] == f"{backend}; model={MODEL}"

    run(work)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("usage_in_stream", [True, False])
def test_a_stream_that_is_passed_on_asks_for_usage_only_where_the_endpoint_takes_that(
    usage_in_stream: bool, asks: bool
):
    async def work() -> None:
        async with recording() as recorder:
            api = ChatCodec(usage_in_stream=usage_in_stream)
            async with serving([backend_of(api, recorder)]) as client:
                options = {"stream_options": {"include_usage": True}} if asks else {}
                body = {"model": "b", **BASES[Api.CHAT], "stream": True, **options}
                async with client.post(PATHS[Api.CHAT], json=body) as reply:
                    text = await reply.text()
            # What the client itself asks for goes on as it came.
            expected = {"include_usage": True} if usage_in_stream or asks else None
            assert recorder.sent[-1][1].get("stream_options") == expected
            assert ("prompt_tokens" in text) is (asks or not usage_in_stream)

    run(work)


def backend_of(api: ChatCodec, recorder: Recorder) -> ModelBackend:
    endpoint = Endpoint(f"{recorder.address}/v1", CONFIGURED)
    return ModelBackend("b", api, endpoint, AiohttpUpstream(), SystemClock(), retries=RetryPolicy(times=0))


@pytest.mark.parametrize("seconds", ["7", "0"])
@pytest.mark.parametrize("api", SERVED)
def test_how_long_to_wait_is_a_whole_number_of_seconds(api: Api, seconds: str):
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "slow"}}, status=429, headers={"retry-after": seconds})

    await_upstream(refuse, api, ["chat", "messages"], seconds)


@pytest.mark.parametrize("api", SERVED)
def test_a_part_of_a_second_is_rounded_up(api: Api):
    async def refuse(_: web.Request) -> web.Response:
        detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "6.2s"}
        error = {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED", "details": [detail]}
        return web.json_response({"error": error}, status=429)

    await_upstream(refuse, api, ["gemini"], "7")


def await_upstream(answer: Any, api: Api, names: list[str], expected: str | None) -> None:
    async def work() -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with serving(backends(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
                for name in names:
                    async with client.post(PATHS[api], json={"model": name, **BASES[api]}) as reply:
                        assert reply.headers.get("retry-after") == expected, (name, reply.status, await reply.text())
        finally:
            await runner.cleanup()

    run(work)
