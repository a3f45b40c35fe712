"""A real nats-server with JetStream of the tests' own, alone or as a cluster of three, on loopback ports."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError

START_LIMIT_S: Final = 20
NODES: Final = 3


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class NatsServer:
    """One server. It keeps its port and its data when it is stopped or killed and started again."""

    def __init__(self, folder: Path, *, name: str = "n1", cluster: Sequence[int] = (), cluster_port: int = 0) -> None:
        self.name: Final = name
        self.port: Final = free_port()
        self.url: Final = f"nats://127.0.0.1:{self.port}"
        self.log: Final = folder / f"{name}.log"
        self._config: Final = folder / f"{name}.conf"
        lines = [
            f"server_name: {name}",
            f"listen: 127.0.0.1:{self.port}",
            f'jetstream {{ store_dir: "{folder / name}" }}',
        ]
        if cluster:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in cluster if port != cluster_port)
            lines.append(f"cluster {{ name: tests, listen: 127.0.0.1:{cluster_port}, routes: [{routes}] }}")
        self._config.write_text("\n".join(lines))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        program = Path(sys.executable).parent / "nats-server"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([program, "-c", self._config], stdout=log, stderr=log)
        until = time.monotonic() + START_LIMIT_S
        while not listens(self.port):
            assert self.is_running, self.log.read_text()[-2_000:]
            assert time.monotonic() < until, "nats-server does not listen"
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it in an orderly way."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stop it from answering, while its connections stay; returns once all of its threads stand still."""
        self._send(signal.SIGSTOP)
        if self._process is not None:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        """End a pause."""
        self._send(signal.SIGCONT)

    def start_if_stopped(self) -> None:
        """Start it unless it runs."""
        if not self.is_running:
            self.start()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._send(signal.SIGCONT)
            self._send(number)
            self._process.wait(START_LIMIT_S)


class NatsCluster:
    """Three servers, of which any two keep the streams going."""

    def __init__(self, folder: Path) -> None:
        ports = [free_port() for _ in range(NODES)]
        self.nodes: Final = [
            NatsServer(folder, name=f"n{number}", cluster=ports, cluster_port=port)
            for number, port in enumerate(ports, start=1)
        ]
        self.url: Final = ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        """Start all of them."""
        for node in self.nodes:
            node.start_if_stopped()

    def stop(self) -> None:
        """Stop all of them."""
        for node in self.nodes:
            node.kill()

    async def until_ready(self) -> None:
        """Return when the cluster has a leader for its streams."""
        async with asyncio.timeout(2 * START_LIMIT_S):
            while "streams" not in await self.ask("$JS.API.STREAM.NAMES"):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.1)

    async def leader(self, stream: str) -> NatsServer | None:
        """The node that leads this stream now."""
        info = await self.ask(f"$JS.API.STREAM.INFO.{stream}")
        name = info.get("cluster", {}).get("leader")
        return next((node for node in self.nodes if node.name == name), None)

    async def ask(self, subject: str) -> dict[str, Any]:
        """The answer of JetStream; empty if there is none now."""
        try:
            async with asyncio.timeout(5):
                client = await connect(",".join(node.url for node in self.nodes if node.is_running))
                try:
                    return json.loads((await client.request(subject, b"", timeout=2)).data)
                finally:
                    await client.close()
        except (NatsError, OSError, TimeoutError):
            return {}


def listens(port: int) -> bool:
    """Whether a server greets its clients at this port."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(1)
            return connection.recv(4) == b"INFO"
    except OSError:
        return False


async def connect(url: str) -> Client:
    """A plain client that does not connect again."""
    return await nats.connect(  # pyright: ignore[reportUnknownMemberType] - its annotations are incomplete
        url.split(","), allow_reconnect=False, connect_timeout=1, error_cb=_ignore
    )


async def _ignore(_: Exception) -> None:
    pass


@contextmanager
def nats_folder() -> Generator[Path]:
    """A folder that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="accord-nats-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_nats() -> Generator[NatsServer]:
    """A started server."""
    with nats_folder() as folder:
        server = NatsServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def running_cluster() -> Generator[NatsCluster]:
    """A started cluster."""
    with nats_folder() as folder:
        cluster = NatsCluster(folder)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
