"""Limits on everything that a client controls: size, time, depth, form. Every refusal has the same form."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any
from uuid import UUID

import pytest

from accord.agent import Agent, Turn, Yielded
from accord.core.prompt import ContentLimits
from accord.core.sizes import Excess, find_excess
from accord.run import Engine, Sessions
from accord.servers.http.app import Application
from accord.stores.memory import MemoryStore
from tests.servers.raw import REQUEST, post, wired
from tests.servers.transports import Answered, InMemory, alive, body, make_service, within

LIMITS: dict[str, Any] = {
    "max_body_bytes": 2_000,
    "max_header_bytes": 1_000,
    "max_depth": 10,
    "max_values": 100,
    "header_timeout_s": 0.3,
    "body_timeout_s": 0.3,
}
CHUNKED = b"POST /v1/assist HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


def limited(**settings: Any) -> Application:
    return Application(make_service(Agent(echo), **{**LIMITS, **settings}))


def chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def check_problem(answered: Answered, status: int, code: str) -> Any:
    """The answer is a problem body of this code, with a request id."""
    problem = answered.json()
    assert (answered.status, problem["status"], problem["code"]) == (status, status, code)
    assert answered.headers["content-type"] == "application/problem+json"
    assert UUID(problem["request_id"])
    assert "Traceback" not in problem["detail"]
    return problem


def get(path: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


REFUSED: list[tuple[str, bytes, int, str]] = [
    ("a body that is announced too long", post(b"", length=2_001), 413, "too_large"),
    ("a body in chunks that grows too long", CHUNKED + b"\r\n" + chunk(b" " * 1_500) * 2, 413, "too_large"),
    ("a body that stops half way", post(REQUEST, length=len(REQUEST) + 1), 408, "request_timed_out"),
    ("a chunk that stops half way", CHUNKED + b"\r\n5\r\nab", 408, "request_timed_out"),
    ("no body", post(b""), 400, "invalid_message"),
    ("an announced length of many digits", post(b"", length=10**30), 400, "invalid_message"),
    ("a header that is too long", post(REQUEST, "X: " + "x" * 1_001), 431, "too_large"),
    ("an address that is too long", get("/" + "x" * 1_001), 431, "too_large"),
    ("headers that are too long together", post(REQUEST, *["X: " + "x" * 100] * 10), 431, "too_large"),
    ("too many headers", post(REQUEST, *["a: b"] * 130), 431, "too_large"),
    ("headers that do not end", b"GET / HTTP/1.1\r\nHost: localhost\r\n", 408, "request_timed_out"),
    ("nothing at all", b"", 408, "request_timed_out"),
    ("what is no HTTP", b"\x16\x03\x01\x02\x00\x01\x00", 400, "invalid_message"),
    ("a path that is no text", b"GET /\xff HTTP/1.1\r\n\r\n", 400, "invalid_message"),
    ("what is nested one too deep", post(nested(11)), 400, "invalid_message"),
    ("more values than the limit", post(b"[" + b"[]," * 100 + b"[]]"), 413, "too_large"),
    ("text that is no JSON", post(b"hi", "Content-Type: text/plain"), 415, "unsupported_media_type"),
    ("a form", post(b"a=b", "Content-Type: application/x-www-form-urlencoded"), 415, "unsupported_media_type"),
    ("a compressed body", post(REQUEST, "Content-Encoding: gzip"), 415, "unsupported_media_type"),
    ("a format that is not offered", post(REQUEST, "Accept: text/html"), 406, "not_acceptable"),
    ("a method that is not taken", get("/v1/assist"), 405, "method_not_found"),
    ("an unknown path", get("/v1/nothing"), 404, "not_found"),
    ("a path with one slash more", get("/v1/assist/", method="POST"), 404, "not_found"),
    ("a WebSocket's address without a WebSocket", get("/v1/ws"), 404, "not_found"),
    ("a request that nobody made", get("/v1/requests/%00'--"), 404, "not_found"),
    ("a place in a stream that is no number", post(REQUEST, "Last-Event-ID: three"), 400, "invalid_message"),
    ("a place in a stream of many digits", post(REQUEST, "Last-Event-ID: " + "9" * 900), 400, "invalid_message"),
    ("a negative place", post(REQUEST, "Last-Event-ID: -1"), 400, "invalid_message"),
]


@pytest.mark.parametrize(("data", "status", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_request_above_a_limit_is_refused_in_one_form_and_affects_no_other_client(
    data: bytes, status: int, code: str
):
    async def run() -> None:
        async with wired(limited()) as port:
            check_problem(await port.ask(data), status, code)
            assert (await port.ask(post())).json()["output"]["text"] == "hi"

    within(run)


FINE: list[tuple[str, bytes]] = [
    ("a body in chunks", CHUNKED + b"\r\n" + chunk(REQUEST) + b"0\r\n\r\n"),
    ("a request with a type of its own", post(REQUEST, "Content-Type: application/problem+json; charset=utf-8")),
    ("brackets in a text", post(json.dumps(body(query='"\\"[[{' * 20)).encode())),
    ("a place beyond the end", post(REQUEST, "Last-Event-ID: 1000000")),
    ("an address in capitals and escapes", post(REQUEST).replace(b"/v1/assist", b"/v1/%61ssist")),
    ("a client of HTTP/1.0", post(REQUEST).replace(b"HTTP/1.1", b"HTTP/1.0")),
]


@pytest.mark.parametrize("data", [row[1] for row in FINE], ids=[row[0] for row in FINE])
def test_a_request_within_the_limits_is_answered(data: bytes):
    async def run() -> None:
        async with wired(limited()) as port:
            answered = await port.ask(data)
            assert answered.status == 200
            assert answered.headers["vary"] == "Accept"

    within(run)


def test_a_refusal_lists_offered_formats_and_allowed_methods():
    async def run() -> None:
        async with wired(limited()) as port:
            lost = await port.ask(post(REQUEST, "Accept: image/png"))
            assert lost.json()["details"] == {"offered": ["application/json", "text/event-stream"]}
            assert lost.headers["vary"] == "Accept"
            assert (await port.ask(get("/v1/assist", method="PUT"))).headers["allow"] == "POST"
            path = f"/v1/requests/{UUID(int=1)}"
            assert (await port.ask(get(path, method="PATCH"))).headers["allow"] == "GET, DELETE"

    within(run)


def test_a_head_request_is_answered_without_a_body():
    async def run() -> None:
        async with wired(limited()) as port:
            await port.ask(post())
            request = get(f"/v1/requests/{UUID(int=1)}/receipt", "Connection: close", method="HEAD")
            head, _, content = (await port.exchange(request)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert content == b""

    within(run)


def test_a_request_is_found_however_its_id_is_spelled():
    async def run() -> None:
        request = body()
        request["request_id"] = "550E8400-E29B-41D4-A716-44665544000A"
        async with wired(limited()) as port:
            assert (await port.ask(post(json.dumps(request).encode()))).status == 200
            for spelled in (
                request["request_id"],
                request["request_id"].lower(),
                request["request_id"].replace("-", ""),
            ):
                assert (await port.ask(get(f"/v1/requests/{spelled}"))).json()["output"]["text"] == "hi"

    within(run)


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"1", 0),
        (nested(10), 10),
        (b'["[[[[[[[[[[[["]', 1),
        (b'["\\"[[[[", {"a]]]": "[[[\\\\"}]', 2),
        (b"[" * 5 + b"[],[]" * 50 + b"]" * 5, 6),
        (b'["[[[[[[[', 1),
        (b'["[[[[[[[\\', 1),
    ],
)
def test_depth_is_counted_without_the_brackets_in_texts(text: bytes, depth: int):
    padded = b"[" + b"[]," * 20 + text + b"]"
    assert find_excess(padded, max_values=1_000, max_depth=depth + 1 if depth else 2) is None
    assert depth < 2 or find_excess(padded, max_values=1_000, max_depth=depth) == Excess("depth", depth)


@pytest.mark.parametrize("text", [b"[" * 200 + b'"' + b'\\"' * 500_000, b"[[" + b"[]," * 300_000, b'"[' * 500_000])
def test_counting_depth_takes_no_longer_than_reading(text: bytes):
    began_at = perf_counter()
    find_excess(text, max_values=10**9, max_depth=100)
    assert perf_counter() - began_at < 1


def test_more_blocks_than_the_limit_are_refused():
    async def run() -> None:
        service = make_service(Agent(echo))
        engine = Engine(Agent(echo), service.sessions.engine.dispatcher, content_limits=ContentLimits(max_blocks=10))
        service.sessions = Sessions(engine, MemoryStore())
        async with alive(Application(service)) as app:
            content = json.dumps(body(content=[{"type": "text", "text": ""}] * 11)).encode()
            check_problem(await InMemory(app).call("POST", "/v1/assist", content), 422, "content_invalid")

    within(run)


def test_a_slow_drip_of_a_body_ends_in_time_and_may_not_go_on_for_ever():
    async def run() -> None:
        async with wired(limited()) as port, port.wire() as wire:
            await wire.send(post(b"", length=1_000))

            async def drip() -> None:
                while not wire.reader.at_eof():
                    wire.writer.write(b" ")
                    await asyncio.sleep(0.05)

            dripping = asyncio.create_task(drip())
            check_problem(await wire.answer(), 408, "request_timed_out")
            assert await wire.rest() == b""
            dripping.cancel()

    within(run)


def test_blank_lines_do_not_keep_a_connection_open():
    async def run() -> None:
        async with wired(limited()) as port, port.wire() as wire:
            await wire.send(post())
            assert (await wire.answer()).status == 200
            await wire.send(b"\r\n\r\n")
            assert await wire.rest() == b""

    within(run)


def test_a_client_that_sends_headers_byte_by_byte_is_disconnected():
    async def run() -> None:
        async with wired(limited()) as port, port.wire() as wire:

            async def drip() -> None:
                await wire.send(b"GET / HTTP/1.1\r\n")
                while not wire.reader.at_eof():
                    wire.writer.write(b"a: b\r\n")
                    await asyncio.sleep(0.05)

            dripping = asyncio.create_task(drip())
            check_problem(await wire.answer(), 408, "request_timed_out")
            assert await wire.rest() == b""
            dripping.cancel()

    within(run)


def test_one_header_that_never_ends_is_not_collected_for_ever():
    async def run() -> None:
        async with wired(limited(header_timeout_s=20.0)) as port, port.wire() as wire:
            await wire.send(b"GET / HTTP/1.1\r\nX: ")

            async def pour() -> None:
                while not wire.reader.at_eof():
                    wire.writer.write(b"x" * 300)
                    await asyncio.sleep(0.01)

            pouring = asyncio.create_task(pour())
            check_problem(await wire.answer(), 431, "too_large")
            pouring.cancel()

    within(run)


def test_a_thousand_idle_connections_do_not_stop_others():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = 4_096 if hard == resource.RLIM_INFINITY else min(max(soft, 4_096), hard)
    connections = min(1_000, (allowed - 300) // 2)  # both ends are in this process

    async def run() -> None:
        async with wired(limited(header_timeout_s=20.0)) as port:
            opened = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(connections)]
            began_at = perf_counter()
            assert (await port.ask(post())).status == 200
            assert perf_counter() - began_at < 2
            for _, writer in opened:
                writer.transport.abort()

    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    try:
        within(run)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
