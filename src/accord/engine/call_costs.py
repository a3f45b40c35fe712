"""What requests of the model APIs cost: reserved before anything is sent, counted when they end."""

from typing import Final

from accord.core.work.estimate_tokens import estimate_tokens
from accord.engine.budgets import NO_PRICE, BackendUse, Budgets
from accord.engine.dispatch import WorkRecord
from accord.engine.model_call import ModelCall
from accord.engine.model_calls import ModelCallsRef
from accord.errors import BackendSkippedError, ErrorCode, RefusedError
from accord.wire.session import TokenRecord


class CallCosts:
    """Reserves and counts what requests cost, by the prices of their backends."""

    def __init__(self, budgets: Budgets, calls: ModelCallsRef) -> None:
        self._budgets: Final = budgets
        self._calls: Final = calls

    async def reserve(self, call: ModelCall, key: TokenRecord | None, user: str | None) -> None:
        """Reserve what the dearest of the backends that may answer would cost, if the key has a budget.

        Raises `RefusedError` if the budget does not have that, or if the price of one of them is not known.
        """
        if key is None or key.rules is None or key.rules.budget_usd is None:
            call.reservation = await self._budgets.reserve(key, 0, user=user)
            return
        names = self._calls.current.backends_of(call.request.model)
        estimates = {name: self._estimate(call, name) for name in names}
        if unknown := [name for name, each in estimates.items() if each is None]:
            raise RefusedError(f"{NO_PRICE} ({', '.join(unknown)})", ErrorCode.FORBIDDEN, {"field": "model"})
        estimate = max((each for each in estimates.values() if each is not None), default=0)
        call.reservation = await self._budgets.reserve(key, estimate)

    def settle(self, call: ModelCall, *, is_complete: bool) -> None:
        """Count what each backend used, and note the cost. A second time it does nothing.

        An answer that was cut off costs at least what was estimated for it.
        """
        reservation, call.reservation = call.reservation, None
        if reservation is None:
            return
        failed = [
            BackendUse(name, self._model(call, name), failed=True)
            for name, error in call.record.failures
            if not isinstance(error, BackendSkippedError)  # nothing was sent to it
        ]
        answered: list[BackendUse] = []
        # Without a first byte, a failure is that of the last backend, which is among the failures already.
        if call.failure is None or call.first_byte_ms is not None:
            answered = [self._use(call, record, is_complete=is_complete) for record in call.work if record.backend]
            costs = [use.cost for use in answered if use.cost is not None]
            if costs and len(costs) == len(answered):
                call.cost_micro = sum(costs)
        if uses := [*failed, *answered]:
            reservation.settle(*uses)
        reservation.release()

    def _use(self, call: ModelCall, record: WorkRecord, *, is_complete: bool) -> BackendUse:
        name, is_whole = record.backend or "", is_complete and call.failure is None
        price = self._calls.current.prices.get(name)
        cost = None if price is None else price.cost(record.usage)
        if price is not None and not is_whole:
            cost = max(cost or 0, (self._estimate(call, name) or 0) // len(call.work))
        return BackendUse(name, self._model(call, name), record.usage, cost, failed=not is_whole)

    def _model(self, call: ModelCall, backend: str) -> str:
        """The model that answered, or that the backend is configured with."""
        if call.model and backend == call.served_by:
            return call.model
        known = self._calls.current.dispatcher.known.get(backend)
        return (known.model if known is not None else None) or ""

    def _estimate(self, call: ModelCall, backend: str) -> int | None:
        price = self._calls.current.prices.get(backend)
        if price is None:
            return None
        limit = call.request.order.parameters.get("max_tokens")
        one = price.estimate(estimate_tokens(call.request.order), limit if isinstance(limit, int) else None)
        return one * call.request.answers
