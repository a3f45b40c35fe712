"""What clients read of turns: their packets, whole answers, reports, single events and receipts."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic_core import from_json

from accord.core.output.packets import OutputCollector, find_event
from accord.core.summarise import response_metrics
from accord.errors import ErrorCode, RefusedError
from accord.ports import SessionStore
from accord.run.engine import Engine
from accord.run.run import Run, stored_packets
from accord.run.stored import StoredRun
from accord.run.views import Reader, View, ViewBatch
from accord.wire.adaptation import AdaptationReport
from accord.wire.packet import DeltaPacket, StreamPacket
from accord.wire.problem import error_from_stream
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceResponse
from accord.wire.session import PacketRecord, ReceiptRecord, RunRecord

NO_RECEIPT: Final = "This turn has no receipt yet: it still runs"


class SessionReads:
    """Reads turns, whichever process runs them, in the view of any client. It writes nothing."""

    def __init__(self, engine: Engine, store: SessionStore) -> None:
        self.engine = engine
        self.store: Final = store

    def read(
        self, turn: Run | StoredRun, after: int = 0, reader: Reader | None = None
    ) -> AsyncGenerator[ViewBatch, None]:
        """The packets of a turn after this number, to its end, in the view of this reader.

        Without a reader, in the view of the client that sent the request.
        """
        return turn.read(after, self._own_view(turn, reader))

    async def read_stored(self, record: RunRecord, reader: Reader) -> AsyncGenerator[ViewBatch, None]:
        """What is stored of a turn by now, in the view of this reader; a batch has one packet of the agent."""

        async def one_by_one() -> AsyncGenerator[Sequence[PacketRecord], None]:
            async with aclosing(stored_packets(self.store, record.request_id, record.last_seq)) as pages:
                async for page in pages:
                    for packet in page:
                        yield [packet]

        async with aclosing(self.engine.new_view(reader.declared).read(one_by_one())) as batches:
            async for batch in batches:
                yield batch

    async def collect(self, turn: Run | StoredRun, reader: Reader | None = None) -> ServiceResponse:
        """The whole answer of a turn; raises the error that ended its stream, if one did."""
        view = self._own_view(turn, reader)
        collected = await self.collect_output(turn, view)
        if collected.error is not None:
            error = error_from_stream(collected.error)
            error.ended_turn = True
            raise error
        if isinstance(turn, Run) and turn.receipt is not None:
            request_id, receipt = turn.request.request_id, turn.receipt
        else:
            request_id, receipt = UUID(turn.request_id), from_json((await self._receipt_record(turn.request_id)).body)
        metrics = response_metrics(receipt)
        if view is not None:
            metrics["adaptation"] = view.adapter.report_json()["totals"]
        return ServiceResponse.model_construct(
            request_id=request_id,
            created_at=datetime.fromisoformat(receipt["created_at"]),
            output=collected.output,
            metrics=metrics,
        )

    async def collect_output(self, turn: Run | StoredRun, view: View | None = None) -> OutputCollector:
        """Everything that a view has of a turn, once the turn is over."""
        if view is None and isinstance(turn, Run):
            return await turn.whole()
        collected = OutputCollector()
        async with aclosing(turn.read(0, view)) as batches:
            async for batch in batches:
                for record in batch.packets:
                    collected.feed(StreamPacket.parse(record.body))
        return collected

    async def report(self, turn: Run | StoredRun, reader: Reader | None = None) -> AdaptationReport | None:
        """The adaptation report of a view, of a running turn as far as it goes; None if the turn has none."""
        view = self._own_view(turn, reader)
        if view is None:
            if isinstance(turn, Run):
                return turn.view.adapter.report
            if turn.is_over:
                return (await self.receipt(turn.request_id)).adaptation
            view = self.engine.new_view(turn.record.capabilities)
        stored = await self.store.turn(turn.request_id)
        packets = stored_packets(self.store, turn.request_id, stored.last_seq if stored else 0)
        async with aclosing(view.read(packets)) as batches:
            async for _ in batches:
                pass
        return view.adapter.report

    async def item(self, request_id: str, item_id: str) -> dict[str, Any] | None:
        """The event that a notice names, as the agent made it; None if the turn has no such event."""
        stored = await self.store.turn(request_id)
        packets: list[StreamPacket] = []
        async with aclosing(stored_packets(self.store, request_id, stored.last_seq if stored else 0)) as pages:
            async for page in pages:
                parsed = (StreamPacket.parse(record.body) for record in page)
                packets += [packet for packet in parsed if not isinstance(packet, DeltaPacket)]
        return find_event(packets, item_id)

    def _own_view(self, turn: Run | StoredRun, reader: Reader | None) -> View | None:
        """The view of a reader; None if that is the one of the client that sent the request."""
        if reader is None or reader.declared == turn.record.capabilities:
            return None
        return self.engine.new_view(reader.declared)

    async def receipt(self, request_id: str) -> Receipt:
        """The receipt of a turn that is over."""
        return Receipt.parse((await self._receipt_record(request_id)).body)

    async def _receipt_record(self, request_id: str) -> ReceiptRecord:
        record = await self.store.receipt(request_id)
        if record is None:
            raise RefusedError(NO_RECEIPT, ErrorCode.NOT_FOUND, {})
        return record
