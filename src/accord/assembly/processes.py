"""Several processes that serve one address: the parent, which starts them, and what each of them is given.

The parent binds the address, starts one process after the other with the same command, and starts one that ends again.
It serves nothing itself and forwards the signals that it gets. Every process has a socket of its own at the address,
between which the kernel divides new connections: processes that accept from one socket get very different numbers of
connections. A process whose parent has died stops as after SIGTERM.
"""

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypedDict

from accord.config import LoadedConfig, ServerConfig, StoreKind
from accord.errors import UsageError
from accord.servers.http.serve import EXIT_STATUS, STOP_SIGNALS, listen_at

PROCESS_OPTION: Final = "--process"
FIRST_PAUSE_S: Final = 0.1
LAST_PAUSE_S: Final = 10.0
"""How long a process that has ended is not started again, at first and at most."""
MESSAGE_BYTES: Final = 65_536
STEADY_S: Final = 30.0
"""A process that has served for so long is started again at once, whatever happened before."""

LOGGER: Final = logging.getLogger("accord.servers")


class StartMessage(TypedDict):
    """What a process says when it serves, for the message that users get."""

    agent: str
    address: str
    is_open: bool


def check_process_count(loaded: LoadedConfig, workers: int) -> None:
    """Raise `UsageError` if a service of this configuration cannot consist of so many processes."""
    if workers == 1:
        return
    if loaded.config.store.kind is StoreKind.MEMORY:
        raise UsageError(
            f"--workers {workers}: with a memory store, each process would have sessions of its own; use a"
            " sqlite or postgres store, which they share, or --workers 1"
        )
    if not hasattr(socket, "SO_REUSEPORT"):
        raise UsageError(f"--workers {workers}: this system cannot share a port between processes; use --workers 1")


class ProcessSockets:
    """What the parent has given this process: the socket to serve, and one to the parent."""

    def __init__(self, option: str) -> None:
        descriptors = [int(number) for number in option.split(",")]
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # a program that an agent starts must not keep the port open
        self.listener: Final = socket.socket(fileno=descriptors[0])
        self._parent: Final = socket.socket(fileno=descriptors[1])

    def report_start(self, agent: str, address: str, *, is_open: bool) -> None:
        """Report to the parent that this process serves; from then on, the end of the parent stops it."""
        message = StartMessage(agent=agent, address=address, is_open=is_open)
        with suppress(OSError):  # the parent has ended: that is noticed below
            self._parent.sendall(json.dumps(message).encode())
        asyncio.get_running_loop().add_reader(self._parent, self._parent_ended)

    def _parent_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._parent)
        LOGGER.error("Stopping: the process that started this one has ended")
        os.kill(os.getpid(), signal.SIGTERM)


def run_processes(command: Sequence[str], settings: ServerConfig, *, started: Callable[[StartMessage], None]) -> int:
    """Serve with the processes of this command until a signal stops them; returns the exit status.

    `started` is called once, when all of them serve.
    """

    async def run() -> int:
        return await _ProcessGroup(command, settings, started).run()

    return asyncio.run(run())


@dataclass(slots=True)
class _ServingProcess:
    """One of the processes, and the socket that it serves, which stays the same when it is started again."""

    listener: socket.socket | None = None
    process: asyncio.subprocess.Process | None = None
    link: socket.socket | None = None
    started_at: float = 0.0
    pause_s: float = 0.0


class _ProcessGroup:
    """The parent of the processes."""

    def __init__(self, command: Sequence[str], settings: ServerConfig, started: Callable[[StartMessage], None]) -> None:
        self._command: Final = command
        self._started: Final = started
        self._host: Final = settings.host
        if settings.port:
            # Sockets that share a port share it with any other process of this user: check first that there is none.
            listen_at(settings.host, settings.port).close()
        first = listen_at(settings.host, settings.port, is_shared=True)
        self._port: Final[int] = first.getsockname()[1]
        # All sockets at once: no connection is refused because a process has not started yet.
        self._members: Final = [
            _ServingProcess(first),
            *(_ServingProcess(self._listen()) for _ in range(settings.workers - 1)),
        ]
        self._is_stopping: Final = asyncio.Event()
        self._last_signal: int = signal.SIGTERM

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as `nohup` sets it
            loop.add_signal_handler(signal.SIGHUP, self._forward, signal.SIGHUP)
        first, *others = self._members
        # The first one alone: it brings the store up to date, and what keeps the service from starting is shown once.
        message = await self._start(first)
        messages = [message, *await asyncio.gather(*map(self._start, others))] if message else [None]
        if message is None or None in messages:
            if not self._is_stopping.is_set():
                failed = next(each for each, found in zip(self._members, messages, strict=False) if found is None)
                status = await self._wait(failed)  # it has printed why
                self._stop(signal.SIGTERM)
                await asyncio.gather(*map(self._wait, self._members))
                return status or 1
        else:
            self._started(message)
        statuses = await asyncio.gather(*map(self._keep, self._members))
        return next((status for status in statuses if status), 0)

    async def _start(self, member: _ServingProcess) -> StartMessage | None:
        """Start a process and wait until it serves; returns what it says, or None if it ended first."""
        member.listener = member.listener or self._listen()
        member.link, link = socket.socketpair()
        member.link.setblocking(False)
        descriptors = member.listener.fileno(), link.fileno()
        option = ",".join(map(str, descriptors))
        member.started_at = monotonic()
        with link:
            member.process = await asyncio.create_subprocess_exec(
                *self._command,
                PROCESS_OPTION,
                option,
                pass_fds=descriptors,
                stdin=asyncio.subprocess.DEVNULL,
                # Ctrl-C in the terminal then reaches this process only, which forwards it once.
                start_new_session=True,
            )
        if self._is_stopping.is_set():  # before there was a process to forward the signal to
            member.process.send_signal(self._last_signal)
        try:
            message = await asyncio.get_running_loop().sock_recv(member.link, MESSAGE_BYTES)
        except OSError:
            message = b""
        return json.loads(message) if message else None

    async def _wait(self, member: _ServingProcess) -> int:
        """The exit status of a process, once it has ended; that of one that never started is 0."""
        status = 0 if member.process is None else await member.process.wait()
        if member.link is not None:
            member.link.close()
            member.link = None
        return status if status >= 0 else EXIT_STATUS - status

    async def _keep(self, member: _ServingProcess) -> int:
        """Start a process again whenever it ends, until the service is stopped; returns its last exit status."""
        while True:
            status = await self._wait(member)
            if self._is_stopping.is_set():
                return status
            lived_s = monotonic() - member.started_at
            member.pause_s = FIRST_PAUSE_S if lived_s > STEADY_S else min(2 * member.pause_s, LAST_PAUSE_S)
            member.pause_s = max(member.pause_s, FIRST_PAUSE_S)
            if member.pause_s > FIRST_PAUSE_S and member.listener is not None:
                # It keeps ending soon after its start: its connections go to the other processes.
                member.listener.close()
                member.listener = None
            fields = {"status": status, "served_s": round(lived_s, 1), "again_in_s": member.pause_s}
            LOGGER.error("A process of the service has ended; starting another one", extra={"fields": fields})
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), member.pause_s)
            if self._is_stopping.is_set():
                return status
            await self._start(member)

    def _listen(self) -> socket.socket:
        return listen_at(self._host, self._port, is_shared=True)

    def _stop(self, number: int) -> None:
        self._last_signal = number
        self._is_stopping.set()
        self._forward(number)

    def _forward(self, number: int) -> None:
        for member in self._members:
            if member.process is not None and member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.send_signal(number)
