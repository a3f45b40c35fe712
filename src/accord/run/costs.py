"""What turns of agents and calls of the model APIs cost: reserved before anything is sent, counted at the end.

    admitted ── reserve ──> sent to backends ── every end ──> settle: count each request, free what is reserved

A call is one question, and reserves once. For a turn, its first question is reserved when it is admitted, so that a
budget that is used up is a refusal and not a stream with an error. Each question of its agent then needs its own
estimate until it has ended, and after that what it cost; what is needed beyond what is reserved is reserved before the
question is sent.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.core.work.backend_call import BackendCall
from accord.core.work.conversation import build_order, links_to_files
from accord.core.work.emulation.describe_images import MAX_IMAGES, description_order, last_user_text
from accord.core.work.emulation.image_input import number_images
from accord.core.work.estimate_tokens import estimate_tokens
from accord.core.work.fields import ModelRequest, order_of
from accord.core.work.negotiate import declared_level
from accord.errors import AgentError, ErrorCode, RefusedError, StoreError
from accord.off_loop import LONG_BYTES, off_loop, size_of
from accord.run.budgets import BackendUse, Budgets
from accord.wire.capability import Capability
from accord.wire.conversation import TextPart
from accord.wire.keys import MICRO, Payer
from accord.wire.manifest import SupportLevel
from accord.wire.receipt import to_int_if_whole
from accord.wire.request import AgentRequest, ServiceRequest
from accord.wire.work import WorkOrder

if TYPE_CHECKING:
    from accord.run.dispatch import Dispatcher, WorkRecord

OTHER: Final = "other"
"""The model in usage that no configured model is."""
HAS_ENDED: Final = "The turn has ended, and asks no more questions"
NO_PRICE: Final = (
    "This key has a budget, and the price of this model is not known; the operator can set it in accord.toml, under "
    "[backends.price] of the backend"
)


class RunCosts:
    """What one run costs at the backends of this dispatcher. Without `budgets`, nothing is reserved or counted."""

    def __init__(self, budgets: Budgets | None, payer: Payer, dispatcher: "Dispatcher") -> None:
        self.payer: Final = payer
        self.dispatcher: Final = dispatcher
        self.cost_micro: int | None = None
        """In micro-dollars, once it is settled; None if that is not known."""
        self.is_estimated = False
        """Whether a part of the usage is estimated, once it is settled."""
        self.reserved = 0
        """What the store has granted."""
        self._budgets: Final = budgets
        self._wanted = payer.reserved_micro
        """What the store has granted or is being asked for."""
        self._needed = 0
        """What the questions so far have cost or may cost."""
        self._is_settled = False

    async def admit(self, request: AgentRequest) -> None:
        """Reserve the first question of a turn at the dearest backend; raises as `reserve` does."""
        if self._is_limited:
            content = [*(request.content or ()), *links_to_files(request.files)]
            order = build_order(prompt=request.query, content=content, history=(), system=None)
            allowed, names = self.payer.backends, self.dispatcher.backends
            await self.reserve([name for name in names if allowed is None or name in allowed], order)
            self._needed = 0

    async def reserve(
        self, names: Sequence[str], work: WorkOrder | ModelRequest, *, answers: int = 1, size: int | None = None
    ) -> int:
        """Reserve what so many answers to this work cost at the dearest of these backends; returns the estimate.

        Nothing is reserved for a payer without a budget. Raises `RefusedError` if the budget does not have it, or if
        the price of one of the backends is not known, and `StoreError` if the store fails. `size` is that of the work.
        """
        if self._is_settled:
            raise AgentError(HAS_ENDED)
        size = _text_size(order_of(work)) if size is None else size
        if size > LONG_BYTES:  # here, so that no other estimate has to read and count its long texts
            await off_loop(size, lambda: estimate_tokens(order_of(work)))
        if self._budgets is None or not self._is_limited:
            return 0
        estimate = self._estimate(names, order_of(work), answers)
        missing = max(0, self._needed + estimate - self._wanted)
        # Before the store has answered: other questions may be asked meanwhile.
        self._needed, self._wanted = self._needed + estimate, self._wanted + missing
        try:
            if missing or not self._wanted:
                await self._budgets.reserve(self.payer, missing)
        except BaseException:
            self._needed, self._wanted = self._needed - estimate, self._wanted - missing
            raise
        if self._is_settled:
            self._budgets.free(self.payer.key_id, missing)
            raise AgentError(HAS_ENDED)
        self.reserved += missing
        return estimate

    def question_ended(self, record: "WorkRecord", estimate: int) -> None:
        """Need what the question cost instead of its estimate, which `reserve` has returned."""
        if self._is_limited and not self._is_settled:
            self._needed += sum(self._cost(call, record, 1) or 0 for call in record.calls) - estimate

    def settle(self, work: Sequence["WorkRecord"] = (), *, answers: int = 1) -> None:
        """Count what each request to a backend used, and free what is reserved. A second time it does nothing.

        `answers` is how many answers one request to a backend is for.
        """
        if self._is_settled:
            return
        self._is_settled = True
        for record in work:
            for call in record.calls:
                call.cost_micro = self._cost(call, record, answers)
        calls = [call for record in work for call in record.calls]
        self.cost_micro = total_cost(calls)
        self.is_estimated = any(call.is_estimated for call in calls)
        if self._budgets is not None:
            for call in calls:
                self._budgets.count(self.payer.key_id, self.payer.user, self._use(call))
            self._budgets.free(self.payer.key_id, self.reserved)

    async def keep_up(self) -> None:
        """Wait while usage that was counted before is not written: a process that is killed loses little."""
        if self._budgets is None:
            return
        if self._budgets.writes.is_behind:
            await self._budgets.writes.keep_up()
        if self.payer.reserved_micro:  # freed with the end of the turn: what it cost is counted before
            with suppress(StoreError):
                await self._budgets.flush()

    @property
    def holder(self) -> str:
        """Who holds what is reserved."""
        return "" if self._budgets is None else self._budgets.holder

    @asynccontextmanager
    async def handing_over(self) -> AsyncGenerator[Callable[[], None]]:
        """Within this block the store can give what is reserved to another holder; then call what this returns.

        No budgets are written meanwhile: a write would count the amount twice, and refuse what there is room for.
        """
        if self._budgets is None or not self.reserved:
            yield lambda: None
            return
        async with self._budgets.lock:
            yield self._forget_reserved

    def _forget_reserved(self) -> None:
        if self._budgets is not None:
            self._budgets.free(self.payer.key_id, self.reserved)
            self.reserved = 0

    def members(self) -> dict[str, Any]:
        """What a receipt says of the costs, and of the key."""
        cost = None if self.cost_micro is None else to_int_if_whole(self.cost_micro / MICRO)
        members = {"key": self.payer.key_id or None, "cost_usd": cost, "estimated": self.is_estimated or None}
        return {name: value for name, value in members.items() if value is not None}

    @property
    def _is_limited(self) -> bool:
        return self.payer.budget_micro is not None

    def _cost(self, sent: BackendCall, record: "WorkRecord", answers: int) -> int | None:
        """What this request to a backend cost; one that was cut off costs at least its estimate."""
        sent.estimate_usage()
        price = self.dispatcher.prices.get(sent.backend)
        if price is None or sent.usage is None:
            return None
        cost = price.cost(sent.usage) or 0
        is_cut = sent.usage.get("output_tokens") or (record.is_left and not sent.has_failed)
        if sent.is_complete or not is_cut:
            return cost
        times = 1 if sent.describes else answers
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
        known = self.dispatcher.known
        configured = (known[sent.backend].model if sent.backend in known else None) or ""
        if not sent.model or (configured and _is_version(sent.model, configured)):
            return configured
        return sent.model if any(sent.model == each.model for each in known.values()) else OTHER

    def _estimate(self, names: Sequence[str], order: WorkOrder, answers: int) -> int:
        """What this order costs at the dearest of these backends, with the descriptions of its images."""
        found = self._estimates(names, order, answers)
        descriptions = self._estimate_descriptions(names, order, answers)
        if unknown := [name for name, each in (found | descriptions).items() if each is None]:
            message = f"{NO_PRICE} ({', '.join(unknown)})"
            raise RefusedError(message, ErrorCode.FORBIDDEN, {"backends": unknown})
        return sum(max((each or 0 for each in costs.values()), default=0) for costs in (found, descriptions))

    def _estimates(self, names: Sequence[str], order: WorkOrder, times: int) -> dict[str, int | None]:
        """What sending this order so many times would cost at each backend; None where the price is not known."""
        tokens, limit, prices = estimate_tokens(order), _output_limit(order), self.dispatcher.prices
        return {name: times * prices[name].estimate(tokens, limit) if name in prices else None for name in names}

    def _estimate_descriptions(self, names: Sequence[str], order: WorkOrder, answers: int) -> dict[str, int | None]:
        """What descriptions of the images for each answer would cost, if one of these backends needs them."""
        dispatcher = self.dispatcher
        describer = dispatcher.settings.describe_images_with
        levels = (declared_level(dispatcher.backends[name].manifest, Capability.IMAGE_INPUT) for name in names)
        if describer is None or all(level is not None and level.root == SupportLevel.NATIVE.root for level in levels):
            return {}
        images = [*number_images(order).values()][:MAX_IMAGES]
        if not images:
            return {}
        return self._estimates([describer], description_order(images[0], last_user_text(order)), answers * len(images))


class _Paid(msgspec.Struct):
    """The member that is added to a queued request; processes of earlier versions ignore it, and do not write it."""

    payer: Payer | None = None


_decode_paid: Final = msgspec.json.Decoder(_Paid).decode


def queued_body(request: ServiceRequest, payer: Payer) -> str:
    """The request as it waits in the queue: with its payer."""
    return f'{request.to_json()[:-1]},"payer":{msgspec.json.encode(payer).decode()}}}'


def queued_payer(body: str, request: ServiceRequest) -> Payer:
    """The payer of a request that waited in the queue: the user of the request if none is in it."""
    return _decode_paid(body).payer or Payer(user=request.context.user.id)


def total_cost(calls: Iterable[BackendCall]) -> int | None:
    """What these settled requests cost in micro-dollars; None if that is not known of one, or if none used anything."""
    costs = [call.cost_micro for call in calls if call.usage is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if costs and len(known) == len(costs) else None


def _text_size(order: WorkOrder) -> int:
    """About how much text of this order has to be read to estimate it. `size_of` would take ten times as long."""
    parts = [part for message in order.conversation.messages for part in message.content]
    return size_of(order.tools) + sum(len(part.text) if type(part) is TextPart else size_of(part) for part in parts)


def _output_limit(order: WorkOrder) -> int | None:
    limit = order.parameters.get("max_tokens")
    return limit if isinstance(limit, int) else None


def _is_version(name: str, model: str) -> bool:
    """Whether this is the model's name, or that with a date or another number: `gpt-4o-2024-08-06`."""
    version = name.removeprefix(model)
    return name.startswith(model) and (not version or version[0] in "-@:") and not version.strip("0123456789-.@:")
