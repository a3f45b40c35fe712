"""Starts a program to talk to over its standard input and output, keeps the end of what it says on stderr, and ends it.

The whole process group is ended, first politely, so that nothing is left behind. What is said is not known here.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

STDERR_KEPT: Final = 16 * 1024
POLITE_S: Final = 2.0
LAST_WORDS_S: Final = 0.5
LIMIT: Final = 1024 * 1024


class PeerStartError(Exception):
    """The program could not be started."""


class Peer:
    """One running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - asked for below
        assert process.stdout is not None  # noqa: S101
        self.process: Final = process
        self.stdin: Final = process.stdin
        self.stdout: Final = process.stdout
        self._stderr = bytearray()
        self._listening: Final = asyncio.create_task(self._listen())

    @property
    def stderr(self) -> str:
        """The end of what it said on standard error."""
        return self._stderr.decode(errors="replace")

    async def end(self, polite_s: float = POLITE_S) -> int:
        """Close its input, wait a little, then end it and everything it started; gives its exit status."""
        self.stdin.close()
        if not await self._ended_within(polite_s):
            self._signal(signal.SIGTERM)
            if not await self._ended_within(polite_s):
                self._signal(signal.SIGKILL)
        status = await self.process.wait()
        self._signal(signal.SIGKILL)  # what it started and left behind
        # Its last words may still be in the pipe; only what left the process group can hold it open.
        await asyncio.wait({self._listening}, timeout=LAST_WORDS_S)
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._let_go()
        return status

    def _let_go(self) -> None:
        """Close the pipes: asyncio keeps them while output that nobody wants is unread."""
        transport = cast("asyncio.SubprocessTransport", vars(self.process)["_transport"])
        transport.close()

    async def _ended_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), seconds)
        except TimeoutError:
            return False
        return True

    def _signal(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, which)

    async def _listen(self) -> None:
        if self.process.stderr is None:
            return
        while data := await self.process.stderr.read(4096):
            self._stderr += data
            del self._stderr[:-STDERR_KEPT]


async def start_peer(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    keep_stderr: bool = True,
) -> Peer:
    """The program, started; raises `PeerStartError` with one sentence if it cannot be."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if keep_stderr else None,
            env=None if environ is None else dict(environ),
            cwd=cwd,
            limit=LIMIT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PeerStartError(f"{command[0]} cannot be started: {reason}") from error
    return Peer(process)
