"""A process that writes until it is killed, and says on its output what was acknowledged, line by line.

`python -m tests.stores.writing_child FILE NAME STREAMS`: each stream is a turn; a line is `NAME-STREAM SEQ`.
"""

import asyncio
import sys
from pathlib import Path

from accord.errors import StoreConflictError
from accord.ports import PacketBatch
from accord.stores.sqlite import SqliteStore
from tests.stores.records import a_receipt, a_session, a_turn, ending, said

TURN_LENGTH = 25


async def stream(store: SqliteStore, name: str) -> None:
    """Turn after turn in one session, each with packets, a message and a receipt."""
    number = 0
    while True:
        number += 1
        request_id = f"{name}-{number}"
        started = await store.begin_turn(a_session(name), a_turn(request_id, name), history=0)
        assert started.existing is None
        tell(request_id, "begun")
        for seq in range(1, TURN_LENGTH, 2):
            await store.append_packets(two(request_id, seq))
            tell(request_id, str(seq + 1))
        receipt = a_receipt(request_id, started.last_receipt_hash, name)
        last = two(request_id, TURN_LENGTH)
        if not await store.end_turn(ending(last, messages=said(request_id), receipt=receipt)):
            raise StoreConflictError("nobody else writes to this session")
        tell(request_id, str(TURN_LENGTH + 1))
        tell(request_id, "ended")


def two(request_id: str, seq: int) -> PacketBatch:
    packets = [f"{request_id}:{number}" for number in (seq, seq + 1)]
    return PacketBatch(request_id, seq, packets)


def tell(request_id: str, what: str) -> None:
    sys.stdout.write(f"{request_id} {what}\n")
    sys.stdout.flush()


async def main(file: str, name: str, streams: str) -> None:
    store = SqliteStore(Path(file))
    await store.open()
    await asyncio.gather(*(stream(store, f"{name}.{number}") for number in range(int(streams))))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
