"""Short pauses between words, so that a stream can be watched. `ACCORD_DEMO_PACE=0` turns them off, as tests do."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from math import isfinite
from typing import Final

from accord.errors import UsageError

PACE_VARIABLE: Final = "ACCORD_DEMO_PACE"
_WORD: Final = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long pauses are: 1 is as planned, 2 twice as long, 0 none."""

    factor: float = 1.0

    async def pause(self, seconds: float) -> None:
        """Wait for so long, times the factor."""
        if self.factor:
            await asyncio.sleep(seconds * self.factor)

    async def words(self, text: str, pause_s: float) -> AsyncIterator[str]:
        """The text word by word, each with the space after it, and a pause before each."""
        for word in _WORD.findall(text):
            await self.pause(pause_s)
            yield word


def read_pace() -> Pace:
    """Return the pace that the environment sets; raises `UsageError` if it is no such number."""
    given = os.environ.get(PACE_VARIABLE) or "1"
    try:
        factor = float(given)
    except ValueError:
        factor = -1.0
    if factor < 0 or not isfinite(factor):
        raise UsageError(f"{PACE_VARIABLE}={given}: expected a number from 0 (no pauses), such as 1 or 0.5")
    return Pace(factor)
