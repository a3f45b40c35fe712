"""A process that writes until it is killed, and says on its output what was acknowledged, line by line.

`python -m tests.stores.writing_child FILE NAME STREAMS`: each stream is a turn; a line is `NAME-STREAM SEQ`.
"""

import asyncio
import sys
from pathlib import Path

from accord.errors import StoreConflictError
from accord.stores.sqlite import SqliteStore
from accord.wire.session import TurnState
from tests.stores.records import a_receipt, a_session, a_turn, at, said

TURN_LENGTH = 25


async def stream(store: SqliteStore, name: str) -> None:
    """Turn after turn in one session, each with packets, a message and a receipt."""
    await store.put_session(a_session(name))
    number = 0
    while True:
        number += 1
        request_id = f"{name}-{number}"
        assert await store.begin_turn(a_turn(request_id, name)) is None
        tell(request_id, "begun")
        for seq in range(1, TURN_LENGTH, 2):
            await store.append_packets(request_id, seq, [f"{request_id}:{seq}", f"{request_id}:{seq + 1}"])
            tell(request_id, str(seq + 1))
        receipt = a_receipt(request_id, await store.last_receipt_hash(name), name)
        if not await store.end_turn(request_id, TurnState.DONE, at(5), messages=said(request_id), receipt=receipt):
            raise StoreConflictError("nobody else writes to this session")
        tell(request_id, "ended")


def tell(request_id: str, what: str) -> None:
    sys.stdout.write(f"{request_id} {what}\n")
    sys.stdout.flush()


async def main(file: str, name: str, streams: str) -> None:
    store = SqliteStore(Path(file))
    await store.open()
    await asyncio.gather(*(stream(store, f"{name}.{number}") for number in range(int(streams))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
