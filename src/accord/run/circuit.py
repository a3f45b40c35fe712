"""Circuit breaking: a backend that is down is not tried for a while, so that it costs later requests nothing.

    closed ── several outages in a row ──> open ── its pause is over ──> half open ── a trial ──> closed, or open again

Failures that speak against the backend count (`BackendError.is_outage`, time limits), never those of a request. Each
pause is twice as long as the one before, up to a limit. After it one request at a time tries the backend in its usual
place; the others still go elsewhere. A request is never refused for an open circuit: if nothing else is left, the
backend whose pause ends first is tried, once: a backend sends no request again while its circuit is open.

State only: the clock and the randomness are passed in, and the caller sends the requests:

    for attempt in circuits.attempts(names, record.failures):
        try:
            with attempt:
                return await send(attempt.backend, may_resend=attempt.may_resend)
        except FAILURES as error:
            record.failures.append((attempt.backend, error))
            if attempt.is_final(error):
                raise
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final

from accord.core.backoff import Jitter
from accord.errors import AccordError, BackendError, BackendSkippedError, EmulationError, TimedOutError
from accord.ports import Clock

if TYPE_CHECKING:
    from accord.run.slots import Slot

MAX_RETRY_AFTER_S: Final = 3_600.0
"""The longest pause that an endpoint can ask for."""


@dataclass(frozen=True, slots=True)
class CircuitSettings:
    """After how many outages in a row a circuit opens, its first pause, and the longest."""

    failures: int = 3
    pause_s: float = 5.0
    max_pause_s: float = 60.0


@dataclass(slots=True)
class _Circuit:
    """What is known of a backend that failed. `opens_until` is None while it is closed."""

    failures: int = 0
    pauses: int = 0
    opens_until: float | None = None
    since: datetime | None = None
    is_on_trial: bool = False


@dataclass(frozen=True, slots=True)
class CircuitChange:
    """A circuit has opened for so many seconds, or has closed (None)."""

    backend: str
    pause_s: float | None


class Circuits:
    """The circuits of backends, by name. A backend that never failed has no state and costs nothing."""

    def __init__(
        self,
        clock: Clock,
        settings: CircuitSettings | None = None,
        *,
        jitter: Jitter = random.random,
        on_change: Callable[[CircuitChange], None] | None = None,
    ) -> None:
        self._clock: Final = clock
        self._settings: Final = settings or CircuitSettings()
        self._jitter: Final = jitter
        self._on_change: Final = on_change
        self._circuits: Final[dict[str, _Circuit]] = {}

    def is_open(self, backend: str) -> bool:
        """Whether requests should go elsewhere: its pause is not over, or another request is trying it."""
        circuit = self._circuits.get(backend)
        if circuit is None or circuit.opens_until is None:
            return False
        return circuit.is_on_trial or self._clock.monotonic() < circuit.opens_until

    def down_since(self, backend: str) -> datetime | None:
        """When its circuit opened; None while it is closed."""
        circuit = self._circuits.get(backend)
        return None if circuit is None else circuit.since

    def attempts(self, backends: Sequence[str], failures: list[tuple[str, AccordError]]) -> Iterator["BackendAttempt"]:
        """The backends to try, one after the other, until one answers; never none.

        Each is looked at when it is its turn, since other requests may have changed its state. A backend that is
        skipped is added to `failures`; if all others had an outage, the one whose pause ends first is tried after all.
        """
        skipped: list[str] = []
        for place, name in enumerate(backends):
            if self.is_open(name):
                skipped.append(name)
                failures.append((name, self._skip(name)))
            else:
                rest = backends[place + 1 :]
                others = any(not self.is_open(other) for other in rest)
                yield BackendAttempt(self, name, others=others, skipped=bool(skipped or rest))
        if skipped:
            soonest = min(skipped, key=self._ends_at)
            yield BackendAttempt(self, soonest, others=False, skipped=False, is_last_resort=True)

    def begin(self, backend: str) -> bool:
        """Begin a request; whether it is the trial of a backend whose pause is over."""
        circuit = self._circuits.get(backend)
        if circuit is None or circuit.opens_until is None or self.is_open(backend):
            return False
        circuit.is_on_trial = True
        return True

    def began(self, backend: str) -> None:
        """Close the circuit of a backend that begins to answer; if the answer breaks off, it opens again."""
        circuit = self._circuits.get(backend)
        if circuit is not None and circuit.opens_until is not None:
            circuit.failures = self._settings.failures - 1
            circuit.opens_until, circuit.since, circuit.is_on_trial = None, None, False
            if self._on_change is not None:
                self._on_change(CircuitChange(backend, None))

    def succeeded(self, backend: str) -> None:
        """Close the circuit: the backend answered."""
        circuit = self._circuits.pop(backend, None)
        if circuit is not None and circuit.opens_until is not None and self._on_change is not None:
            self._on_change(CircuitChange(backend, None))

    def cancelled(self, backend: str, *, is_trial: bool) -> None:
        """A request was given up before it said anything about the backend."""
        circuit = self._circuits.get(backend)
        if is_trial and circuit is not None:
            circuit.is_on_trial = False

    def failed(self, backend: str, error: AccordError, *, is_trial: bool = False) -> None:
        """Count a failure, and open the circuit if there were enough of them."""
        retry_after_s = error.retry_after_s if isinstance(error, BackendError) else None
        if not is_outage(error) and retry_after_s is None:
            # Whatever it did not like, it answered.
            return self.succeeded(backend) if _answered(error) else self.cancelled(backend, is_trial=is_trial)
        circuit = self._circuits.setdefault(backend, _Circuit())
        circuit.failures += 1
        if retry_after_s is not None:
            self._open(backend, circuit, min(retry_after_s, MAX_RETRY_AFTER_S))
        elif is_trial or (circuit.opens_until is None and circuit.failures >= self._settings.failures):
            longest = min(self._settings.max_pause_s, self._settings.pause_s * 2 ** min(circuit.pauses, 16))
            circuit.pauses += 1
            # Half of it is random, so that several processes do not all try at once.
            self._open(backend, circuit, longest * (0.5 + 0.5 * self._jitter()))
        return None

    def _open(self, backend: str, circuit: _Circuit, pause_s: float) -> None:
        was_open = self.is_open(backend) and not circuit.is_on_trial
        circuit.is_on_trial = False
        circuit.opens_until = max(circuit.opens_until or 0.0, self._clock.monotonic() + pause_s)
        if circuit.since is None:
            circuit.since = self._clock.now()
        if self._on_change is not None and not was_open:
            self._on_change(CircuitChange(backend, pause_s))

    def _ends_at(self, backend: str) -> float:
        circuit = self._circuits.get(backend)
        return 0.0 if circuit is None or circuit.opens_until is None else circuit.opens_until

    def _skip(self, backend: str) -> BackendSkippedError:
        since = self.down_since(backend)
        when = "" if since is None else f" since {since:%Y-%m-%d %H:%M:%S} UTC"
        return BackendSkippedError(f"{backend}: skipped: down{when}", details={"backend": backend})


class BackendAttempt:
    """One request to one backend: a context manager that notes how it went.

    `is_last_resort` marks a backend that is probably down. `slot` is released at the end of the call; with
    `others_wait`, a slot of other backends can still be waited for (`run/slots.py`).
    """

    __slots__ = (
        "_circuits",
        "_counted",
        "_is_trial",
        "_others",
        "_skipped",
        "backend",
        "is_last_resort",
        "others_wait",
        "slot",
    )

    def __init__(  # noqa: PLR0913 - its place among the others
        self,
        circuits: Circuits,
        backend: str,
        *,
        others: bool,
        skipped: bool,
        is_last_resort: bool = False,
        slot: "Slot | None" = None,
    ) -> None:
        self.backend: Final = backend
        self._others: Final = others
        self._counted: AccordError | None = None
        self.is_last_resort: Final = is_last_resort
        self.others_wait = False
        self.slot = slot
        self._circuits: Final = circuits
        self._skipped: Final = skipped
        self._is_trial = False

    def began(self) -> None:
        """Note that the answer has begun, so that a trial is over."""
        self._is_trial = False
        self._circuits.began(self.backend)

    def may_resend(self, error: AccordError) -> bool:
        """Whether the backend may send the request again after this failure, which counts.

        Not while another backend could be tried, nor while its circuit is open or on trial.
        """
        if self._others or self._circuits.is_open(self.backend):
            return False
        if is_outage(error):
            self._counted = error
            self._circuits.failed(self.backend, error)
        return not self._circuits.is_open(self.backend)

    def is_final(self, error: AccordError) -> bool:
        """Whether no other backend is tried after this failure.

        One that is probably down is tried only where all others are down, too: it cannot help a bad request.
        """
        return not self._others and not self.others_wait and not (self._skipped and is_outage(error))

    def __enter__(self) -> "BackendAttempt":
        self._is_trial = self._circuits.begin(self.backend)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.slot is not None:
            self.slot.release()
        if error is None or isinstance(error, EmulationError):  # what it answered is another matter
            self._circuits.succeeded(self.backend)
        elif error is self._counted:
            return
        elif isinstance(error, BackendError | TimedOutError):
            self._circuits.failed(self.backend, error, is_trial=self._is_trial)
        else:
            self._circuits.cancelled(self.backend, is_trial=self._is_trial)


def is_outage(error: AccordError) -> bool:
    """Whether this failure speaks against the backend, and not against the request."""
    return isinstance(error, TimedOutError) or (isinstance(error, BackendError) and error.is_outage)


def _answered(error: AccordError) -> bool:
    return isinstance(error, BackendError) and not error.retryable
