"""Pumps bytes between an editor and an agent and does what the guard decides. Decides nothing itself.

Back-pressure is the pipes' own: nothing is read on one side before the other has taken what came before. What passes is
written in the pieces in which it came, cut only at line ends, so that our own lines never fall into somebody's.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from accord.core.guard import Block, BlockCutter, Finding, Guard, Save, Side, Step
from accord.servers.proxy.trace import NoTrace, Trace
from accord.stdio import Peer, Sink

CHUNK: Final = 256 * 1024
LAST_WORDS_S: Final = 10.0
DRAIN_S: Final = 1.0
SIGNALLED: Final = 128
GONE: Final = (ConnectionError, BrokenPipeError, OSError)

Report = Callable[[Iterable[Finding]], None]


class Proxy:
    """One conversation between the editor on `reader` and `sink` and the agent that is `peer`."""

    def __init__(  # noqa: PLR0913 - the parts it is made of
        self,
        reader: asyncio.StreamReader,
        sink: Sink,
        peer: Peer,
        guard: Guard,
        *,
        trace: Trace | None = None,
        folder: Path | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self._reader: Final = reader
        self._sink: Final = sink
        self._peer: Final = peer
        self._guard: Final = guard
        self._trace: Final[Trace] = trace or NoTrace()
        self._folder: Final = folder
        self._report: Final = report
        self._is_mid_line = False
        self._held: list[bytes] = []
        self._is_dropping = False

    async def run(self) -> int:
        """Pump until either side ends; gives the agent's exit status as a shell would."""
        for which in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(which, self._pass_on, which)
        from_editor = asyncio.create_task(self._pump_editor())
        from_agent = asyncio.create_task(self._pump_agent())
        ended = asyncio.create_task(self._peer.process.wait())
        try:
            await asyncio.wait({from_editor, from_agent, ended}, return_when=asyncio.FIRST_COMPLETED)
            if from_editor.done() and not from_agent.done():
                # The editor is gone or has said all it wants; the agent may still be answering.
                await asyncio.wait({from_agent, ended}, timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                # What it wrote is still in the pipe, which a child of its own may hold open.
                await asyncio.wait({from_agent}, timeout=DRAIN_S)
            status = await self._peer.end()
        finally:
            for task in (from_editor, from_agent, ended):
                task.cancel()
            await asyncio.gather(from_editor, from_agent, ended, return_exceptions=True)
            self._trace.flush()
        return status if status >= 0 else SIGNALLED - status

    def _pass_on(self, which: signal.Signals) -> None:
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
        await self._sink.drain()
        await self._peer.stdin.drain()

    def _do(self, step: Step, line: bytes) -> bytes:
        """Save, record, answer; gives what goes on to the agent."""
        findings = step.findings
        if step.saves and not self._save(step.saves) and step.otherwise is not None:
            step = step.otherwise
        self._record(step, line, findings)
        if findings:
            self._report(findings)
        if step.back:
            self._say(step.back)
        return step.forward

    def _record(self, step: Step, line: bytes, findings: tuple[Finding, ...]) -> None:
        if not self._trace.wants_lines or not line.strip():
            return
        number = self._guard.number
        fate = "passed" if step.forward == line else "adapted" if step.forward else "refused"
        self._trace.add(number, Side.EDITOR, line, fate=fate, findings=findings)
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
            self._report(step.findings)
            if step.back:
                self._say(step.back)
        if not self._is_dropping:
            self._peer.stdin.write(block.data)

    async def _take_agent(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._sink.write(block.data)
            self._is_mid_line = not block.ends
            if block.whole:
                self._watch(block.data.split(b"\n"))
            elif block.begins:
                self._report(self._guard.too_long(Side.AGENT).findings)
            if not self._is_mid_line and self._held:
                self._sink.write(b"".join(self._held))
                self._held.clear()
        self._trace.flush()
        await self._sink.drain()

    def _watch(self, lines: list[bytes]) -> None:
        # With a trace every line needs its own number and findings; without one, compiled code runs over the block.
        for some in ([line] for line in lines) if self._trace.wants_lines else (lines,):
            findings = self._guard.from_agent(some)
            if findings:
                self._report(findings)
            if self._trace.wants_lines and some[0].strip():
                self._trace.add(self._guard.number, Side.AGENT, some[0], findings=findings)

    def _say(self, line: bytes) -> None:
        """Tell the editor something, between two lines of the agent's."""
        if self._is_mid_line:
            self._held.append(line)
        else:
            self._sink.write(line)


def _lines(data: bytes) -> list[bytes]:
    """Lines with their ends; a carriage return alone ends none."""
    pieces = data.split(b"\n")
    last = pieces.pop()
    return [piece + b"\n" for piece in pieces] + ([last] if last else [])
