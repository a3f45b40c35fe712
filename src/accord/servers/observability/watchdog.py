"""Detects a blocked event loop and logs the code that blocks it: one blocking agent stalls every client.

The loop notes the time several times a second; a thread checks that time. It reports and measures, and stops nothing.
"""

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import islice
from threading import Event, Thread, get_ident
from time import monotonic
from typing import Any, Final

from accord.agent import Agent

TICK_S: Final = 0.1
"""How often the loop notes the time."""
REPEAT_FACTOR: Final = 2
"""Each further report of the same stall comes after so many times as long."""
MAX_FRAMES: Final = 40
BLOCKED: Final = "The event loop is blocked; no client is served until it runs again"

LOGGER: Final = logging.getLogger("accord.loop")


class Watchdog:
    """Watches the running event loop. `lagged` is called with the delay of every tick, in seconds."""

    def __init__(self, agent: Agent, *, stall_s: float, lagged: Callable[[float], None]) -> None:
        self._agent: Final = agent
        self._stall_s: Final = stall_s
        self._lagged: Final = lagged
        self._loop: Final = asyncio.get_running_loop()
        self._loop_thread: Final = get_ident()
        self._ticked_at = monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over: Final = Event()
        self._thread: Final = Thread(target=self._watch, name="accord-watchdog", daemon=True)

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch until the block ends."""
        self._tick_later()
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            if self._timer is not None:
                self._timer.cancel()
            self._thread.join()

    def _tick_later(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now = monotonic()
        self._lagged(max(0.0, now - self._ticked_at - TICK_S))
        self._ticked_at = now
        self._tick_later()

    def _watch(self) -> None:
        report_after_s, mark = self._stall_s, self._ticked_at
        while not self._is_over.wait(min(TICK_S, self._stall_s / 2)):
            if self._ticked_at != mark:
                if report_after_s > self._stall_s:
                    fields = {"blocked_s": round(self._ticked_at - mark, 1)}
                    LOGGER.warning("The event loop runs again", extra={"fields": fields})
                report_after_s, mark = self._stall_s, self._ticked_at
            blocked_s = monotonic() - mark
            if blocked_s >= report_after_s:
                report_after_s *= REPEAT_FACTOR
                self._report(blocked_s)

    def _report(self, blocked_s: float) -> None:
        top = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no other way
        frames = [] if top is None else list(islice(traceback.walk_stack(top), MAX_FRAMES))
        places = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames]
        stack = [f"{file}:{line} {name}" for file, line, name in places]
        fields: dict[str, Any] = {"blocked_s": round(blocked_s, 1), "at": stack[0] if stack else "unknown"}
        agent_file = self._agent.source_file
        if by_agent := [line for line, place in zip(stack, places, strict=True) if place[0] == agent_file]:
            fields |= {"agent": self._agent.name, "agent_at": by_agent[0]}
        LOGGER.error(BLOCKED, extra={"fields": {**fields, "stack": stack}})
