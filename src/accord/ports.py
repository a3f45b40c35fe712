"""What is plugged in: the shapes that the engine needs of its parts, and nothing about any of them."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from accord.wire.answer import AnyPiece
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import WorkOrder


class Backend(Protocol):
    """Someone who answers.

    `answer` gives pieces of an answer, an `EndPiece` last, or raises `BackendError`. Closing the iterator stops the
    work at once. `probe` returns if the backend can be reached, and raises `BackendError` if it cannot.
    """

    @property
    def name(self) -> str:
        """What the operator calls it."""
        ...

    @property
    def manifest(self) -> CapabilityManifest:
        """What it says it can do."""
        ...

    def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """The answer to this work, piece by piece."""
        ...

    async def probe(self) -> None:
        """Whether it can be reached."""
        ...


class Clock(Protocol):
    """Someone who knows the time."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...
