"""Backends and what the engine is given besides stores: clock, permission channel, prices."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from accord.errors import AccordError
from accord.wire.agent_work import Permission, PermissionRequest
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, WorkOrder


class Backend(Protocol):
    """A backend that answers work orders.

    `answer` yields pieces of an answer, an `EndPiece` last, or raises `BackendError`. Closing the iterator stops the
    work at once. `probe` returns if the backend can be reached, and raises `BackendError` if it cannot.
    """

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    @property
    def manifest(self) -> CapabilityManifest:
        """The capabilities that it declares."""
        ...

    def answer(self, order: WorkOrder) -> AsyncIterator[AnyPiece]:
        """Answer a work order, piece by piece."""
        ...

    async def probe(self) -> None:
        """Check that it can be reached."""
        ...


@runtime_checkable
class ManagedBackend(Backend, Protocol):
    """A backend that runs as a process of its own: it is started before the first turn and ended after the last."""

    async def discover(self) -> CapabilityManifest:
        """Start it and return the manifest that it declares; raises `BackendError` if it cannot be started."""
        ...

    async def aclose(self) -> None:
        """End it, and every process that it started."""
        ...


MayResend = Callable[[AccordError], bool]
"""Whether a request may be sent again to the same backend after this failure, which may pass."""


class EvidenceSource(Protocol):
    """Where a support level comes from, and its date."""

    @property
    def source(self) -> str:
        """The operator, a table of model facts, a probe, or the endpoint itself."""
        ...

    @property
    def date(self) -> str | None:
        """The date, if it is known."""
        ...


@runtime_checkable
class DescribedBackend(Backend, Protocol):
    """A backend that names its model and the evidence for each entry of its manifest; receipts repeat both.

    Changed evidence must be a new object: receipts cache what they wrote by identity.
    """

    @property
    def model(self) -> str | None:
        """The model, if the backend is one."""
        ...

    @property
    def evidence(self) -> Mapping[str, EvidenceSource]:
        """The evidence for each entry of the manifest."""
        ...


@dataclass(frozen=True, slots=True)
class BackendDescription:
    """The model of a backend, and the evidence for each entry of its manifest, as far as they are known."""

    model: str | None = None
    evidence: Mapping[str, EvidenceSource] = field(default_factory=dict[str, EvidenceSource])


class Clock(Protocol):
    """The time of day and a monotonic clock."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        return time.monotonic()


class PermissionChannel(Protocol):
    """Requests permissions from the client of a running turn; a transport that can reach its client passes one in.

    The request is sent once the client has received the first `after` packets of the turn. Every outcome is a
    `Permission`; the only exception is the cancellation of the caller, which withdraws the request.
    """

    async def __call__(self, question: PermissionRequest, after: int) -> Permission:
        """Request a permission and return the outcome."""
        ...


class BackendPrice(Protocol):
    """What a backend costs, in micro-dollars."""

    def cost(self, usage: Mapping[str, Any] | None) -> int | None:
        """The cost of an answer by the usage of its end; None if that is not known."""
        ...

    def estimate(self, input_tokens: int, max_output_tokens: int | None = None) -> int:
        """About what a request will cost, before it is sent."""
        ...
