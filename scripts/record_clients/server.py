"""A scripted model server on loopback that speaks three model APIs and keeps every request it got."""

import gzip
import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from scripts.record_clients import chat, messages, responses
from scripts.record_clients.chat import Json
from scripts.record_clients.task import failure_in, reply_to

MODELS: Final = ("gpt-4o", "claude-sonnet-4-5")
MODEL_PATHS: Final = frozenset({"/models", "/v1/models"})


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as it arrived. `body` is None if there was none, or none in JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class ModelServer:
    """A running server. `folder` is where the client works; `requests` is everything that came, in order."""

    folder: PurePath
    address: str = ""
    requests: list[RecordedRequest] = field(default_factory=list[RecordedRequest])


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: one JSON document, or the events of a stream with the name of each."""

    status: HTTPStatus
    body: Any = None
    events: Iterable[tuple[str | None, str]] | None = None


def answer_chat(body: Json, folder: PurePath) -> Answer:
    """Answer `POST /v1/chat/completions`."""
    request = chat.read_request(body)
    if failure := failure_in(request):
        return Answer(failure.status, chat.error_of(failure))
    reply = reply_to(request, folder)
    if not request.stream:
        return Answer(HTTPStatus.OK, chat.whole_answer(request, reply))
    usage = bool(chat.member(body, "stream_options", "include_usage"))
    chunks = [(None, json.dumps(event)) for event in chat.events(request, reply, usage=usage)]
    return Answer(HTTPStatus.OK, events=[*chunks, (None, "[DONE]")])


def answer_responses(body: Json, folder: PurePath) -> Answer:
    """Answer `POST /v1/responses`."""
    request = responses.read_request(body)
    if failure := failure_in(request):
        return Answer(failure.status, chat.error_of(failure))
    reply = reply_to(request, folder)
    if not request.stream:
        return Answer(HTTPStatus.OK, responses.whole_answer(request, reply, body))
    return Answer(HTTPStatus.OK, events=_named(responses.events(request, reply, body)))


def answer_messages(body: Json, folder: PurePath) -> Answer:
    """Answer `POST /v1/messages`."""
    request = messages.read_request(body)
    if failure := failure_in(request):
        return Answer(failure.status, messages.error_of(failure))
    reply = reply_to(request, folder)
    if not request.stream:
        return Answer(HTTPStatus.OK, messages.whole_answer(request, reply))
    return Answer(HTTPStatus.OK, events=_named(messages.events(request, reply)))


def _named(events: Iterable[Json]) -> list[tuple[str | None, str]]:
    return [(event["type"], json.dumps(event)) for event in events]


def count_tokens(body: Json, folder: PurePath) -> Answer:  # noqa: ARG001 - one signature for every path
    """Answer `POST /v1/messages/count_tokens`."""
    return Answer(HTTPStatus.OK, {"input_tokens": messages.INPUT_TOKENS})


ANSWERS: Final[Mapping[str, Callable[[Json, PurePath], Answer]]] = {
    "/v1/chat/completions": answer_chat,
    "/v1/responses": answer_responses,
    "/v1/messages": answer_messages,
    "/v1/messages/count_tokens": count_tokens,
}


def list_models() -> Json:
    """Return the models in a form that clients of both vendors read."""
    data = [{"id": name, "object": "model", "created": 1, "owned_by": "scripted"} for name in MODELS]
    return {"object": "list", "data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


@contextmanager
def model_server(folder: PurePath) -> Generator[ModelServer]:
    """Serve on loopback until the block ends."""
    state = ModelServer(folder)

    class Handler(_Handler):
        server_state = state

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ModelServer

    def handle(self) -> None:
        # A client may go away at any time.
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self) -> None:
        body = self._keep()
        answer = ANSWERS.get(urlsplit(self.path).path)
        if answer is None or not isinstance(body, dict):
            return self._send(Answer(HTTPStatus.NOT_FOUND, {"error": {"message": "no such path"}}))
        return self._send(answer(body, self.server_state.folder))  # pyright: ignore[reportUnknownArgumentType]

    def do_GET(self) -> None:
        self._keep()
        if "upgrade" in self.headers:
            return self._send(Answer(HTTPStatus.UPGRADE_REQUIRED, {"error": {"message": "no WebSocket here"}}))
        if urlsplit(self.path).path in MODEL_PATHS:
            return self._send(Answer(HTTPStatus.OK, list_models()))
        return self._send(Answer(HTTPStatus.NOT_FOUND, {"error": {"message": "no such path"}}))

    def do_HEAD(self) -> None:
        self._keep()
        self.send_response(HTTPStatus.OK)
        self.send_header("content-length", "0")
        self.end_headers()

    def _keep(self) -> Any:
        """Read the body and keep the request."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_state.requests.append(RecordedRequest(self.command, self.path, headers, body))
        return body

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        if answer.events is None:
            document = json.dumps(answer.body).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)
            return
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, data in answer.events:
            event = ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the requests are kept."""
