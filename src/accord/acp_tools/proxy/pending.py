"""The requests of one side of a conversation that have no response yet. Pure."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from accord.core.rpc import Id

MAX_PENDING: Final = 10_000


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A request without a response; `violates` if the agent should refuse it."""

    method: str
    violates: bool = False


class PendingCalls:
    """The requests of one side that have no response yet; the oldest are dropped when there are too many."""

    def __init__(self) -> None:
        self._calls: Final[OrderedDict[Id, PendingCall]] = OrderedDict()
        self._has_dropped = False

    def add(self, call_id: Id, call: PendingCall) -> bool:
        """Add a request; False if another one with this id is pending."""
        is_new = call_id not in self._calls
        self._calls[call_id] = call
        if len(self._calls) > MAX_PENDING:
            self._calls.popitem(last=False)
            self._has_dropped = True
        return is_new

    def pop(self, call_id: Id) -> PendingCall | None:
        """Remove and return the request with this id; once some were dropped, any id may belong to one of them."""
        found = self._calls.pop(call_id, None)
        return PendingCall("") if found is None and self._has_dropped else found

    def pop_all(self) -> list[Id]:
        """Remove all requests and return their ids, the oldest first."""
        ids = list(self._calls)
        self._calls.clear()
        return ids
