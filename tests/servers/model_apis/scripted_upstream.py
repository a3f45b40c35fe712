"""The whole service in memory, over backends whose endpoint answers with bytes that a test has written.

Requests enter as HTTP messages and leave through the real backends; only the connection to the endpoint is replaced, by
another implementation of its interface.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.upstream import UpstreamRequest
from accord.core.sse import EventDecoder
from accord.core.work.evidence import Evidence
from accord.ports import Backend, SystemClock
from accord.servers.http.app import Application
from accord.servers.http.model_calls import PATHS
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.disposition import Api
from accord.wire.manifest import SupportLevel
from tests.servers.model_apis.in_process import model_application
from tests.servers.transports import InMemory, alive

SOURCES: Final = (Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.GEMINI)
"""The APIs that backends speak; the backend of each has its name."""
JSON_TYPE: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
MODEL: Final = "the-configured-model"
REQUESTS: Final[Mapping[Api, Mapping[str, Any]]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Api.RESPONSES: {"input": "hi", "store": False},
    Api.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100},
}
"""The least request of each API."""
ERROR_EVENTS: Final[Mapping[Api, bytes]] = {
    Api.CHAT: b'data: {"error"',
    Api.RESPONSES: b"event: response.failed",
    Api.MESSAGES: b"event: error",
}
"""How the events begin with which Accord ends a stream that has failed."""
APART: Final = "-apart"
"""The end of the name of a second backend of each API, which lacks what `TAKEN_APART` requires."""
TAKEN_APART: Final[Mapping[str, Any]] = {
    "accord": {"requirements": {"required": [{"capability": "extended_thinking", "min_support": "emulated"}]}}
}
"""The members of a request for which something has to be emulated."""
LIMIT_S: Final = 60.0
ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class ScriptedReply:
    """One reply, in the pieces in which it arrives."""

    parts: list[bytes]
    headers: Mapping[str, str]
    status: int = 200

    async def read(self) -> bytes:
        return self.parts.pop(0) if self.parts else b""

    async def close(self) -> None:
        self.parts.clear()


@dataclass(slots=True)
class ScriptedUpstream:
    """Answers every request with the next reply."""

    parts: Sequence[bytes] = ()
    content_type: str = JSON_TYPE
    requests: list[UpstreamRequest] = field(default_factory=list[UpstreamRequest])

    async def send(self, request: UpstreamRequest) -> ScriptedReply:
        self.requests.append(request)
        return ScriptedReply([part for part in self.parts if part], {"content-type": self.content_type})

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True)
class ClientAnswer:
    """What came to the client."""

    api: Api
    status: int
    headers: Mapping[str, str]
    content: bytes
    is_stream: bool

    @cached_property
    def body(self) -> dict[str, Any]:
        return json.loads(self.content)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream, decoded, without `[DONE]`."""
        return decode_events(self.content)

    @property
    def objects(self) -> list[dict[str, Any]]:
        return self.events if self.is_stream else [self.body]


def decode_events(content: bytes) -> list[dict[str, Any]]:
    """The objects that the events of a stream carry; what is no object, such as `[DONE]`, is left out."""
    decoded = (_decode_object(event.data) for event in EventDecoder().feed(content))
    return [each for each in decoded if each is not None]


def _decode_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


@dataclass(slots=True)
class Service:
    """The application, and what its endpoint answers."""

    application: Application
    upstream: ScriptedUpstream

    async def answer(
        self, source: Api, target: Api, parts: Sequence[bytes], *, stream: bool, **members: Any
    ) -> ClientAnswer:
        """Ask as a client of this API; the endpoint of the backend answers with these bytes.

        With `TAKEN_APART` as members, an answer of the client's own API is taken apart, too.
        """
        self.upstream.parts, self.upstream.content_type = parts, EVENT_STREAM if stream else JSON_TYPE
        name = source.value + (APART if members == TAKEN_APART else "")
        body: dict[str, Any] = {**REQUESTS[target], "model": name, **({"stream": True} if stream else {})}
        if stream and target is Api.CHAT:
            body["stream_options"] = {"include_usage": True}
        content = json.dumps({**body, **members}).encode()
        reply = await InMemory(self.application).call("POST", PATHS[target], content, content_type=JSON_TYPE)
        is_stream = reply.headers["content-type"].startswith(EVENT_STREAM)
        return ClientAnswer(target, reply.status, reply.headers, reply.content, is_stream)

    async def receipt(self, answer: ClientAnswer) -> dict[str, Any]:
        """The receipt of this answer, or of this error."""
        path = answer.headers.get("accord-receipt")
        if path is None:
            request_id = answer.headers.get("request-id") or answer.headers["x-request-id"]
            path = f"/v1/requests/{request_id}/receipt"
        return (await InMemory(self.application).call("GET", path)).json()


def codecs() -> dict[Api, ModelApi]:
    return {
        Api.CHAT: ChatCodec(max_tokens_field="max_tokens", top_k=True, reasoning_field="reasoning_content"),
        Api.RESPONSES: ResponsesCodec(),
        Api.MESSAGES: MessagesCodec(),
        Api.GEMINI: GeminiCodec(),
    }


@asynccontextmanager
async def scripted_service() -> AsyncGenerator[Service]:
    """A service with one backend for each API, which all have every capability."""
    facts = {name: Evidence(SupportLevel.NATIVE, "test") for name in KNOWN_CAPABILITIES}
    lacking = {"extended_thinking": Evidence(SupportLevel.UNSUPPORTED, "test")}
    upstream = ScriptedUpstream()
    backends: list[Backend] = [
        ModelBackend(
            api.value + end,
            codec,
            Endpoint("http://endpoint", MODEL, "a-key"),
            upstream,
            SystemClock(),
            declared=declared,
            facts=facts,
            retries=RetryPolicy(times=0),
        )
        for api, codec in codecs().items()
        for end, declared in (("", {}), (APART, lacking))
    ]
    async with alive(model_application(backends)) as application:
        yield Service(application, upstream)


def with_service(work: Callable[[Service], Awaitable[ResultT]]) -> ResultT:
    """Run a task with such a service, within a limit of time."""

    async def bounded() -> ResultT:
        async with scripted_service() as service:
            return await asyncio.wait_for(work(service), LIMIT_S)

    return asyncio.run(bounded())


def without_label(content: bytes) -> bytes:
    """The bytes without the label that Accord writes at the start of the first object."""
    before, mark, after = content.partition(b'{"accord":')
    if not mark:
        return content
    _, end = json.JSONDecoder().raw_decode(after.decode("latin-1"))
    return before + b"{" + after[end:].removeprefix(b",")
