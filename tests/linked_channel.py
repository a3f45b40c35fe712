"""A channel that connects objects of one process, as those of several machines connect processes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from accord.ports.queue import Receive


@dataclass
class ChannelHub:
    """What all its channels share: who gets the messages of each topic."""

    receivers: list[tuple[str, Receive]] = field(default_factory=list[tuple[str, Receive]])
    lost: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    sent: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    def channel(self, max_bytes: int = 8_000) -> "LinkedChannel":
        return LinkedChannel(self, max_bytes)


@dataclass
class LinkedChannel:
    """A channel of a hub. Messages arrive in the next round of the event loop, its own included."""

    hub: ChannelHub
    max_bytes: int
    is_connected: bool = True

    async def open(self) -> None:
        """Nothing is to be connected."""

    async def close(self) -> None:
        """Nothing is to be disconnected."""

    def publish(self, topic: str, payload: bytes) -> None:
        assert len(payload) <= self.max_bytes
        self.hub.sent.append((topic, payload))
        for of, receive in self.hub.receivers:
            if of == topic:
                asyncio.get_running_loop().call_soon(receive, payload)

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        self.hub.receivers.append((topic, receive))
        return lambda: self.hub.receivers.remove((topic, receive))

    def on_gap(self, lost: Callable[[], None]) -> None:
        self.hub.lost.append(lost)
