"""What a check is, and the tables that checks are added to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import CheckOutcome
from accord.wire.inspection import CheckGroup, Level

MUST: Final = Level.MUST
SHOULD: Final = Level.SHOULD
MAY: Final = Level.MAY

CheckFunction = Callable[[AgentProbe], Awaitable[CheckOutcome]]


class Needs(Enum):
    """What must have worked before a check can be judged."""

    NOTHING = "nothing"
    HANDSHAKE = "handshake"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Check:
    """One question to an agent."""

    id: str
    group: CheckGroup
    title: str
    clause: str
    level: Level
    needs: Needs
    run: CheckFunction
    draft_level: Level
    """The level under the version 2 draft."""
    draft_lacks: str | None
    """Why it does not apply under the draft; None if it does."""
    quick: bool
    """Whether `--quick` includes it."""
    reports_all: bool
    """Whether it reports on what happened during all other checks, and so runs after them."""

    def level_in(self, version: int) -> Level:
        """The level under this version of the protocol."""
        return self.draft_level if version >= 2 else self.level


class CheckTable(list[Check]):
    """Checks of one group; the decorator `@table.check(…)` adds one."""

    def __init__(self, group: CheckGroup, *, reports_all: bool = False) -> None:
        super().__init__()
        self._group: Final = group
        self._reports_all: Final = reports_all

    def check(  # noqa: PLR0913 - the columns of the table
        self,
        check_id: str,
        title: str,
        clause: str,
        level: Level,
        needs: Needs = Needs.HANDSHAKE,
        *,
        draft_level: Level | None = None,
        draft_lacks: str | None = None,
        quick: bool = True,
    ) -> Callable[[CheckFunction], CheckFunction]:
        """Add the decorated function as a check; the level is the same under the draft unless another is given."""

        def add(run: CheckFunction) -> CheckFunction:
            self.append(
                Check(
                    check_id,
                    self._group,
                    title,
                    clause,
                    level,
                    needs,
                    run,
                    draft_level or level,
                    draft_lacks,
                    quick,
                    self._reports_all,
                )
            )
            return run

        return add
