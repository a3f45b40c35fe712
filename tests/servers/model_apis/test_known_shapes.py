"""A request of a shape that is known is answered exactly as one that is decided on anew, with every field of the table.

The first service gets a request with other words first, the second one does not. What the endpoint gets, the answer,
its headers and its receipt have to be the same, to the byte.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

from accord.apis.request_shape import read_shape
from accord.core.work.emulation.choose import PRESET, preset_config
from accord.core.work.fields import TABLE
from accord.run.model_calls import ModelCalls
from accord.servers.http.model_calls import PATHS
from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.examples import request_for
from tests.servers.model_apis.in_process import model_application
from tests.servers.model_apis.recorder import Recorder, recording
from tests.servers.model_apis.test_table import LIMIT_S, backends
from tests.servers.transports import served

LABEL_HEADERS: Final = ("x-accord-served-by", "x-accord-dispositions", "content-type")
OWN: Final = re.compile(
    r"(?:resp_|chatcmpl-|msg_)?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|api-[0-9a-f]{16}"
)
"""Ids, which differ."""
TIMES: Final = re.compile(r'"(?:created_at|plan_ms|total_ms|first_packet_ms|hash|previous)":("[^"]*"|[0-9.]+)')
PLAIN: Final = {
    Api.CHAT: {"messages": [{"role": "user", "content": "Hello"}]},
    Api.RESPONSES: {"input": "Hello"},
    Api.MESSAGES: {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 100},
}


@asynccontextmanager
async def serving(recorder: Recorder) -> AsyncGenerator[aiohttp.ClientSession]:
    made = backends(recorder.address)
    async with served(model_application(made, emulation=preset_config(PRESET))) as address:
        async with aiohttp.ClientSession(address) as client:
            yield client
        for backend in made[:4]:
            await backend.aclose()


async def ask(client: aiohttp.ClientSession, recorder: Recorder, api: Api, body: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that follows from a request, without ids and times."""
    recorder.raw.clear()
    raw = json.dumps(body).encode()
    async with client.post(PATHS[api], data=raw, headers={"content-type": "application/json"}) as response:
        text = await response.text()
        headers = {name: response.headers.get(name) for name in LABEL_HEADERS}
        receipt = ""
        if path := response.headers.get("x-accord-receipt"):
            async with client.get(path) as stored:
                receipt = TIMES.sub("", OWN.sub("", await stored.text()))
    return {
        "status": response.status,
        "headers": headers,
        "text": re.sub(r'"created(?:_at)?": ?\d+', "", OWN.sub("", text)),
        "receipt": receipt,
        "sent": [*recorder.raw],
    }


def with_words(body: Any, words: str) -> Any:
    return json.loads(json.dumps(body).replace("Hello", words))


def requests_of(api: Api) -> list[dict[str, Any]]:
    """A request for each field of the table, and one without any, streamed and not."""
    fields = [
        request_for(api, row, api.value, api)
        for row in TABLE[api]
        if row not in ("previous_response_id", "conversation", "stream")
    ]
    plain: list[dict[str, Any]] = [{"model": api.value, **PLAIN[api], "stream": each} for each in (False, True)]
    return [*plain, *fields]


async def ask_twice(api: Api) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Each request, and what followed from it after one with other words, and without one."""
    bodies = requests_of(api)
    async with recording() as recorder:
        async with serving(recorder) as first:
            repeated: list[dict[str, Any]] = []
            for body in bodies:
                await ask(first, recorder, api, with_words(body, "An earlier question"))
                repeated.append(await ask(first, recorder, api, with_words(body, "Hello")))
        async with serving(recorder) as second:
            new = [await ask(second, recorder, api, with_words(body, "Hello")) for body in bodies]
    return [*zip(bodies, repeated, new, strict=True)]


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_request_of_a_known_shape_is_answered_as_one_that_is_decided_on_anew(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    known: list[object] = []
    decided = ModelCalls.decided

    def watched(self: ModelCalls, shape: Any) -> Any:
        decision = decided(self, shape)
        known.extend([shape] if decision else [])
        return decision

    monkeypatch.setattr(ModelCalls, "decided", watched)
    for body, repeated, new in asyncio.run(asyncio.wait_for(ask_twice(api), LIMIT_S)):
        assert repeated == new, body
    assert len(known) >= 10


def test_an_endpoint_that_ignores_the_number_of_answers_is_asked_one_by_one_for_a_known_shape_too():
    async def check() -> None:
        async with recording() as recorder, serving(recorder) as client:
            recorder.ignores_n = True
            for words in ("Hello", "Hello again"):
                body = with_words({"model": "chat", **PLAIN[Api.CHAT], "n": 2}, words)
                answer = await ask(client, recorder, Api.CHAT, body)
                assert answer["status"] == 200
                assert '"index":1' in answer["text"].replace(" ", "")

    asyncio.run(asyncio.wait_for(check(), LIMIT_S))


SHAPED: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "user", "content": "b"}]}),
    (
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 9},
    ),
    ({"input": "a", "instructions": "b"}, {"input": "c", "instructions": "d"}),
    ({"input": "a", "seed": 4}, {"input": "a", "seed": 5}),
    ({"input": "a", "user": "one"}, {"input": "a", "user": "two"}),
]
UNLIKE: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "system", "content": "a"}]}),
    ({"input": "a", "seed": 4}, {"input": "a", "seed": 0}),
    ({"input": "a", "temperature": 1}, {"input": "a", "temperature": 0.5}),
    ({"input": "a", "tools": [{"name": "x" * 99}]}, {"input": "a", "tools": [{"name": "y" * 99}]}),
    ({"input": "a", "model": "m"}, {"input": "a", "model": "n"}),
]
NONE: Final = [
    b"",
    b"[]",
    b'{"messages": []}',
    b'{"input": ""}',
    b'{"messages": [{"role": "user", "content": ""}]}',
    b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}',
    b'{"messages": [{"role": "user", "content": "a", "name": "b"}]}',
    b'{"messages": [{"role": "user", "content": "a", "content": "b"}]}',
    b'{"messages": [{"role": "tool", "content": "a"}]}',
    b'{"input": "a", "previous_response_id": "resp_1"}',
    b'{"input": "\xff"}',
    b'{"input": "\\ud800"}',
    b'{"input": "a"} trailing',
]


def test_only_words_may_differ_within_a_shape():
    def key(body: dict[str, Any]) -> object:
        shape = read_shape(json.dumps(body).encode())
        assert shape is not None
        return shape.key

    assert all(key(one) == key(other) for one, other in SHAPED)
    assert all(key(one) != key(other) for one, other in UNLIKE)


@pytest.mark.parametrize("raw", NONE)
def test_other_conversations_and_what_is_not_valid_have_no_shape(raw: bytes):
    assert read_shape(raw) is None
