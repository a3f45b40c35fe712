"""Stored turns: begun once, stored packet by packet, ended with their messages and their receipt.

One request id is one turn, in every process and for ever: it runs once, and a repeated request reads its packets. A
request that is not admitted is a turn, too, with a receipt and without a run of its agent. Any client that may see a
turn can read it, while it runs or later, in the view of what it can show itself (`views.py`). A
process sends heartbeats while it runs turns; other processes end the turns of one that sent none for the length of a
lease. An end that the store could not write is tried again. A turn can be cancelled through any process. The store is
known as a Protocol only.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from accord.core.receipt import Sign
from accord.errors import ErrorCode, RefusedError, StoreConflictError, StoreError
from accord.ports import (
    ClaimedRun,
    PermissionChannel,
    QueuedWork,
    RunStart,
    SessionStore,
    WorkQueue,
)
from accord.run.admit import Rejection, SentContent, kept_prompt, unknown_agent
from accord.run.budgets import Budgets
from accord.run.costs import RunCosts, queued_body, queued_payer
from accord.run.dispatch import Dispatcher
from accord.run.endings import RunEnded, RunEndings
from accord.run.engine import Engine
from accord.run.followers import Follower, Followers
from accord.run.outages import OutageGuard
from accord.run.packet_log import StoreLog
from accord.run.reads import NO_RECEIPT, SessionReads
from accord.run.record import describe_negotiation, record_request
from accord.run.recovery import UnwrittenEnds, fence_when_possible, try_each
from accord.run.request_digest import is_same_request
from accord.run.rules import Links, SessionRules, foreign_session_error, new_turn
from accord.run.run import PAGE, Run, stored_packets
from accord.run.states import RunState
from accord.run.stored import StoredRun
from accord.wire.keys import Payer
from accord.wire.problem import error_from_stream, stream_error
from accord.wire.queue_messages import CANCEL_TOPIC
from accord.wire.request import ServiceRequest
from accord.wire.session import (
    PacketRecord,
    RunRecord,
    SessionRecord,
    StoredState,
)

LOG: Final = logging.getLogger("accord.run")
CANCEL_POLL_S: Final = 1.0
"""How often a process with running turns looks for cancellations that other processes requested."""
MAX_RUNS: Final = 3
"""How many workers may die of a turn that may be restarted before it is given up."""
EPOCHS_PER_RUN: Final = 2
"""A run that fails counts two epochs: one for the worker, one for the process that puts the turn back."""

TOO_MANY: Final = "Too many turns are running"
NO_REQUEST: Final = "There is no such request here"
USED_BEFORE: Final = (
    "This request id was used before, for another request: use a new request_id (a random UUID) for every new request, "
    "and the same one only to send the same request again"
)


class Sessions(SessionReads):
    """An engine whose turns are stored. `on_turn_ended` gets the members of each receipt, once it is stored.

    `others` are the engines of further agents by name, which answer the requests that name them. `sign` signs each
    receipt. `budgets` counts what turns cost.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        engine: Engine,
        store: SessionStore,
        rules: SessionRules | None = None,
        *,
        others: Mapping[str, Engine] | None = None,
        on_turn_ended: RunEnded | None = None,
        sign: Sign | None = None,
        links: Links | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        super().__init__(engine, store)
        self._budgets: Final = budgets
        self.engines: Mapping[str, Engine] = {**(others or {}), engine.agent.name: engine}
        """Every engine by the name of its agent."""
        self._rules: Final = rules or SessionRules()
        self.runner: Final = uuid4().hex
        """The name of this process among all processes that share the store."""
        links = links or Links()
        self._channel: Final = links.channel
        self._queue: Final = links.queue
        self._log: Final = links.log or StoreLog(store, links.channel)
        self.endings: Final = RunEndings(store, self._log, lambda: self.engine.clock, sign=sign, on_ended=on_turn_ended)
        self._counts: Final = links.counts
        self._followers: Final = Followers(store, self._log, self.recover, counts=links.counts)
        if links.channel is not None:
            links.channel.subscribe(CANCEL_TOPIC, self._cancel_from_channel)
        self._beginning: Final[list[str]] = []
        self._outages: Final = OutageGuard(self._rules.lease_s)
        self._claims = 0
        """How many claims the store has not answered yet."""
        self._live: Final[dict[str, Run]] = {}
        self.open_calls: Final[dict[str, Callable[[], None]]] = {}
        """Calls of model APIs that run in this process and are in the store, and what cancels each (`call_log.py`)."""
        self._unwritten: Final = UnwrittenEnds()
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None
        self._loop_ran_at = monotonic()
        self._recovering: Final = asyncio.Lock()
        self._is_draining = False

    @property
    def running(self) -> int:
        """The number of turns that run in this process."""
        return len(self._live)

    @property
    def quota_bytes(self) -> int | None:
        """How much each user may store."""
        return self._rules.quota_bytes

    @property
    def history_bytes(self) -> int:
        """How much of what was said before a turn or a response gets."""
        return self._rules.history_bytes

    def use_backends(self, dispatcher: Dispatcher) -> None:
        """Begin turns with other backends from now on; those that run keep the ones that they began with."""
        made = {id(each): each.with_dispatcher(dispatcher) for each in (self.engine, *self.engines.values())}
        self.engine, self.engines = made[id(self.engine)], {name: made[id(e)] for name, e in self.engines.items()}

    def is_running(self, request_id: str) -> bool:
        """Whether this process runs this turn."""
        return request_id in self._live

    async def begin(  # noqa: PLR0913 - the request, and how it is answered
        self,
        request: ServiceRequest,
        *,
        sent: SentContent | None = None,
        keep_prompt: bool = False,
        permits: PermissionChannel | None = None,
        streams: bool = True,
        on_start: Callable[[], None] | None = None,
        trace: str | None = None,
        payer: Payer | None = None,
    ) -> Run | StoredRun:
        """The turn of this request, begun now unless its id is known; raises `RefusedError` if it may not run.

        `sent` is the content as the client sent it, if the request does not hold it; with `keep_prompt` it is stored.
        `permits` sends the agent's permission requests to the client that began the turn; later readers only read.
        Without `streams`, the client waits for the whole answer. `on_start` is called if this process runs the turn
        now, also if it is refused. With a queue, a worker runs it; `trace` is the W3C trace context for that worker.
        Without a `payer`, the user of the request is counted.
        """
        payer = payer or Payer(user=request.context.user.id)
        engine, rejection = self._admit(request, sent, payer)
        shape = record_request(request.payload, sent if rejection is not None else None)
        record = new_turn(request, shape["digest"], self.runner, self.engine.clock.now())
        if live := self._live.get(record.request_id):
            return await self._join(live, record, request, rejection)
        limit, is_run_here = self._rules.concurrent_turns, self._queue is None or rejection is not None
        if is_run_here and limit is not None and len(self._live) + len(self._beginning) >= limit:
            raise RefusedError(TOO_MANY, ErrorCode.UNAVAILABLE, {"limit": limit})
        costs, has_begun = RunCosts(self._budgets, payer, engine.dispatcher), False
        self._beginning.append(record.request_id)
        try:
            refused, rejection = rejection, rejection or await _reserve(costs, request)
            if self._queue is not None and rejection is None:
                agent, body = engine.agent, queued_body(request, replace(payer, reserved_micro=costs.reserved))
                money = payer.key_id, costs.reserved, costs.holder
                work = QueuedWork(agent.name, body, streams, agent.may_restart, trace, *money)
                return await self._put_in_queue(self._queue, engine, request, record, work, costs)
            prompt = kept_prompt(sent, rejection) if keep_prompt else b""
            record = replace(record, prompt_bytes=len(prompt))
            start = await self._start_in_store(engine, request, record, prompt)
            if start.existing is not None:
                existing = self._live.get(record.request_id) or self._stored_turn(start.existing)
                return await self._join(existing, record, request, refused)  # one that runs is paid for already
            run = Run(
                engine, request, start.history, permits=permits, rejection=rejection, costs=costs, streams=streams
            )
            if on_start is not None:
                on_start()
            self._start(run, shape, record, start.last_receipt_hash)
            has_begun = True
        finally:
            self._beginning.remove(record.request_id)
            if not has_begun:
                costs.settle()
        return await self._join(run, record, request, rejection) if rejection is not None else run

    def _admit(
        self, request: ServiceRequest, sent: SentContent | None, payer: Payer
    ) -> tuple[Engine, Rejection | None]:
        """The engine for this request, and why the request may not run, if it may not."""
        named, engine = request.context.agent, self.engine
        if named is not None:
            found = self.engines.get(named.id) or self.engines.get(named.name)
            if found is None:
                return engine, unknown_agent(named, self.engines)
            engine = found
        return engine, engine.admission.decide(request, sent, payer.backends)

    async def _join(
        self, turn: Run | StoredRun, record: RunRecord, request: ServiceRequest, rejection: Rejection | None
    ) -> Run | StoredRun:
        """The turn that this request already has; raises its error if it was refused."""
        known = turn.record
        if known.owner != record.owner:
            raise RefusedError(NO_REQUEST, ErrorCode.NOT_FOUND, {})  # as for every access to another user's request
        if known.session_id != record.session_id or not is_same_request(known, record.request_digest, request.payload):
            raise RefusedError(USED_BEFORE, ErrorCode.REQUEST_CONFLICT, {"request_id": record.request_id})
        if rejection is not None and isinstance(turn, StoredRun) and not turn.is_over:
            await self.collect_output(turn)  # another process refuses it right now, and has not stored that yet
        await self.raise_if_refused(turn)
        return turn

    async def raise_if_refused(self, turn: Run | StoredRun) -> None:
        """Raise the error of a turn that was not admitted, once its receipt is stored."""
        if isinstance(turn, Run):
            if turn.rejection is not None:
                await turn.whole()
                raise turn.rejection.error
        elif turn.record.state is StoredState.REFUSED:
            raise error_from_stream((await self.collect_output(turn)).error or stream_error(StoreError(NO_RECEIPT)))

    async def find(self, request_id: str, owner: str | None) -> Run | StoredRun | None:
        """The turn of this id, if it belongs to this owner; an owner of None may see every turn."""
        found = self._live.get(request_id)
        if found is None:
            record = await self.store.turn(request_id)
            if record is None:
                return None
            found = self._live.get(request_id) or self._stored_turn(record)
        return found if owner in (None, found.record.owner) else None

    async def cancel(self, turn: Run | StoredRun) -> bool:
        """Stop a turn; False if it is over. In another process it stops within `CANCEL_POLL_S`."""
        if isinstance(turn, Run) and not turn.is_over:
            return turn.cancel()
        if (cancel_call := self.open_calls.get(turn.request_id)) is not None:
            cancel_call()
            return True
        if not await self.store.request_cancel(turn.request_id):
            return False
        if self._channel is not None:
            self._channel.publish(CANCEL_TOPIC, turn.request_id.encode())
        return True

    def _cancel_from_channel(self, payload: bytes) -> None:
        self._cancel_here(payload.decode(errors="replace"))

    def _cancel_here(self, request_id: str) -> None:
        """Cancel a turn or call, if this process runs it."""
        if (turn := self._live.get(request_id)) is not None:
            turn.cancel()
        elif (cancel_call := self.open_calls.get(request_id)) is not None:
            cancel_call()

    async def drain(self, seconds: float) -> None:
        """Wait up to so many seconds for the turns of this process, then cancel those that still run.

        Those that another process may run again go back to the queue. Ends that the store cannot write in that time are
        left to other processes.
        """
        self._is_draining = True
        until = monotonic() + seconds
        if self._queue is not None and not self._live:  # a server: its clients read turns that workers run
            await self._followers.wait_until_empty(seconds)
        if self._live:
            await asyncio.wait([turn.task for turn in self._live.values()], timeout=seconds)
        left = list(self._live.values())
        for turn in left:
            turn.release() if turn.may_restart else turn.cancel()
        if left:
            await asyncio.wait([turn.task for turn in left])
        await self._put_back([turn for turn in left if turn.state is RunState.RELEASED])
        await self._unwritten.drain(max(0.0, until - monotonic()))
        self.store.heartbeats.stop(self.runner)
        await self._followers.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _put_back(self, turns: Sequence[Run]) -> None:
        for turn in turns:
            try:
                is_queued = await self.store.queue_again(turn.record)
            except StoreError:
                continue  # other processes find it when the lease of this one is over
            self._counts.restarted += is_queued
            if is_queued and self._queue is not None:
                self._queue.announce(turn.engine.agent.name, turn.request_id)

    async def recover(self) -> int:
        """Take care of turns of dead processes, and of rows of this process without a running turn; returns how many.

        A turn that may be restarted goes back to the queue. Any other one is ended: its packets stay, and an error and
        a close are added, so that readers get a stream that ends. Several processes may do so at the same time.
        """
        done, failures = 0, list[StoreError]()
        # One at a time: another call would find the turns that this one has just taken over among its own.
        async with self._recovering:
            with self._outages.noted():
                left = await self.store.abandoned(self._rules.lease_s, runner=self.runner, limit=PAGE)
                own = await self.store.running(self.runner)
                # After the list that it judges: a step between the two is noticed, and a later one changes nothing.
                await self._outages.check_clock(self.store)
            if self._outages.can_judge:
                done += await try_each(left, self._take_over, failures)
            if not self._claims:  # a turn that is being claimed right now may be among them
                # A beginning whose confirmation was lost leaves such a row, and so does a defect of Accord.
                known = {*self._beginning, *self._live, *self._unwritten, *self.open_calls}
                done += await try_each(
                    [turn for turn in own if turn.request_id not in known], self._take_over, failures
                )
        if failures:
            raise failures[0]
        return done

    async def _take_over(self, turn: RunRecord) -> bool:
        """Restart or end a turn that no process runs; False if another process was faster, or it was deleted."""
        claimed = await self.store.take_over(turn, self._rules.lease_s, runner=self.runner)
        if claimed is None:
            return False
        work, is_last = claimed.work, claimed.turn.epoch >= EPOCHS_PER_RUN * MAX_RUNS
        if work is not None and work.may_restart and not is_last:
            is_queued = await self.store.queue_again(claimed.turn)
            self._counts.restarted += is_queued
            if is_queued and self._queue is not None:
                self._queue.announce(work.agent, turn.request_id)
            return True
        if not await self.endings.interrupt(claimed):
            return False
        if work is not None:
            self._counts.given_up += 1
            reason = f"{f'{MAX_RUNS} workers' if work.may_restart else 'the worker'} that ran this turn died"
            LOG.error("A turn was given up", extra={"fields": {"request_id": turn.request_id, "why": reason}})
            if self._queue is not None:
                self._queue.bury(turn.request_id, reason)
        return True

    async def claim(self, agents: Sequence[str]) -> ClaimedRun | None:
        """Take the next turn of these agents from the queue; None if none waits."""
        self._claims += 1
        try:
            history, history_bytes = self._rules.history, self._rules.history_bytes
            claimed = await self.store.claim(agents, runner=self.runner, history=history, history_bytes=history_bytes)
            if claimed is not None:
                self._beginning.append(claimed.turn.request_id)  # until `run_claimed` runs it
            return claimed
        finally:
            self._claims -= 1

    async def run_claimed(self, claimed: ClaimedRun) -> Run:
        """Run a turn that `claim` returned; raises `StoreError` if what was sent of it before cannot be read."""
        turn, work = claimed.turn, claimed.work
        try:
            if work is None:
                raise StoreError(f"The turn {turn.request_id} was never in the queue")
            request = ServiceRequest.parse(work.request)
            if (earlier := self._live.get(turn.request_id)) is not None:
                earlier.release()
                await asyncio.wait([earlier.task])
            sent, unstored = await self._sent_before(turn) if turn.epoch > 1 else ([], ())
            engine = self.engines[work.agent]
            costs = RunCosts(self._budgets, queued_payer(work.request, request), engine.dispatcher)
            run = Run(engine, request, claimed.history, costs=costs, streams=work.streams)
            if claimed.is_cancelled:
                run.cancel()
            shape, last_hash = record_request(request.payload), claimed.last_receipt_hash
            may_restart = work.may_restart
            self._start(run, shape, turn, last_hash, sent=sent, unstored=unstored, may_restart=may_restart)
            return run
        finally:
            self._beginning.remove(turn.request_id)

    async def _sent_before(self, turn: RunRecord) -> tuple[list[PacketRecord], Sequence[str]]:
        """The packets that an earlier worker has sent of this turn, and those of them that the store does not have."""
        self._loop_ran_at = monotonic()
        self.keep_alive()
        unstored = await fence_when_possible(self._log, turn, lambda: self._is_draining)
        sent: list[PacketRecord] = []
        async with aclosing(stored_packets(self.store, turn.request_id, turn.last_seq)) as pages:
            async for page in pages:
                sent += page
        sent += [PacketRecord(seq, body) for seq, body in enumerate(unstored, start=turn.last_seq + 1)]
        return sent, unstored

    async def _put_in_queue(  # noqa: PLR0913, PLR0917 - the turn, and what a worker needs for it
        self,
        queue: WorkQueue,
        engine: Engine,
        request: ServiceRequest,
        record: RunRecord,
        work: QueuedWork,
        costs: RunCosts,
    ) -> Run | StoredRun:
        """Have a worker run this turn, unless its id is known."""
        # Followed first: a worker may be faster than the answer of the store.
        follower = self._followers.join(record.request_id)
        try:
            async with costs.handing_over() as hand_over:
                start = await self.store.queue_turn(
                    self._new_session(engine, request, record),
                    record := replace(record, runner=""),
                    work,
                    quota_bytes=self._rules.quota_bytes,
                    max_running=self._rules.turns_per_user,
                )
                if start.existing is None:
                    hand_over()
        except StoreConflictError:
            follower.close()
            raise foreign_session_error() from None
        except BaseException:
            follower.close()
            raise
        if start.existing is not None:
            follower.close()
            return await self._join(self._stored_turn(start.existing), record, request, None)
        queue.announce(work.agent, record.request_id)
        return self._stored_turn(record, follower)

    def _stored_turn(self, record: RunRecord, follower: Follower | None = None) -> StoredRun:
        return StoredRun(
            self.store,
            record,
            log=self._log,
            followers=self._followers,
            new_view=partial(self.engine.new_view, record.capabilities),
            stop_unread_after_s=self._rules.stop_unread_after_s,
            follower=follower,
        )

    def _new_session(self, engine: Engine, request: ServiceRequest, record: RunRecord) -> SessionRecord:
        declared = request.payload.capabilities
        return SessionRecord(
            session_id=record.session_id,
            owner=record.owner,
            agent=engine.agent.name,
            capabilities=declared,
            negotiated=describe_negotiation(engine.party, declared),
            created_at=record.created_at,
            updated_at=record.created_at,
        )

    async def _start_in_store(
        self, engine: Engine, request: ServiceRequest, record: RunRecord, prompt: bytes
    ) -> RunStart:
        try:
            return await self.store.begin_turn(
                self._new_session(engine, request, record),
                record,
                history=self._rules.history,
                history_bytes=self._rules.history_bytes,
                quota_bytes=self._rules.quota_bytes,
                prompt=prompt,
            )
        except StoreConflictError:
            raise foreign_session_error() from None

    def _start(  # noqa: PLR0913 - the turn, and what came before it
        self,
        run: Run,
        shape: dict[str, Any],
        record: RunRecord,
        last_receipt_hash: str | None,
        *,
        sent: Sequence[PacketRecord] = (),
        unstored: Sequence[str] = (),
        may_restart: bool = False,
    ) -> None:
        self._live[record.request_id] = run
        run.start(
            record,
            self.store,
            log=self._log.open_turn(record, len(sent), unstored),
            new_view=partial(self.engine.new_view, record.capabilities),
            end=partial(self.endings.end, shape, last_receipt_hash),
            forget=self._forget,
            stop_unread_after_s=self._rules.stop_unread_after_s,
            sent=sent,
            may_restart=may_restart,
        )
        self.keep_alive()

    def keep_alive(self) -> None:
        """Send heartbeats and look for cancellations as long as this process runs turns or calls."""
        self.store.heartbeats.start(self.runner, self._is_alive, lease_s=self._rules.lease_s)
        if self._timer is None:
            self._poll_later()

    def _forget(self, turn: Run) -> None:
        # After an outage of the store, this process may have been given its own turn once more, under a new epoch.
        if self._live.get(turn.request_id) is turn:
            del self._live[turn.request_id]
        if turn.is_end_unwritten:
            self._unwritten.add(turn)

    def _is_alive(self) -> bool:
        """Whether this process has turns and its event loop runs; called by the thread that sends heartbeats."""
        has_turns = bool(self._live or self._beginning or self._unwritten or self.open_calls)
        return has_turns and monotonic() - self._loop_ran_at < self.engine.limits.turn_s

    def _poll_later(self) -> None:
        self._loop_ran_at = monotonic()
        self._timer = asyncio.get_running_loop().call_later(CANCEL_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        if self._live or self.open_calls:
            if self._polling is None or self._polling.done():
                self._polling = asyncio.create_task(self._cancel_requested())
            self._poll_later()

    async def _cancel_requested(self) -> None:
        """Cancel the turns of this process whose cancellation another process requested."""
        try:
            requested = await self.store.cancel_requests(self.runner)
        except StoreError:
            return  # the next poll tries again
        for request_id in requested:
            self._cancel_here(request_id)


async def _reserve(costs: RunCosts, request: ServiceRequest) -> Rejection | None:
    """Reserve what the turn's first question may cost; the rejection if that is refused."""
    try:
        await costs.admit(request.payload)
    except RefusedError as error:
        return Rejection(error)
    return None
