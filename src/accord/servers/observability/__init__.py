"""Observers of a service: metrics, log lines and traces. None of them can fail a turn or a request.

Transports call them through the `Observer` protocol; they know no transport, no engine and no store.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from accord.servers.observability.logs import LOGGER, REQUEST_ID, USER, Log, set_up_logging
from accord.servers.observability.metrics import Metrics
from accord.servers.observability.traces import Traces, continuing_trace
from accord.servers.observability.watchdog import Watchdog
from accord.servers.service import Observer

__all__ = [
    "REQUEST_ID",
    "USER",
    "Log",
    "Metrics",
    "Observers",
    "Traces",
    "Watchdog",
    "continuing_trace",
    "set_up_logging",
]


class Observers:
    """Tells every observer; one that fails is named in the log once, and told again the next time."""

    def __init__(self, *observers: Observer) -> None:
        self._observers: Final = observers
        self._failed: Final[set[int]] = set()
        self._logger: Final = logging.getLogger(f"{LOGGER}.watch")

    def turn_ended(self, receipt: Mapping[str, Any]) -> None:
        """A turn is over."""
        self._tell(lambda observer: observer.turn_ended(receipt))

    def request_done(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._tell(lambda observer: observer.request_done(method, route, status, seconds))

    def stream_opened(self, transport: str) -> None:
        """A client reads a stream."""
        self._tell(lambda observer: observer.stream_opened(transport))

    def stream_closed(self, transport: str) -> None:
        """It does not any more."""
        self._tell(lambda observer: observer.stream_closed(transport))

    def _tell(self, tell: Callable[[Observer], Any]) -> None:
        for place, observer in enumerate(self._observers):
            try:
                tell(observer)
            except Exception:  # whatever an observer raises is its own affair, never the turn's
                if place not in self._failed:
                    self._failed.add(place)
                    fields = {"observer": type(observer).__name__}
                    self._logger.exception("an observer failed", extra={"fields": fields})
