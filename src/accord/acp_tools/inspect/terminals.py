"""The terminals that the inspector offers to an agent: real commands, each in a process group of its own."""

import asyncio
import codecs
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from accord.acp.schema_v1 import CreateTerminalRequest
from accord.stdio.process import start_error

CHUNK: Final = 64 * 1024
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""How much output is kept of a command whose agent sets no limit."""
MAX_TERMINALS: Final = 100
LAST_OUTPUT_S: Final = 0.5
"""How long the last output may take after the command has exited; a process outside its group can hold the pipe."""
END_S: Final = 2.0


class Terminal:
    """One command and the end of its output."""

    def __init__(self, process: asyncio.subprocess.Process, max_bytes: int) -> None:
        assert process.stdout is not None  # noqa: S101 - `Terminals.create` requests the pipe
        self._process: Final = process
        self._stdout: Final = process.stdout
        self._max_bytes: Final = max_bytes
        self._output: Final = bytearray()
        self._is_truncated = False
        self._reading: Final = asyncio.create_task(self._read())

    def output(self) -> Mapping[str, Any]:
        """The result of `terminal/output`."""
        # The decoder leaves out a character of which only the first bytes have arrived.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._output))
        result: dict[str, Any] = {"output": text, "truncated": self._is_truncated}
        return result if self._process.returncode is None else result | {"exitStatus": self._exit_status()}

    async def wait_for_exit(self) -> Mapping[str, Any]:
        """The result of `terminal/wait_for_exit`."""
        await self._process.wait()
        await asyncio.wait({self._reading}, timeout=LAST_OUTPUT_S)
        return self._exit_status()

    def kill(self) -> None:
        """End the command and every process of its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """End the command and close its pipe."""
        self.kill()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_S)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        # asyncio keeps the pipe open while output that is not wanted any more is unread.
        cast("asyncio.SubprocessTransport", vars(self._process)["_transport"]).close()

    def _exit_status(self) -> Mapping[str, Any]:
        status = self._process.returncode
        if status is not None and status < 0:
            return {"exitCode": None, "signal": signal.Signals(-status).name}
        return {"exitCode": status, "signal": None}

    async def _read(self) -> None:
        while data := await self._stdout.read(CHUNK):
            self._output.extend(data)
            self._is_truncated = cut_beginning(self._output, self._max_bytes) or self._is_truncated


def cut_beginning(output: bytearray, max_bytes: int) -> bool:
    """Keep at most the last `max_bytes` bytes, from the beginning of a character on; whether anything was cut."""
    excess = len(output) - max_bytes
    if excess <= 0:
        return False
    # Of a UTF-8 character, every byte but the first begins with the bits 10; there are at most three of these.
    for byte in output[excess : excess + 3]:
        if byte & 0xC0 != 0x80:
            break
        excess += 1
    del output[:excess]
    return True


class Terminals:
    """The terminals of one connection."""

    def __init__(self) -> None:
        self.created: Final[list[str]] = []
        self._open: Final[dict[str, Terminal]] = {}
        self._is_closed = False

    @property
    def unreleased(self) -> Sequence[str]:
        """The terminals that the agent created and has not released."""
        return list(self._open)

    def find(self, terminal_id: str) -> Terminal | None:
        """The terminal with this id, unless it was released."""
        return self._open.get(terminal_id)

    async def create(self, request: CreateTerminalRequest, cwd: str) -> str:
        """Run the command in a new terminal and return its id; raises `OSError` or `ValueError`."""
        if len(self._open) >= MAX_TERMINALS:
            raise ValueError(f"At most {MAX_TERMINALS} terminals can be open")
        command = [request.command, *request.args]
        if not request.args and shutil.which(request.command) is None:
            command = ["/bin/sh", "-c", request.command]  # many agents send a whole line, as editors run it
        environ = {**os.environ, **{variable.name: variable.value for variable in request.env}}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environ,
                cwd=request.cwd or cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise start_error(error, command[0], environ) from error
        limit = request.output_byte_limit
        terminal = Terminal(process, MAX_OUTPUT_BYTES if limit is None else min(limit, MAX_OUTPUT_BYTES))
        if self._is_closed:  # meanwhile
            await terminal.end()
            raise ValueError("The client is closed")
        terminal_id = f"accord-terminal-{len(self.created) + 1}"
        self._open[terminal_id] = terminal
        self.created.append(terminal_id)
        return terminal_id

    async def release(self, terminal_id: str) -> bool:
        """End the command and forget the terminal; whether there was one with this id."""
        terminal = self._open.pop(terminal_id, None)
        if terminal is not None:
            await terminal.end()
        return terminal is not None

    async def close(self) -> None:
        """End every command."""
        self._is_closed = True
        await asyncio.gather(*(terminal.end() for terminal in self._open.values()))
