"""Budgets of keys: reserve what a request may cost, count what it did cost, and write usage in the background.

A request reserves its estimate before anything is sent and settles with its real cost. Once a key's spending is known,
both are arithmetic in memory: nothing waits for the store. Usage is buffered and written every `FLUSH_S` and at the
end; a process that is killed loses what it counted since its last write. A write that fails is tried again, so that
usage is counted twice rather than lost if the store wrote it and could not say so.

Within one process a budget is exceeded only by requests that cost more than their estimate. Several processes see each
other's spending through the store, after at most `FLUSH_S + REFRESH_S` and the time of the two calls, and do not see
each other's reservations. Together they may thus exceed a budget by what the others spend within those seconds and have
reserved at that moment.

It knows no prices: callers bring costs (`backends/prices.py`). All amounts are whole micro-dollars.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from types import TracebackType
from typing import Any, Final, Self

from accord.errors import ErrorCode, RefusedError, StoreError
from accord.ports import Clock, UsageStore
from accord.wire.keys import MICRO, USAGE_COUNTS, BudgetPeriod, KeyRules, UsageRecord
from accord.wire.session import MAX_ID_CHARS, TokenRecord

FLUSH_S: Final = 1.0
REFRESH_S: Final = 3.0
IDLE_S: Final = 300.0
"""How long the spending of a key is kept up to date after its last request."""
MAX_COUNT: Final = 2**53
"""The largest count that is believed: an endpoint reports its own usage."""

LOGGER: Final = logging.getLogger("accord.budgets")

NO_PRICE: Final = (
    "This key has a budget, and the price of this model is not known; the operator can set it in accord.toml, under "
    "[backends.price] of the backend"
)

_COST: Final = USAGE_COUNTS.index("cost_micro")
_Row = tuple[str, str, str, date]
"""What names a row of usage besides its key: user, backend, model, day."""


@dataclass(frozen=True, slots=True)
class BackendUse:
    """What one request to a backend used. `cost` is in micro-dollars; None if the price is not known."""

    backend: str
    model: str
    usage: Mapping[str, Any] | None = None
    """As in an `EndPiece`; None if it is not known."""
    cost: int | None = None
    failed: bool = False

    def tokens(self, name: str) -> int:
        """One of the counts of tokens; 0 if it is not known."""
        value = (self.usage or {}).get(name)
        return min(value, MAX_COUNT) if isinstance(value, int) and value > 0 else 0


@dataclass(slots=True)
class _Account:
    """The spending of one key in the current period."""

    key_id: str
    period: BudgetPeriod
    used_at: float
    since: date | None = None
    renews_at: datetime | None = None
    stored: int = 0
    unwritten: int = 0
    """Counted here, and not written to the store yet."""
    reserved: int = 0

    def is_over(self, clock: Clock) -> bool:
        """Whether the period is over, so that the spending of the next one has to be read."""
        return self.renews_at is not None and clock.now() >= self.renews_at

    def reserve(self, rules: KeyRules, estimate: int) -> None:
        """Reserve this amount; raises `RefusedError` if the budget does not have it."""
        budget = rules.budget_micro or 0
        spent = self.stored + self.unwritten
        if spent + self.reserved + estimate > budget:
            raise _exceeded(self, budget, spent, estimate)
        self.reserved += estimate


class Budgets:
    """The budgets of all keys that this process serves, and the usage that it has not written yet."""

    def __init__(self, store: UsageStore, clock: Clock, *, flush_s: float = FLUSH_S) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._flush_s: Final = flush_s
        self._accounts: Final[dict[str, _Account]] = {}
        self._loads: Final[dict[str, asyncio.Task[_Account]]] = {}
        self._buffer: dict[str, dict[_Row, list[int]]] = {}
        """By key and row, the sums in the order of `USAGE_COUNTS`."""
        # While rows are being written they are neither in the buffer nor surely in the store: nothing is read then.
        self._lock: Final = asyncio.Lock()

    async def reserve(self, key: TokenRecord | None, estimate: int | None, *, user: str | None = None) -> "Reservation":
        """Reserve the estimated cost of a request; raises `RefusedError` if the key's budget does not have it.

        Without a key or a budget nothing is reserved, and the request is only counted. An unknown estimate (None) is
        refused if there is a budget: it would not limit anything. Waits for the store only for the first request of
        a key and of a period.
        """
        if key is None:
            return Reservation(self, "", user or "", estimate or 0, None)
        rules = key.rules
        if rules is None or rules.budget_usd is None:
            return Reservation(self, key.token_id, key.user, estimate or 0, None)
        if estimate is None:
            raise RefusedError(NO_PRICE, ErrorCode.FORBIDDEN, {"field": "model"})
        account = self._accounts.get(key.token_id)
        while account is None or account.period is not rules.budget_period or account.is_over(self._clock):
            account = await self._load(key.token_id, rules.budget_period)
        account.used_at = self._clock.monotonic()
        account.reserve(rules, estimate)
        return Reservation(self, key.token_id, key.user, estimate, account)

    def count(self, key_id: str, user: str, use: BackendUse) -> None:
        """Add one request to a backend to the usage that is written next."""
        cost = use.cost or 0
        tokens = map(use.tokens, ("input_tokens", "output_tokens", "cached_input_tokens"))
        sums = [1, int(use.failed), *tokens, cost, int(use.cost is not None)]
        self._add(key_id, (user, use.backend, use.model, self._clock.now().date()), sums)
        if (account := self._accounts.get(key_id)) is not None:
            account.unwritten += cost

    async def run(self) -> None:
        """Write usage and refresh the spending of keys until this is cancelled; then call `flush`."""
        refreshed_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._flush_s)
            try:
                await self.flush()
                if self._clock.monotonic() - refreshed_at >= REFRESH_S:
                    refreshed_at = self._clock.monotonic()
                    await self.refresh()
            except StoreError:
                pass  # the store has logged it, and the next round tries again
            except Exception:  # without this task no usage would be written any more
                LOGGER.exception("Writing usage failed")

    async def flush(self) -> None:
        """Write the buffered usage; raises `StoreError` and keeps it if that fails."""
        async with self._lock:
            written, self._buffer = self._buffer, {}
            if not written:
                return
            rows = [(key, row, sums) for key, found in written.items() for row, sums in found.items()]
            try:
                await self._store.add_usage([_usage_record(*each) for each in rows])
            except StoreError:
                for each in rows:
                    self._add(*each)
                raise
            finally:  # also if this is cancelled: a store completes its writes
                for account in self._accounts.values():
                    if account.key_id in written:
                        unwritten = self._unwritten(account)
                        account.stored, account.unwritten = account.stored + account.unwritten - unwritten, unwritten

    async def refresh(self) -> None:
        """Read what other processes have spent, and forget keys that were not used for `IDLE_S`."""
        idle_since = self._clock.monotonic() - IDLE_S
        for name, account in [*self._accounts.items()]:
            if account.used_at < idle_since and not account.reserved:
                del self._accounts[name]
            else:
                await self._read(account, account.period)

    async def _load(self, key_id: str, period: BudgetPeriod) -> _Account:
        """Read the spending of a key, once for all requests that wait for it."""
        task = self._loads.get(key_id)
        if task is None:
            account = self._accounts.get(key_id) or _Account(key_id, period, self._clock.monotonic())
            task = self._loads[key_id] = asyncio.create_task(self._read(account, period))
            task.add_done_callback(lambda done: self._loaded(key_id, done))
        # One request that is cancelled must not fail the others.
        self._accounts[key_id] = account = await asyncio.shield(task)
        return account

    def _loaded(self, key_id: str, task: "asyncio.Task[_Account]") -> None:
        self._loads.pop(key_id, None)
        _ = task.cancelled() or task.exception()  # read, so that asyncio does not report it if no request waits now

    async def _read(self, account: _Account, period: BudgetPeriod) -> _Account:
        async with self._lock:
            now = self._clock.now()
            since = period.start(now)
            account.stored = await self._store.spent(account.key_id, since)
            account.period, account.since, account.renews_at = period, since, period.renews_at(now)
            account.unwritten = self._unwritten(account)
        return account

    def _unwritten(self, account: _Account) -> int:
        rows = self._buffer.get(account.key_id, {}).items()
        return sum(sums[_COST] for row, sums in rows if account.since is None or row[-1] >= account.since)

    def _add(self, key_id: str, row: _Row, more: list[int]) -> None:
        """Add counts to the buffer."""
        rows = self._buffer.setdefault(key_id, {})
        sums = rows.get(row)
        if sums is None:
            rows[row] = more
        else:
            for place, count in enumerate(more):
                sums[place] += count


def _usage_record(key_id: str, row: _Row, sums: list[int]) -> UsageRecord:
    user, backend, model, day = row
    counts = dict(zip(USAGE_COUNTS, sums, strict=True))
    # Names may come from an endpoint; one that a store cannot hold must not stop the others from being written.
    backend, model = (name.replace("\0", "")[:MAX_ID_CHARS] for name in (backend, model))
    return UsageRecord(key_id=key_id, user=user, backend=backend, model=model, day=day, **counts)


class Reservation:
    """The reserved cost of one request. Use it in a `with` block, so that a request that was sent always counts.

    At the end of the block, a request that was neither settled nor released is released if nothing was sent; otherwise
    it was cut off, and its estimate counts.
    """

    __slots__ = ("_account", "_budgets", "_is_open", "_key_id", "_sent", "_user", "estimate")

    def __init__(self, budgets: Budgets, key_id: str, user: str, estimate: int, account: _Account | None) -> None:
        self.estimate: Final = estimate
        self._budgets: Final = budgets
        self._key_id: Final = key_id
        self._user: Final = user
        self._account: Final = account
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
        if self._account is not None:
            self._account.reserved -= self.estimate
        return True


def _exceeded(account: _Account, budget: int, spent: int, estimate: int) -> RefusedError:
    per = "in all" if account.period is BudgetPeriod.TOTAL else f"per {account.period}"
    left = max(budget - spent - account.reserved, 0)
    renewal = "" if account.renews_at is None else f"it starts again at {account.renews_at:%Y-%m-%d %H:%M} UTC, and "
    message = (
        f"This request may cost {estimate / MICRO:.6f} USD, and this key has {left / MICRO:.6f} USD left of its budget "
        f"of {budget / MICRO:g} USD {per}; {renewal}the operator can raise it"
    )
    details = {
        "budget_usd": budget / MICRO,
        "budget_period": account.period.value,
        "spent_usd": spent / MICRO,
        "reserved_usd": account.reserved / MICRO,
        "estimate_usd": estimate / MICRO,
        "renews_at": None if account.renews_at is None else account.renews_at.isoformat(),
    }
    return RefusedError(message, ErrorCode.BUDGET_EXCEEDED, details)
