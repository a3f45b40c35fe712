"""The blocking client: the async one, run by an event loop in a private thread. It decides nothing."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Final, Self, TypeVar, Unpack
from uuid import UUID

from accord.client.client import AsyncClient
from accord.client.settings import Options, Payload, ReadAs
from accord.client.stream import Stream
from accord.errors import UsageError
from accord.wire.adaptation import AdaptationReport
from accord.wire.packet import AnyPacket, DeltaPacket, ErrorPacket
from accord.wire.receipt import Receipt
from accord.wire.request import Identity, ServiceResponse
from accord.wire.service import HealthCheckResponse

CLOSED: Final = "This client is closed; create a new one"

Result = TypeVar("Result")
Work = Callable[[], Coroutine[Any, Any, Result]]


class _LoopThread:
    """An event loop in a thread, from the first `run` to `stop`."""

    def __init__(self, at_end: Work[None]) -> None:
        self._at_end: Final = at_end
        self._lock: Final = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Final = asyncio.Event()
        self.is_stopped = False

    def run(self, work: Work[Result]) -> Result:
        """Run this in the loop and return its result; an interrupt of the wait, such as Ctrl-C, cancels it."""
        # Under the lock, so that nothing is passed to a loop that has ended; what was passed before is cancelled.
        future: Future[Result] | None = None
        try:
            with self._lock:
                if self.is_stopped:
                    raise UsageError(CLOSED)
                future = asyncio.run_coroutine_threadsafe(work(), self._started_loop())
            return future.result()
        except CancelledError:
            raise UsageError(CLOSED) from None
        finally:
            if future is not None:
                future.cancel()

    def stop(self) -> None:
        """End the loop and its thread, if there are any. Afterwards nothing can be run."""
        with self._lock:
            self.is_stopped = True
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            started: Future[asyncio.AbstractEventLoop] = Future()
            # A daemon: a client that was not closed must not keep the program from ending.
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._run_until_stopped(started)), name="accord-client", daemon=True
            )
            self._thread.start()
            self._loop = started.result()
        return self._loop

    async def _run_until_stopped(self, started: "Future[asyncio.AbstractEventLoop]") -> None:
        started.set_result(asyncio.get_running_loop())
        await self._end.wait()
        await self._at_end()


class SyncStream:
    """One turn. Iterating yields its packets and raises the error that ends it; see `Stream`."""

    def __init__(self, stream: Stream, thread: _LoopThread) -> None:
        self._stream: Final = stream
        self._thread: Final = thread

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnyPacket:
        packet = self._next()
        if packet is None:
            raise StopIteration
        if isinstance(packet, ErrorPacket):
            self._thread.run(partial(self._stream.fail, packet.p))
        return packet

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self._stream.request_id

    @property
    def last_id(self) -> int:
        """The number of the last packet that was taken: another stream can continue from there."""
        return self._stream.last_id

    def packets(self) -> Iterator[AnyPacket]:
        """Every packet, also the error that ends the stream."""
        while (packet := self._next()) is not None:
            yield packet

    def text(self) -> Iterator[str]:
        """The text alone; raises the error that ends the stream."""
        for packet in self:
            if isinstance(packet, DeltaPacket):
                yield packet.p

    def cancel(self) -> None:
        """Cancel this turn; its stream then ends with `TurnCancelledError`."""
        self._thread.run(self._stream.cancel)

    def close(self) -> None:
        """Stop reading. Whether the turn continues is a setting of the service."""
        # Closing the client has closed its streams.
        if not self._thread.is_stopped:
            self._thread.run(self._stream.aclose)

    def _next(self) -> AnyPacket | None:
        # Packets that have arrived are taken in this thread; the loop only waits. So an interrupt loses none.
        packet = self._stream.take()
        if packet is None:
            self._thread.run(self._stream.wait_for_packet)
            packet = self._stream.take()
        return packet


class Client:
    """A blocking client of one service, for one user in one session; see `AsyncClient`. Threads may share it."""

    def __init__(self, base_url: str, *, user: Identity | dict[str, Any] | str, **options: Unpack[Options]) -> None:
        self._client: Final = AsyncClient(base_url, user=user, **options)
        self._thread: Final = _LoopThread(self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session_id(self) -> str:
        """The session of every request."""
        return self._client.session_id

    def ask(self, query: str, **payload: Unpack[Payload]) -> ServiceResponse:
        """Send a query and return the whole answer."""
        return self._thread.run(lambda: self._client.ask(query, **payload))

    def stream(self, query: str, **payload: Unpack[Payload]) -> SyncStream:
        """Stream the answer to a query. The request is sent when the stream is first read."""
        return SyncStream(self._client.stream(query, **payload), self._thread)

    def resume(self, request_id: UUID | str, *, after: int = 0, capabilities: ReadAs = None) -> SyncStream:
        """Stream the packets of an earlier request after this number, by default all; see `AsyncClient.resume`."""
        return SyncStream(self._client.resume(request_id, after=after, capabilities=capabilities), self._thread)

    def answer(self, request_id: UUID | str, *, capabilities: ReadAs = None) -> ServiceResponse:
        """The whole answer to an earlier request, once it is there; with `capabilities`, as for `resume`."""
        return self._thread.run(lambda: self._client.answer(request_id, capabilities=capabilities))

    def cancel(self, request_id: UUID | str) -> None:
        """Cancel a running turn."""
        self._thread.run(lambda: self._client.cancel(request_id))

    def receipt(self, request_id: UUID | str) -> Receipt:
        """The receipt of a turn that has ended."""
        return self._thread.run(lambda: self._client.receipt(request_id))

    def adaptation(self, request_id: UUID | str, *, capabilities: ReadAs = None) -> AdaptationReport:
        """The adaptation report of a turn: what its client got of everything the agent sent, or would get."""
        return self._thread.run(lambda: self._client.adaptation(request_id, capabilities=capabilities))

    def item(self, request_id: UUID | str, item_id: str) -> dict[str, Any]:
        """An event as the agent made it, by its id; the notice of a deferred one names it."""
        return self._thread.run(lambda: self._client.item(request_id, item_id))

    def capabilities(self) -> dict[str, Any]:
        """What the agent accepts, and what each backend supports."""
        return self._thread.run(self._client.capabilities)

    def health(self) -> HealthCheckResponse:
        """The health of the service, from a single attempt."""
        return self._thread.run(self._client.health)

    def close(self) -> None:
        """Close every stream and every connection, and end the thread."""
        self._thread.stop()
