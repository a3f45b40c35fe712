"""Drives both clients in the same way, so that one test body covers both; and a correct stream for them to read."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

from accord.client import AsyncClient, Client
from accord.wire.packet import StreamPacket
from tests.client.faulty_server import END, STREAM_HEAD, Seen, Step, chunk, event

LIMIT_S = 20.0

PACKETS = [
    '{"op":"delta","p":"Grüße, "}',
    '{"op":"event","p":{"type":"markdown_block","data":{"content":"a\\nb"}}}',
    '{"op":"delta","p":"world"}',
    '{"op":"close"}',
]
FAILED = [
    '{"op":"delta","p":"Hel"}',
    '{"op":"error","p":{"code":"backend_failed","message":"The backend is gone","severity":"transient"}}',
    '{"op":"close"}',
]
EXPECTED = [StreamPacket.parse(packet) for packet in PACKETS]
EVENTS = [event(number, packet) for number, packet in enumerate(PACKETS, 1)]


def rest(seen: Seen, events: list[bytes] = EVENTS) -> list[Step]:
    """What an honest service answers: the packets that follow the last one that the client has."""
    return [STREAM_HEAD, *(chunk(event) for event in events[seen.last_id :]), END]


class Waits:
    """Waits no time, and remembers what was seconds_waited for."""

    def __init__(self) -> None:
        self.seconds_waited: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds_waited.append(seconds)


class Driver(Protocol):
    """A client of either kind, driven by blocking calls."""

    client: Any

    def run(self, name: str, *args: Any, **options: Any) -> Any:
        """What this method of the client comes to."""
        ...

    def read(self, stream: Any, into: list[Any], how: str = "") -> list[Any]:
        """Everything that iterating over the stream gives, also if it raises in the end."""
        ...

    def cancel(self, stream: Any) -> None:
        """Have the stream's turn stopped."""
        ...

    def close(self) -> None:
        """End the client; more than once does no harm."""
        ...


class Blocking:
    """Drives `Client`."""

    def __init__(self, client: Client) -> None:
        self.client: Any = client

    def run(self, name: str, *args: Any, **options: Any) -> Any:
        return getattr(self.client, name)(*args, **options)

    def read(self, stream: Any, into: list[Any], how: str = "") -> list[Any]:
        for item in getattr(stream, how)() if how else stream:
            into.append(item)  # noqa: PERF402 - what came before an error has to be seen
        return into

    def cancel(self, stream: Any) -> None:
        stream.cancel()

    def close(self) -> None:
        self.client.close()


class Awaiting:
    """Drives `AsyncClient` in a loop of its own."""

    def __init__(self, client: AsyncClient, runner: asyncio.Runner) -> None:
        self.client: Any = client
        self._runner = runner

    def run(self, name: str, *args: Any, **options: Any) -> Any:
        return self._bounded(lambda: getattr(self.client, name)(*args, **options))

    def read(self, stream: Any, into: list[Any], how: str = "") -> list[Any]:
        async def collect() -> None:
            async for item in getattr(stream, how)() if how else stream:
                into.append(item)  # noqa: PERF401 - what came before an error has to be seen

        self._bounded(collect)
        return into

    def cancel(self, stream: Any) -> None:
        self._bounded(stream.cancel)

    def close(self) -> None:
        self._bounded(self.client.aclose)

    def _bounded(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(LIMIT_S):
                return await work()

        return self._runner.run(bounded())


@contextmanager
def driven(kind: str, url: str, **options: Any) -> Generator[Driver]:
    """A client of this kind, closed in the end."""
    options = {"user": "ann", "wait": Waits(), **options}
    if kind == "blocking":
        with Client(url, **options) as client:
            yield Blocking(client)
        return
    with asyncio.Runner() as runner:
        driver = Awaiting(AsyncClient(url, **options), runner)
        try:
            yield driver
        finally:
            driver.close()
