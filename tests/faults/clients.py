"""Two clients that read a turn to its end whatever fails: that of the package, and one that uses HTTP and SSE only."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import aiohttp

from accord.client import AsyncClient
from accord.client.settings import Options
from accord.errors import AccordError

TURN_S: Final = 120
"""No turn of these tests may take longer to reach its reader, faults included."""


@dataclass(slots=True)
class Outcome:
    """What one reader of one turn got: packets by number, in the order in which they came."""

    request_id: str
    session: str
    question: str
    packets: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])
    raised: str | None = None
    connections: int = 0

    @property
    def text(self) -> str:
        return "".join(packet["p"] for _, packet in self.packets if packet["op"] == "delta")

    @property
    def error_code(self) -> str | None:
        found = [packet["p"] for _, packet in self.packets if packet["op"] == "error"]
        return found[-1]["code"] if found else None


Reader = Callable[[str, Outcome], Awaitable[None]]


def request_of(outcome: Outcome) -> dict[str, Any]:
    return {
        "request_id": outcome.request_id,
        "context": {"session_id": outcome.session, "user": {"id": "u", "name": "U"}},
        "payload": {"query": outcome.question},
    }


async def short_wait(seconds: float) -> None:
    """Wait before the next attempt, but not for as long as a service would want that is down for minutes."""
    await asyncio.sleep(min(seconds, 0.5))


async def read_with_accord(address: str, outcome: Outcome) -> None:
    """Read the turn with `accord.client`."""
    # The service is restarted all the time, so it may refuse connections also before the first packet.
    options: Options = {
        "session_id": outcome.session,
        "max_attempts": None,
        "retry_connect": True,
        "idle_s": 20.0,
        "wait": short_wait,
    }
    async with AsyncClient(address, user="u", **options) as client:
        stream = client.stream(outcome.question, request_id=UUID(outcome.request_id))
        try:
            async for packet in stream.packets():
                outcome.packets.append((stream.last_id, packet.dump()))
        except AccordError as error:
            outcome.raised = f"{error.code}: {error.message}"
    # The client reads ahead: `last_id` may be further than the packet at hand, so the order is numbered here and
    # compared with what the service has stored.
    outcome.packets = [(number, packet) for number, (_, packet) in enumerate(outcome.packets, start=1)]


async def read_raw(address: str, outcome: Outcome) -> None:
    """Read the turn by HTTP alone: ask, and after each break go on after the last numbered packet."""
    async with aiohttp.ClientSession(address, timeout=aiohttp.ClientTimeout(sock_read=20)) as http:
        while not outcome.packets or outcome.packets[-1][1]["op"] != "close":
            outcome.connections += 1
            try:
                await _read_on(http, outcome)
            except (TimeoutError, aiohttp.ClientError, OSError):
                await asyncio.sleep(0.05)


async def _read_on(http: aiohttp.ClientSession, outcome: Outcome) -> None:
    last = outcome.packets[-1][0] if outcome.packets else 0
    headers = {"accept": "text/event-stream", "last-event-id": str(last)}
    call = (
        http.get(f"/v1/requests/{outcome.request_id}", headers=headers)
        if last
        else http.post("/v1/assist", json=request_of(outcome), headers=headers)
    )
    async with call as response:
        if response.status >= 500:
            await asyncio.sleep(0.1)
            return
        assert response.status == 200, await response.text()
        rest = b""
        async for piece in response.content.iter_any():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                _take(event, outcome)


def _take(event: bytes, outcome: Outcome) -> None:
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if not line.startswith(":"))
    if "id" in fields:  # packets without a number say that this connection is over, not the turn
        outcome.packets.append((int(fields["id"]), json.loads(fields["data"])))


async def read_all(readers: list[tuple[Reader, str, Outcome]], *, at_once: int) -> None:
    """Read these turns, so many at once, each within its limit."""
    room = asyncio.Semaphore(at_once)

    async def read(reader: Reader, address: str, outcome: Outcome) -> None:
        async with room, asyncio.timeout(TURN_S):
            await reader(address, outcome)

    async with asyncio.TaskGroup() as group:
        for each in readers:
            group.create_task(read(*each))
