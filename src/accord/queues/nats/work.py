"""The work queue in JetStream: one message for each turn that waits, or a request that another program publishes."""

# The annotations of the client are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

from accord.errors import StoreError
from accord.ports import WorkItem
from accord.queues.nats.connection import NatsConnection
from accord.wire.queue_messages import MESSAGE_ID_HEADER, REASON_HEADER, subject_token

ACK_WAIT_S: Final = 30.0
"""How long a worker may be silent before its message is delivered to another one."""
TURN_MEMBERS: Final = {"request_id"}
"""The members of a message about a turn that the store has; a request of another program has more."""

MAX_TURN_BYTES: Final = 200
MAX_NAME_CHARS: Final = 100
"""The longest id of a message that names its dead letter; a subject must not be longer than some 4,000 bytes."""
MAX_REASON_CHARS: Final = 1_000


class NatsWorkQueue:
    """Announces waiting turns to the workers over JetStream."""

    def __init__(self, connection: NatsConnection, *, ack_wait_s: float = ACK_WAIT_S) -> None:
        self.counts_turns: Final = True
        self._connection: Final = connection
        self._ack_wait_s: Final = ack_wait_s
        self._consumers: Final[dict[str, JetStreamContext.PullSubscription]] = {}

    def announce(self, agent: str, request_id: str) -> None:
        """Say that a turn of this agent waits."""
        # Without a message id: JetStream would drop the announcement of a turn that was put back into the queue.
        payload = json.dumps({"request_id": request_id}).encode()
        self._connection.send(self._connection.names.work(agent), payload)

    def bury(self, request_id: str, reason: str) -> None:
        """Publish a turn that was given up."""
        payload = json.dumps({"request_id": request_id}).encode()
        self._connection.send(self._connection.names.dead(request_id), payload, {REASON_HEADER: reason})

    async def receive(self, agents: Sequence[str], *, limit: int, timeout_s: float) -> Sequence[WorkItem]:
        """Wait for messages about these agents."""
        fetches = [asyncio.create_task(self._fetch(agent, limit, timeout_s)) for agent in agents]
        try:
            done, _ = await asyncio.wait(fetches, return_when=asyncio.FIRST_COMPLETED)
            return [item for fetch in done for item in fetch.result()]
        finally:
            for fetch in fetches:
                fetch.cancel()
            await asyncio.gather(*fetches, return_exceptions=True)

    async def _fetch(self, agent: str, limit: int, timeout_s: float) -> list[WorkItem]:
        try:
            consumer = self._consumers.get(agent) or await self._open_consumer(agent)
            messages = await consumer.fetch(limit, timeout=timeout_s)
        except NatsTimeoutError:
            return []
        except (NatsError, StoreError, OSError, TimeoutError):
            # NATS is away, or has lost the consumer. Meanwhile the worker looks into the store.
            self._consumers.pop(agent, None)
            await asyncio.sleep(min(timeout_s, 1.0))
            return []
        return [NatsWorkItem(message, agent, self._connection) for message in messages]

    async def _open_consumer(self, agent: str) -> JetStreamContext.PullSubscription:
        names = self._connection.names
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=self._ack_wait_s, max_ack_pending=-1)
        consumer = self._consumers[agent] = await self._connection.jetstream.pull_subscribe(
            names.work(agent), durable=f"workers-{subject_token(agent)}", stream=names.stream("WORK"), config=config
        )
        return consumer


class NatsWorkItem:
    """One message of the work queue."""

    def __init__(self, message: Msg, agent: str, connection: NatsConnection) -> None:
        self.agent: Final = agent
        self._message: Final = message
        self._connection: Final = connection
        self.request: Final = None if _names_a_turn(message.data) else message.data

    @property
    def deliveries(self) -> int:
        """How often it was delivered."""
        return self._message.metadata.num_delivered or 1

    async def extend(self) -> None:
        """Keep the message from being delivered again for a while longer."""
        with suppress(NatsError, OSError):
            await self._message.in_progress()

    async def done(self) -> None:
        """Acknowledge the message."""
        with suppress(NatsError, OSError):
            await self._message.ack()

    async def reject(self, reason: str) -> None:
        """Move the message to the dead letters, cut if there is no room for the reason.

        A message that is larger than NATS accepts would end the connection for good, and so would a long subject.
        """
        name = (self._message.headers or {}).get(MESSAGE_ID_HEADER, "")
        subject = self._connection.names.dead(name if 0 < len(name) <= MAX_NAME_CHARS else "message")
        reason = reason[:MAX_REASON_CHARS]
        room = self._connection.max_bytes - len(reason.encode(errors="replace"))
        self._connection.send(subject, self._message.data[:room], {REASON_HEADER: reason})
        with suppress(NatsError, OSError):
            await self._message.term()


def _names_a_turn(data: bytes) -> bool:
    """Whether this is about a turn that the store has, and not a request."""
    if len(data) > MAX_TURN_BYTES:  # whatever nesting a longer one has is left to those who parse requests
        return False
    try:
        found: Any = json.loads(data)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == TURN_MEMBERS
