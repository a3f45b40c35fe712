"""Packets from workers to clients, by queue: how many in a second, and how long each takes, against nats-py alone.

Real processes: `accord worker` and `accord serve`, nats-server, PostgreSQL (without fsync, as in the tests). The words
of the agent (`scale_agent.py`) carry the time at which they were sent; this process receives them. It is the client of
`accord serve` over SSE ("over HTTP"), or it follows the turns with the engine, as a server does ("follower"), which
leaves HTTP out. The yardstick (`raw_nats.py`) publishes the same packets, in messages of as many packets as Accord's
had, and one by one.

"In a message" is the number of packets in each message that was published. With NATS it is counted in the stream,
since a reader that was too slow gets pages of the store instead; a dash means that it is not known. All turns begin
first; the clock runs from the first word to the last. Rounds are interleaved, since the machine is shared, and the best
one counts. `make bench-scale ROUNDS=1 TURNS=64` is quick.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final, cast
from uuid import uuid4

import nats
import uvloop
from bench.raw_nats import PREFIX
from tests.stores.postgres_server import running_server

from accord.assembly.links import open_links
from accord.assembly.parts import build_engine
from accord.assembly.store import make_store
from accord.cli.configuration import load
from accord.run import Sessions
from accord.wire.request import ServiceRequest

ROUNDS: Final = int(os.environ.get("ROUNDS") or "3")
TURNS: Final = tuple(map(int, (os.environ.get("TURNS") or "1,64,512").split(",")))
WORDS: Final = int(os.environ.get("WORDS") or "60000")
"""Words of one measurement, over all turns; a single turn sends fewer."""
PACED_TURNS, PACED_WORDS, PACE_S = 64, 40, 0.05
GOAL: Final = 0.6
WAIT_S: Final = 120
ROOT: Final = Path(__file__).resolve().parent.parent
AGENT: Final = f"{ROOT}/bench/scale_agent.py:agent"
SENT: Final = re.compile(rb"t(\d+)w")
TAIL: Final = 40
CONFIG: Final = "bench.toml"
STREAM: Final = "ACCORD_PACKETS"
RAW: Final = "nats-py alone"
SAME: Final = f"{RAW}, the same messages"
ONE_BY_ONE: Final = f"{RAW}, one by one"
FOLLOWED: Final = "NATS + PostgreSQL, follower"
ACCORD: Final = [sys.executable, "-P", "-m", "accord"]


@dataclass
class Load:
    """One measurement: what is to be sent, and what has come."""

    turns: int
    words: int
    gate: str = field(default_factory=lambda: f"{Path.cwd()}/{uuid4().hex}.gate")
    pace_s: float = 0.0
    batch: int = 1
    delays: list[int] = field(default_factory=list[int])
    ready: int = 0
    first_sent: int = 2**63
    last_come: int = 0
    all_ready: asyncio.Event = field(default_factory=asyncio.Event)
    all_come: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def query(self) -> str:
        """The prompt for the agent."""
        return f"{self.gate} {self.words} {self.pace_s}"

    def take(self, data: bytes) -> None:
        """Note the words in what has just come."""
        now = monotonic_ns()
        sent = [int(each) for each in SENT.findall(data)]
        if not sent:
            return
        self.first_sent = min(self.first_sent, sent[0])
        self.delays.extend([now - each for each in sent])
        self.last_come = now
        if len(self.delays) >= self.turns * self.words:
            self.all_come.set()

    def begun(self) -> None:
        """Note that a turn has begun."""
        self.ready += 1
        if self.ready == self.turns:
            self.all_ready.set()

    def request(self) -> dict[str, Any]:
        """A request for one more turn, of a user of its own."""
        user = uuid4().hex
        context = {"session_id": user, "user": {"id": user, "name": "U"}}
        return {"request_id": str(uuid4()), "context": context, "payload": {"query": self.query}}


@dataclass(frozen=True)
class Figures:
    """What one measurement has shown."""

    per_s: float
    p50_ms: float
    p99_ms: float
    batch: float | None
    processor_s: dict[str, float]


@dataclass(frozen=True)
class Contestant:
    """A way from worker to client: `run` starts the clients of a load, `pids` are the processes that take part."""

    name: str
    run: Callable[[Load], Awaitable[None]]
    pids: dict[str, int]
    messages: Callable[[], Awaitable[int]] | None = None
    """How many messages were stored in the stream of packets so far."""


async def measure(contestant: Contestant, load: Load) -> Figures:
    """Begin all turns, open the gate, and wait for all words."""
    running = asyncio.ensure_future(contestant.run(load))
    try:
        async with asyncio.timeout(WAIT_S):
            await first_of(load.all_ready.wait(), running)
            stored = await contestant.messages() if contestant.messages is not None else 0
            before = processor_s(contestant.pids)
            Path(load.gate).touch()  # noqa: ASYNC240 - a gate for other processes
            await first_of(load.all_come.wait(), running)
            after = processor_s(contestant.pids)
            await running
            # The last packets of a turn are in a message of their own, which is not in the stream.
            messages = await contestant.messages() - stored + load.turns if contestant.messages is not None else None
    finally:
        running.cancel()
    seconds = (load.last_come - load.first_sent) / 1e9
    delays = sorted(load.delays)
    return Figures(
        per_s=len(delays) / seconds,
        p50_ms=delays[len(delays) // 2] / 1e6,
        p99_ms=delays[len(delays) * 99 // 100] / 1e6,
        batch=load.batch if contestant.name == RAW else None if messages is None else len(delays) / messages,
        processor_s={name: after[name] - before[name] for name in before},
    )


async def first_of(event: Any, running: "asyncio.Future[None]") -> None:
    """Wait for an event; the failure of the clients ends the wait."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        running.result()
        raise RuntimeError("The clients have ended too early")


def processor_s(pids: dict[str, int]) -> dict[str, float]:
    """The processor time of these processes so far, with that of the processes that they have started."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            used[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own = os.getpid()
    return {
        name: sum(s for each, s in used.items() if each == pid or (pid != own and parents[each] == pid))
        for name, pid in pids.items()
    }


async def read_sse(load: Load, host: str, port: int) -> None:
    """One turn over HTTP."""
    body = json.dumps(load.request()).encode()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        b"POST /v1/assist HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nconnection: close\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    tail, is_ready = b"", False
    while data := await reader.read(65_536):
        data = tail + data
        if not is_ready:
            if b"ready" in data:
                is_ready = True
                load.begun()
            elif b"HTTP/1.1 " in data and b"HTTP/1.1 200" not in data:
                raise RuntimeError(data[:500])
        load.take(data)
        # A word may be cut in two; what was read of it is read again with the rest.
        start = max((found.end() for found in SENT.finditer(data)), default=0)
        tail = data[max(start, len(data) - TAIL) :]
    writer.close()


def over_http(address: str) -> Callable[[Load], Awaitable[None]]:
    """Clients of `accord serve`."""
    host, _, port = address.removeprefix("http://").partition(":")

    async def run(load: Load) -> None:
        await asyncio.gather(*(read_sse(load, host, int(port)) for _ in range(load.turns)))

    return run


def follower(sessions: Sessions) -> Callable[[Load], Awaitable[None]]:
    """Readers of the engine in this process."""

    async def read(load: Load) -> None:
        turn = await sessions.begin(ServiceRequest.parse(json.dumps(load.request())))
        is_ready = False
        async with aclosing(turn.read()) as batches:
            async for batch in batches:
                data = "\n".join([packet.body for packet in batch.packets]).encode()
                if not is_ready and b"ready" in data:
                    is_ready = True
                    load.begun()
                load.take(data)

    async def run(load: Load) -> None:
        await asyncio.gather(*(read(load) for _ in range(load.turns)))

    return run


def raw_subscriber(client: Any, publisher: "subprocess.Popen[str]") -> Callable[[Load], Awaitable[None]]:
    """A plain subscription for each turn of the yardstick."""
    numbers = count()

    async def run(load: Load) -> None:
        names = [f"{os.getpid()}-{next(numbers)}" for _ in range(load.turns)]

        async def take(message: Any) -> None:
            if b"ready" in message.data:
                load.begun()
            load.take(message.data)

        subscriptions = [await client.subscribe(f"{PREFIX}.out.{name}", cb=take) for name in names]
        # Twice: nats-py writes the ping of a flush ahead of what waits, so that the first may overtake a subscription.
        await client.flush()
        await client.flush()
        order = {"gate": load.gate, "words": load.words, "batch": load.batch, "pace_s": load.pace_s, "names": names}
        if publisher.stdin is not None:
            publisher.stdin.write(json.dumps(order) + "\n")
            publisher.stdin.flush()
        await load.all_come.wait()
        for subscription in subscriptions:
            await subscription.unsubscribe()

    return run


@contextmanager
def program(command: list[str], until: str, folder: str) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """A process, and the line by which it says that it is ready, on either of its outputs."""
    log = Path(folder) / f"{uuid4().hex}.log"
    with log.open("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT if "bench." in command[-2] else folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            line = ""
            for _ in range(600):
                line = next((each for each in log.read_text().splitlines() if until in each), "")
                if line or process.poll() is not None:
                    break
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
            if not line:
                sys.exit(f"{' '.join(command)} did not start: {log.read_text()}")
            yield process, line
        finally:
            process.kill()
            process.wait(30)


@asynccontextmanager
async def following(store: str, queue: str) -> AsyncGenerator[Sessions]:
    """The engine in this process, on this store and queue."""
    loaded = load(CONFIG, trusted=False, store=store, queue=queue)
    engine = build_engine(loaded, agent=AGENT)
    opened = make_store(loaded)
    await opened.open()
    try:
        async with open_links(loaded, opened, name="bench") as links:
            sessions = Sessions(engine, opened, links=links)
            yield sessions
            await sessions.drain(0)
    finally:
        await opened.close()


@asynccontextmanager
async def contestants(folder: str) -> AsyncGenerator[list[Contestant]]:
    """All ways, each with processes of its own, which wait while others are measured."""
    with ExitStack() as stack:
        async with AsyncExitStack() as tasks:
            server = stack.enter_context(running_server())
            postgres = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
            nats_path = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or "nats-server"
            start = [nats_path, "-js", "-sd", folder, "-a", "127.0.0.1", "-p", "-1"]
            broker, line = stack.enter_context(program(start, "Listening for client connections", folder))
            url = f"nats://{line.rsplit(' ', 1)[-1]}"
            client: Any = await cast("Any", nats).connect(url)
            tasks.push_async_callback(client.close)

            async def messages() -> int:
                return (await client.jetstream().stream_info(STREAM)).state.last_seq

            own = {"client": os.getpid()}
            found: list[Contestant] = []
            for name, queue in (("NATS + PostgreSQL", url), ("PostgreSQL alone", None)):
                store = server.make_database(f"bench{len(found)}")
                options = ["--queue", queue or store, "--store", store, "--log-level", "error", "--config", CONFIG]
                work = [*ACCORD, "worker", AGENT, *options, "--turns", str(max(*TURNS, PACED_TURNS))]
                worker, _ = stack.enter_context(program(work, "Worker for", folder))
                serve = [*ACCORD, "serve", AGENT, *options, "--port", "0"]
                served, line = stack.enter_context(program(serve, "Serving", folder))
                pids = {"worker": worker.pid, "postgres": postgres} | ({"nats": broker.pid} if queue else {})
                sessions = await tasks.enter_async_context(following(store, queue or store))
                stored = messages if queue else None
                found.append(Contestant(f"{name}, follower", follower(sessions), pids | own, stored))
                run = over_http(address_in(line))
                found.append(Contestant(f"{name}, over HTTP", run, {**pids, "server": served.pid, **own}, stored))
            serve = [
                *ACCORD,
                "serve",
                AGENT,
                "--store",
                "one.db",
                "--port",
                "0",
                "--log-level",
                "error",
                "--config",
                CONFIG,
            ]
            served, line = stack.enter_context(program(serve, "Serving", folder))
            found.append(
                Contestant("one process, SQLite, over HTTP", over_http(address_in(line)), {"server": served.pid, **own})
            )
            raw, _ = stack.enter_context(program([sys.executable, "-m", "bench.raw_nats", url], "ready", folder))
            pids = {"worker": raw.pid, "nats": broker.pid, **own}
            found.append(Contestant(RAW, raw_subscriber(client, raw), pids))
            yield found


def address_in(line: str) -> str:
    """The address in the line of a service that has started."""
    return re.findall(r"http://[\w.:]+", line)[0]


async def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder:
        os.chdir(folder)  # no configuration of the user
        os.environ["ACCORD_STATE_DIR"] = folder
        Path(CONFIG).write_text(f"[server]\nturns_per_caller = {2 * max(*TURNS, PACED_TURNS)}\n")  # noqa: ASYNC240
        async with contestants(folder) as found:
            cores = len(os.sched_getaffinity(0))
            print(f"{cores} processor cores for everything; load average {os.getloadavg()[0]:.1f} at the start")
            for turns in TURNS:
                await compare_rates(found, turns)
            await compare_delays(found)


async def compare_rates(found: list[Contestant], turns: int) -> None:
    """All ways with so many turns at once, as fast as they go."""
    words, best = max(40, WORDS // max(turns, 4)), dict[str, Figures]()
    for _ in range(ROUNDS):
        size = 1
        for contestant in found:
            if contestant.name == RAW:
                keep(best, SAME, await measure(contestant, Load(turns, words, batch=size)))
                keep(best, ONE_BY_ONE, await measure(contestant, Load(turns, words)))
                continue
            figures = await measure(contestant, Load(turns, words))
            keep(best, contestant.name, figures)
            if contestant.name == FOLLOWED:  # the messages of this round
                size = max(1, round(figures.batch or 1))
    print_table(f"{turns} at once, {words} words each, as fast as they go", best, SAME)
    share = best[FOLLOWED].per_s / best[SAME].per_s
    outcome = "met" if share >= GOAL else "missed"
    print(f"  goal: worker to follower ≥ {GOAL:.0%} of nats-py alone with the same messages: {share:.0%}, {outcome}")


async def compare_delays(found: list[Contestant]) -> None:
    """All ways at the pace of models."""
    best: dict[str, Figures] = {}
    for _ in range(ROUNDS):
        for contestant in found:
            load = Load(PACED_TURNS, PACED_WORDS, pace_s=PACE_S)
            keep(best, contestant.name, await measure(contestant, load), by_delay=True)
    print_table(f"{PACED_TURNS} at once, a word every {PACE_S * 1_000:.0f} ms", best, None)


def keep(best: dict[str, Figures], name: str, new: Figures, *, by_delay: bool = False) -> None:
    """Keep the best round."""
    old = best.get(name)
    if old is None or (new.p99_ms < old.p99_ms if by_delay else new.per_s > old.per_s):
        best[name] = new


def print_table(title: str, best: dict[str, Figures], yardstick: str | None) -> None:
    """Print the figures of one load."""
    print(f"\n{title}\n  {'':34} packets/s  share   p50 ms   p99 ms  in a message  processor seconds")
    for name, each in best.items():
        share = f"{each.per_s / best[yardstick].per_s:5.0%}" if yardstick else "     "
        used = ", ".join(f"{process} {seconds:.2f}" for process, seconds in each.processor_s.items())
        delays = f"{each.p50_ms:8.2f} {each.p99_ms:8.2f}"
        batch = "–" if each.batch is None else f"{each.batch:.1f}"
        print(f"  {name:34} {each.per_s:9,.0f}  {share} {delays}  {batch:>12}  {used}", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
