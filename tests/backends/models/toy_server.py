"""Faults of an endpoint of the toy API, as raw bytes."""

import asyncio
import gzip
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.model_options import TRANSPORTS, make_upstream
from accord.backends.upstream import UpstreamTimeouts
from accord.wire.conversation import Conversation
from accord.wire.work import AnyPiece, WorkOrder
from tests.backends.models.toy_api import ToyApi, event
from tests.client.faulty_server import BARE_STREAM_HEAD, END, STREAM_HEAD, Do, Step, chunk, whole

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
KEY = "sk-a-key-that-nobody-may-read"
HELLO, THERE, ENDED = event(text="Hello "), event(text="there."), event(end=True)
EVENTS = (HELLO, THERE, ENDED)
TEXT = "Hello there."
HUGE_BYTES = 17 << 20

STREAMED = [STREAM_HEAD, *map(chunk, EVENTS), END]
AT_ONCE = [whole(200, b'{"text": "Hello there."}')]
ZIPPED = gzip.compress(b'{"text": "Hello there."}')


def refusal(status: int, *headers: str) -> list[bytes]:
    return [whole(status, b'{"error": "Bearer ' + KEY.encode() + b' was sent"}', *headers)]


class StandingClock:
    """A clock that always shows the same time of day."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@dataclass
class Waits:
    """Records waits without waiting."""

    waited: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        await asyncio.sleep(0)


def order(*, stream: bool = True) -> WorkOrder:
    conversation = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]}
    return WorkOrder(conversation=Conversation.model_validate(conversation), stream=stream)


def model(
    url: str,
    transport: str = next(iter(TRANSPORTS)),
    *,
    waits: Waits | None = None,
    times: UpstreamTimeouts | None = None,
    tls: ssl.SSLContext | None = None,
    name: str = "toy",
) -> ModelBackend:
    """Return a backend for the toy API at this address; the caller closes it."""
    upstream = make_upstream(transport, url, times or UpstreamTimeouts(5.0, 5.0, 5.0), tls)
    retries = RetryPolicy(wait=waits or Waits(), jitter=lambda: 1.0)
    return ModelBackend(name, ToyApi(), Endpoint(url, "m", KEY), upstream, StandingClock(), retries=retries)


async def pieces_of(backend: ModelBackend, *, stream: bool = True) -> list[AnyPiece]:
    return [piece async for piece in backend.answer(order(stream=stream))]


def bare(*events: bytes) -> Sequence[Step]:
    """A stream that ends with its connection, as HTTP/1.0 had it."""
    return [BARE_STREAM_HEAD, *events, Do.CLOSE]


def drip(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]
