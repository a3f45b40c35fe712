"""Backends and what the engine is given besides stores: clock, permission channel, prices."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from accord.core.work.backend_call import BeginCall
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError
from accord.wire.agent_work import Permission, PermissionRequest
from accord.wire.conversation import ConversationMessage
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


@runtime_checkable
class RecordingBackend(Backend, Protocol):
    """A backend that records each request that it sends, and may send one again by itself after a failure."""

    def answer_recorded(
        self, order: WorkOrder, begin: BeginCall, *, may_resend: MayResend | None
    ) -> AsyncGenerator[AnyPiece, None]:
        """Answer as `answer` does, with a record that `begin` begins for each request.

        A failure that may pass is raised unless `may_resend` allows to send the request again.
        """
        ...


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
class AssumingBackend(Backend, Protocol):
    """A backend whose API requires what an order need not have."""

    def assumed(self, order: WorkOrder) -> Mapping[str, str]:
        """What it chooses for this order, as sentences by the capability, or `conversation`."""
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


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """A request that is passed on: the members of its body, some of them as JSON text (`msgspec.Raw`)."""

    members: Mapping[str, Any]
    is_streamed: bool
    answers: int
    """How many answers are wanted."""
    hides_usage: bool
    """Whether the usage in its stream is requested for Accord alone."""


class OpenReply(Protocol):
    """The open reply of an endpoint to a request that was passed on."""

    @property
    def summary(self) -> Any:
        """What was read so far: `id`, `finish_reasons`, `model`, `usage`, and the number of `answers`."""
        ...

    async def whole(self) -> bytes:
        """The whole answer, after which the reply is closed."""
        ...

    def blocks(self) -> AsyncGenerator[bytes, None]:
        """The events of a stream, as many at a time as have arrived; the reply is closed with it."""
        ...


@runtime_checkable
class RelayingBackend(Backend, Protocol):
    """A backend that takes requests of the API it speaks as they are."""

    @property
    def api_name(self) -> str:
        """The API that it speaks."""
        ...

    def relayed_request(self, body: dict[str, Any], request: ModelRequest) -> RelayedRequest:
        """This request with this body as it is sent to the endpoint: as it is, but for the model."""
        ...

    async def relay(
        self,
        request: RelayedRequest,
        size: int,
        headers: Mapping[str, str],
        begin: BeginCall,
        *,
        may_resend: MayResend | None = None,
    ) -> OpenReply:
        """Send a request of about this size; again after a failure that may pass, if `may_resend` allows it.

        `begin` begins the record of each request that is sent. An answer of another form than was requested, or fewer
        answers, are a failure.
        """
        ...

    def read_pieces(self, data: bytes, *, streamed: bool) -> Sequence[AnyPiece]:
        """The pieces of a whole answer of this API."""
        ...

    def with_messages(self, body: dict[str, Any], added: Sequence[ConversationMessage]) -> dict[str, Any]:
        """The body with further messages at the end of its conversation."""
        ...


@runtime_checkable
class CountingBackend(Backend, Protocol):
    """A backend whose endpoint may be able to count the tokens of a request of the messages API."""

    @property
    def can_count(self) -> bool:
        """Whether it can."""
        ...

    async def count_tokens(self, body: dict[str, Any], headers: Mapping[str, str]) -> int:
        """Return the number of input tokens; raises `BackendError` if the endpoint does not say."""
        ...


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
