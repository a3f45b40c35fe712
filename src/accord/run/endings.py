"""How turns end in the store: with their last packets, their messages, and a receipt that continues the chain."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from accord.core.receipt import Sign, seal_members
from accord.errors import StoreConflictError, StoreError
from accord.ports import ClaimedRun, Clock, PacketBatch, PacketLog, RunEnd, SessionStore
from accord.run.receipt import (
    STATE_BY_OUTCOME,
    ReceiptContent,
    interrupted_content,
    outcome_of,
    receipt_content,
)
from accord.run.run import Run
from accord.wire.conversation import ChatMessage, Role
from accord.wire.packet import ClosePacket, ErrorPacket
from accord.wire.problem import stream_error
from accord.wire.session import ReceiptRecord, StoredState

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
        on_turn_ended: RunEnded | None = None,
    ) -> None:
        self._store: Final = store
        self._log: Final = log
        self._clock: Final = clock
        self._sign: Final = sign
        self._on_turn_ended: Final = on_turn_ended

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
        state = StoredState.REFUSED if run.rejection is not None else STATE_BY_OUTCOME[outcome_of(run).status]
        ending = RunEnd(last, state, now, messages)
        content = partial(receipt_content, run, report, shape, now)
        run.receipt = await self._seal_and_end(ending, content, previous)

    async def interrupt(self, claimed: ClaimedRun) -> bool:
        """End a turn whose process died, with an error; False if another process was faster.

        The packets that clients may have seen are kept: first no more of them can be added, then they are read.
        """
        turn, now = claimed.turn, self._now()
        try:
            unstored = await self._log.fence(turn)
        except StoreConflictError:
            return False
        packets = [ErrorPacket(p=stream_error(StoreError(INTERRUPTED))), ClosePacket()]
        bodies: Sequence[str] = [*unstored, *(packet.to_json() for packet in packets)]
        last = PacketBatch(turn.request_id, turn.last_seq + 1, bodies, turn.epoch)
        content = partial(interrupted_content, turn, claimed.session, INTERRUPTED, now)
        try:
            await self._seal_and_end(RunEnd(last, StoredState.FAILED, now), content, claimed.last_receipt_hash)
        except StoreConflictError:
            return False
        log = self._log.open_turn(turn, turn.last_seq, is_followed=True)
        log.ended(last)
        log.close()
        return True

    def _now(self) -> datetime:
        return self._clock().now()

    async def _seal_and_end(
        self, ending: RunEnd, content_after: Callable[[str | None], ReceiptContent], previous: str | None
    ) -> Mapping[str, Any]:
        """End a turn in the store, with a receipt that follows the session's last one; returns its members."""
        for _ in range(MAX_SEALINGS):
            content = content_after(previous)
            sealed = seal_members(content.encoded, self._sign)
            members = content.members
            ending.receipt = ReceiptRecord(
                request_id=members["request_id"],
                session_id=members["session_id"],
                body=sealed.json,
                hash=sealed.hash,
                previous_hash=previous,
            )
            if await self._store.end_turn(ending):
                if self._on_turn_ended is not None:
                    self._on_turn_ended(members)
                return members
            previous = await self._store.last_receipt_hash(members["session_id"])
        raise StoreError("Too many turns of this session end at the same time; try again")
