"""How turns end in the store: with their last packets, their messages, and a receipt that continues the chain."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from accord.core.receipt import Sign
from accord.errors import StoreConflictError, StoreError
from accord.ports import ClaimedRun, Clock, PacketBatch, PacketLog, RunEnd, SessionStore
from accord.run.record import STATE_BY_OUTCOME, EndedRun, ended_turn, interrupted_turn, sealed_record
from accord.run.run import Run
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.session import SessionKind, StoredState

MAX_SEALINGS: Final = 100
"""How often a receipt is sealed again when other turns of its session end first."""
INTERRUPTED: Final = "The process that ran this turn has died, or was cut off from the store"

RunEnded = Callable[[Mapping[str, Any]], None]
"""Called with the members of a receipt, once it is stored."""


class RunEndings:
    """Ends turns in a store. `sign` signs each receipt."""

    def __init__(
        self,
        store: SessionStore,
        log: PacketLog,
        clock: Callable[[], Clock],
        *,
        sign: Sign | None = None,
        on_ended: RunEnded | None = None,
    ) -> None:
        self._store: Final = store
        self._log: Final = log
        self._clock: Final = clock
        self.sign: Final = sign
        self.on_ended: RunEnded | None = on_ended

    async def end(self, shape: dict[str, Any], previous: str | None, run: Run, last: PacketBatch) -> None:
        """End a turn of this process; `shape` is that of its request, `previous` the hash of a receipt."""
        now = self._now()
        messages = (
            []
            if run.rejection is not None
            else [ChatMessage(role=Role.USER, content=run.request.payload.query, timestamp=now)]
        )
        report, answer = await run.adaptation(last)
        if answer:
            messages.append(ChatMessage(role=Role.ASSISTANT, content=answer, timestamp=now))
        ended = ended_turn(run, report, shape, now)
        state = StoredState.REFUSED if run.rejection is not None else STATE_BY_OUTCOME[ended.outcome.status]
        run.receipt = await self._seal_and_end(RunEnd(last, state, now, messages), ended, previous)

    async def interrupt(self, claimed: ClaimedRun) -> bool:
        """End a turn whose process died, with an error; False if another process was faster.

        The packets that clients may have seen are kept: first no more of them can be added, then they are read.
        """
        turn, now = claimed.turn, self._now()
        try:
            unstored = await self._log.fence(turn)
        except StoreConflictError:
            return False
        is_turn = claimed.session.kind is SessionKind.TURNS  # a call of a model API has no packets
        packets = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()] if is_turn else []
        bodies: Sequence[str] = [*unstored, *(packet.to_json() for packet in packets)]
        last = PacketBatch(turn.request_id, turn.last_seq + 1, bodies, turn.epoch)
        ended = interrupted_turn(turn, claimed.session.agent, INTERRUPTED, now)
        try:
            await self._seal_and_end(RunEnd(last, StoredState.FAILED, now), ended, claimed.last_receipt_hash)
        except StoreConflictError:
            return False
        log = self._log.open_turn(turn, turn.last_seq, is_followed=True)
        log.ended(last)
        log.close()
        return True

    def _now(self) -> datetime:
        return self._clock().now()

    async def _seal_and_end(self, ending: RunEnd, ended: EndedRun, previous: str | None) -> Mapping[str, Any]:
        """End a turn in the store, with a receipt that follows the session's last one; returns its members."""
        content = ended.content()
        for _ in range(MAX_SEALINGS):
            ending.receipt = sealed_record(content, previous, self.sign)
            if await self._store.end_turn(ending):
                if self.on_ended is not None:
                    self.on_ended(content.members)
                return content.members
            previous = await self._store.last_receipt_hash(ended.session_id)
        raise StoreError("Too many turns of this session end at the same time; try again")
