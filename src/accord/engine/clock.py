"""The machine's own clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Tells the time of the machine."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()
