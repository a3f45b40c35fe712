"""Pump bytes between an editor and an agent, and do what the guard decides."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from accord.acp_tools.proxy.degrade import Save
from accord.acp_tools.proxy.guard import Guard, Step
from accord.acp_tools.trace.writer import NoTrace, ProxyFinding, Side, Trace
from accord.core.rpc import MAX_LINE_BYTES
from accord.stdio import Peer, Sink

# Cuts a stream into blocks of whole lines, and loses no byte of it: what comes out, put together, is what went in.
#
# Unlike `LineSplitter`, which reads messages, this serves who passes them on: line ends, blank lines and garbage
# stay. A line beyond the limit comes in parts, so that nobody has to hold it. What a line says is not known here.


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines with their ends; or, if not `whole`, a part of a line that is too long to be held."""

    data: bytes
    whole: bool = True
    begins: bool = True
    ends: bool = True


class BlockCutter:
    """The blocks of one stream. Takes time linear in the bytes, whatever they are."""

    __slots__ = ("_held", "_is_long", "_max_bytes", "_size")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._is_long = False

    def feed(self, data: bytes) -> list[Block]:
        """What these bytes complete."""
        blocks: list[Block] = []
        if self._is_long:
            end = data.find(b"\n") + 1
            self._is_long = not end
            blocks.append(Block(data[:end] if end else data, whole=False, begins=False, ends=bool(end)))
            data = data[end:] if end else b""
        if cut := data.rfind(b"\n") + 1:
            blocks.append(Block(self._release(data[:cut])))
            data = data[cut:]
        if data:
            self._held.append(data)
            self._size += len(data)
        if self._size > self._max_bytes:
            blocks.append(Block(self._release(b""), whole=False, ends=False))
            self._is_long = True
        return blocks

    def close(self) -> list[Block]:
        """What was begun and never ended: a peer may leave its last line end out."""
        rest = self._release(b"")
        return [Block(rest)] if rest else []

    def _release(self, last: bytes) -> bytes:
        held, self._held, self._size = self._held, [], 0
        return b"".join((*held, last)) if held else last


# Pumps bytes between an editor and an agent and does what the guard decides. Decides nothing itself.
#
# Back-pressure is the pipes' own: nothing is read on one side before the other has taken what came before. The two
# ways are held back apart from each other, so that an editor which does not read can still cancel. What passes is
# written in the pieces in which it came, cut only at line ends, so that our own lines never fall into somebody's.

CHUNK: Final = 256 * 1024
LAST_WORDS_S: Final = 10.0
DRAIN_S: Final = 1.0
POLITE_S: Final = 2.0
IMPATIENT_S: Final = 0.3
SIGNALLED: Final = 128
HEAD: Final = 200
GONE: Final = (ConnectionError, BrokenPipeError, OSError)

Report = Callable[[Iterable[ProxyFinding]], None]


class Way(Sink, Protocol):
    """What leads to the editor."""

    async def finish(self) -> None:
        """Have everything written."""
        ...


@dataclass(frozen=True, slots=True)
class ProxyExit:
    """The agent's exit status as a shell would give it, and how it came to it, if that is worth a line."""

    status: int
    message: str = ""


class Proxy:
    """One conversation between the editor on `reader` and `sink` and the agent that is `peer`."""

    def __init__(  # noqa: PLR0913 - the parts it is made of
        self,
        reader: asyncio.StreamReader,
        sink: Way,
        peer: Peer,
        guard: Guard,
        *,
        trace: Trace | None = None,
        folder: Path | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self._reader: Final = reader
        self._sink: Final[Way] = sink
        self._peer: Final = peer
        self._guard: Final = guard
        self._trace: Final[Trace] = trace or NoTrace()
        self._folder: Final = folder
        self._report: Final = report
        self._is_mid_line = False
        self._held: list[bytes] = []
        self._is_dropping = False
        self._has_answered = False
        self._is_held_back = False
        self._pieces = 0
        self._stopped: Final = asyncio.Event()

    async def run(self) -> ProxyExit:
        """Pump until either side ends, or a signal says so."""
        for which in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(which, self._stop, which)
        from_editor = asyncio.create_task(self._pump_editor())
        from_agent = asyncio.create_task(self._pump_agent())
        ended = asyncio.create_task(self._peer.process.wait())
        stopped = asyncio.create_task(self._stopped.wait())
        tasks = (from_editor, from_agent, ended, stopped)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_expected = stopped.done() or (from_editor.done() and not ended.done())
            if stopped.done():
                await asyncio.wait({ended}, timeout=POLITE_S)
            elif not from_agent.done() and not ended.done():
                # The editor is gone or has said all it wants; the agent may still be answering.
                last = (from_agent, ended, stopped)
                await asyncio.wait(last, timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await self._hear_out(from_agent, stopped)
            status = await self._peer.end(IMPATIENT_S if stopped.done() else POLITE_S)
            await self._finish(stopped)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._trace.flush()
        return _ended(status, is_expected=is_expected)

    async def _hear_out(self, from_agent: "asyncio.Task[None]", stopped: "asyncio.Task[bool]") -> None:
        """What it wrote is still in the pipe, which a child of its own may hold open; the editor takes its time."""
        seen = -1
        while not from_agent.done() and not stopped.done() and (self._is_held_back or seen != self._pieces):
            seen = self._pieces
            await asyncio.wait((from_agent, stopped), timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)

    async def _finish(self, stopped: "asyncio.Task[bool]") -> None:
        """Have everything written; who was told to stop waits a moment only for an editor that does not read."""
        finishing = asyncio.create_task(self._sink.finish())
        await asyncio.wait((finishing, stopped), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({finishing}, timeout=DRAIN_S)
        finishing.cancel()
        await asyncio.gather(finishing, return_exceptions=True)

    def _stop(self, which: signal.Signals) -> None:
        self._stopped.set()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._peer.process.pid, which)

    async def _pump_editor(self) -> None:
        cutter = BlockCutter()
        with suppress(*GONE):
            while data := await self._reader.read(CHUNK):
                await self._take_editor(cutter.feed(data))
            await self._take_editor(cutter.close())
        with suppress(*GONE):
            self._peer.stdin.close()

    async def _pump_agent(self) -> None:
        cutter = BlockCutter()
        with suppress(*GONE):
            while data := await self._peer.stdout.read(CHUNK):
                await self._take_agent(cutter.feed(data))
            await self._take_agent(cutter.close())

    async def _take_editor(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.whole:
                self._take_part(block)
                continue
            going = [self._do(self._guard.from_editor(line), line) for line in _lines(block.data)]
            self._peer.stdin.write(b"".join(going))
        self._trace.flush()
        await self._peer.stdin.drain()
        if self._has_answered:
            self._has_answered = False
            await self._sink.drain()

    def _do(self, step: Step, line: bytes) -> bytes:
        """Save, record, answer; gives what goes on to the agent."""
        if step.saves and not self._save(step.saves) and step.otherwise is not None:
            step = step.otherwise
        self._record(step, line)
        if step.findings:
            self._report(step.findings)
        if step.back:
            self._say(step.back)
        return step.forward

    def _record(self, step: Step, line: bytes) -> None:
        if not self._trace.wants_lines or not line.strip():
            return
        number = self._guard.number
        fate = "passed" if step.forward == line else "adapted" if step.forward else "refused"
        self._trace.add(number, Side.EDITOR, line, fate=fate, findings=step.findings)
        for told in (step.back, step.forward if step.forward != line else b""):
            for said in told.splitlines():
                self._trace.add(number, Side.ACCORD, said, fate="to editor" if told is step.back else "to agent")

    def _save(self, saves: Iterable[Save]) -> bool:
        if self._folder is None:
            return False
        try:
            for save in saves:
                (self._folder / save.name).write_bytes(save.data)
        except OSError:
            return False
        return True

    def _take_part(self, block: Block) -> None:
        """A piece of a line that is too long: all of it passes, or none."""
        if block.begins:
            step = self._guard.too_long(Side.EDITOR)
            self._is_dropping = bool(step.back)
            self._record_long(Side.EDITOR, block, step)
            if step.back:
                self._say(step.back)
        if not self._is_dropping:
            self._peer.stdin.write(block.data)

    def _record_long(self, side: Side, block: Block, step: Step) -> None:
        self._report(step.findings)
        if self._trace.wants_lines:
            number, fate = self._guard.number, "refused" if step.back else "passed"
            self._trace.add(number, side, block.data[:HEAD], fate=fate, findings=step.findings)
            if step.back:
                self._trace.add(number, Side.ACCORD, step.back, fate="to editor")

    async def _take_agent(self, blocks: list[Block]) -> None:
        self._pieces += 1
        for block in blocks:
            self._sink.write(block.data)
            self._is_mid_line = not block.ends
            if block.whole:
                self._watch(block.data.split(b"\n"))
            elif block.begins:
                self._record_long(Side.AGENT, block, self._guard.too_long(Side.AGENT))
            if not self._is_mid_line and self._held:
                self._sink.write(b"".join(self._held))
                self._held.clear()
        self._trace.flush()
        self._is_held_back = True
        await self._sink.drain()
        self._is_held_back = False

    def _watch(self, lines: list[bytes]) -> None:
        if not self._trace.wants_lines:
            self._report(self._guard.from_agent(lines))
            return
        for look in self._guard.looks_at_agent(lines):
            if look.is_plain:
                self._trace.add_plain(look.number, look.lines)
            else:
                self._report(look.findings)
                self._trace.add(look.number, Side.AGENT, look.lines[0], findings=look.findings)

    def _say(self, line: bytes) -> None:
        """Tell the editor something, between two lines of the agent's."""
        self._has_answered = True
        if self._is_mid_line:
            self._held.append(line)
        else:
            self._sink.write(line)


def _ended(status: int, *, is_expected: bool) -> ProxyExit:
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return ProxyExit(SIGNALLED - status, f"the agent was ended by {name}")
    if status:
        return ProxyExit(status, f"the agent ended with status {status}")
    return ProxyExit(0, "" if is_expected else "the agent ended while the editor was still there")


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends; a carriage return alone ends none."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    return [piece + b"\n" for piece in pieces] + ([last] if last else [])
