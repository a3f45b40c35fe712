"""The blocking client only: its thread, other threads, and Ctrl-C."""

import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from accord.client import AsyncClient, Client
from accord.errors import UsageError
from accord.wire.packet import AnyPacket
from tests.client.driving import EVENTS, EXPECTED, rest
from tests.client.faulty_server import STREAM_HEAD, Do, FaultyServer, as_json, chunk, in_turn

CHILD = """
import sys
from accord.client import Client

with Client(sys.argv[1], user="ann") as client:
    try:
        with client.stream("Hi") as stream:
            for packet in stream:
                print(packet.op, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.read()
"""
HELD = in_turn([STREAM_HEAD, chunk(EVENTS[0]), Do.HOLD])


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "accord-client"]


def test_the_blocking_client_has_every_method_of_the_async_one():
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(method).parameters) for name, method in found if not name.startswith("_")}

    awaiting = methods(AsyncClient)
    awaiting["close"] = awaiting.pop("aclose")
    assert methods(Client) == awaiting


def test_the_thread_begins_with_the_first_call_and_ends_with_the_client():
    with FaultyServer(in_turn([as_json({})])) as server:
        with Client(server.url, user="ann") as client:
            assert threads() == []
            client.capabilities()
            client.capabilities()
            assert threads() == ["accord-client"]
        assert threads() == []
        client.close()
        with pytest.raises(UsageError, match="This client is closed"):
            client.capabilities()
    assert threads() == []


def test_several_threads_share_one_client():
    with FaultyServer(rest) as server, Client(server.url, user="ann") as client, ThreadPoolExecutor(8) as pool:

        def read(query: str) -> list[AnyPacket]:
            return list(client.stream(query))

        assert list(pool.map(read, "abcdefghijklmnop")) == [EXPECTED] * 16
        assert threads() == ["accord-client"]


def test_closing_the_client_ends_the_wait_of_another_thread():
    with FaultyServer(HELD) as server, ThreadPoolExecutor(1) as pool:
        client = Client(server.url, user="ann")
        reading = pool.submit(lambda: list(client.stream("Hi")))
        assert server.held.wait(10)
        client.close()
        with pytest.raises(UsageError, match="This client is closed"):
            reading.result(10)
        assert server.left.wait(10)


def reading_child(url: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CHILD, url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_ctrl_c_ends_the_wait_and_closes_the_connection():
    with FaultyServer(HELD) as server, reading_child(server.url) as child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == "delta\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        # The child still lives, so that it was not its end that closed the connection.
        assert server.left.wait(10)
        child.stdin.close()
        assert child.wait(10) == 0
    assert len(server.seen) == 1


def test_leaving_a_stream_closes_its_connection():
    with FaultyServer(HELD) as server, Client(server.url, user="ann") as client:
        with client.stream("Hi") as stream:
            assert next(stream.text()) == "Grüße, "
        assert server.left.wait(10)
        with pytest.raises(UsageError, match="This stream is closed"):
            next(stream)
    stream.close()
