"""Records to be kept, with a clock that the tests turn by hand."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from accord.ports import SessionStore
from accord.wire.chat import ChatMessage, Role
from accord.wire.session import ReceiptRecord, SessionRecord, TurnRecord

START = datetime(2026, 1, 31, 12, 0, 0, 123457, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_session(session_id: str = "s1", *, owner: str = "ada", seconds: float = 0, **fields: Any) -> SessionRecord:
    usual: dict[str, Any] = {"agent": "demo", "created_at": at(seconds), "updated_at": at(seconds)}
    return SessionRecord(session_id=session_id, owner=owner, **{**usual, **fields})


def a_turn(request_id: str = "r1", session_id: str = "s1", *, owner: str = "ada", seconds: float = 1) -> TurnRecord:
    return TurnRecord(
        request_id=request_id, session_id=session_id, owner=owner, request_digest="d", created_at=at(seconds)
    )


def a_receipt(request_id: str, previous: str | None, session_id: str = "s1") -> ReceiptRecord:
    body = f'{{"request_id":"{request_id}","previous":"{previous}"}}'
    digest = hashlib.sha256(body.encode()).hexdigest()
    return ReceiptRecord(request_id=request_id, session_id=session_id, body=body, hash=digest, previous_hash=previous)


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role=Role.USER, content=text, timestamp=START) for text in texts]


async def begun(store: SessionStore, request_id: str = "r1", session_id: str = "s1", *, owner: str = "ada") -> None:
    """A session with a turn that runs."""
    if await store.session(session_id) is None:
        await store.put_session(a_session(session_id, owner=owner))
    assert await store.begin_turn(a_turn(request_id, session_id, owner=owner)) is None
