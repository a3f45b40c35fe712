"""What endpoints refused, kept for a while, so that it is not sent again and no caller changes what others get.

Only what the endpoint itself refused is kept, never a refusal of Accord, and exactly that: a field with its value, a
member that it does not know (whatever its value), or a capability that it says it does not have. Capabilities that a
backend declares and its answers do not show are kept like those.

    one caller met it          it is not sent for this caller
    CALLERS callers met it     it is not sent for any caller

One request never takes a capability from anybody: for the caller alone it counts from the second request that met it.
Callers without a name are one caller. All of it expires: after ten minutes, and after twice as long each time that it
is met again, up to a day. What protects a caller is never kept. It knows no HTTP and no planning. Each process has its
own; a channel makes them all forget, and lists them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from accord.core.work.fields import ModelRequest, values_at
from accord.ports import Channel, Clock
from accord.wire.capability import Capability
from accord.wire.disposition import Api, RememberedRefusal

KEEP_S: Final = 600.0
MAX_KEEP_S: Final = 86_400.0
CALLERS: Final = 2
"""How many callers must have met a refusal before it counts for everybody."""
CONFIRMED: Final = 2
"""How many requests of one caller must have met the refusal of a capability before it counts for this caller."""
CONTRADICTIONS: Final = 3
"""How many answers in a row to a caller must have contradicted the manifest."""
MAX_PER_BACKEND: Final = 100
MAX_CALLERS: Final = 8
"""How many callers are counted for one refusal."""
MAX_VALUE_CHARS: Final = 80
PROTECTIVE: Final = frozenset({Capability.MAX_TOKENS, Capability.STOP_SEQUENCES})
"""Capabilities that limit what a caller gets and pays."""

FORGET_TOPIC: Final = "refusals-forget"
"""Messages are names of backends; each process answers on the next topic with how much it forgot."""
FORGOTTEN_TOPIC: Final = "refusals-forgotten"
LIST_TOPIC: Final = "refusals-list"
LISTED_TOPIC: Final = "refusals-listed"
"""Each message is one `RememberedRefusal`."""

_encode: Final = msgspec.json.Encoder(order="sorted", enc_hook=str).encode


class RequestOrigin(NamedTuple):
    """The caller of a request, empty if it is not known, and the id of the request, which is kept as the example."""

    caller: str = ""
    request_id: str | None = None


class _Key(NamedTuple):
    """What was refused: a field of an API, with the digest of its value or any value; or a capability."""

    name: str
    api: Api | None = None
    digest: str | None = None
    contradicted: bool = False


@dataclass(slots=True)
class _Count:
    """How often one caller met a refusal, in how many requests, and in which one last."""

    times: int = 0
    requests: int = 0
    last_request: str | None = None

    def add(self, times: int, request_id: str | None) -> None:
        """Count what a request met; one without an id is a request of its own."""
        self.times += times
        self.requests += request_id is None or request_id != self.last_request
        self.last_request = request_id


@dataclass(slots=True)
class _Refusal:
    since: datetime
    until: float = 0.0
    keep_s: float = KEEP_S / 2
    times: int = 0
    callers: dict[str, _Count] = field(default_factory=dict[str, _Count])
    """How often each caller met it since it last expired."""
    example: str | None = None
    value: str | None = None

    @property
    def history(self) -> str:
        """How often it was met, and since when."""
        return f"{'once' if self.times == 1 else f'{self.times} times'} since {self.since:%Y-%m-%d %H:%M} UTC"

    def counts_for(self, key: _Key, caller: str) -> bool:
        """Whether it counts for this caller."""
        met = self.callers.get(caller)
        return met is not None and _has_met(key, met) and (key.api is not None or met.requests >= CONFIRMED)

    def counts_for_all(self, key: _Key) -> bool:
        """Whether it counts for every caller."""
        return sum(_has_met(key, met) for met in self.callers.values()) >= CALLERS


class RefusalMemory:
    """What the endpoints of all backends have refused recently."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._by_backend: Final[dict[str, dict[_Key, _Refusal]]] = {}
        self._channel: Channel | None = None

    def connect(self, channel: Channel) -> None:
        """Forget what another process of the service says, and list what is kept when one requests it."""
        self._channel = channel
        channel.subscribe(FORGET_TOPIC, self._forget_and_answer)
        channel.subscribe(LIST_TOPIC, self._publish_list)

    def add_fields(
        self, backend: str, request: ModelRequest, names: Iterable[str], origin: RequestOrigin, *, any_value: bool
    ) -> None:
        """Keep that the endpoint refused the values of these fields, or with `any_value` that it has no such fields."""
        for name in names:
            value = _value_of(request, name)
            key = _Key(name, request.api, None if any_value else sha256(value).hexdigest())
            refusal = self._add(backend, key, origin)
            refusal.value = None if any_value else value.decode()[1:-1][:MAX_VALUE_CHARS]

    def add_capability(self, backend: str, capability: str, origin: RequestOrigin) -> None:
        """Keep that the endpoint refused this capability."""
        if capability not in PROTECTIVE:
            self._add(backend, _Key(capability), origin)

    def contradict(self, backend: str, capability: str, origin: RequestOrigin, answers: int) -> None:
        """Keep that so many answers did not have this capability, which the backend declares."""
        self._add(backend, _Key(capability, contradicted=True), origin, answers)

    def agree(self, backend: str, capability: str, origin: RequestOrigin) -> None:
        """Note an answer that has what the backend declares: contradictions count in a row, until there are enough."""
        key = _Key(capability, contradicted=True)
        refusal = self._by_backend.get(backend, {}).get(key)
        if refusal is not None and not refusal.counts_for(key, origin.caller):
            refusal.callers.pop(origin.caller, None)

    def fields_of(self, backend: str, request: ModelRequest, caller: str) -> dict[str, str]:
        """The fields of this request that are left out at this backend, each with the reason."""
        return {
            key.name: f"the endpoint refused it ({refusal.history})"
            for key, refusal in self._current(backend, caller)
            if key.api is request.api
            and (key.name in request.fields or values_at(request.body, key.name))
            and (key.digest is None or key.digest == sha256(_value_of(request, key.name)).hexdigest())
        }

    def members_of(self, backend: str, api: Api, caller: str = "") -> frozenset[str]:
        """The fields that are left out of every request of this API, whatever their value."""
        return frozenset(key.name for key, _ in self._current(backend, caller) if key.api is api and key.digest is None)

    def capabilities_of(self, backend: str, caller: str = "", *, contradicted: bool = False) -> Mapping[str, str]:
        """The capabilities that this backend is not planned with for this caller, each with its history."""
        return {
            key.name: refusal.history
            for key, refusal in self._current(backend, caller)
            if key.api is None and key.contradicted is contradicted
        }

    def listed(self) -> list[RememberedRefusal]:
        """All that is kept now, for the operator."""
        now, clock_now = self._clock.monotonic(), self._clock.now()
        return [
            RememberedRefusal(
                backend=backend,
                api=key.api,
                field=key.name if key.api else None,
                value=refusal.value,
                capability=None if key.api else key.name,
                contradicted=key.contradicted or None,
                since=refusal.since,
                until=clock_now + timedelta(seconds=refusal.until - now),
                times=refusal.times,
                for_all=refusal.counts_for_all(key),
                example=refusal.example,
            )
            for backend, known in self._by_backend.items()
            for key, refusal in known.items()
            if refusal.until > now
        ]

    def forget(self, backend: str) -> int:
        """Forget what this backend's endpoint refused, in every process; returns how much that was in this one."""
        if self._channel is not None:
            self._channel.publish(FORGET_TOPIC, backend.encode())
        return len(self._by_backend.pop(backend, {}))

    def clear(self) -> None:
        """Forget everything, in this process."""
        self._by_backend.clear()

    def _forget_and_answer(self, payload: bytes) -> None:
        count = len(self._by_backend.pop(payload.decode(errors="replace"), {}))
        if self._channel is not None:
            self._channel.publish(FORGOTTEN_TOPIC, str(count).encode())

    def _publish_list(self, _: bytes) -> None:
        for refusal in self.listed():
            if self._channel is not None:
                self._channel.publish(LISTED_TOPIC, refusal.to_json().encode())

    def has_any(self, backend: str) -> bool:
        """Whether anything is kept of this backend that has not expired, whether it counts or not."""
        known = self._by_backend.get(backend)
        return bool(known) and any(refusal.until > self._clock.monotonic() for refusal in known.values())

    def _current(self, backend: str, caller: str) -> list[tuple[_Key, _Refusal]]:
        known = self._by_backend.get(backend)
        if not known:
            return []
        now = self._clock.monotonic()
        return [
            (key, refusal)
            for key, refusal in known.items()
            if refusal.until > now and (refusal.counts_for(key, caller) or refusal.counts_for_all(key))
        ]

    def _add(self, backend: str, key: _Key, origin: RequestOrigin, times: int = 1) -> _Refusal:
        known, now = self._by_backend.setdefault(backend, {}), self._clock.monotonic()
        if (refusal := known.get(key)) is None:
            if len(known) >= MAX_PER_BACKEND:
                del known[next(iter(known))]
            refusal = known[key] = _Refusal(self._clock.now())
        if refusal.until <= now:
            refusal.keep_s = min(2 * refusal.keep_s, MAX_KEEP_S)
            refusal.until = now + refusal.keep_s
            refusal.callers.clear()
        refusal.times += times
        refusal.example = origin.request_id or refusal.example
        if origin.caller in refusal.callers or len(refusal.callers) < MAX_CALLERS:
            refusal.callers.setdefault(origin.caller, _Count()).add(times, origin.request_id)
        return refusal


def _has_met(key: _Key, met: _Count) -> bool:
    """Whether a caller met it often enough for it to be more than a bad answer."""
    return met.times >= (CONTRADICTIONS if key.contradicted else 1)


def _value_of(request: ModelRequest, name: str) -> bytes:
    """The values of a field as JSON; of a field without a place of its own, such as `tools[].hosted`, of all of it."""
    return _encode(values_at(request.body, name) or [request.body.get(name.partition(".")[0].removesuffix("[]"))])
