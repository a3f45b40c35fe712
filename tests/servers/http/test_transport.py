"""Attacks on the transport: two requests in one, other host names, origins of other sites, invalid frames."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause
from accord.errors import ErrorCode, RefusedError
from accord.servers.http.app import Application
from accord.servers.service import Caller, Headers
from tests.servers.raw import REQUEST, Port, post, wired
from tests.servers.transports import Answered, body, events_of, make_service, served, within

HELLO = post(json.dumps(body(2)).encode())


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    yield turn.text


async def relay(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask():
        yield text


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


SMUGGLED: list[tuple[str, bytes]] = [
    ("two lengths", post(REQUEST, f"Content-Length: {len(REQUEST) + len(HELLO)}")),
    ("a length and chunks", post(b"0\r\n\r\n" + HELLO, "Transfer-Encoding: chunked")),
    ("chunks that are no chunks", post(b"0\r\n\r\n" + HELLO, "Transfer-Encoding: xchunked")),
    ("chunked twice", post(REQUEST, "Transfer-Encoding: chunked", "Transfer-Encoding: identity")),
    ("a length with a sign", post(REQUEST).replace(b"Content-Length: ", b"Content-Length: +")),
    ("a space before the colon", post(REQUEST).replace(b"Content-Length:", b"Content-Length :")),
    ("a header in two lines", post(REQUEST, "X: a", " Content-Length: 0")),
    ("a line end that is half one", post(REQUEST, "X: a\nTransfer-Encoding: chunked")),
    (
        "a chunk with a wrong size",
        b"POST /v1/assist HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + HELLO,
    ),
]


@pytest.mark.parametrize("data", [row[1] for row in SMUGGLED], ids=[row[0] for row in SMUGGLED])
def test_an_ambiguous_request_is_refused(data: bytes):
    async def run() -> None:
        service = make_service(Agent(echo))
        async with wired(Application(service)) as port:
            answers = await port.exchange(data)
            assert statuses(answers) in ([400], [])
            for number in (1, 2):
                assert await service.sessions.store.turn(body(number)["request_id"]) is None

    within(run)


def test_requests_sent_in_one_go_are_answered_one_after_the_other():
    async def run() -> None:
        async with wired(Application(make_service(Agent(echo)))) as port, port.wire() as wire:
            requests = [post(json.dumps(body(number, f"question {number}")).encode()) for number in range(1, 6)]
            await wire.send(b"".join(requests))
            for number in range(1, 6):
                assert (await wire.answer()).json()["output"]["text"] == f"question {number}"

    within(run)


def test_garbage_after_a_request_never_gets_into_its_answer():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.2), "b")
        async with wired(Application(service)) as port, port.wire() as wire:
            await wire.send(post(REQUEST, "Accept: text/event-stream"))
            begun = await wire.reader.readuntil(b"id: 1\n")
            await wire.send(b"\x00\x01 garbage\r\n\r\n")
            assert b"HTTP/1.1" not in begun[9:] + await wire.rest()

    within(run)


def test_a_trailer_is_not_a_header():
    async def run() -> None:
        async with wired(Application(make_service(Agent(echo)))) as port:
            chunks = f"{len(REQUEST):x}\r\n".encode() + REQUEST + b"\r\n0\r\nLast-Event-ID: nonsense\r\n\r\n"
            head = b"POST /v1/assist HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            assert (await port.ask(head + chunks)).status == 200

    within(run)


def test_100_continue_is_sent_only_if_the_body_is_wanted():
    async def run() -> None:
        async with wired(Application(make_service(Agent(echo), max_body_bytes=1_000))) as port:
            async with port.wire() as wire:
                head, _, content = post(REQUEST, "Expect: 100-continue").partition(b"\r\n\r\n")
                await wire.send(head + b"\r\n\r\n")
                assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
                await wire.send(content)
                assert (await wire.answer()).status == 200
            async with port.wire() as wire:
                await wire.send(post(b"", "Expect: 100-continue", length=2_000))
                assert (await wire.answer()).status == 413
                assert await wire.rest() == b""

    within(run)


HOSTS: list[tuple[str, list[str], int]] = [
    ("localhost", ["localhost"], 200),
    ("localhost with its port", ["localhost:8000"], 200),
    ("an address", ["127.0.0.1:8000"], 200),
    ("an address of six", ["[::1]:8000"], 200),
    ("an address of six without a port", ["[::1]"], 200),
    ("capitals", ["LocalHost"], 200),
    ("a name that points here", ["evil.example"], 403),
    ("a name with a port", ["evil.example:8000"], 403),
    ("a name that begins well", ["localhost.evil.example"], 403),
    ("a name that ends well", ["evil.localhost"], 403),
    ("two names", ["localhost", "evil.example"], 403),
    ("two names the other way round", ["evil.example", "localhost"], 403),
    ("no name", [], 403),
    ("an empty name", [""], 403),
]


@pytest.mark.parametrize(("hosts", "status"), [row[1:] for row in HOSTS], ids=[row[0] for row in HOSTS])
def test_a_service_of_this_machine_answers_to_its_names_only(hosts: list[str], status: int):
    async def run() -> Answered:
        async with wired(Application(make_service(Agent(echo)), loopback_only=True)) as port:
            named = "".join(f"Host: {host}\r\n" for host in hosts).encode()
            return await port.ask(post().replace(b"Host: localhost\r\n", named))

    assert within(run).status == status


ORIGINS: list[tuple[str, str, bool]] = [
    ("none", "", True),
    ("its own", "http://localhost", True),
    ("one that is allowed", "https://app.example", True),
    ("another site's", "https://evil.example", False),
    ("another port's", "http://localhost:9", False),
    ("a page from a file", "null", False),
    ("what is no origin", "http://[", False),
    ("its own with more", "http://localhost@evil.example", False),
]


@pytest.mark.parametrize(("origin", "fine"), [row[1:] for row in ORIGINS], ids=[row[0] for row in ORIGINS])
def test_pages_of_other_sites_neither_post_here_nor_open_a_websocket(origin: str, fine: bool):
    async def run() -> None:
        headers_sent = [f"Origin: {origin}"] if origin else []
        for loopback_only in (True, False):
            service = make_service(Agent(echo), allow_origins=["https://app.example"])
            async with wired(Application(service, loopback_only=loopback_only)) as port:
                assert (await shake(port, *headers_sent)).status == (101 if fine else 403)
                posted = await port.ask(post(REQUEST, *headers_sent))
                assert posted.status == (200 if fine or not loopback_only else 403)

    within(run)


async def shake(port: Port, *lines: str) -> Answered:
    """What comes back for the wish to open a WebSocket."""
    wish = [
        "GET /v1/ws HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *lines, "", "",
    ]  # fmt: skip
    return await port.ask("\r\n".join(wish).encode())


class OneToken:
    """Accepts exactly one token."""

    async def authenticate(self, headers: Headers) -> Caller:
        if headers.get(b"authorization") != b"Bearer good":
            raise RefusedError("Who is this?", ErrorCode.UNAUTHENTICATED, {})
        return Caller("u")

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count nothing."""

    async def count_key_request(self, caller: Caller) -> None:
        pass


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Authorization: Bearer good"], 200),
        (["Authorization: Bearer bad", "Authorization: Bearer good"], 401),
        (["Authorization: Bearer good", "Authorization: Bearer bad"], 401),
        (["Authorization: Bearer good", "Authorization: Bearer good"], 401),
        ([], 401),
    ],
)
def test_a_second_token_does_not_hide_behind_the_first(lines: list[str], status: int):
    async def run() -> Answered:
        async with wired(Application(make_service(Agent(echo), authenticator=OneToken()))) as port:
            return await port.ask(post(REQUEST, *lines))

    assert within(run).status == status


FRAMES: list[tuple[str, bytes, int]] = [
    ("an unmasked frame", b"\x81\x02hi", 1002),
    ("an unknown kind of frame", b"\x83\x80abcd", 1002),
    ("a frame that continues nothing", b"\x80\x80abcd", 1002),
    ("text that is none", b"\x81\x81\x00\x00\x00\x00\xff", 1007),
    ("a ping in pieces", b"\x09\x80abcd", 1002),
    ("a frame that is announced too long", b"\x81\xff" + (1 << 40).to_bytes(8) + b"abcd", 1009),
    ("a frame of reserved bits", b"\xf1\x80abcd", 1002),
]


@pytest.mark.parametrize(("frame", "code"), [row[1:] for row in FRAMES], ids=[row[0] for row in FRAMES])
def test_an_invalid_websocket_frame_ends_its_connection_and_no_other(frame: bytes, code: int):
    async def run() -> None:
        async with served(Application(make_service(Agent(echo)))) as address, aiohttp.ClientSession(address) as client:
            async with client.ws_connect("/v1/ws") as socket:
                cast("Any", socket)._writer.transport.write(frame)
                closed = await socket.receive()
                assert closed.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
                assert socket.close_code == code
            async with client.post("/v1/assist", json=body()) as response:
                assert response.status == 200

    within(run)


def test_a_message_over_the_limit_ends_its_websocket():
    async def run() -> None:
        service = make_service(Agent(echo), max_frame_bytes=1_000)
        async with (
            served(Application(service)) as address,
            aiohttp.ClientSession(address) as client,
            client.ws_connect("/v1/ws") as socket,
        ):
            await socket.send_str("x" * 1_001)
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1009

    within(run)


CONTROLS: list[tuple[Any, str]] = [
    ({"resume": 'x","op":"close'}, "not_found"),
    ({"cancel": "\x00"}, "not_found"),
    ({"cancel": body()["request_id"], "resume": body()["request_id"]}, "invalid_message"),
    ({"resume": body()["request_id"], "after": 10**30}, "invalid_message"),
    ({"resume": body()["request_id"], "after": -1}, "invalid_message"),
    ({}, "invalid_message"),
    (7, "invalid_message"),
]


def test_an_invalid_frame_costs_one_readable_error_packet():
    async def run() -> None:
        async with (
            served(Application(make_service(Agent(echo)))) as address,
            aiohttp.ClientSession(address) as client,
            client.ws_connect("/v1/ws") as socket,
        ):
            for control, code in CONTROLS:
                await socket.send_json(control)
                packet = await socket.receive_json()
                assert (packet["op"], packet["p"]["code"]) == ("error", code)

    within(run)


class Counting:
    """Accepts every request, and counts."""

    def __init__(self) -> None:
        self.taken = 0

    async def authenticate(self, headers: Headers) -> Caller:
        del headers
        return Caller()

    async def count_request(self, caller: Caller, address: str) -> None:
        del caller
        assert address == "127.0.0.1"
        self.taken += 1

    async def count_key_request(self, caller: Caller) -> None:
        pass


def test_every_turn_of_a_websocket_counts():
    async def run() -> int:
        authenticator = Counting()
        async with (
            served(Application(make_service(Agent(echo), authenticator=authenticator))) as address,
            aiohttp.ClientSession(address) as client,
            client.ws_connect("/v1/ws") as socket,
        ):
            for number in range(1, 4):
                await socket.send_json(body(number))
                while (await socket.receive_json())["op"] != "close":
                    pass
        return authenticator.taken

    assert within(run) == 4


def test_a_request_repeated_while_it_runs_is_read_along_by_both():
    async def run() -> None:
        service = make_service(Agent(relay), "a", Pause(0.2), "b")
        async with served(Application(service)) as address, aiohttp.ClientSession(address) as client:

            async def ask() -> list[Any]:
                async with client.post("/v1/assist", json=body(), headers={"accept": "text/event-stream"}) as response:
                    return events_of(await response.read())

            first, second = await asyncio.gather(ask(), ask())
            assert first == second
            assert [packet["op"] for _, packet in first] == ["delta", "delta", "close"]

    within(run)


class Addresses:
    """Accepts every request, and records its address."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def authenticate(self, headers: Headers) -> Caller:
        del headers
        return Caller()

    async def count_request(self, caller: Caller, address: str) -> None:
        del caller
        self.seen.append(address)

    async def count_key_request(self, caller: Caller) -> None:
        pass


@pytest.mark.parametrize(
    ("trusted", "forwarded", "address"),
    [
        ([], "203.0.113.9", "127.0.0.1"),
        (["10.0.0.0/8"], "203.0.113.9", "127.0.0.1"),
        (["127.0.0.1"], "203.0.113.9", "203.0.113.9"),
        (["127.0.0.0/8"], "203.0.113.9", "203.0.113.9"),
        (["127.0.0.1"], "198.51.100.7, 203.0.113.9", "203.0.113.9"),
    ],
)
def test_a_forwarded_address_is_believed_from_trusted_proxies_only(trusted: list[str], forwarded: str, address: str):
    async def run() -> list[str]:
        authenticator = Addresses()
        async with wired(
            Application(make_service(Agent(echo), authenticator=authenticator, trusted_proxies=trusted))
        ) as port:
            header = f"X-Forwarded-For: {forwarded}"
            assert (await port.ask(post(REQUEST, header))).status == 200
            assert (await shake(port, header)).status == 101
        return authenticator.seen

    assert within(run) == [address, address]
