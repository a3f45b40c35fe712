"""A clock that tests set by hand, and a runner of async code with a time limit."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LIMIT_S = 30


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))
