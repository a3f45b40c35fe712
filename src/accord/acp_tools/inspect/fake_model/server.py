"""The fake model: a server on loopback that speaks the model APIs, keeps what it receives and replies by a script.

It takes any key. Paths are matched by their end, so that any prefix will do: with a version or without, or a gateway's.
"""

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self, cast

from aiohttp import web

from accord.acp_tools.inspect.fake_model import chat_api, gemini_api, messages_api, responses_api
from accord.acp_tools.inspect.fake_model.environment import MODELS, agent_environ
from accord.acp_tools.inspect.fake_model.model_request import (
    AnswerState,
    ReceivedMessage,
    ReceivedRequest,
    ReceivedText,
)
from accord.acp_tools.inspect.fake_model.script import ErrorReply, TextReply, choose_reply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_text

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REQUESTS: Final = 1_000
MAX_UNKNOWN_PATHS: Final = 100
SHUTDOWN_S: Final = 0.2
INPUT_TOKENS: Final = 100

LOGGER: Final = logging.getLogger(__name__)
LOGGER.addHandler(logging.NullHandler())
"""What aiohttp says about malformed requests; a report has no use for it."""

_GEMINI_PATH: Final = re.compile(r"models/(?P<model>[^:]+):(?P<method>\w+)$")
_MODEL_PATH: Final = re.compile(r"(?:^|/)models(?:/(?P<model>[^:]+))?$")


@dataclass(frozen=True, slots=True)
class FakeApi:
    """How one model API writes its answers."""

    write_whole: Callable[[ReceivedRequest, TextReply | ChosenCall], Json]
    write_events: Callable[[ReceivedRequest, TextReply | ChosenCall], Iterator[tuple[str, str]]]
    write_error: Callable[[int, str], Json]


CHAT: Final = FakeApi(chat_api.write_whole, chat_api.write_events, chat_api.write_error)
RESPONSES: Final = FakeApi(responses_api.write_whole, responses_api.write_events, chat_api.write_error)
MESSAGES: Final = FakeApi(messages_api.write_whole, messages_api.write_events, messages_api.write_error)
GEMINI: Final = FakeApi(gemini_api.write_whole, gemini_api.write_events, gemini_api.write_error)

READERS: Final[Mapping[str, tuple[FakeApi, Callable[[Json], ReceivedRequest]]]] = {
    "chat/completions": (CHAT, chat_api.read_request),
    "responses": (RESPONSES, responses_api.read_request),
    "messages": (MESSAGES, messages_api.read_request),
}
"""The end of each path, and how its requests are read."""
GEMINI_METHODS: Final = {"generateContent": False, "streamGenerateContent": True}
"""The end of Gemini's paths, after the model, and whether the answer is streamed."""


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A directive for which the agent offered no tool, and the tools that it offered."""

    directive: str
    request_number: int
    offered: tuple[str, ...]


class BadBodyError(Exception):
    """The body of a request cannot be read; `status` is the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status: Final = status


class FakeModel:
    """A running fake model: `async with FakeModel() as model`."""

    def __init__(self) -> None:
        self.url = ""
        self.unknown_paths: Final[list[str]] = []
        """Method and path of requests that no API has; each once."""
        self.missing_tools: Final[list[MissingTool]] = []
        self._requests: Final[deque[ReceivedRequest]] = deque(maxlen=MAX_REQUESTS)
        self._count = 0
        self._change = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, logger=LOGGER, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def environ(self) -> dict[str, str]:
        """The environment variables that point agents at this model."""
        return agent_environ(self.url)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests for an answer so far, at most the last 1,000."""
        return list(self._requests)

    def received(self, marker: str) -> list[ReceivedRequest]:
        """The requests whose text contains this marker."""
        return [request for request in self._requests if marker in request.text]

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds, which is checked whenever a request arrives or its state changes."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._change.wait()
        except TimeoutError:
            return condition()
        return True

    def _signal(self) -> None:
        event, self._change = self._change, asyncio.Event()
        event.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.rstrip("/")
        if request.headers.get("upgrade"):
            return self._error(request, HTTPStatus.UPGRADE_REQUIRED, "WebSockets are not supported; use HTTP.")
        if request.method in ("GET", "HEAD"):
            return self._describe(request, path)
        if path.endswith("/messages/count_tokens"):
            return web.json_response({"input_tokens": INPUT_TOKENS})
        if path.endswith(":countTokens"):
            return web.json_response({"totalTokens": INPUT_TOKENS})
        reader = _find_reader(path) if request.method == "POST" else None
        if reader is None:
            return self._unknown(request)
        api, read = reader
        try:
            received = read(await _read_body(request))
        except BadBodyError as error:
            return self._error(request, error.status, str(error))
        received.path = request.path_qs
        return await self._reply(request, api, received)

    def _describe(self, request: web.Request, path: str) -> web.Response:
        """Answer GET and HEAD: the models, and the root, by which clients check that the server is there."""
        if not path:
            return web.json_response({"status": "ok"})
        if found := _MODEL_PATH.search(path):
            return web.json_response(_describe_models(request, found["model"]))
        return self._unknown(request)

    def _unknown(self, request: web.Request) -> web.Response:
        seen = f"{request.method} {request.path}"
        if seen not in self.unknown_paths and len(self.unknown_paths) < MAX_UNKNOWN_PATHS:
            self.unknown_paths.append(seen)
        return self._error(request, HTTPStatus.NOT_FOUND, f"Not found: {request.path}")

    def _error(self, request: web.Request, status: int, message: str) -> web.Response:
        body = _api_of(request).write_error(status, message)
        # Without the header, SDKs try again several times, and a check would wait for all of them.
        return web.json_response(body, status=status, headers={"x-should-retry": "false"})

    async def _reply(self, request: web.Request, api: FakeApi, received: ReceivedRequest) -> web.StreamResponse:
        self._keep(received)
        reply = choose_reply(received)
        if isinstance(reply, TextReply) and reply.missing_tool:
            offered = tuple(tool.name for tool in received.tools)
            self.missing_tools.append(MissingTool(reply.missing_tool, received.number, offered))
        if isinstance(reply, ErrorReply):
            received.state = AnswerState.SENT
            return self._error(request, reply.status, f"An error by request of the prompt: {reply.status}")
        response = await (self._stream if received.streaming else self._send)(request, api, received, reply)
        if received.state is AnswerState.OPEN:
            received.state = AnswerState.SENT
        self._signal()
        return response

    def _keep(self, received: ReceivedRequest) -> None:
        self._count += 1
        received.number = self._count
        previous = as_text(received.body.get("previous_response_id")).removeprefix(responses_api.ID_PREFIX)
        for earlier in self._requests:
            if previous == str(earlier.number):
                answer = ReceivedMessage("assistant", [ReceivedText("")])
                received.messages = [*earlier.messages, answer, *received.messages]
        self._requests.append(received)
        self._signal()

    async def _send(
        self, request: web.Request, api: FakeApi, received: ReceivedRequest, reply: TextReply | ChosenCall
    ) -> web.StreamResponse:
        """Send the answer in one piece, after as long as it would take in a stream."""
        pause_s = reply.pause_s if isinstance(reply, TextReply) else 0.0
        for _ in api.write_events(received, reply) if pause_s else ():
            await asyncio.sleep(pause_s)
            if request.transport is None or request.transport.is_closing():
                received.state = AnswerState.DISCONNECTED
                break
        return web.json_response(api.write_whole(received, reply))

    async def _stream(
        self, request: web.Request, api: FakeApi, received: ReceivedRequest, reply: TextReply | ChosenCall
    ) -> web.StreamResponse:
        pause_s = reply.pause_s if isinstance(reply, TextReply) else 0.0
        is_array = api is GEMINI and request.query.get("alt") != "sse"
        kind = "application/json" if is_array else "text/event-stream"
        response = web.StreamResponse(headers={"content-type": kind, "cache-control": "no-cache"})
        try:
            await response.prepare(request)
            separator = "["
            for name, data in api.write_events(received, reply):
                event = f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"
                await response.write((separator + data if is_array else event).encode())
                separator = ",\n"
                if pause_s:
                    await asyncio.sleep(pause_s)
            await response.write_eof(b"]" if is_array else b"")
        except ConnectionError:
            received.state = AnswerState.DISCONNECTED
        return response


async def _read_body(request: web.Request) -> Json:
    """The JSON object in the body; raises `BadBodyError`."""
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise BadBodyError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is larger than 64 MB.") from error
    except web.RequestPayloadError as error:
        raise BadBodyError(HTTPStatus.BAD_REQUEST, "The body cannot be decoded.") from error
    try:
        body: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadBodyError(HTTPStatus.BAD_REQUEST, "The body is not JSON.") from error
    if not isinstance(body, dict):
        raise BadBodyError(HTTPStatus.BAD_REQUEST, "The body is not a JSON object.")
    return cast("Json", body)


def _find_reader(path: str) -> tuple[FakeApi, Callable[[Json], ReceivedRequest]] | None:
    """The API of this path, and how its bodies are read; None if the path is not for requests of an answer."""
    if (found := _GEMINI_PATH.search(path)) and found["method"] in GEMINI_METHODS:
        streaming = GEMINI_METHODS[found["method"]]
        return GEMINI, partial(gemini_api.read_request, model=found["model"], streaming=streaming)
    return next((reader for ending, reader in READERS.items() if path.endswith(f"/{ending}")), None)


def _api_of(request: web.Request) -> FakeApi:
    """The API whose errors and lists this client expects."""
    if "anthropic-version" in request.headers or "/messages" in request.path:
        return MESSAGES
    if "x-goog-api-key" in request.headers or "key" in request.query or "/v1beta" in request.path:
        return GEMINI
    return CHAT


def _describe_models(request: web.Request, model: str | None) -> Json:
    """The list of models, or one of them, in the form of the client's API."""
    describe: Callable[[str], Json]
    match _api_of(request):
        case api if api is GEMINI:
            describe = _gemini_model
            return describe(model) if model else {"models": [describe(name) for name in MODELS]}
        case api if api is MESSAGES:
            describe = _anthropic_model
        case _:
            describe = _openai_model
    if model:
        return describe(model)
    ends = {"first_id": MODELS[0], "last_id": MODELS[-1], "has_more": False}
    return {"object": "list", "data": [describe(name) for name in MODELS], **ends}


def _openai_model(name: str) -> Json:
    return {"id": name, "object": "model", "created": chat_api.CREATED, "owned_by": "accord"}


def _anthropic_model(name: str) -> Json:
    return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}


def _gemini_model(name: str) -> Json:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    limits = {"inputTokenLimit": 1_000_000, "outputTokenLimit": 8_192}
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods, **limits}
