"""Packets as server-sent events: one event a packet, its number as the id, a comment as the heartbeat. Pure."""

from collections.abc import Iterable
from typing import Final

from accord.errors import ErrorCode, RefusedError
from accord.wire.session import PacketRecord

HEARTBEAT: Final = b": still here\n\n"
MAX_ID: Final = 10**12
MAX_ID_DIGITS: Final = 100
"""Python refuses to read numbers of thousands of digits, and a client may send them."""


def as_events(packets: Iterable[PacketRecord]) -> bytes:
    """These packets as they go over the wire; JSON text holds no line end, so each is one line of data."""
    return "".join([f"id: {kept.seq}\ndata: {kept.body}\n\n" for kept in packets]).encode()


def as_comments(lines: Iterable[str]) -> bytes:
    """These lines as comments, which people see and clients skip."""
    return "".join([f": {line}\n\n" for line in lines]).encode()


def last_event_id(header: bytes | None) -> int:
    """The number of the last packet that the client has; 0 if it has none."""
    if header is None or not header.strip():
        return 0
    said = header.strip()
    if not said.isdigit() or len(said) > MAX_ID_DIGITS or int(said) > MAX_ID:
        raise RefusedError("Last-Event-ID should be the id of a packet", ErrorCode.INVALID_MESSAGE, {})
    return int(said)
