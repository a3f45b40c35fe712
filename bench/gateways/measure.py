"""One round with one contestant: start it, send the loads, read its processor time and memory, end it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Final
from urllib.request import urlopen

from .contestants import CHAT_PATH, Contestant, Launch, Place, UnavailableError, chat_request
from .load import Exchange, Load, LoadError, Measured, quantile_ms, run_load
from .process import GATEWAY_PROCESSOR, Program, running
from .upstream import CHUNKS

AT_ONCE: Final = (1, 16, 64)
STREAMS: Final = 16
PACE_MS: Final = 10
SPREAD_S: Final = 0.4
FAIR_SHARE: Final = 0.85
"""A gateway under full load that had less of its processor was not measured, but the other programs of the machine."""
REPEATS: Final = 3
WARM_UP: Final = 200
START_LIMIT_S: Final = 120.0
POLL_S: Final = 0.005
SETTLE_S: Final = 1.0
"""After the start, before the memory is read and the load begins."""
WHOLE_WORDS: Final = b"it depends on what is measured"
STREAM_WORDS: Final = b"word"

Figures = dict[str, float]
"""Figures by their keys; the table of keys is `report.FIGURES`."""


def measure(contestant: Contestant, place: Place, seconds: float, problems: list[str]) -> Figures:
    """All figures of one round. What fails is added to the problems, and its figures are missing."""
    if contestant.launch is None:
        return Round(None, place.upstream_port, place, Launch([]), seconds, problems).figures()
    launch = contestant.launch(place)
    log = place.folder / f"{contestant.name}.log"
    with running(launch.command, log, processor=GATEWAY_PROCESSOR, cwd=launch.cwd, env=launch.env) as program:
        found = Round(program, place.port, place, launch, seconds, problems)
        start_s = wait_until_answered(program, place.port, found.whole_exchange())
        time.sleep(SETTLE_S)
        idle_mb = program.resident_mb()
        return {**found.figures(), "start_s": start_s, "idle_mb": idle_mb, "loaded_mb": program.resident_mb()}


def wait_until_answered(program: Program, port: int, exchange: Exchange) -> float:
    """Send the request until it is answered; return the seconds since the start of the program."""
    last = "no connection"
    while perf_counter() < program.started_at + START_LIMIT_S:
        if program.has_ended():
            raise UnavailableError(f"ended at its start: {program.last_lines()}")
        try:
            run_load(Load(port, exchange, 1))
        except LoadError as error:
            last = str(error)
            if "HTTP/1.1 404" in last:  # it listens, and will not have this path later either
                raise UnavailableError(f"has no POST {CHAT_PATH}: {last}") from error
            time.sleep(POLL_S)
        else:
            return perf_counter() - program.started_at
    raise UnavailableError(f"gave no answer within {START_LIMIT_S:.0f} s: {last}; {program.last_lines()}")


@dataclass(frozen=True, slots=True)
class Round:
    """The loads on one gateway that answers; without a program, on the upstream itself."""

    program: Program | None
    port: int
    place: Place
    launch: Launch
    seconds: float
    problems: list[str]

    def figures(self) -> Figures:
        """Send all loads; what fails is added to the problems."""
        figures: Figures = {}
        for at_once in AT_ONCE:
            self._attempt(figures, f"{at_once} at once", partial(self.whole, at_once))
        self._attempt(figures, "streams", self.streams)
        set_pace(self.place, PACE_MS)
        self._attempt(figures, "paced streams", self.paced)
        set_pace(self.place, 0)
        return figures

    def _attempt(self, figures: Figures, name: str, part: Callable[[], Figures]) -> None:
        try:
            figures.update(part())
        except LoadError as error:
            self.problems.append(f"{name}: {error}")

    def whole_exchange(self) -> Exchange:
        """A request that is answered in one piece."""
        return Exchange(chat_request(self.port, self.launch.headers, stream=False), WHOLE_WORDS, 1)

    def stream_exchange(self) -> Exchange:
        """A request that is answered with a stream."""
        request = chat_request(self.port, self.launch.headers, stream=True)
        return Exchange(request, STREAM_WORDS, CHUNKS, is_stream=True)

    def whole(self, at_once: int) -> Figures:
        """Requests that are answered in one piece."""
        load = Load(self.port, self.whole_exchange(), at_once, self.seconds)
        run_load(replace(load, seconds=min(self.seconds, 1.0), answers=WARM_UP))
        found, used = self._run(load)
        for _ in range(REPEATS if at_once > 1 else 0):
            if self.program is None or used >= FAIR_SHARE * found.seconds:
                break
            # Another program used the processor. Repeated for that reason alone, whatever the rate was.
            again, used_again = self._run(load)
            if used_again / again.seconds > used / found.seconds:
                found, used = again, used_again
        figures = {
            f"rate_{at_once}": found.rate,
            f"p50_{at_once}": quantile_ms(found.waits, 0.5),
            f"p99_{at_once}": quantile_ms(found.waits, 0.99),
        }
        cost = self._cost(f"cpu_{at_once}", used / found.answers * 1_000)
        return figures | cost | self._cost(f"share_{at_once}", used / found.seconds * 100)

    def streams(self) -> Figures:
        """Streams as fast as they go."""
        load = Load(self.port, self.stream_exchange(), STREAMS, self.seconds)
        run_load(replace(load, seconds=0.0))
        found, used = self._run(load)
        return {"chunk_rate": found.rate * CHUNKS} | self._cost("chunk_cpu", used / found.answers / CHUNKS * 1e6)

    def paced(self) -> Figures:
        """One stream on each connection at the pace of a model; spread, since clients do not start at one moment."""
        found, used = self._run(Load(self.port, self.stream_exchange(), STREAMS, spread_s=SPREAD_S))
        first_ms = quantile_ms(found.first_waits, 0.5)
        return {"first_chunk": first_ms} | self._cost("paced_cpu", used / found.answers / CHUNKS * 1e6)

    def _run(self, load: Load) -> tuple[Measured, float]:
        """What was measured, and the processor time that the gateway used."""
        before = self.program.processor_s() if self.program else 0.0
        found = run_load(load)
        return found, self.program.processor_s() - before if self.program else 0.0

    def _cost(self, key: str, value: float) -> Figures:
        """A figure of the gateway's processor time; without a gateway there is none."""
        return {key: value} if self.program else {}


def set_pace(place: Place, pause_ms: int) -> None:
    """Set the pause after each chunk of the upstream."""
    with urlopen(f"{place.upstream}/pace/{pause_ms}", timeout=10):  # noqa: S310 - an address of loopback
        pass
