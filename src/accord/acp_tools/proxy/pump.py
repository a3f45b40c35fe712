"""Move bytes between an editor and an agent, and carry out what the guard decides. Nothing is decided here.

Back-pressure comes from the pipes: nothing is read on one side before the other has taken what came before. The two
directions are independent, so an editor that does not read can still cancel. What passes is written in the chunks in
which it came, cut only at line ends, so that the proxy's own lines never fall into another line.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from accord.acp_tools.proxy.guard import Guard, LineDecision
from accord.acp_tools.trace.entries import ProxyFinding, Side
from accord.acp_tools.trace.writer import NoTrace, Trace
from accord.core.rpc import MAX_LINE_BYTES
from accord.stdio import Peer, Sink

CHUNK: Final = 256 * 1024
FINISH_S: Final = 10.0
"""How long the agent may go on after the editor closed its side."""
DRAIN_S: Final = 1.0
"""How long to wait for further output of an agent that has ended, or for an editor that does not read."""
STOP_S: Final = 2.0
"""How long an agent has to exit after a signal, or after its input was closed."""
KILL_S: Final = 0.3
"""The same for an agent that has ignored a signal already."""
SIGNALLED: Final = 128
RECORDED_BYTES: Final = 200
"""How much of an oversized line is recorded in the trace."""
DISCONNECTED: Final = (ConnectionError, BrokenPipeError, OSError)

Report = Callable[[Iterable[ProxyFinding]], None]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines with their ends; or, if not `whole`, a part of a line that is too long to be buffered."""

    data: bytes
    whole: bool = True
    begins: bool = True
    ends: bool = True


class BlockSplitter:
    """Split a stream into blocks of whole lines without losing a byte, in time linear in the bytes.

    Unlike `LineSplitter`, which reads messages, it keeps line ends, blank lines and invalid lines. A line beyond the
    limit comes in parts, so that it is never buffered as a whole.
    """

    __slots__ = ("_held", "_is_long", "_max_bytes", "_size")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._is_long = False

    def feed(self, data: bytes) -> list[Block]:
        """The blocks that these bytes complete."""
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
        """The rest, which has no line end: a peer may omit the last one."""
        rest = self._release(b"")
        return [Block(rest)] if rest else []

    def _release(self, last: bytes) -> bytes:
        held, self._held, self._size = self._held, [], 0
        return b"".join((*held, last)) if held else last


class EditorSink(Sink, Protocol):
    """A sink that can be flushed at the end."""

    async def finish(self) -> None:
        """Write everything that is buffered."""
        ...


@dataclass(frozen=True, slots=True)
class ProxyExit:
    """The agent's exit status as a shell reports it, and a message if the agent did not end as expected."""

    status: int
    message: str = ""


class Proxy:
    """One conversation between the editor on `reader` and `sink` and the agent that is `peer`."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        reader: asyncio.StreamReader,
        sink: EditorSink,
        peer: Peer,
        guard: Guard,
        *,
        trace: Trace | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self._reader: Final = reader
        self._sink: Final[EditorSink] = sink
        self._peer: Final = peer
        self._guard: Final = guard
        self._trace: Final[Trace] = trace or NoTrace()
        self._report: Final = report
        self._is_mid_line = False
        self._delayed: list[bytes] = []
        """Lines for the editor that wait for the end of the agent's current line."""
        self._is_dropping = False
        self._needs_drain = False
        self._is_editor_stalled = False
        self._chunks = 0
        self._stopped: Final = asyncio.Event()

    async def run(self) -> ProxyExit:
        """Forward both directions until either side ends or a signal arrives."""
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
                await asyncio.wait({ended}, timeout=STOP_S)
            elif not from_agent.done() and not ended.done():
                # The editor has closed its side; the agent may still be answering.
                last = (from_agent, ended, stopped)
                await asyncio.wait(last, timeout=FINISH_S, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await self._drain_agent(from_agent, stopped)
            status = await self._peer.end(KILL_S if stopped.done() else STOP_S)
            finishing = asyncio.create_task(self._sink.finish())
            await asyncio.wait((finishing, stopped), return_when=asyncio.FIRST_COMPLETED)
            # After a signal, an editor that does not read is not waited for any longer than this.
            await asyncio.wait({finishing}, timeout=DRAIN_S)
            finishing.cancel()
            await asyncio.gather(finishing, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._trace.flush()
        return _describe_exit(status, is_expected=is_expected)

    async def _drain_agent(self, from_agent: "asyncio.Task[None]", stopped: "asyncio.Task[bool]") -> None:
        """Forward the output of an agent that has ended, as long as more comes or the editor is slow.

        The pipe may stay open for longer, because a child process of the agent can hold it.
        """
        seen = -1
        while not from_agent.done() and not stopped.done() and (self._is_editor_stalled or seen != self._chunks):
            seen = self._chunks
            await asyncio.wait((from_agent, stopped), timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)

    def _stop(self, which: signal.Signals) -> None:
        self._stopped.set()
        # To the whole process group, since agents start processes of their own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._peer.process.pid, which)

    async def _pump_editor(self) -> None:
        splitter = BlockSplitter()
        with suppress(*DISCONNECTED):
            while data := await self._reader.read(CHUNK):
                await self._take_editor(splitter.feed(data))
            await self._take_editor(splitter.close())
        with suppress(*DISCONNECTED):
            self._peer.stdin.close()

    async def _pump_agent(self) -> None:
        splitter = BlockSplitter()
        with suppress(*DISCONNECTED):
            while data := await self._peer.stdout.read(CHUNK):
                await self._take_agent(splitter.feed(data))
            await self._take_agent(splitter.close())

    async def _take_editor(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.whole:
                self._take_part(block)
                continue
            forwarded = [self._carry_out(self._guard.decide(line), line) for line in _split_lines(block.data)]
            self._peer.stdin.write(b"".join(forwarded))
        self._trace.flush()
        await self._peer.stdin.drain()
        if self._needs_drain:
            self._needs_drain = False
            await self._sink.drain()

    def _carry_out(self, decision: LineDecision, line: bytes) -> bytes:
        """Save, record and reply; returns what goes to the agent."""
        try:
            for file in decision.files:
                Path(file.path).write_bytes(file.data)
        except OSError:
            decision = decision.if_not_saved or decision
        if self._trace.wants_lines and line.strip():
            self._record(decision, line)
        if decision.findings:
            self._report(decision.findings)
        if decision.reply:
            self._send_to_editor(decision.reply)
        return decision.forward

    def _record(self, decision: LineDecision, line: bytes) -> None:
        number = self._guard.number
        fate = "passed" if decision.forward == line else "adapted" if decision.forward else "refused"
        self._trace.add(number, Side.EDITOR, line, fate=fate, findings=decision.findings)
        for reply in decision.reply.splitlines():
            self._trace.add(number, Side.ACCORD, reply, fate="to editor")
        if decision.forward != line:
            for forwarded in decision.forward.splitlines():
                self._trace.add(number, Side.ACCORD, forwarded, fate="to agent")

    def _take_part(self, block: Block) -> None:
        """A part of an oversized line: all parts pass, or none."""
        if block.begins:
            decision = self._guard.decide_oversized(Side.EDITOR)
            self._is_dropping = bool(decision.reply)
            self._record_oversized(Side.EDITOR, block, decision)
            if decision.reply:
                self._send_to_editor(decision.reply)
        if not self._is_dropping:
            self._peer.stdin.write(block.data)

    def _record_oversized(self, side: Side, block: Block, decision: LineDecision) -> None:
        self._report(decision.findings)
        if self._trace.wants_lines:
            number, fate = self._guard.number, "refused" if decision.reply else "passed"
            self._trace.add(number, side, block.data[:RECORDED_BYTES], fate=fate, findings=decision.findings)
            if decision.reply:
                self._trace.add(number, Side.ACCORD, decision.reply, fate="to editor")

    async def _take_agent(self, blocks: list[Block]) -> None:
        self._chunks += 1
        for block in blocks:
            self._sink.write(block.data)
            self._is_mid_line = not block.ends
            if block.whole:
                self._check_agent(block.data.split(b"\n"))
            elif block.begins:
                self._record_oversized(Side.AGENT, block, self._guard.decide_oversized(Side.AGENT))
            if not self._is_mid_line and self._delayed:
                self._sink.write(b"".join(self._delayed))
                self._delayed.clear()
        self._trace.flush()
        self._is_editor_stalled = True
        await self._sink.drain()
        self._is_editor_stalled = False

    def _check_agent(self, lines: list[bytes]) -> None:
        if not self._trace.wants_lines:
            self._report(self._guard.check_agent(lines))
            return
        for checked in self._guard.check_agent_by_line(lines):
            if checked.is_plain:
                self._trace.add_plain(checked.number, checked.lines)
            else:
                self._report(checked.findings)
                self._trace.add(checked.number, Side.AGENT, checked.lines[0], findings=checked.findings)

    def _send_to_editor(self, line: bytes) -> None:
        """Send a line of the proxy, between two lines of the agent."""
        self._needs_drain = True
        if self._is_mid_line:
            self._delayed.append(line)
        else:
            self._sink.write(line)


def _describe_exit(status: int, *, is_expected: bool) -> ProxyExit:
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return ProxyExit(SIGNALLED - status, f"the agent was ended by {name}")
    if status:
        return ProxyExit(status, f"the agent ended with status {status}")
    return ProxyExit(0, "" if is_expected else "the agent ended while the editor was still connected")


def _split_lines(data: bytes) -> list[bytes]:
    """The lines with their ends; unlike in `splitlines`, a carriage return alone is not a line end."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    return [piece + b"\n" for piece in pieces] + ([last] if last else [])
