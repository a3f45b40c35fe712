"""Which calls of one side have no answer yet. Knows ids and methods, and nothing of what was asked."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from accord.core.rpc.frames import Id

MAX_WAITING: Final = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits; whether it should not have been let in."""

    method: str
    violates: bool = False


class Waiting:
    """The calls of one side; the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._asked: Final[OrderedDict[Id, Asked]] = OrderedDict()
        self._has_forgotten = False

    def ask(self, own: Id, asked: Asked) -> bool:
        """Remember a call; False if another of this id still waits."""
        is_new = own not in self._asked
        self._asked[own] = asked
        if len(self._asked) > MAX_WAITING:
            self._asked.popitem(last=False)
            self._has_forgotten = True
        return is_new

    def settle(self, own: Id) -> Asked | None:
        """The call that this answers, if there is one; after some were forgotten, any id may be right."""
        found = self._asked.pop(own, None)
        return Asked("") if found is None and self._has_forgotten else found
