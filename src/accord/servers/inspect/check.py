"""What a check is: a row that says on which clause it stands, and a small function that asks an agent and judges."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from accord.core.inspect.judge import Outcome
from accord.servers.inspect.probe import Probe
from accord.wire.inspection import Level

Ask = Callable[[Probe], Awaitable[Outcome]]


class Needs(Enum):
    """What has to have worked before a check can say anything."""

    NOTHING = "nothing"
    HANDSHAKE = "handshake"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an agent."""

    id: str
    title: str
    clause: str
    level: Level
    needs: Needs
    ask: Ask


class CheckTable(list[Check]):
    """Checks in the order in which they run; `@table.check(…)` adds the function below it."""

    def check(self, own: str, title: str, clause: str, level: Level, needs: Needs = Needs.HANDSHAKE) -> Any:
        """Add a check with this row."""

        def add(ask: Ask) -> Ask:
            self.append(Check(own, title, clause, level, needs, ask))
            return ask

        return add


MUST: Final = Level.MUST
SHOULD: Final = Level.SHOULD
MAY: Final = Level.MAY
