"""The fake model: a server on loopback that speaks the model APIs, keeps what it receives and replies by a script.

It takes any key. Paths are matched by their end, so that any prefix will do: with a version or without, or a gateway's.
"""

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from accord.acp_tools.inspect.fake_model.environment import MODELS, OPENAI_VERSION, agent_environ
from accord.acp_tools.inspect.fake_model.received_request import AnswerState, MalformedRequest, ReceivedRequest
from accord.acp_tools.inspect.fake_model.script import ErrorReply, TextReply, answer_pieces, choose_reply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import (
    FIRST_SERVER_STATUS,
    AnswerLabels,
    AnswerWriter,
    MalformedAnswerError,
    ServedApi,
    api_status,
    parse_object,
)
from accord.apis.gemini.codec import COUNT_TOKENS_METHOD, KEY_HEADER, GeminiCodec
from accord.apis.messages.codec import COUNT_TOKENS_PATH, MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.core.sse import EventDecoder
from accord.core.work.fields import ModelRequest
from accord.errors import ERROR_FACTS, AccordError, ErrorCode, RefusedError
from accord.wire.conversation import ConversationMessage, Role
from accord.wire.work import AnyPiece

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
MAX_REQUESTS: Final = 1_000
MAX_PROBLEMS: Final = 100
SHUTDOWN_S: Final = 0.2
INPUT_TOKENS: Final = 100
OWNER: Final = "accord"
CREATED: Final = 1_767_225_600

LOGGER: Final = logging.getLogger(__name__)
LOGGER.addHandler(logging.NullHandler())
"""What aiohttp says about malformed requests; a report has no use for it."""

CHAT: Final = ChatCodec()
RESPONSES: Final = ResponsesCodec()
MESSAGES: Final = MessagesCodec()
GEMINI: Final = GeminiCodec()
_VERSION: Final = f"/{OPENAI_VERSION}"
CODECS: Final[Mapping[str, ServedApi]] = {
    codec.path.removeprefix(_VERSION): codec for codec in (CHAT, RESPONSES, MESSAGES)
}
"""The codecs by the end of their paths. Gemini's paths have the model in them."""
COUNTING: Final = {COUNT_TOKENS_PATH.removeprefix(_VERSION): MESSAGES, COUNT_TOKENS_METHOD: GEMINI}
"""The codecs by the end of the paths that count tokens."""
RequestReader = Callable[[dict[str, Any]], ModelRequest]
_MODEL_PATH: Final = re.compile(r"(?:^|/)models(?:/(?P<model>[^:]+))?$")


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A directive for which the agent offered no tool, and the tools that it offered."""

    directive: str
    request_number: int
    offered: tuple[str, ...]


class StatusError(AccordError):
    """An error that a client gets with this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.caller_status: Final = status
        general = ErrorCode.INTERNAL if status >= FIRST_SERVER_STATUS else ErrorCode.INVALID_MESSAGE
        self.code = next((code for code, facts in ERROR_FACTS.items() if facts.http == status), general)


class FakeModel:
    """A running fake model: `async with FakeModel() as model`."""

    def __init__(self) -> None:
        self.url = ""
        self.unknown_paths: Final[list[str]] = []
        """Method and path of requests that no API has; each once."""
        self.refused: Final[deque[MalformedRequest]] = deque(maxlen=MAX_PROBLEMS)
        """The last requests that are not what their API takes."""
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

    def refused_request(self, marker: str = "") -> MalformedRequest | None:
        """The last request that was refused and may have had this marker."""
        return next((each for each in reversed(self.refused) if marker in each.text or not each.text), None)

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
        try:
            return await self._dispatch(request, request.path.rstrip("/"))
        except AccordError as error:
            body = _codec_of(request).write_error(error, "req_accord")
            # Without the header, SDKs try again several times, and a check would wait for all of them.
            return web.json_response(body, status=api_status(error), headers={"x-should-retry": "false"})

    async def _dispatch(self, request: web.Request, path: str) -> web.StreamResponse:
        if request.headers.get("upgrade"):
            raise StatusError(426, "WebSockets are not supported; use HTTP.")
        if request.method in ("GET", "HEAD"):
            if not path:  # by which clients check that the server is there
                return web.json_response({"status": "ok"})
            if names := _MODEL_PATH.search(path):
                return web.json_response(_describe_models(request, names["model"]))
        elif counting := next((codec for ending, codec in COUNTING.items() if path.endswith(ending)), None):
            return web.json_response(counting.write_count(INPUT_TOKENS))
        elif request.method == "POST" and (endpoint := _find_endpoint(path)):
            return await self._reply(request, *endpoint)
        place = f"{request.method} {request.path}"
        if place not in self.unknown_paths and len(self.unknown_paths) < MAX_PROBLEMS:
            self.unknown_paths.append(place)
        raise StatusError(404, f"Not found: {request.path}")

    async def _reply(self, request: web.Request, codec: ServedApi, read: RequestReader) -> web.StreamResponse:
        body: dict[str, Any] = {}
        try:
            body = await _read_body(request)
            received = ReceivedRequest(read(body), request.path_qs)
        except (RefusedError, StatusError) as error:
            text = json.dumps(body, ensure_ascii=False) if body else ""
            self.refused.append(MalformedRequest(f"{request.method} {request.path}", error.message, text))
            raise
        self._keep(received)
        reply = choose_reply(received)
        if isinstance(reply, TextReply) and reply.missing_tool:
            offered = tuple(tool.name for tool in received.tools)
            self.missing_tools.append(MissingTool(reply.missing_tool, received.number, offered))
        if isinstance(reply, ErrorReply):
            received.state = AnswerState.SENT
            raise StatusError(reply.status, f"An error by request of the prompt: {reply.status}")
        send = self._stream if received.request.order.stream else self._send
        response = await send(request, codec, received, reply)
        if received.state is AnswerState.OPEN:
            received.state = AnswerState.SENT
        self._signal()
        return response

    def _keep(self, received: ReceivedRequest) -> None:
        self._count += 1
        received.number = self._count
        # A client that continues an answer names it by its id, each API in a member of its own.
        texts = [value for value in received.request.body.values() if isinstance(value, str)]
        for earlier in self._requests:
            if any(text.endswith(earlier.answer_id) for text in texts):
                received.earlier = [*earlier.messages, ConversationMessage(role=Role.ASSISTANT, content=[])]
        self._requests.append(received)
        self._signal()

    async def _send(
        self, request: web.Request, codec: ServedApi, received: ReceivedRequest, reply: TextReply | ChosenCall
    ) -> web.StreamResponse:
        """Send the answer in one piece, after as long as it would take in a stream."""
        pieces = answer_pieces(received, reply)
        pause_s = _pause_s(reply)
        for _ in pieces if pause_s else ():
            await asyncio.sleep(pause_s)
            if request.transport is None or request.transport.is_closing():
                received.state = AnswerState.DISCONNECTED
                break
        return web.json_response(codec.write_answer(received.request, _labels(received), [pieces]))

    async def _stream(
        self, request: web.Request, codec: ServedApi, received: ReceivedRequest, reply: TextReply | ChosenCall
    ) -> web.StreamResponse:
        events = _write_events(codec.answer_writer(received.request, _labels(received)), answer_pieces(received, reply))
        is_array = codec is GEMINI and request.query.get("alt") != "sse"
        content_type = "application/json" if is_array else "text/event-stream"
        response = web.StreamResponse(headers={"content-type": content_type, "cache-control": "no-cache"})
        pause_s = _pause_s(reply)
        try:
            await response.prepare(request)
            for data in filter(None, _as_array(events) if is_array else events):
                await response.write(data)
                if pause_s:
                    await asyncio.sleep(pause_s)
            await response.write_eof()
        except ConnectionError:
            received.state = AnswerState.DISCONNECTED
        return response


def _write_events(writer: AnswerWriter, pieces: Iterable[AnyPiece]) -> Iterator[bytes]:
    yield writer.start()
    yield from map(writer.write, pieces)
    yield writer.finish()


def _as_array(events: Iterable[bytes]) -> Iterator[bytes]:
    """The same events in an array, which is what Gemini's clients get unless they want a stream of events."""
    decoder, separator = EventDecoder(), b"["
    for data in events:
        for event in decoder.feed(data):
            yield separator + event.data
            separator = b",\n"
    yield b"]"


def _pause_s(reply: TextReply | ChosenCall) -> float:
    return reply.pause_s if isinstance(reply, TextReply) else 0.0


def _labels(received: ReceivedRequest) -> AnswerLabels:
    return AnswerLabels(received.answer_id, CREATED, received.model, {})


def _find_endpoint(path: str) -> tuple[ServedApi, RequestReader] | None:
    """The codec of this path, and how it reads bodies; None if the path is not for requests of an answer."""
    if (target := GEMINI.read_path(path)) is not None:
        model, streaming = target
        return GEMINI, partial(GEMINI.read_request, model=model, streaming=streaming)
    codec = next((codec for ending, codec in CODECS.items() if path.endswith(ending)), None)
    return codec and (codec, codec.read_request)


async def _read_body(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body; raises `StatusError`."""
    try:
        return parse_object(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise StatusError(413, "The body is larger than 64 MB.") from error
    except web.RequestPayloadError as error:
        raise StatusError(400, "The body cannot be decoded.") from error
    except MalformedAnswerError as error:
        raise StatusError(400, f"The body cannot be read: {error}.") from error


def _codec_of(request: web.Request) -> ServedApi:
    """The codec of the API whose errors and lists this client expects."""
    if "anthropic-version" in request.headers or "/messages" in request.path:
        return MESSAGES
    if (
        KEY_HEADER in request.headers
        or "key" in request.query
        or "/v1beta" in request.path
        or GEMINI.read_path(request.path)
    ):
        return GEMINI
    return CHAT


def _describe_models(request: web.Request, model: str | None) -> dict[str, Any]:
    """The list of models, or one of them, in the form of the client's API."""
    codec = _codec_of(request)
    if model:
        return codec.write_model(model, OWNER)
    return codec.write_models([codec.write_model(name, OWNER) for name in MODELS])
