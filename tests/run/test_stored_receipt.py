"""What is stored of a turn when the store fails in the middle; the stored receipt is the one its model seals."""

from uuid import UUID

import pytest

from accord.backends.scripted import Pause
from accord.core.receipt import canonical_object, seal
from accord.errors import AccordError, StoreError
from accord.ports import PacketBatch
from accord.run.run import NOT_STORED
from accord.stores.memory import MemoryStore
from accord.wire.packet import ClosePacket, ErrorPacket, StreamPacket
from accord.wire.receipt import Receipt, ReceiptBody
from tests.run.playing import respond
from tests.run.test_sessions import read, request, sessions, within


class FailsOnce(MemoryStore):
    """A store that cannot keep packets the first time, and can afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 1

    async def append_packets(self, new: PacketBatch) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreError("the disk of nobody's concern")
        await super().append_packets(new)


def test_a_turn_whose_packets_could_not_be_stored_fails_for_every_reader_and_in_its_receipt():
    failing = FailsOnce()

    async def task() -> None:
        made, _ = sessions(failing, "one ", Pause(0.01), "two ", Pause(5), "never")
        kept = await read(made, request())
        told, closed = (StreamPacket.parse(packet.body) for packet in kept)
        assert isinstance(told, ErrorPacket)
        assert (told.p.code, told.p.message) == ("unavailable", NOT_STORED)
        assert isinstance(closed, ClosePacket)
        assert [packet.seq for packet in kept] == [1, 2]
        receipt = await made.receipt(str(UUID(int=1)))
        assert (receipt.outcome.status, receipt.outcome.code) == ("failed", "unavailable")
        with pytest.raises(AccordError, match=NOT_STORED):
            await respond(made, request())

    within(failing, task)


def test_what_a_turn_leaves_in_plain_members_is_the_receipt_that_its_model_would_seal():
    store = MemoryStore()

    async def task() -> None:
        made, _ = sessions(store, "a ", "b")
        await read(made, request(capabilities={"supported_events": [], "prefers_markdown": False}))
        kept = await store.receipt(str(UUID(int=1)))
        assert kept is not None
        receipt = Receipt.parse(kept.body)
        body = ReceiptBody.model_validate(receipt.dump())
        assert seal(body).hash == kept.hash == receipt.hash
        assert canonical_object(body.hashed()).decode()[:-1] == kept.body.partition(',"hash":"')[0]

    within(store, task)
