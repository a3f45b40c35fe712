"""Start a program to talk to over its standard streams, keep the end of its standard error, and stop it.

The whole process group is stopped, so that no child process is left behind.
"""

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

STDERR_BYTES: Final = 16 * 1024
GRACE_S: Final = 2.0
"""How long the program may take to exit after its input is closed, and again after SIGTERM."""
LAST_STDERR_S: Final = 0.5
LIMIT: Final = 1024 * 1024


class PeerStartError(Exception):
    """A program could not be started."""


class Peer:
    """One running program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - `start_peer` requests both pipes
        assert process.stdout is not None  # noqa: S101
        self.process: Final = process
        self.stdin: Final = process.stdin
        self.stdout: Final = process.stdout
        self._stderr = bytearray()
        self._reading_stderr: Final = asyncio.create_task(self._read_stderr())

    @property
    def stderr(self) -> str:
        """The end of its standard error."""
        return self._stderr.decode(errors="replace")

    async def end(self, grace_s: float = GRACE_S) -> int:
        """Close its input, then stop it and every process it started; return its exit status."""
        self.stdin.close()
        if not await self._exits_within(grace_s):
            self._signal(signal.SIGTERM)
            if not await self._exits_within(grace_s):
                self._signal(signal.SIGKILL)
        status = await self.process.wait()
        self._signal(signal.SIGKILL)  # the processes that it started
        # The end of its standard error may still be in the pipe. Only a process outside the group can keep it open.
        await asyncio.wait({self._reading_stderr}, timeout=LAST_STDERR_S)
        self._reading_stderr.cancel()
        await asyncio.gather(self._reading_stderr, return_exceptions=True)
        # asyncio keeps the pipes open while output that is not wanted any more is unread.
        cast("asyncio.SubprocessTransport", vars(self.process)["_transport"]).close()
        return status

    async def _exits_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(asyncio.shield(self.process.wait()), seconds)
        except TimeoutError:
            return False
        return True

    def _signal(self, which: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, which)

    async def _read_stderr(self) -> None:
        if self.process.stderr is None:
            return
        while data := await self.process.stderr.read(4096):
            self._stderr += data
            del self._stderr[:-STDERR_BYTES]


async def start_peer(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    keep_stderr: bool = True,
) -> Peer:
    """Start the program; raise `PeerStartError` with one sentence if that fails."""
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
            preexec_fn=_close_on_exec,
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            error = start_error(error, command[0], os.environ if environ is None else environ)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PeerStartError(f"{command[0]} cannot be started: {reason}") from error
    return Peer(process)


def start_error(error: OSError, program: str, environ: Mapping[str, str]) -> OSError:
    """Return what a shell would say: a program that is in no folder of PATH is not found, readable or not."""
    is_searched = isinstance(error, PermissionError) and os.sep not in program
    if is_searched and shutil.which(program, os.F_OK, environ.get("PATH")) is None:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return error


def _close_on_exec() -> None:
    """Close all but the standard streams in the new program.

    uvloop leaves copies of its pipes open there, so that nothing could be seen when it closes its output.
    """
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - as little as possible between fork and exec
        with suppress(OSError):  # the folder itself is not open any more
            if int(name) > 2:
                os.set_inheritable(int(name), False)
