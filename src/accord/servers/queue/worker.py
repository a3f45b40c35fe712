"""A worker: takes turns from the queue and runs them, so many at the same time, until it is stopped.

The store decides which turn is next and who has it. A message of the queue only says that there is one, so that a lost
message costs time and no turn: an idle worker looks into the store every few seconds. The message is acknowledged when
the turn has ended. It knows neither NATS nor PostgreSQL.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Final

from accord.config import ServerConfig
from accord.errors import AccordError, StoreError
from accord.ports import ClaimedRun, WorkItem, WorkQueue
from accord.run import Run, Sessions
from accord.servers.http.body import read_request
from accord.servers.observability import REQUEST_ID, continuing_trace
from accord.wire.request import Identity, ServiceRequest

LOOK_EVERY_S: Final = 3.0
"""How often an idle worker looks into the store without a message."""
RECEIVE_AT_ONCE: Final = 32
EXTEND_EVERY_S: Final = 10.0
"""How often the messages of running turns are kept from being delivered again."""
RECOVER_EVERY_S: Final = 5.0
MAX_DELIVERIES: Final = 5
"""How often a request of another program is tried before it is put among the dead letters."""
RETRY_S: Final = 0.5

LOG: Final = logging.getLogger("accord.worker")


class Worker:
    """Runs turns of the queue. `settings` has the limits of what other programs send.

    `waited` is called with the seconds that each new turn was in the queue.
    """

    def __init__(
        self,
        sessions: Sessions,
        queue: WorkQueue,
        settings: ServerConfig,
        *,
        turns: int,
        waited: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._sessions: Final = sessions
        self._queue: Final = queue
        self._settings: Final = settings
        self._turns: Final = turns
        self._waited: Final = waited
        self._agents: Final = deque(dict.fromkeys(each.agent.name for each in sessions.engines.values()))
        self._stopping: Final = asyncio.Event()
        self._running: Final[dict[asyncio.Task[None], WorkItem | None]] = {}
        self._room: Final = asyncio.Event()

    @property
    def running(self) -> int:
        """How many turns it runs."""
        return len(self._running)

    def stop(self) -> None:
        """Take no more turns; `run` then returns, while turns still run."""
        self._stopping.set()
        self._room.set()

    async def run(self) -> None:
        """Take turns until it is stopped."""
        stopping = asyncio.create_task(self._stopping.wait())
        chores = [asyncio.create_task(each) for each in (self._extend_messages(), self._recover())]
        try:
            await self._take(())  # turns may wait whose announcement was lost
            while not self._stopping.is_set():
                if len(self._running) >= self._turns:
                    self._room.clear()
                    await self._room.wait()
                    if not self._queue.counts_turns:
                        await self._take(())  # one message stands for all that have waited for this room
                    continue
                limit = min(RECEIVE_AT_ONCE, self._turns - len(self._running))
                receiving = asyncio.create_task(
                    self._queue.receive(list(self._agents), limit=limit, timeout_s=LOOK_EVERY_S)
                )
                await asyncio.wait([receiving, stopping], return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    receiving.cancel()
                    await asyncio.gather(receiving, return_exceptions=True)
                    break
                await self._take(await self._received(receiving))
        finally:
            stopping.cancel()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(stopping, *chores, return_exceptions=True)

    async def drain(self, seconds: float) -> None:
        """Wait for the turns that run; those that may be restarted go back to the queue after so many seconds."""
        await self._sessions.drain(seconds)
        if self._running:
            await asyncio.wait(self._running)

    async def _received(self, receiving: asyncio.Task[Sequence[WorkItem]]) -> Sequence[WorkItem]:
        if receiving.cancelled():  # a client that closes its connection cancels what waits for it
            return ()
        try:
            return receiving.result()
        except Exception:
            LOG.exception("Receiving messages of the queue failed; the store is asked for turns")
            await self._pause()
            return ()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await self._stopping.wait()

    async def _take(self, items: Sequence[WorkItem]) -> None:
        """Start a turn for each of these messages; without messages, as many as wait and there is room for."""
        try:
            if items:
                await asyncio.gather(*(self._take_one(item) for item in items))
            if not items or not self._queue.counts_turns:
                while len(self._running) < self._turns and not self._stopping.is_set():
                    claimed = await self._claim()
                    if claimed is None:
                        break
                    self._start(claimed, None)
        except StoreError as error:
            LOG.warning("No turn can be taken from the store: %s", error.message)
            await self._pause()
        except Exception:
            LOG.exception("No turn can be taken from the queue")
            await self._pause()

    async def _take_one(self, item: WorkItem) -> None:
        if item.request is not None and not await self._accept(item, item.request):
            return
        claimed = await self._claim()
        if claimed is None:  # another worker has it, or it was deleted
            await item.done()
        else:
            self._start(claimed, item)

    async def _claim(self) -> ClaimedRun | None:
        """Take the next turn; no agent comes first every time."""
        self._agents.rotate(-1)
        return await self._sessions.claim(list(self._agents))

    async def _accept(self, item: WorkItem, body: bytes) -> bool:
        """Put the request of another program into the store; False if that is all that is to be done."""
        try:
            read = await read_request(body, self._settings)
            await self._sessions.begin(_addressed(read.request, item.agent), sent=read.sent)
        except StoreError as error:
            if item.deliveries >= MAX_DELIVERIES:
                await item.reject(f"Delivered {item.deliveries} times; the last failure: {error.message}")
            return False
        except AccordError as error:
            # A request that was not admitted has a turn with a receipt, and its readers get the error.
            await item.reject(error.message)
            return False
        except Exception as error:
            LOG.exception("A message cannot be processed")
            await item.reject(f"It cannot be processed ({type(error).__name__})")
            return False
        return True

    def _start(self, claimed: ClaimedRun, item: WorkItem | None) -> None:
        if claimed.turn.epoch <= 1:  # one that is restarted was not in the queue all the time
            self._waited(claimed.waited_s)
        task = asyncio.create_task(self._run_turn(claimed, item))
        self._running[task] = item
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("A worker failed in a turn", exc_info=error)

    async def _run_turn(self, claimed: ClaimedRun, item: WorkItem | None) -> None:
        REQUEST_ID.set(claimed.turn.request_id)
        trace = claimed.work.trace if claimed.work is not None else None
        context: Any = nullcontext() if trace is None else continuing_trace([(b"traceparent", trace.encode())])
        try:
            with context:
                live: Run = await self._sessions.run_claimed(claimed)
        except AccordError as error:
            # The row of the turn is this process's and no turn runs for it: `recover` restarts or ends it.
            LOG.warning("A turn cannot be run now: %s", error.message)
        else:
            await asyncio.wait([live.task])
        if item is not None:
            await item.done()

    async def _extend_messages(self) -> None:
        while True:
            await asyncio.sleep(EXTEND_EVERY_S)
            for item in list(self._running.values()):
                if item is not None:
                    await item.extend()

    async def _recover(self) -> None:
        """Restart or end the turns of dead workers."""
        while True:
            try:
                count = await self._sessions.recover()
                if count:
                    LOG.warning(
                        "Restarted or ended the turns of a process that stopped", extra={"fields": {"turns": count}}
                    )
            except StoreError as error:
                LOG.warning("Turns of dead workers cannot be found: %s", error.message)
            except Exception:
                LOG.exception("Turns of dead workers cannot be found")
            await asyncio.sleep(RECOVER_EVERY_S)


def _addressed(request: ServiceRequest, agent: str) -> ServiceRequest:
    """The request, to this agent unless it names one itself: it came on the subject of that agent."""
    if request.context.agent is not None:
        return request
    context = request.context.model_copy(update={"agent": Identity(id=agent, name=agent)})
    return request.model_copy(update={"context": context})
