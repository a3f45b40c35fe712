"""Move bytes between an editor and an agent, and carry out what the guard decides. Nothing is decided here.

Back-pressure comes from the pipes: nothing is read on one side before the other has taken what came before. The two
directions are independent, so an editor that does not read can still cancel. What passes is written in the chunks in
which it came, cut only at line ends, so that the proxy's own lines never fall into another line.

When the agent ends, every request of the editor that it has not answered gets an error, after the agent's last line.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from accord.acp_tools.proxy.guard import CheckedBlock, Guard, LineDecision, ProxyFinding, Side
from accord.acp_tools.proxy.log import ProxyLog
from accord.core.rpc import MAX_LINE_BYTES
from accord.stdio import Peer, Sink

CHUNK: Final = 256 * 1024
FINISH_S: Final = 10.0
"""How long the agent may go on after the editor closed its side."""
DRAIN_S: Final = 1.0
"""How long to wait for further output of an agent that has ended, or for an editor that does not read."""
STOP_S: Final = 2.0
"""How long an agent has to exit after a signal, or after its input was closed."""
IDLE_S: Final = 0.05
"""How long the editor must be silent after the agent has ended before its requests count as read."""
KILL_S: Final = 0.3
"""The same for an agent that has ignored a signal already."""
SIGNALLED: Final = 128
LOGGED_BYTES: Final = 200
"""How much of an oversized line is logged."""
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
        log: ProxyLog | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self._reader: Final = reader
        self._sink: Final[EditorSink] = sink
        self._peer: Final = peer
        self._guard: Final = guard
        self._log: Final = log
        self._report: Final = report
        self._is_mid_line = False
        self._delayed: list[bytes] = []
        """Lines for the editor that wait for the end of the agent's current line."""
        self._is_dropping = False
        self._needs_drain = False
        self._is_editor_stalled = False
        self._is_editor_gone = False
        self._editor_chunks = 0
        self._agent_chunks = 0
        self._ending = ""
        """Why no request is answered any more; empty while the agent runs."""
        self._is_deaf: Final = asyncio.Event()
        """Set when the agent does not read any more."""
        self._stopped: Final = asyncio.Event()

    async def run(self) -> ProxyExit:
        """Forward both directions until either side ends or a signal arrives."""
        for which in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(which, self._stop, which)
        from_editor = asyncio.create_task(self._pump_editor())
        from_agent = asyncio.create_task(self._pump_agent())
        ended = asyncio.create_task(self._peer.process.wait())
        stopped = asyncio.create_task(self._stopped.wait())
        deaf = asyncio.create_task(self._is_deaf.wait())
        tasks = (from_editor, from_agent, ended, stopped, deaf)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            is_expected = stopped.done() or self._is_editor_gone or (from_editor.done() and not ended.done())
            if stopped.done():
                await asyncio.wait({ended}, timeout=STOP_S)
            elif not from_agent.done() and not ended.done():
                # The editor has closed its side, or the agent its input; the agent may still be answering.
                last = (from_agent, ended, stopped)
                await asyncio.wait(last, timeout=FINISH_S, return_when=asyncio.FIRST_COMPLETED)
            if from_agent.done() and not is_expected:
                # A program that exits closes its output first, and its status says more.
                await asyncio.wait((ended, stopped), timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await self._drain_agent(from_agent, stopped)
            is_ended_by_proxy = not ended.done() and not is_expected
            status = await self._peer.end(KILL_S if stopped.done() else STOP_S)
            ending = _describe_exit(status, is_expected=is_expected, is_ended_by_proxy=is_ended_by_proxy)
            from_agent.cancel()
            if not from_editor.done() and not self._is_editor_gone:
                await self._fail_requests(from_editor, ending.message or "the agent ended")
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
            self._flush_log()
        return ending

    async def _drain_agent(self, from_agent: "asyncio.Task[None]", stopped: "asyncio.Task[bool]") -> None:
        """Forward the output of an agent that has ended, as long as more comes or the editor is slow.

        The pipe may stay open for longer, because a child process of the agent can hold it.
        """
        seen = -1
        while not from_agent.done() and not stopped.done() and (self._is_editor_stalled or seen != self._agent_chunks):
            seen = self._agent_chunks
            await asyncio.wait((from_agent, stopped), timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)

    async def _fail_requests(self, from_editor: "asyncio.Task[None]", ending: str) -> None:
        """Answer each pending request with an error, and those that are still arriving."""
        self._ending = f"{ending[0].upper()}{ending[1:]}; it did not answer this request"
        if self._is_mid_line:
            self._sink.write(b"\n")
            self._is_mid_line = False
        self._write_delayed()
        self._fail_pending()
        # Requests that were sent before the editor could know of this; bounded, because an editor may send without end.
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                seen = -1
                while not from_editor.done() and seen != self._editor_chunks:
                    seen = self._editor_chunks
                    await asyncio.wait({from_editor}, timeout=IDLE_S)

    def _fail_pending(self) -> None:
        for line in self._guard.fail_pending(self._ending).splitlines(keepends=True):
            if self._log is not None:
                self._log.add(self._guard.number, Side.ACCORD, line, to=Side.EDITOR)
            self._send_to_editor(line)

    def _flush_log(self) -> None:
        if self._log is not None:
            self._log.flush()

    def _write_delayed(self) -> None:
        if self._delayed:
            self._sink.write(b"".join(self._delayed))
            self._delayed.clear()

    def _stop(self, which: signal.Signals) -> None:
        self._stopped.set()
        # To the whole process group, since agents start processes of their own.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._peer.process.pid, which)

    async def _pump_editor(self) -> None:
        splitter = BlockSplitter(self._guard.limits.max_line_bytes)
        with suppress(*DISCONNECTED):
            while data := await self._reader.read(CHUNK):
                self._editor_chunks += 1
                await self._take_editor(splitter.feed(data))
            await self._take_editor(splitter.close())
        with suppress(*DISCONNECTED):
            self._peer.stdin.close()

    async def _pump_agent(self) -> None:
        splitter = BlockSplitter(self._guard.limits.max_line_bytes)
        with suppress(*DISCONNECTED):
            while data := await self._peer.stdout.read(CHUNK):
                await self._take_agent(splitter.feed(data))
            await self._take_agent(splitter.close())
            return
        self._is_editor_gone = True

    async def _take_editor(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.whole:
                self._take_part(block)
                continue
            forwarded = [self._carry_out(self._guard.decide(line), line) for line in _split_lines(block.data)]
            self._send_to_agent(b"".join(forwarded))
        if self._ending:
            self._fail_pending()
        self._flush_log()
        try:
            await self._peer.stdin.drain()
        except DISCONNECTED:
            # Its requests are still read, to be answered with an error when the agent has ended.
            self._is_deaf.set()
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
            self._guard.forget_refused(decision.reply)
        self._record(Side.EDITOR, line, decision)
        if decision.reply:
            self._send_to_editor(decision.reply)
        return decision.forward

    def _record(self, side: Side, data: bytes, decision: LineDecision, most: int | None = None) -> None:
        """Report and log what was decided about these bytes, of which at most so many are logged."""
        self._report(decision.findings)
        if self._log is None:
            return
        number, passes = self._guard.number, decision.forward == data
        outcome = "passed" if passes else "adapted" if decision.forward else "refused"
        self._log.add(number, side, data[:most], outcome, decision.findings)
        self._log.add(number, Side.ACCORD, decision.reply, to=Side.EDITOR)
        if not passes:
            self._log.add(number, Side.ACCORD, decision.forward, to=Side.AGENT)

    def _take_part(self, block: Block) -> None:
        """A part of an oversized line: all parts pass, or none."""
        if block.begins:
            decision = self._guard.decide_oversized(Side.EDITOR, block.data)
            self._is_dropping = decision.forward is not block.data
            self._record(Side.EDITOR, block.data, decision, LOGGED_BYTES)
            self._send_to_agent(decision.forward)
            if decision.reply:
                self._send_to_editor(decision.reply)
        elif not self._is_dropping:
            self._send_to_agent(block.data)

    async def _take_agent(self, blocks: list[Block]) -> None:
        self._agent_chunks += 1
        for block in blocks:
            if block.begins and not block.whole:
                self._record(Side.AGENT, block.data, self._guard.decide_oversized(Side.AGENT, block.data), LOGGED_BYTES)
            self._sink.write(self._check_agent(block.data) if block.whole else block.data)
            self._is_mid_line = not block.data.endswith(b"\n")
            if not self._is_mid_line:
                self._write_delayed()
        self._flush_log()
        self._is_editor_stalled = True
        await self._sink.drain()
        self._is_editor_stalled = False

    def _check_agent(self, data: bytes) -> bytes:
        """Check and log these lines of the agent; returns what goes to the editor."""
        lines, number = data.split(b"\n"), self._guard.number
        block = self._guard.check_agent(lines)
        self._report(block.findings)
        if self._log is not None:
            _log_agent(self._log, lines, number, block)
        if not block.rewritten:
            return data
        return b"\n".join([block.rewritten.get(index, line) for index, line in enumerate(lines)])

    def _send_to_agent(self, data: bytes) -> None:
        if not self._peer.stdin.is_closing():  # otherwise draining fails, and the proxy knows
            self._peer.stdin.write(data)

    def _send_to_editor(self, line: bytes) -> None:
        """Send a line of the proxy, between two lines of the agent."""
        self._needs_drain = True
        if self._is_mid_line:
            self._delayed.append(line)
        else:
            self._sink.write(line)


def _describe_exit(status: int, *, is_expected: bool, is_ended_by_proxy: bool) -> ProxyExit:
    code = SIGNALLED - status if status < 0 else status
    if is_ended_by_proxy:
        return ProxyExit(code, "the agent closed its input or output without ending")
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return ProxyExit(code, f"the agent was ended by {name}")
    if status:
        return ProxyExit(code, f"the agent ended with status {status}")
    return ProxyExit(code, "" if is_expected else "the agent ended while the editor was still connected")


def _log_agent(log: ProxyLog, lines: list[bytes], number: int, block: CheckedBlock) -> None:
    """Log these lines of the agent, which follow the message of this number."""
    findings: dict[int, list[ProxyFinding]] = {}
    for finding in block.findings:
        findings.setdefault(finding.number, []).append(finding)
    for index, line in enumerate(lines):
        if line.strip():
            number += 1
            changed = block.rewritten.get(index, b"")
            log.add(number, Side.AGENT, line, "adapted" if changed else "passed", findings.get(number, ()))
            log.add(number, Side.ACCORD, changed, to=Side.EDITOR)


def _split_lines(data: bytes) -> list[bytes]:
    """The lines with their ends; unlike in `splitlines`, a carriage return alone is not a line end."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    return [piece + b"\n" for piece in pieces] + ([last] if last else [])
