"""What requests of the model APIs cost: reserved before anything is sent, counted when they end."""

from collections.abc import Sequence
from typing import Final

from accord.core.work.backend_call import BackendCall
from accord.core.work.emulation.describe_images import MAX_IMAGES, description_order, last_user_text
from accord.core.work.emulation.image_input import number_images
from accord.core.work.estimate_tokens import estimate_tokens
from accord.core.work.negotiate import declared_level
from accord.errors import ErrorCode, RefusedError
from accord.off_loop import LONG_BYTES, off_loop
from accord.run.budgets import NO_PRICE, BackendUse, Budgets
from accord.run.model_call import ModelCall
from accord.run.model_calls import ModelCallsRef
from accord.wire.capability import Capability
from accord.wire.manifest import SupportLevel
from accord.wire.session import TokenRecord
from accord.wire.work import WorkOrder

OTHER: Final = "other"
"""The model in usage that no configured model is."""


class CallCosts:
    """Reserves and counts what requests cost, by the prices of their backends."""

    def __init__(self, budgets: Budgets, calls: ModelCallsRef) -> None:
        self._budgets: Final = budgets
        self._calls: Final = calls

    async def reserve(self, call: ModelCall, key: TokenRecord | None, user: str | None) -> None:
        """Reserve what the dearest of the backends that may answer would cost, if the key has a budget.

        Raises `RefusedError` if the budget does not have that, or if the price of one of them is not known.
        """
        if call.size > LONG_BYTES:  # here, so that no other estimate of this request has to count its long texts
            await off_loop(call.size, estimate_tokens, call.request.order)
        if key is None or key.rules is None or key.rules.budget_usd is None:
            call.reservation = await self._budgets.reserve(key, 0, user=user)
            return
        order, names = call.request.order, self._calls.current.backends_of(call.request.model)
        answers = self._estimates(names, order, call.request.answers)
        descriptions = self._estimate_descriptions(order, names, call.request.answers)
        if unknown := [name for name, each in (answers | descriptions).items() if each is None]:
            raise RefusedError(f"{NO_PRICE} ({', '.join(unknown)})", ErrorCode.FORBIDDEN, {"field": "model"})
        dearest = (max((each or 0 for each in found.values()), default=0) for found in (answers, descriptions))
        call.reservation = await self._budgets.reserve(key, sum(dearest))

    def settle(self, call: ModelCall, *, is_complete: bool) -> None:
        """Count what each request to a backend used, and note the cost. A second time it does nothing."""
        reservation, call.reservation = call.reservation, None
        if reservation is None:
            return
        is_left = call.failure is None and not is_complete
        sent = [each for record in call.work for each in record.calls]
        for each in sent:
            each.estimate_usage()
            each.cost_micro = self._cost(each, call, is_left=is_left)
        costs = [each.cost_micro for each in sent if each.usage is not None]
        known = [cost for cost in costs if cost is not None]
        if costs and len(known) == len(costs):
            call.cost_micro = sum(known)
        call.is_estimated = any(each.is_estimated for each in sent)
        if sent:
            reservation.settle(*map(self._use, sent))
        reservation.release()

    def _cost(self, sent: BackendCall, call: ModelCall, *, is_left: bool) -> int | None:
        """What this request to a backend cost; one that was cut off costs at least its estimate."""
        price = self._calls.current.prices.get(sent.backend)
        if price is None or sent.usage is None:
            return None
        cost = price.cost(sent.usage) or 0
        if sent.is_complete or not (sent.usage.get("output_tokens") or (is_left and not sent.has_failed)):
            return cost
        times = 1 if sent.describes else call.request.answers // len(call.work)
        return max(cost, times * price.estimate(estimate_tokens(sent.order), _output_limit(sent.order)))

    def _use(self, sent: BackendCall) -> BackendUse:
        counts = sent.usage, sent.cost_micro
        return BackendUse(
            sent.backend, self._model(sent), *counts, failed=not sent.is_complete, estimated=sent.is_estimated
        )

    def _model(self, sent: BackendCall) -> str:
        """The configured name of the model that answered; `OTHER` for one that only the endpoint knows.

        An endpoint may give every answer another name, and each would be a row of usage.
        """
        known = self._calls.current.dispatcher.known
        configured = (known[sent.backend].model if sent.backend in known else None) or ""
        if not sent.model or (configured and _is_version(sent.model, configured)):
            return configured
        return sent.model if any(sent.model == each.model for each in known.values()) else OTHER

    def _estimates(self, names: Sequence[str], order: WorkOrder, times: int) -> dict[str, int | None]:
        """What sending this order so many times would cost at each backend; None where the price is not known."""
        tokens, limit, prices = estimate_tokens(order), _output_limit(order), self._calls.current.prices
        return {name: times * prices[name].estimate(tokens, limit) if name in prices else None for name in names}

    def _estimate_descriptions(self, order: WorkOrder, names: Sequence[str], answers: int) -> dict[str, int | None]:
        """What descriptions of the images for each answer would cost, if one of these backends needs them."""
        dispatcher = self._calls.current.dispatcher
        describer = dispatcher.settings.describe_images_with
        levels = (declared_level(dispatcher.backends[name].manifest, Capability.IMAGE_INPUT) for name in names)
        if describer is None or all(level is not None and level.root == SupportLevel.NATIVE.root for level in levels):
            return {}
        images = [*number_images(order).values()][:MAX_IMAGES]
        if not images:
            return {}
        return self._estimates([describer], description_order(images[0], last_user_text(order)), answers * len(images))


def _output_limit(order: WorkOrder) -> int | None:
    limit = order.parameters.get("max_tokens")
    return limit if isinstance(limit, int) else None


def _is_version(name: str, model: str) -> bool:
    """Whether this is the model's name, or that with a date or another number: `gpt-4o-2024-08-06`."""
    version = name.removeprefix(model)
    return name.startswith(model) and (not version or version[0] in "-@:") and not version.strip("0123456789-.@:")
