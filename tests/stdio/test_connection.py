"""A JSON-RPC connection replies to every request once, whatever else its peer sends."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from accord.core.rpc import LineSplitter, RpcNotification, RpcRequest
from accord.errors import RpcCode
from accord.stdio import PeerGoneError, RpcConnection, RpcError


class Written:
    """A sink that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""
        self.has_data = asyncio.Event()

    def write(self, data: bytes, /) -> None:
        self.data += data
        self.has_data.set()

    async def drain(self) -> None:
        await asyncio.sleep(0)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.data.splitlines()]


async def answer(request: RpcRequest) -> Any:
    match request.method:
        case "echo":
            return request.value()
        case "fail":
            raise RuntimeError(request.method)
        case "refuse":
            raise RpcError(7, "No.", {"why": "so"})
        case _:
            return await asyncio.Event().wait()


def within(task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(task(), 20)

    return asyncio.run(bounded())


def replies(*lines: Any, batches: bool = False) -> list[Any]:
    """What is written to a peer that sends these lines and then closes the connection."""

    async def talk() -> list[Any]:
        reader, sink = asyncio.StreamReader(), Written()
        connection = RpcConnection(reader, sink, on_request=answer, grace_s=5)
        connection.batches = batches
        for line in lines:
            reader.feed_data((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        reader.feed_eof()
        await connection.run()
        return sink.lines

    return within(talk)


def request(method: str, request_id: int = 1, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


ERRORS: list[tuple[Any, int, str]] = [
    (request("fail"), RpcCode.INTERNAL_ERROR, "Internal error"),
    (request("refuse"), 7, "No."),
    (b"x" * 10_001, RpcCode.INVALID_REQUEST, "The line is longer than 10000 bytes"),
    (b'{"id":9,"method":"echo",}', RpcCode.PARSE_ERROR, "The line is not JSON"),
]


@pytest.mark.parametrize(("line", "code", "message"), ERRORS)
def test_an_error_is_replied_and_the_next_request_still_has_its_result(
    line: Any, code: int, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("accord.stdio.connection.LineSplitter", lambda: LineSplitter(10_000))
    error, result = sorted(replies(line, request("echo", 2, {"a": 1})), key=lambda reply: "result" in reply)
    assert (error["error"]["code"], error["error"]["message"]) == (code, message)
    assert (result["id"], result["result"]) == (2, {"a": 1})


@pytest.mark.parametrize("method", ["x", "x" * 101])
def test_a_connection_without_a_handler_replies_that_there_is_no_such_method(method: str):
    async def talk() -> list[Any]:
        reader, sink = asyncio.StreamReader(), Written()
        reader.feed_data(json.dumps(request(method)).encode() + b"\n")
        reader.feed_eof()
        await RpcConnection(reader, sink, grace_s=5).run()
        return sink.lines

    (reply,) = within(talk)
    assert reply["error"]["code"] == RpcCode.METHOD_NOT_FOUND
    assert len(reply["error"]["message"]) < 100


def test_a_batch_has_one_line_of_replies_and_a_malformed_one_a_single_error():
    notification = {"jsonrpc": "2.0", "method": "echo"}
    (batch,) = replies([request("echo", 1, [1]), notification, request("fail", 2)], batches=True)
    assert sorted(reply["id"] for reply in batch) == [1, 2]
    (reply,) = replies([], batches=True)
    assert reply["error"]["code"] == RpcCode.INVALID_REQUEST


def test_a_notification_whose_handler_fails_does_not_end_the_connection():
    async def talk() -> tuple[list[str], list[Any]]:
        reader, sink, methods = asyncio.StreamReader(), Written(), list[str]()

        def on_notification(notification: RpcNotification) -> None:
            methods.append(notification.method)
            raise RuntimeError(notification.method)

        for line in ({"jsonrpc": "2.0", "method": "n"}, request("echo", 3, 7)):
            reader.feed_data(json.dumps(line).encode() + b"\n")
        reader.feed_eof()
        await RpcConnection(reader, sink, on_request=answer, on_notification=on_notification, grace_s=5).run()
        return methods, sink.lines

    methods, lines = within(talk)
    assert methods == ["n"]
    assert lines == [{"jsonrpc": "2.0", "id": 3, "result": 7}]


@pytest.mark.parametrize("is_running", [False, True])
def test_a_request_is_replied_as_cancelled_whether_it_is_running_or_has_not_started(is_running: bool):
    async def talk() -> list[Any]:
        reader, sink, started = asyncio.StreamReader(), Written(), asyncio.Event()

        async def wait(_: RpcRequest) -> Any:
            started.set()
            return await asyncio.Event().wait()

        def cancel(_: RpcNotification) -> None:
            assert connection.cancel_request(4)
            assert not connection.cancel_request(5)

        connection = RpcConnection(reader, sink, on_request=wait, on_notification=cancel, grace_s=5)
        running = asyncio.create_task(connection.run())
        reader.feed_data(json.dumps(request("wait", 4)).encode() + b"\n")
        if is_running:
            await started.wait()
        # Without a pause, both lines are handled in one step, before the request's task runs.
        reader.feed_data(json.dumps({"jsonrpc": "2.0", "method": "cancel"}).encode() + b"\n")
        reader.feed_eof()
        await running
        assert started.is_set() is is_running
        return sink.lines

    (reply,) = within(talk)
    assert (reply["id"], reply["error"]["code"]) == (4, RpcCode.CANCELLED)


PEER_ERRORS: list[tuple[Any, int, str]] = [
    ({"code": 3, "message": "No."}, 3, "No."),
    ({"code": "three"}, RpcCode.INTERNAL_ERROR, "The peer's error has no message"),
    ("No.", RpcCode.INTERNAL_ERROR, "The peer's error is not an object"),
]


@pytest.mark.parametrize(("error", "code", "message"), PEER_ERRORS)
def test_an_error_of_the_peer_is_raised_however_malformed(error: Any, code: int, message: str):
    async def talk() -> RpcError:
        reader, sink = asyncio.StreamReader(), Written()
        connection = RpcConnection(reader, sink)
        running = asyncio.create_task(connection.run())
        call = asyncio.create_task(connection.call("echo"))
        await sink.has_data.wait()
        reader.feed_data(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode() + b"\n")
        with pytest.raises(RpcError) as raised:
            await call
        reader.feed_eof()
        await running
        return raised.value

    raised = within(talk)
    assert (raised.code, raised.message) == (code, message)


def test_calls_fail_when_the_peer_closes_the_connection():
    async def talk() -> None:
        reader, sink = asyncio.StreamReader(), Written()
        connection = RpcConnection(reader, sink)
        running = asyncio.create_task(connection.run())
        call = asyncio.create_task(connection.call("echo"))
        await sink.has_data.wait()
        reader.feed_eof()
        await running
        with pytest.raises(PeerGoneError):
            await call
        with pytest.raises(PeerGoneError):
            await connection.call("echo")

    within(talk)


@pytest.mark.parametrize("result", [b"nul", b'"\xff"', b"[" * 200_000 + b"]" * 200_000])
def test_a_call_whose_result_cannot_be_read_fails_instead_of_waiting(result: bytes):
    async def talk() -> None:
        reader, sink = asyncio.StreamReader(), Written()
        connection = RpcConnection(reader, sink)
        running = asyncio.create_task(connection.run())
        calling = asyncio.create_task(connection.call("m"))
        await sink.has_data.wait()
        reader.feed_data(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}\n")
        with pytest.raises(RpcError):
            await calling
        reader.feed_eof()
        await running
        assert len(sink.lines) == 1  # the call; a response has no reply

    within(talk)


class Stuck(Written):
    """A sink that accepts everything and that its peer never reads."""

    async def drain(self) -> None:
        await asyncio.Event().wait()


def test_a_peer_that_has_closed_the_input_and_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accord.stdio.connection.STALL_S", 0.01)

    async def talk() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(json.dumps(request("echo")).encode() + b"\n")  # and no end: it would be behind what is unread
        await RpcConnection(reader, Stuck(), on_request=answer, grace_s=0.01, is_input_over=lambda: True).run()

    within(talk)
