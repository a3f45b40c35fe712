"""Budgets of keys: reserve what a request may cost, count what it did cost, and write both in groups.

All that waits at one moment is written in one transaction: the usage of the runs that have ended, what they had
reserved, and the reservations of new ones, which the store grants or not by what all processes have spent and reserved.
A key without a budget reserves nothing and waits for nothing.

So a budget is exceeded only by requests that cost more than their estimate, however many processes share the store.
What a process had reserved when it was killed counts until its lease is over; what it had not written of its usage is
lost (`write_behind.py` says how much). A write that fails is tried again, so that usage is counted twice rather than
lost if the store wrote it and could not say so.

It knows no prices: `costs.py` brings amounts. All amounts are whole micro-dollars.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from itertools import chain
from operator import add
from typing import Any, Final, NamedTuple
from uuid import uuid4

from accord.errors import ErrorCode, RefusedError, StoreError
from accord.ports import BudgetClaim, BudgetState, Clock, UsageStore
from accord.run.outages import OutageGuard
from accord.run.write_behind import WriteBehind
from accord.wire.keys import MICRO, USAGE_COUNTS, BudgetPeriod, Payer, UsageRecord
from accord.wire.session import MAX_ID_CHARS

LEASE_S: Final = 15.0
REFUSED_FOR_S: Final = 60.0
"""After how long a row that the store refused is tried again."""

LOGGER: Final = logging.getLogger("accord.budgets")

_Row = tuple[str, str, str, str, date]
"""What names a row of usage: key, user, backend, model, day."""


@dataclass(slots=True)
class BackendUse:
    """What one request to a backend used. `cost` is in micro-dollars; None if the price is not known."""

    backend: str
    model: str
    usage: Mapping[str, Any] | None = None
    """As in an `EndPiece`; None if it is not known."""
    cost: int | None = None
    failed: bool = False
    estimated: bool = False

    def tokens(self, name: str) -> int:
        """One of the counts of tokens; 0 if it is not known."""
        value = (self.usage or {}).get(name)
        return value if isinstance(value, int) and value > 0 else 0


class _Waiting(NamedTuple):
    """A request that waits until the store has granted or refused an amount."""

    amount: int
    granted: "asyncio.Future[None]"


@dataclass(slots=True)
class _Account:
    """What this process has reserved for one key, and the requests that wait for the store to reserve more."""

    payer: Payer
    """That of the last request, whose budget counts for all that wait."""
    reserved: int = 0
    waiting: list[_Waiting] = field(default_factory=list[_Waiting])

    def claim(self, clock: Clock) -> BudgetClaim:
        """What the store is asked for."""
        payer = self.payer
        since, amounts = payer.budget_period.start(clock.now()), [each.amount for each in self.waiting]
        return BudgetClaim(payer.key_id, payer.budget_micro or 0, since, self.reserved, amounts)


FOREVER_S: Final = 1e9
"""A lease that no reservation outlives."""


class Budgets:
    """The reservations of this process, and the usage that it has not written yet."""

    def __init__(self, store: UsageStore, clock: Clock, *, lease_s: float = LEASE_S) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._lease_s: Final = lease_s
        self._outages: Final = OutageGuard(lease_s)
        self.holder: Final = uuid4().hex
        """The name of this process among those that reserve."""
        self._accounts: Final[dict[str, _Account]] = {}
        """Of the keys with reservations, or with requests that wait for one."""
        self._changed: set[str] = set()
        """The keys whose reservations have to be written."""
        self._buffer: dict[_Row, list[int]] = {}
        """By row, the sums in the order of `USAGE_COUNTS`."""
        self._refused: Final[set[_Row]] = set()
        """Rows that the store refused although it works."""
        self._refused_until = 0.0
        self.lock: Final = asyncio.Lock()
        """Held while anything is written."""
        self.writes: Final = WriteBehind("Usage", self.flush)

    async def reserve(self, payer: Payer, amount: int) -> None:
        """Reserve so much of the payer's budget until it is freed.

        Raises `RefusedError` if the budget does not have it, and `StoreError` if the store fails.
        """
        account = self._accounts.setdefault(payer.key_id, _Account(payer))
        account.payer = payer
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append(_Waiting(amount, granted))
        self._write_soon(payer.key_id, is_urgent=True)
        self._store.heartbeats.start(self.holder, self._has_reservations, lease_s=self._lease_s)
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled() and granted.exception() is None:  # granted, and then cancelled
                self.free(payer.key_id, amount)
            raise

    def free(self, key_id: str, amount: int) -> None:
        """Free what was reserved."""
        if amount:
            self._accounts[key_id].reserved -= amount
            self._write_soon(key_id)

    def count(self, key_id: str, user: str, use: BackendUse) -> None:
        """Add one request to a backend to the usage that is written next."""
        tokens = map(use.tokens, ("input_tokens", "output_tokens", "cached_input_tokens"))
        sums = [1, int(use.failed), *tokens, use.cost or 0, int(use.cost is not None), int(use.estimated)]
        row = (key_id, user, _storable(use.backend), _storable(use.model), self._clock.now().date())
        self._add(row, sums)
        self.writes.add()

    async def flush(self) -> None:
        """Write the buffered usage and the reservations; raises `StoreError` and keeps the usage if that fails."""
        async with self.lock:
            rows, self._buffer = self._buffer, {}
            accounts = [self._accounts[key_id] for key_id in self._changed]
            self._changed = set()
            waiting = [account.waiting for account in accounts]
            claims = [account.claim(self._clock) for account in accounts]
            for account in accounts:
                account.waiting = []
            try:
                states = await self._write(rows, claims)
            except Exception as error:
                self._changed.update(account.payer.key_id for account in accounts)
                for each in chain.from_iterable(waiting):
                    if not each.granted.done():
                        each.granted.set_exception(error)
                raise
            finally:
                for row, sums in rows.items():
                    self._add(row, sums)
            for account, requests, state in zip(accounts, waiting, states, strict=True):
                self._answer(account, requests, state)

    async def close(self) -> None:
        """Write what is left; what cannot be written is logged."""
        self._store.heartbeats.stop(self.holder)
        self._refused.clear()  # tried once more
        try:
            await self.writes.close()
        except StoreError as error:
            LOGGER.error("The last usage could not be written", extra={"fields": {"why": error.message}})

    async def _write(self, rows: dict[_Row, list[int]], claims: list[BudgetClaim]) -> list[BudgetState]:
        """Write in one transaction and remove the rows that are stored; one that is refused takes no others with it."""
        alone = self._refused.intersection(rows) if self._clock.monotonic() >= self._refused_until else ()
        together = [row for row in rows if row not in self._refused]
        try:
            states = await self._add_usage([(row, rows[row]) for row in together], claims)
        except Exception:
            if not together:
                raise
            await self._store.probe()  # raises if it is the store that fails
            alone, states = [*rows], None
        else:
            for row in together:
                del rows[row]
        for row in alone:
            try:
                await self._add_usage([(row, rows[row])])
            except Exception as error:  # noqa: BLE001 - whatever is wrong with this row, the others are written
                self._refused.add(row)
                self._refused_until = self._clock.monotonic() + REFUSED_FOR_S
                fields = {"row": row, "counts": rows[row], "why": str(error)}
                LOGGER.error("The store refuses a row of usage; trying again later", extra={"fields": fields})
            else:
                self._refused.discard(row)
                del rows[row]
        return await self._add_usage([], claims) if states is None else states

    async def _add_usage(
        self, rows: Sequence[tuple[_Row, list[int]]], claims: Sequence[BudgetClaim] = ()
    ) -> list[BudgetState]:
        records = [_usage_record(row, sums) for row, sums in rows]
        lease_s = self._lease_s
        if claims:
            await self._outages.check_clock(self._store)
            if not self._outages.can_judge:  # what others have reserved looks old, and they may be alive
                lease_s = FOREVER_S
        return await self._store.add_usage(records, claims, holder=self.holder, lease_s=lease_s)

    def _answer(self, account: _Account, waiting: Sequence[_Waiting], state: BudgetState) -> None:
        """Let the requests go on whose reservations the store has granted, and refuse the others."""
        key_id = account.payer.key_id
        for each, is_granted in zip(waiting, state.granted, strict=True):
            if each.granted.done():  # its request was cancelled
                if is_granted:
                    self._write_soon(key_id)
            elif is_granted:
                account.reserved += each.amount
                each.granted.set_result(None)
            else:
                each.granted.set_exception(_exceeded(account.payer, state, each.amount, self._clock.now()))
        if not (account.reserved or account.waiting or key_id in self._changed):
            del self._accounts[key_id]

    def _write_soon(self, key_id: str, *, is_urgent: bool = False) -> None:
        self._changed.add(key_id)
        self.writes.add(is_urgent=is_urgent)

    def _has_reservations(self) -> bool:
        return bool(self._accounts)

    def _add(self, row: _Row, more: list[int]) -> None:
        """Add counts to the buffer."""
        sums = self._buffer.get(row)
        self._buffer[row] = more if sums is None else [*map(add, sums, more)]


@lru_cache(maxsize=1_000)
def _storable(name: str) -> str:
    """A name without what no store can hold: it may come from an endpoint."""
    return name.replace("\0", "").encode(errors="replace").decode()[:MAX_ID_CHARS]


def _usage_record(row: _Row, sums: list[int]) -> UsageRecord:
    key_id, user, backend, model, day = row
    counts = dict(zip(USAGE_COUNTS, sums, strict=True))
    return UsageRecord(key_id=key_id, user=user, backend=backend, model=model, day=day, **counts)


def _exceeded(payer: Payer, state: BudgetState, estimate: int, now: datetime) -> RefusedError:
    budget, period = payer.budget_micro or 0, payer.budget_period
    renews_at = period.renews_at(now)
    per = "in all" if period is BudgetPeriod.TOTAL else f"per {period}"
    left = max(budget - state.spent - state.reserved, 0)
    renewal = "" if renews_at is None else f"it starts again at {renews_at:%Y-%m-%d %H:%M} UTC, and "
    message = (
        f"This request may cost {estimate / MICRO:.6f} USD, and this key has {left / MICRO:.6f} USD left of its budget "
        f"of {budget / MICRO:g} USD {per}; {renewal}the operator can raise it"
    )
    details = {
        "budget_usd": budget / MICRO,
        "budget_period": period.value,
        "spent_usd": state.spent / MICRO,
        "reserved_usd": state.reserved / MICRO,
        "estimate_usd": estimate / MICRO,
        "renews_at": None if renews_at is None else renews_at.isoformat(),
    }
    return RefusedError(message, ErrorCode.BUDGET_EXCEEDED, details)
