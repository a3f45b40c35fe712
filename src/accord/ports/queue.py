"""What connects the processes of one service: a channel for small messages, a queue of turns, a log of packets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from accord.ports.stores import PacketBatch
from accord.wire.session import PacketRecord, RunRecord

Receive = Callable[[bytes], None]
"""Takes a message; called in the event loop, and must not raise."""


class Channel(Protocol):
    """Carries small messages between the processes of one service: at most once, in order from each sender.

    A message can be lost; what must not be lost is in the store. After a moment in which messages may have been lost,
    the functions given to `on_gap` are called. A process may get its own messages as well. A topic consists of letters,
    digits, dots, dashes and underscores.
    """

    @property
    def max_bytes(self) -> int:
        """The largest payload."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent and received now."""
        ...

    async def open(self) -> None:
        """Connect; raises `StoreError` if that fails. Later failures are repaired in the background."""
        ...

    async def close(self) -> None:
        """Send what is waiting and disconnect; closing twice is no error."""
        ...

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message soon. It never waits and never raises."""
        ...

    def subscribe(self, topic: str, receive: Receive) -> Callable[[], None]:
        """Call `receive` with each message of this topic; returns a function that ends this."""
        ...

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever messages may have been lost."""
        ...


@dataclass(slots=True)
class LinkCounts:
    """What went wrong between the processes of a service, counted by this one since it started."""

    restarted: int = 0
    """Turns that were put back into the queue, because their worker died or this one was stopped."""
    given_up: int = 0
    """Queued turns that were ended because their workers died."""
    late_news: int = 0
    """How often a reader had to read the store because news of its turn was late or lost."""
    store_took_over: int = 0
    """Batches of packets that the session store took because the log of packets could not."""


class RunNews(NamedTuple):
    """Stored packets of a running turn, numbered from `first_seq`; `packets` is None if they have to be read.

    With `is_over`, the turn has ended with these packets, and the store has all of it.
    """

    first_seq: int
    last_seq: int
    packets: Sequence[str] | None = None
    is_over: bool = False

    def continues(self, after_seq: int) -> bool:
        """Whether a reader that has the packets up to this number needs nothing but these."""
        return self.first_seq <= after_seq + 1 and (self.packets is not None or self.last_seq <= after_seq)


class RunLog(Protocol):
    """Takes the packets of one running turn, from one process at a time, before any client gets them."""

    async def append(self, new: PacketBatch) -> None:
        """Store these packets and announce them to the turn's followers.

        Raises `StoreConflictError` if another process has the turn now, `StoreError` if they cannot be stored.
        """
        ...

    async def ending(self, last: Sequence[str], stored_seq: int | None = None) -> PacketBatch:
        """The batch that ends the turn: packets that the session store does not have yet, and these last ones.

        `stored_seq` is the number of the last packet that the store was found to have, if that is in doubt.
        """
        ...

    def ended(self, last: PacketBatch) -> None:
        """Announce to the turn's followers that it was ended in the store with this batch."""
        ...

    def close(self) -> None:
        """Stop; called when the turn is over, whatever became of it."""
        ...


class PacketLog(Protocol):
    """Where the packets of running turns are written and followed, by all processes of a service."""

    def open_turn(
        self, turn: RunRecord, logged_seq: int, unstored: Sequence[str] = (), *, is_followed: bool = False
    ) -> RunLog:
        """The log of a turn that this process runs, with so many packets so far.

        The last of them are `unstored` if the session store does not have these yet. With `is_followed`, other
        processes are known to follow the turn.
        """
        ...

    async def fence(self, turn: RunRecord) -> Sequence[str]:
        """Refuse packets of earlier epochs from now on; then return the packets that follow `turn.last_seq`.

        In this order: otherwise an earlier process could append between the two, and a packet would be repeated.
        Raises `StoreError` if that cannot be done now.
        """
        ...

    async def unstored(self, request_id: str, after_seq: int) -> Sequence[PacketRecord]:
        """Packets that follow this number and that the session store may not have yet, a limited amount."""
        ...

    def follow(self, request_id: str, receive: Callable[[RunNews], None]) -> Callable[[], None]:
        """Call `receive` with the news of a turn; returns a function that ends this. News can be lost."""
        ...

    def on_gap(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever news may have been lost."""
        ...


class WorkItem(Protocol):
    """A message of the queue: a turn waits, or another program sends a request."""

    @property
    def request(self) -> bytes | None:
        """The `ServiceRequest` of another program; None if the store has the turn already."""
        ...

    @property
    def agent(self) -> str:
        """The agent to which the message was sent."""
        ...

    @property
    def deliveries(self) -> int:
        """How often the message was delivered, this time included."""
        ...

    async def extend(self) -> None:
        """Keep the message from being delivered again for a while longer; failures are ignored."""
        ...

    async def done(self) -> None:
        """Remove the message; failures are ignored, and then it is delivered again."""
        ...

    async def reject(self, reason: str) -> None:
        """Remove the message and publish it, with the reason, where messages go that cannot be processed."""
        ...


class WorkQueue(Protocol):
    """Announces waiting turns to the workers. The turns are in the store: a lost message loses none."""

    @property
    def counts_turns(self) -> bool:
        """Whether there is one message for each waiting turn; otherwise one message may stand for several."""
        ...

    def announce(self, agent: str, request_id: str) -> None:
        """Say that a turn of this agent waits; never waits and never raises."""
        ...

    def bury(self, request_id: str, reason: str) -> None:
        """Publish a turn that was given up, with the reason, where messages go that cannot be processed."""
        ...

    async def receive(self, agents: Sequence[str], *, limit: int, timeout_s: float) -> Sequence[WorkItem]:
        """Wait for messages about these agents, at most so many; none if none comes in time."""
        ...
