"""Budgets of keys: reserve what a request may cost, count what it did cost, and write both in groups.

A request reserves its estimate in the store before anything is sent, and settles with its real cost. All that waits at
one moment is written in one transaction: the usage of the requests that have ended, what they had reserved, and the
reservations of new ones, which the store grants or not by what all processes have spent and reserved. A key without a
budget reserves nothing and waits for nothing.

So a budget is exceeded only by requests that cost more than their estimate, however many processes share the store.
What a process had reserved when it was killed counts until its lease is over; what it had not written of its usage is
lost (`write_behind.py` says how much). A write that fails is tried again, so that usage is counted twice rather than
lost if the store wrote it and could not say so.

It knows no prices: callers bring costs (`backends/prices.py`). All amounts are whole micro-dollars.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import chain
from operator import add
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4
from weakref import WeakMethod

from accord.errors import ErrorCode, RefusedError
from accord.ports import BudgetClaim, BudgetState, Clock, UsageStore
from accord.run.heartbeat import BEATS_PER_LEASE, HeartbeatThread, OutageGuard
from accord.run.write_behind import WriteBehind
from accord.wire.keys import MICRO, NO_RULES, USAGE_COUNTS, BudgetPeriod, KeyRules, UsageRecord
from accord.wire.session import MAX_ID_CHARS, TokenRecord

LEASE_S: Final = 15.0
REFUSED_FOR_S: Final = 60.0
"""After how long a row that the store refused is tried again."""

LOGGER: Final = logging.getLogger("accord.budgets")

NO_PRICE: Final = (
    "This key has a budget, and the price of this model is not known; the operator can set it in accord.toml, under "
    "[backends.price] of the backend"
)

_Row = tuple[str, str, str, str, date]
"""What names a row of usage: key, user, backend, model, day."""


@dataclass(frozen=True, slots=True)
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


_Waiting = Sequence[tuple[int, "asyncio.Future[None]"]]
"""The amounts that requests wait for, and what is done once the store has granted or refused each."""


@dataclass(slots=True)
class _Account:
    """What this process has reserved for one key, and the requests that wait for the store to reserve more."""

    key_id: str
    rules: KeyRules = NO_RULES
    """As in the last request, for all that wait."""
    reserved: int = 0
    waiting: list[tuple[int, "asyncio.Future[None]"]] = field(default_factory=list[tuple[int, "asyncio.Future[None]"]])

    def claim(self, clock: Clock) -> BudgetClaim:
        """What the store is asked for."""
        since = self.rules.budget_period.start(clock.now())
        amounts = [amount for amount, _ in self.waiting]
        return BudgetClaim(self.key_id, self.rules.budget_micro or 0, since, self.reserved, amounts)


FOREVER_S: Final = 1e9
"""A lease that no reservation outlives."""


class Budgets:
    """The reservations of this process, and the usage that it has not written yet."""

    def __init__(self, store: UsageStore, clock: Clock, *, lease_s: float = LEASE_S) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._lease_s: Final = lease_s
        self._outages: Final = OutageGuard(lease_s)
        self._holder: Final = uuid4().hex
        self._accounts: Final[dict[str, _Account]] = {}
        """Of the keys with reservations, or with requests that wait for one."""
        self._changed: set[str] = set()
        """The keys whose reservations have to be written."""
        self._buffer: dict[_Row, list[int]] = {}
        """By row, the sums in the order of `USAGE_COUNTS`."""
        self._refused: Final[set[_Row]] = set()
        """Rows that the store refused although it works."""
        self._refused_until = 0.0
        self._lock: Final = asyncio.Lock()
        self.writes: Final = WriteBehind("Usage", self.flush)
        has_reservations = WeakMethod(self._has_reservations)  # the thread must not keep this object alive
        self._heartbeat: Final = HeartbeatThread(
            store,
            self._holder,
            every_s=lease_s / BEATS_PER_LEASE,
            is_needed=lambda: (check := has_reservations()) is not None and check(),
        )

    async def reserve(self, key: TokenRecord | None, estimate: int | None, *, user: str | None = None) -> "Reservation":
        """Reserve the estimated cost of a request; raises `RefusedError` if the key's budget does not have it.

        Without a key or a budget nothing is reserved, and the request is only counted. An unknown estimate (None) is
        refused if there is a budget: it would not limit anything. Raises `StoreError` if the store fails.
        """
        if key is None:
            return Reservation(self, "", user or "", estimate or 0)
        rules = key.rules
        if rules is None or rules.budget_usd is None:
            return Reservation(self, key.token_id, key.user, estimate or 0)
        if estimate is None:
            raise RefusedError(NO_PRICE, ErrorCode.FORBIDDEN, {"field": "model"})
        account = self._accounts.setdefault(key.token_id, _Account(key.token_id))
        account.rules = rules
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        account.waiting.append((estimate, granted))
        self._write_soon(key.token_id, is_urgent=True)
        self._heartbeat.start()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled() and granted.exception() is None:  # granted, and then cancelled
                self.free(key.token_id, estimate)
            raise
        return Reservation(self, key.token_id, key.user, estimate, reserved=estimate)

    def free(self, key_id: str, amount: int) -> None:
        """Free what was reserved for a request."""
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
        async with self._lock:
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
                self._changed.update(account.key_id for account in accounts)
                for _, granted in chain.from_iterable(waiting):
                    if not granted.done():
                        granted.set_exception(error)
                raise
            finally:
                for row, sums in rows.items():
                    self._add(row, sums)
            for account, requests, state in zip(accounts, waiting, states, strict=True):
                self._answer(account, requests, state)

    async def close(self) -> None:
        """Write what is left; raises `StoreError` if that fails."""
        self._heartbeat.stop()
        self._refused.clear()  # tried once more
        await self.writes.close()

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
        return await self._store.add_usage(records, claims, holder=self._holder, lease_s=lease_s)

    def _answer(self, account: _Account, waiting: _Waiting, state: BudgetState) -> None:
        """Let the requests go on whose reservations the store has granted, and refuse the others."""
        for (amount, granted), is_granted in zip(waiting, state.granted, strict=True):
            if granted.done():  # its request was cancelled
                if is_granted:
                    self._write_soon(account.key_id)
            elif is_granted:
                account.reserved += amount
                granted.set_result(None)
            else:
                granted.set_exception(_exceeded(account.rules, state, amount, self._clock.now()))
        if not (account.reserved or account.waiting or account.key_id in self._changed):
            del self._accounts[account.key_id]

    def _write_soon(self, key_id: str, *, is_urgent: bool = False) -> None:
        self._changed.add(key_id)
        self.writes.add(is_urgent=is_urgent)

    def _has_reservations(self) -> bool:
        return bool(self._accounts)

    def _add(self, row: _Row, more: list[int]) -> None:
        """Add counts to the buffer."""
        sums = self._buffer.get(row)
        self._buffer[row] = more if sums is None else [*map(add, sums, more)]


def _storable(name: str) -> str:
    """A name without what no store can hold: it may come from an endpoint."""
    return name.replace("\0", "").encode(errors="replace").decode()[:MAX_ID_CHARS]


def _usage_record(row: _Row, sums: list[int]) -> UsageRecord:
    key_id, user, backend, model, day = row
    counts = dict(zip(USAGE_COUNTS, sums, strict=True))
    return UsageRecord(key_id=key_id, user=user, backend=backend, model=model, day=day, **counts)


class Reservation:
    """The reserved cost of one request. Use it in a `with` block, so that a request that was sent always counts.

    At the end of the block, a request that was neither settled nor released is released if nothing was sent; otherwise
    it was cut off, and its estimate counts.
    """

    __slots__ = ("_budgets", "_is_open", "_key_id", "_reserved", "_sent", "_user", "estimate")

    def __init__(self, budgets: Budgets, key_id: str, user: str, estimate: int, *, reserved: int = 0) -> None:
        self.estimate: Final = estimate
        self._budgets: Final = budgets
        self._key_id: Final = key_id
        self._user: Final = user
        self._reserved: Final = reserved
        self._is_open = True
        self._sent: BackendUse | None = None

    def mark_sent(self, backend: str, model: str) -> None:
        """Note that the request goes to this backend now: from here on it costs something, whatever happens."""
        self._sent = BackendUse(backend, model, failed=True)

    def settle(self, use: BackendUse, *more: BackendUse, is_cut: bool = False) -> None:
        """Count what the request used at each backend, and free the reservation. A second call does nothing.

        With `is_cut`, the answer was cut off before its usage was known: what is known counts, and for the rest the
        estimate, so at least the estimate in all.
        """
        if not self._close():
            return
        uses = [use, *more]
        missing = self.estimate - sum(each.cost or 0 for each in uses)
        if is_cut and missing > 0:
            uses[-1] = replace(uses[-1], cost=(uses[-1].cost or 0) + missing)
        for each in uses:
            self._budgets.count(self._key_id, self._user, each)

    def release(self) -> None:
        """Free the reservation of a request of which nothing was sent. After `settle` it does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sent is not None:
            self.settle(self._sent, is_cut=True)
        self.release()

    def _close(self) -> bool:
        """Free the reserved amount; False if that was done before."""
        if not self._is_open:
            return False
        self._is_open = False
        self._budgets.free(self._key_id, self._reserved)
        return True


def _exceeded(rules: KeyRules, state: BudgetState, estimate: int, now: datetime) -> RefusedError:
    budget, period = rules.budget_micro or 0, rules.budget_period
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
