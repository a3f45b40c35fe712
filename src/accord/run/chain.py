"""Verify the stored chain of receipts of one session: page by page, so that a long one takes little memory."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from accord.core.receipt import ChainVerifier, ReceiptFinding, VerifySignature, parse_receipt
from accord.errors import ErrorCode, RefusedError
from accord.ports import SessionStore
from accord.wire.receipt import ReceiptProblem, ReceiptState, ReceiptVerification
from accord.wire.session import ReceiptRecord

PAGE: Final = 100
MAX_RECEIPTS: Final = 10_000
"""A longer chain is left to the command: this one would take seconds, and calls of a model API make long ones."""
MAX_PROBLEMS: Final = 20
"""How many problems are listed."""
TOO_LONG: Final = (
    "This session has more than {} receipts, too many to verify here; the operator can run "
    "`accord sessions receipts SESSION | accord receipts verify -`"
)
UNSIGNED: Final = (ReceiptState.UNSIGNED, ReceiptState.FORGED)


async def verify_chain(
    store: SessionStore,
    session_id: str,
    verify_signature: VerifySignature | None = None,
    *,
    max_receipts: int = MAX_RECEIPTS,
) -> ReceiptVerification:
    """Check that the receipts of this session are unaltered, complete and in order, up to the store's last one.

    With `verify_signature` each needs a valid signature. Raises `RefusedError` if there are too many.
    """
    # Read first: receipts that are added meanwhile are left out.
    last = await store.last_receipt_hash(session_id)
    chain, wrong, is_signed = ChainVerifier(verify_signature), list[ReceiptFinding](), True
    for after in range(0, max_receipts, PAGE):
        page = await store.receipts(session_id, after=after, limit=PAGE)
        # In a thread, since a page takes tens of milliseconds.
        found = await asyncio.to_thread(_check_page, chain, page, last)
        wrong += [finding for finding in found if finding.state is not ReceiptState.OK]
        is_signed = is_signed and not any(finding.state in UNSIGNED for finding in found)
        if not page or chain.ends.get(session_id) == last:
            break
    else:
        raise RefusedError(TOO_LONG.format(max_receipts), ErrorCode.TOO_LARGE, {"max": max_receipts})
    if last is not None and (finding := chain.check_end(session_id, last)) is not None:
        wrong.append(finding)
    return ReceiptVerification(
        ok=chain.count > 0 and not wrong,
        count=chain.count,
        last=chain.ends.get(session_id),
        wrong=[
            ReceiptProblem(number=each.index + 1, state=each.state, reason=each.reason, hash=each.hash)
            for each in wrong[:MAX_PROBLEMS]
        ],
        signed=None if verify_signature is None else is_signed and chain.count > 0,
    )


def _check_page(chain: ChainVerifier, page: Sequence[ReceiptRecord], last: str | None) -> list[ReceiptFinding]:
    """Check the receipts of a page, up to the last one of the chain."""
    found: list[ReceiptFinding] = []
    for record in page:
        found.append(chain.check(_parse(record.body)))
        if found[-1].hash == last:
            break
    return found


def _parse(body: str) -> Any:
    try:
        return parse_receipt(body)
    except ValueError:
        return None  # is reported as altered
