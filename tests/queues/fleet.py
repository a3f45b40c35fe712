"""Real `accord serve` and `accord worker` processes on one queue and one store: started, killed, stopped, continued."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final
from uuid import uuid4

import aiohttp

from tests.queues.nats_server import free_port

START_S: Final = 40
LIMIT_S: Final = 50
EVENTS: Final = {"accept": "text/event-stream"}
ROOT: Final = Path(__file__).parent.parent.parent
AGENTS: Final = {"safe": "tests.queues.agents:safe", "never": "tests.queues.agents:never"}
SKEWED: Final = """
import os, time
from datetime import timedelta
from pathlib import Path
from accord.ports import SystemClock
wrong_by, right_now, right_time = Path(os.environ["ACCORD_TEST_CLOCK"]), SystemClock.now, time.time
SystemClock.now = lambda clock: right_now(clock) + timedelta(seconds=float(wrong_by.read_text()))
time.time = lambda: right_time() + float(wrong_by.read_text())
from accord.cli import main
main()
"""
"""A process whose clock is wrong by the number of seconds in the file ACCORD_TEST_CLOCK, which may change."""

Packets = list[tuple[int, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the processes of one service meet. Without `nats`, PostgreSQL is the queue as well."""

    folder: Path
    database: str
    nats: str | None
    prefix: str = "accord"
    replicas: int = 1

    @property
    def runs_file(self) -> Path:
        """Where the agents note each run."""
        return self.folder / "runs"

    def runs(self) -> Counter[tuple[str, str]]:
        """How often each turn was run, by agent and request id."""
        if not self.runs_file.exists():
            return Counter()
        return Counter((line.split()[0], line.split()[1]) for line in self.runs_file.read_text().splitlines())

    def order(self) -> list[str]:
        """The last word of each question, in the order in which they were run."""
        return [line.split()[2] for line in self.runs_file.read_text().splitlines()]


class Process:
    """One `accord serve` or `accord worker`, which may be replaced by another one at the same address."""

    def __init__(self, place: Place, name: str, command: str, *, skew_s: float | None = None, **settings: Any) -> None:
        self.place: Final = place
        self.name: Final = name
        self.command: Final = command
        self.port: Final = free_port() if command == "serve" else 0
        self.address: Final = f"http://127.0.0.1:{self.port}"
        self.log: Final = place.folder / f"{name}.log"
        self.process: asyncio.subprocess.Process | None = None
        self.is_stopped = False
        agents, turns = settings.pop("agents", AGENTS), settings.pop("turns", 100)
        backends = settings.pop("backends", "")
        self._agent: Final = next(iter(agents))
        self._clock: Final = place.folder / f"{name}.clock"
        if skew_s is not None:
            self.set_clock(skew_s)
        self._program: Final = ["-m", "accord"] if skew_s is None else ["-c", SKEWED]
        self._config: Final = place.folder / f"{name}.toml"
        options: dict[str, Any] = {
            "lease_s": 2.0,
            "rates": [],
            **settings,
            **({"port": self.port} if self.port else {}),
        }
        self._config.write_text(_config(place, agents, turns, options) + backends)
        self._environment: Final = {
            **os.environ,
            "ACCORD_STORE_URL": place.database,
            "ACCORD_QUEUE_URL": place.nats or "",
            "ACCORD_TEST_RUNS": str(place.runs_file),
            "ACCORD_TEST_CLOCK": str(self._clock),
            "PYTHONPATH": str(ROOT),
        }

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Start it, and wait until it takes connections or turns."""
        before = self._starts()
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self._program,
                self.command,
                self._agent,
                "--config",
                str(self._config),
                *(["--log-json"] if self.command == "serve" else []),
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=self.place.folder,
            )
        async with asyncio.timeout(START_S):
            while self._starts() == before:
                assert self.process.returncode is None, self.log.read_text()[-4_000:]
                await asyncio.sleep(0.02)

    async def start_again(self) -> None:
        """Start it until that works: what it needs may be away at the moment."""
        until = monotonic() + 2 * START_S
        while True:
            try:
                return await self.start()
            except (AssertionError, TimeoutError):
                if monotonic() > until:
                    raise
            await self.kill()
            await asyncio.sleep(0.2)

    def set_clock(self, skew_s: float) -> None:
        """Have the clock of a process that was made with `skew_s` be wrong by so many seconds from now on."""
        changed = self._clock.with_suffix(".new")
        changed.write_text(str(skew_s))
        changed.replace(self._clock)  # at once: the process may read it at any moment

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def ended(self, within_s: float) -> int:
        """Wait until it has ended; returns its status."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), within_s)

    def client(self) -> aiohttp.ClientSession:
        """A client of this server."""
        return aiohttp.ClientSession(self.address, timeout=aiohttp.ClientTimeout(60))

    def _starts(self) -> int:
        said = "/v1/assist" if self.command == "serve" else "Worker for"
        return self.log.read_text().count(said) if self.log.exists() else 0


def _config(place: Place, agents: Mapping[str, str], turns: int, options: Mapping[str, Any]) -> str:
    queue = {"kind": "nats" if place.nats else "postgres", "turns": turns}
    if place.nats:
        queue |= {"prefix": place.prefix, "replicas": place.replicas}
    tables = {"agents": agents, "store": {"kind": "postgres"}, "queue": queue, "server": options}
    first = f"default_agent = {json.dumps(next(iter(agents)))}\n"
    return first + "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


@asynccontextmanager
async def running(*processes: Process) -> AsyncGenerator[None]:
    """Start these processes; kill what is left of them in the end."""
    try:
        await asyncio.gather(*(process.start() for process in processes))
        yield
    finally:
        for process in processes:
            process.send(signal.SIGCONT)
            await process.kill()


def request(query: str, agent: str = "safe", **more: Any) -> dict[str, Any]:
    """A request as JSON."""
    user = more.pop("user", "u")
    made: dict[str, Any] = {
        "request_id": more.pop("request_id", None) or str(uuid4()),
        "context": {
            "session_id": more.pop("session", f"of {user}"),
            "user": {"id": user, "name": "U"},
            "agent": {"id": agent, "name": agent},
        },
        "payload": {"query": query, **more},
    }
    return made


def path_of(made: Mapping[str, Any]) -> str:
    """The path at which the turn of a request is read."""
    return f"/v1/requests/{made['request_id']}"


def numbers(count: int) -> str:
    """What `count N MS` answers."""
    return "".join(f"{number} " for number in range(count))


def text_of(packets: Packets) -> str:
    """The text of these packets."""
    return "".join(packet["p"] for _, packet in packets if packet["op"] == "delta")


def ops(packets: Packets) -> list[str]:
    """The kinds of these packets."""
    return [packet["op"] for _, packet in packets]


async def events(response: aiohttp.ClientResponse) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
    """The numbered packets of a stream as they come."""
    rest = b""
    async for piece in response.content.iter_any():
        *whole, rest = (rest + piece).split(b"\n\n")
        for event in whole:
            fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if not line.startswith(":"))
            if "id" in fields:  # packets without a number say that this connection is over, not the turn
                yield int(fields["id"]), json.loads(fields["data"])


async def stream(server: Process, made: Mapping[str, Any]) -> Packets:
    """The packets of a request that is sent now."""
    async with server.client() as http, http.post("/v1/assist", json=made, headers=EVENTS) as response:
        assert response.status == 200, await response.text()
        return [each async for each in events(response)]


async def read(
    server: Process, made: Mapping[str, Any], after: int = 0, headers: Mapping[str, str] | None = None
) -> Packets:
    """The packets of a turn after this number, to its end."""
    resumed = {**EVENTS, "last-event-id": str(after), **(headers or {})}
    async with server.client() as http, http.get(path_of(made), headers=resumed) as response:
        assert response.status == 200, await response.text()
        return [each async for each in events(response)]


async def ask(server: Process, made: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of a whole answer."""
    async with server.client() as http, http.post("/v1/assist", json=made) as response:
        return response.status, await response.json()


async def until_runs(place: Place, made: Mapping[str, Any], agent: str = "safe") -> None:
    """Return when a worker runs this turn; the caller bounds the wait."""
    while not place.runs()[agent, made["request_id"]]:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)


async def restart_dead(workers: Sequence[Process]) -> None:
    """Start those again that have ended."""
    for worker in workers:
        if not worker.is_running:
            await worker.start()


def bounded(run: Callable[[], Awaitable[None]]) -> None:
    """Run a test with a time limit."""

    async def limited() -> None:
        await asyncio.wait_for(run(), LIMIT_S)

    asyncio.run(limited())
