"""Observers of a service: metrics, log lines and traces. None of them can fail a turn or a request.

Transports call them through the `Observer` protocol; they know no transport, no engine and no store.
`metrics` is not imported here: a service over pipes has no metrics and does not wait for their library.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from accord.servers.observability.logs import LOGGER, REQUEST_ID, Log, set_up_logging
from accord.servers.observability.traces import Traces, continuing_trace
from accord.servers.observability.watchdog import Watchdog
from accord.servers.service import NullObserver, Observer

__all__ = [
    "REQUEST_ID",
    "Log",
    "Observers",
    "Traces",
    "Watchdog",
    "continuing_trace",
    "set_up_logging",
]


class Observers:
    """Several observers as one. One that raises is logged once, and is still called the next time."""

    def __init__(self, *observers: Observer) -> None:
        self._turn_started: Final = [each.turn_started for each in observers if _observes(each, "turn_started")]
        self._turn_ended: Final = [each.turn_ended for each in observers if _observes(each, "turn_ended")]
        self._request_done: Final = [each.request_done for each in observers if _observes(each, "request_done")]
        self._stream_opened: Final = [each.stream_opened for each in observers if _observes(each, "stream_opened")]
        self._stream_closed: Final = [each.stream_closed for each in observers if _observes(each, "stream_closed")]
        self._failed: Final[set[int]] = set()
        self._logger: Final = logging.getLogger(f"{LOGGER}.observers")

    def turn_started(self, request_id: str) -> None:
        """An HTTP request has started a turn."""
        self._notify(self._turn_started, request_id)

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """A turn has ended."""
        self._notify(self._turn_ended, receipt)

    def request_done(
        self, method: str, route: str, status: int, seconds: float, *, started_turn: str | None = None
    ) -> None:
        """An HTTP request was answered."""
        self._notify(self._request_done, method, route, status, seconds, started_turn=started_turn)

    def stream_opened(self, transport: str) -> None:
        """A client has begun to read a stream."""
        self._notify(self._stream_opened, transport)

    def stream_closed(self, transport: str) -> None:
        """A client has stopped reading a stream."""
        self._notify(self._stream_closed, transport)

    def _notify(self, calls: Sequence[Callable[..., None]], *arguments: Any, **named: Any) -> None:
        for call in calls:
            try:
                call(*arguments, **named)
            except Exception:  # an exception of an observer must not fail what it observes
                observer = getattr(call, "__self__", call)
                if id(observer) not in self._failed:
                    self._failed.add(id(observer))
                    fields = {"observer": type(observer).__name__}
                    self._logger.exception("An observer failed", extra={"fields": fields})


def _observes(observer: Observer, event: str) -> bool:
    """Whether this observer does anything at this event."""
    return getattr(type(observer), event, None) is not getattr(NullObserver, event)
