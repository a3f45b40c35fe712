"""What the store in memory keeps: sessions, messages and turns."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from accord.errors import StoreConflictError
from accord.ports import PacketBatch
from accord.stores.rules import NOT_ITS_EPOCH, NOT_NEXT, stored_size
from accord.wire.conversation import ChatMessage
from accord.wire.session import ReceiptRecord, RunRecord, SessionRecord, StoredState

_encode: Final = msgspec.json.Encoder().encode


# Made by compiled code, and not searched for reference cycles (`gc=False`): they stay for as long as the store, and the
# search took 5 µs a turn.
class MemorySession(msgspec.Struct, gc=False):
    """A session with its messages and receipts; `initial` is its record, `used_at` when it was last used."""

    initial: SessionRecord
    used_at: datetime
    turns: list[str] = []
    messages: list["MemoryMessage"] = []
    stored_bytes: int = 0
    receipts: list[ReceiptRecord] = []

    @property
    def last_hash(self) -> str | None:
        """The hash of its last receipt."""
        return self.receipts[-1].hash if self.receipts else None

    @property
    def session(self) -> SessionRecord:
        """The session as it is now."""
        if self.used_at == self.initial.updated_at:
            return self.initial
        return replace(self.initial, updated_at=self.used_at)

    def takes(self, session: SessionRecord) -> bool:
        """Whether turns of this session belong here."""
        return (self.initial.owner, self.initial.kind) == (session.owner, session.kind)

    def renew(self, session: SessionRecord) -> None:
        """Replace the record; only its beginning stays."""
        self.initial = replace(session, created_at=self.initial.created_at)
        self.update_used_at(session.updated_at)

    def update_used_at(self, at: datetime) -> None:
        """Note that it was used then."""
        self.used_at = max(self.used_at, at)


class MemoryMessage(msgspec.Struct, gc=False):
    """A message, its size, and where it belongs."""

    message: ChatMessage
    size: int
    session_id: str
    conversation_id: str | None
    request_id: str


def message_size(message: ChatMessage) -> int:
    """The bytes of the message's JSON, which other stores keep; making that text would take twice as long."""
    return len(_encode({name: value for name, value in message.__dict__.items() if value is not None}))


def last_messages(messages: Iterable[MemoryMessage], limit: int, max_bytes: int) -> Sequence[ChatMessage]:
    """The last messages that fit, oldest first; `messages` are the newest first."""
    last: list[ChatMessage] = []
    for each in islice(messages, limit):
        max_bytes -= each.size
        if max_bytes < 0:
            break
        last.append(each.message)
    return last[::-1]


class MemoryRun(msgspec.Struct, gc=False):
    """A turn: its record at the beginning, and what was stored since."""

    initial: RunRecord
    leased_at: float
    packets: list[str] = []
    state: StoredState = StoredState.RUNNING
    ended_at: datetime | None = None
    receipt: ReceiptRecord | None = None
    read_at: float = -inf
    cancel_requested: bool = False
    stored_bytes: int = 0
    prompt: bytes = b""

    @property
    def record(self) -> RunRecord:
        """The turn as it is now."""
        return replace(self.initial, state=self.state, last_seq=len(self.packets), ended_at=self.ended_at)

    def append(self, new: PacketBatch) -> None:
        """Add packets that follow those that are stored."""
        if new.epoch != self.initial.epoch:
            raise StoreConflictError(NOT_ITS_EPOCH)
        if new.packets and new.first_seq != len(self.packets) + 1:
            raise StoreConflictError(NOT_NEXT)
        self.packets.extend(new.packets)
        self.stored_bytes += stored_size(*new.packets)
