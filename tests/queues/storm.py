"""Turns of a service with a queue under continuous faults, at times that are random but the same for one seed.

Each client reads one turn to its end through whichever server answers. `Storm.check` holds every view to the same
rules: no packet is lost, repeated or out of order; each turn ends, whole or with an error that says "try again"; what
is stored is what was read; no turn of an agent that must not be run twice was run twice.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

import aiohttp
from nats.errors import Error as NatsError

from accord.stores.postgres import PostgresStore
from tests.faults.checks import check_reading, check_stored
from tests.faults.clients import Outcome
from tests.queues.fleet import EVENTS, Place, Process, events, path_of, request, running
from tests.queues.nats_server import NatsCluster, NatsServer, connect, free_port
from tests.queues.proxy import Proxy
from tests.stores.postgres_server import PostgresServer

LEASE_S: Final = 2.0
TURN_S: Final = 120
"""No turn may take longer to reach its reader, faults included."""
QUESTIONS: Final = (("count 40 25", "safe", 40), ("count 40 25", "never", 40), ("count 120 5", "safe", 120))
DYING: Final = ("die 20 20 1", "safe", 20)

Fault = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Reading(Outcome):
    """One client's view of one turn."""

    agent: str = "safe"
    numbers: int = 0
    is_slow: bool = False
    longest_gap_s: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter[int])

    def body(self) -> dict[str, object]:
        """The request as JSON."""
        return request(self.question, self.agent, request_id=self.request_id, session=self.session)


class Storm:
    """A service and what happens to it."""

    def __init__(
        self, folder: Path, database: str, postgres: PostgresServer, nats_at: NatsServer | NatsCluster | None, seed: int
    ) -> None:
        self.seed: Final = seed
        self.dice: Final = Random(seed)  # noqa: S311 - repeatable on purpose
        self.counts: Final[Counter[str]] = Counter()
        self.readings: Final[list[Reading]] = []
        self._postgres: Final = postgres
        self._nats: Final = nats_at
        self._database: Final = database
        replicas = 3 if isinstance(nats_at, NatsCluster) else 1
        self.direct: Final = Place(folder, database, nats_at.url if nats_at is not None else None, replicas=replicas)
        socket_folder = folder / "pg"
        socket_folder.mkdir()
        self._to_postgres: Final = Proxy(socket_folder / ".s.PGSQL.5432", postgres.folder / ".s.PGSQL.5432")
        proxied = database.replace(database.partition("host=")[2], str(socket_folder).replace("/", "%2F"))
        port = free_port()
        self._to_nats: Final = Proxy(port, nats_at.port) if isinstance(nats_at, NatsServer) else None
        behind = f"nats://127.0.0.1:{port}" if self._to_nats is not None else self.direct.nats
        self.proxied: Final = Place(folder, proxied, behind, replicas=replicas)
        self.servers: Final = [
            Process(self.direct, "s1", "serve", lease_s=LEASE_S),
            Process(self.proxied, "s2", "serve", lease_s=LEASE_S),
        ]
        self.workers: Final = [
            Process(self.direct, "w1", "worker", lease_s=LEASE_S, drain_s=0.5),
            Process(self.proxied, "w2", "worker", lease_s=LEASE_S, drain_s=0.5),
            Process(self.direct, "w3", "worker", lease_s=LEASE_S, drain_s=0.5, skew_s=3_600),
        ]
        self._is_over = False
        self._background: Final[set[asyncio.Task[None]]] = set()

    async def run(self, turns: int, *, at_once: int, every_s: tuple[float, float], only: Sequence[str] = ()) -> None:
        """Read so many turns while faults happen."""
        faults = {name: fault for name, fault in self._faults().items() if not only or name in only}
        await self._to_postgres.open()
        if self._to_nats is not None:
            await self._to_nats.open()
        for number in range(turns):
            question, agent, numbers = DYING if number % 50 == 7 else self.dice.choice(QUESTIONS)
            name = f"00000000-0000-4000-8000-{number:012d}"
            reading = Reading(name, f"session-{number % 10}", question, agent=agent, numbers=numbers)
            reading.is_slow = number % 10 == 3
            self.readings.append(reading)
        try:
            async with running(*self.servers, *self.workers):
                storm = asyncio.create_task(self._cause(faults, every_s))
                watch = asyncio.create_task(self._restart_dead())
                try:
                    await self._read_all(at_once)
                finally:
                    await self._calm_down(storm, watch)
                await self.check()
        finally:
            await self._to_postgres.cut()
            if self._to_nats is not None:
                await self._to_nats.cut()

    async def check(self) -> None:
        """Hold every view to the rules."""
        for reading in self.readings:
            # A worker that is stopped cancels turns that must not be run again and take longer than `drain_s`.
            may_be_cancelled = reading.agent == "never" and self.counts["drain worker"]
            codes = ("unavailable", "cancelled") if may_be_cancelled else ("unavailable",)
            check_reading(reading, reading.numbers, codes)
        await check_stored(PostgresStore(self._database), self.readings)
        twice = {name: count for name, count in self.direct.runs().items() if name[0] == "never" and count > 1}
        assert not twice, twice
        assert all(process.is_running for process in (*self.servers, *self.workers))

    def figures(self) -> str:
        """What happened, in one line."""
        whole = sum(reading.error_code is None for reading in self.readings)
        cancelled = sum(reading.error_code == "cancelled" for reading in self.readings)
        packets = sum(len(reading.packets) for reading in self.readings)
        again = sum(count - 1 for count in self.direct.runs().values())
        longest = max(reading.longest_gap_s for reading in self.readings)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return (
            f"seed {self.seed}: {len(self.readings)} turns ({whole} whole, {len(self.readings) - whole - cancelled} "
            f"ended as unavailable, {cancelled} cancelled by a worker that was stopped), {packets} packets, 0 lost, 0 repeated, 0 out of order, 0 left running; "
            f"{sum(reading.connections - 1 for reading in self.readings)} resumes, {again} runs repeated, longest gap "
            f"{longest:.1f} s; faults: {faults}"
        )

    async def _read_all(self, at_once: int) -> None:
        room = asyncio.Semaphore(at_once)

        async def read(reading: Reading, dice: Random) -> None:
            async with room:
                try:
                    async with asyncio.timeout(TURN_S):
                        await self._read(reading, dice)
                except TimeoutError:
                    reading.raised = f"not over within {TURN_S} s; statuses {dict(reading.statuses)}"

        async with asyncio.TaskGroup() as group:
            for number, reading in enumerate(self.readings):
                group.create_task(read(reading, Random(self.seed * 1_000_000 + number)))  # noqa: S311

    async def _read(self, reading: Reading, dice: Random) -> None:
        """Read one turn: send the request, and after each break go on after the last packet, at any server."""
        while not reading.packets or reading.packets[-1][1]["op"] != "close":
            reading.connections += 1
            server = dice.choice(self.servers)
            leaves_after = dice.randrange(3, 60) if dice.random() < 0.3 else None
            try:
                await self._read_on(server, reading, leaves_after)
            except (TimeoutError, aiohttp.ClientError, OSError):
                await asyncio.sleep(0.05)

    async def _read_on(self, server: Process, reading: Reading, leaves_after: int | None) -> None:
        last, body = (reading.packets[-1][0] if reading.packets else 0), reading.body()
        headers = {**EVENTS, "last-event-id": str(last)}
        limit = aiohttp.ClientTimeout(sock_read=20, sock_connect=5)
        async with aiohttp.ClientSession(server.address, timeout=limit) as http:
            call = (
                http.get(path_of(body), headers=headers)
                if last
                else http.post("/v1/assist", json=body, headers=headers)
            )
            async with call as response:
                reading.statuses[response.status] += 1
                if response.status >= 500:
                    await asyncio.sleep(0.2)
                    return
                assert response.status == 200, await response.text()
                began_at = monotonic()
                async for each in events(response):
                    reading.packets.append(each)
                    reading.longest_gap_s = max(reading.longest_gap_s, monotonic() - began_at)
                    began_at = monotonic()
                    if reading.is_slow:
                        await asyncio.sleep(0.02)
                    if leaves_after is not None and len(reading.packets) - last >= leaves_after:
                        return

    async def _cause(self, faults: dict[str, Fault], every_s: tuple[float, float]) -> None:
        while not self._is_over:
            await asyncio.sleep(self.dice.uniform(*every_s))
            name = self.dice.choice(sorted(faults))
            self.counts[name] += 1
            await faults[name]()

    async def _restart_dead(self) -> None:
        """Start processes again that an agent has ended."""
        while not self._is_over:
            await asyncio.sleep(0.1)
            for process in self.workers:
                if not process.is_running and not process.is_stopped:
                    self.counts["worker ended by its agent"] += 1
                    process.is_stopped = True
                    self._in_background(self._restart(process))

    async def _calm_down(self, *tasks: asyncio.Task[None]) -> None:
        self._is_over = True
        await asyncio.gather(*tasks)  # a fault that has begun is completed
        await asyncio.to_thread(self._postgres.start_if_stopped)
        for node in self._nodes():
            node.go_on()
            await asyncio.to_thread(node.start_if_stopped)
        for proxy in self._proxies():
            proxy.release()
            await proxy.open()
        await asyncio.gather(*self._background)
        for process in (*self.servers, *self.workers):
            process.send(signal.SIGCONT)
            if not process.is_running:
                await process.start_again()

    def _nodes(self) -> Sequence[NatsServer]:
        if isinstance(self._nats, NatsCluster):
            return self._nats.nodes
        return [self._nats] if self._nats is not None else []

    def _proxies(self) -> Sequence[Proxy]:
        return [self._to_postgres, *([self._to_nats] if self._to_nats is not None else [])]

    def _faults(self) -> dict[str, Fault]:
        found: dict[str, Fault] = {
            "kill worker": self._kill_worker,
            "kill server": self._kill_server,
            "kill PostgreSQL": self._kill_postgres,
            "cut to PostgreSQL": lambda: self._cut(self._to_postgres),
            "pause worker": self._pause_worker,
            "drain worker": self._drain_worker,
        }
        if isinstance(self._nats, NatsServer):
            found |= {"kill NATS": self._kill_nats, "pause NATS": self._pause_nats}
        if self._to_nats is not None:
            to_nats = self._to_nats
            found |= {"cut to NATS": lambda: self._cut(to_nats), "silence of NATS": lambda: self._hold(to_nats)}
        if isinstance(self._nats, NatsCluster):
            found["kill leader"] = self._kill_leader
        if self._nats is not None:
            found |= {"poison": self._poison, "duplicates": self._duplicates}
        return found

    def _in_background(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = asyncio.create_task(run())
        self._background.add(task)
        task.add_done_callback(lambda done: None if done.exception() else self._background.discard(done))

    async def _kill_worker(self) -> None:
        await self._kill(self.dice.choice(self.workers))

    async def _kill_server(self) -> None:
        await self._kill(self.dice.choice(self.servers))

    async def _kill(self, process: Process) -> None:
        if process.is_running and not process.is_stopped:
            await process.kill()
            process.is_stopped = True
            self._in_background(self._restart(process))

    async def _restart(self, process: Process) -> None:
        await process.start_again()
        process.is_stopped = False

    async def _drain_worker(self) -> None:
        process = self.dice.choice(self.workers)
        if process.is_running and not process.is_stopped:
            process.is_stopped = True
            process.send(signal.SIGTERM)

            async def end() -> None:
                await process.ended(20)
                await self._restart(process)

            self._in_background(end())

    async def _pause_worker(self) -> None:
        process = self.dice.choice(self.workers)
        if process.is_running and not process.is_stopped:
            process.is_stopped = True
            process.send(signal.SIGSTOP)

            async def go_on() -> None:
                await asyncio.sleep(2 * LEASE_S)
                process.send(signal.SIGCONT)
                process.is_stopped = False

            self._in_background(go_on())

    async def _kill_postgres(self) -> None:
        await asyncio.to_thread(self._postgres.kill)
        await asyncio.sleep(self.dice.uniform(0.1, 0.5))
        await asyncio.to_thread(self._postgres.start)

    async def _kill_nats(self) -> None:
        (node,) = self._nodes()
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(self.dice.uniform(0.1, 3.0))
        await asyncio.to_thread(node.start)

    async def _kill_leader(self) -> None:
        assert isinstance(self._nats, NatsCluster)
        leader = await self._nats.leader("ACCORD_PACKETS")
        if leader is None:
            self.counts["kill leader"] -= 1
            return
        await asyncio.to_thread(leader.kill)
        await asyncio.sleep(self.dice.uniform(0.5, 3.0))
        await asyncio.to_thread(leader.start)
        await self._nats.until_ready()

    async def _pause_nats(self) -> None:
        (node,) = self._nodes()
        node.pause()
        await asyncio.sleep(self.dice.uniform(0.5, 4.0))
        node.go_on()

    async def _cut(self, proxy: Proxy) -> None:
        await proxy.cut()
        await asyncio.sleep(self.dice.uniform(0.1, 2.0))
        await proxy.open()

    async def _hold(self, proxy: Proxy) -> None:
        proxy.hold()
        await asyncio.sleep(self.dice.uniform(0.5, 4.0))
        proxy.release()

    async def _poison(self) -> None:
        await self._publish("safe", self.dice.choice([b"", b"\xff\xfe", b"{", b"[]", b'{"request_id": 1}', b"null"]))

    async def _duplicates(self) -> None:
        reading = self.dice.choice(self.readings)
        for _ in range(3):
            await self._publish(reading.agent, b'{"request_id": "%s"}' % reading.request_id.encode())

    async def _publish(self, agent: str, payload: bytes) -> None:
        assert self.direct.nats is not None
        with suppress(NatsError, OSError, TimeoutError):
            client = await connect(self.direct.nats)
            try:
                await client.publish(f"accord.work.{agent}", payload)
                await client.flush(1)
            finally:
                await client.close()
