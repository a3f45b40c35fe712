"""Records to be stored, with a clock that tests set."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from accord.core.receipt import seal_members
from accord.ports import PacketBatch, RunEnd, RunStart, SessionStore
from accord.wire.conversation import ChatMessage, Role
from accord.wire.session import ReceiptRecord, RunRecord, SessionRecord, StoredState

START = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_session(session_id: str = "s1", *, owner: str = "ada", seconds: float = 0, **fields: Any) -> SessionRecord:
    usual: dict[str, Any] = {"agent": "demo", "created_at": at(seconds), "updated_at": at(seconds)}
    return SessionRecord(session_id=session_id, owner=owner, **{**usual, **fields})


def a_turn(
    request_id: str = "r1", session_id: str = "s1", *, owner: str = "ada", seconds: float = 1, **fields: Any
) -> RunRecord:
    usual: dict[str, Any] = {"request_digest": "d", "runner": "p1", "created_at": at(seconds)}
    return RunRecord(request_id=request_id, session_id=session_id, owner=owner, **{**usual, **fields})


def ending(
    last: str | PacketBatch = "r1", state: StoredState = StoredState.DONE, seconds: float = 2, **left: Any
) -> RunEnd:
    """The end of a turn, given by its name if it has no more packets."""
    return RunEnd(PacketBatch(last, 1, []) if isinstance(last, str) else last, state, at(seconds), **left)


def a_receipt(request_id: str, previous: str | None, session_id: str = "s1") -> ReceiptRecord:
    members = {"request_id": request_id, "session_id": session_id}
    sealed = seal_members({**members, "previous": previous} if previous else members)
    return ReceiptRecord(**members, body=sealed.json, hash=sealed.hash, previous_hash=previous)


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role=Role.USER, content=text, timestamp=START) for text in texts]


async def begun(store: SessionStore, request_id: str = "r1", session_id: str = "s1", *, owner: str = "ada") -> None:
    """A session with a turn that runs."""
    session = a_session(session_id, owner=owner)
    assert (await store.begin_turn(session, a_turn(request_id, session_id, owner=owner), history=0)).existing is None


async def put(store: SessionStore, session: SessionRecord, request_id: str | None = None) -> RunStart:
    """Have a session kept, by a turn in it that begins when the session was last used."""
    its = a_turn(request_id or f"of {session.session_id}", session.session_id, owner=session.owner)
    return await store.begin_turn(session, replace(its, created_at=session.updated_at), history=99)
