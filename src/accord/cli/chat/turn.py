"""Run one turn: what happens in the background comes to the main thread as events of one queue, Ctrl-C among them."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import IO, Any, Final, Protocol, cast
from uuid import UUID

from accord.cli.chat.connection import Connection
from accord.client import AsyncClient, Stream
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.wire.packet import AnyPacket, ErrorPacket, StreamError

try:
    import termios
except ImportError:  # Windows
    termios = None

CANCEL_S: Final = 5.0
CANCEL_AGAIN_S: Final = 0.2
"""How long to try to stop a turn at the service, and how long to wait for one that has not begun there yet."""
SIGNALS: Final = [signal.SIGINT, *([signal.SIGCONT] if hasattr(signal, "SIGCONT") else [])]
OpenStream = Callable[[AsyncClient], Stream]


class Output(Protocol):
    """Shows a turn: `ScreenOutput` or `PlainOutput`."""

    @property
    def wait_s(self) -> float | None:
        """The seconds until `draw` is to be called."""
        ...

    def begin(self, *, is_markdown: bool) -> None:
        """Begin an answer, whose text is markdown or not."""
        ...

    def feed(self, packet: AnyPacket) -> None:
        """Show a packet."""
        ...

    def end(self) -> None:
        """Finish the answer."""
        ...

    def show_status(self, text: str) -> None:
        """Show this until something else takes its place."""
        ...

    def note(self, text: str, style: str = ...) -> None:
        """Print a line for the user."""
        ...

    def show_printed(self, text: str) -> None:
        """Print what an agent in this process printed."""
        ...

    def go_on_below(self) -> None:
        """Draw below what another program has written."""
        ...

    def draw(self) -> None:
        """Draw what has changed."""
        ...


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user pressed Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The command was suspended with Ctrl-Z and goes on."""


@dataclass(frozen=True, slots=True)
class Reconnecting:
    """The connection was lost, and is made again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PrintedText:
    """An agent in this process printed something."""

    text: str


@dataclass(frozen=True, slots=True)
class CancelFailed:
    """The turn could not be stopped at the service."""

    why: str


Event = AnyPacket | Interrupted | Resumed | Reconnecting | PrintedText | CancelFailed | Future[None]
"""The future is that of the task which reads the turn, and comes last."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended: the error that ended it, if any, and whether the user wanted to stop it."""

    error: AccordError | StreamError | None = None
    is_stopped: bool = False
    note: str = ""
    """What became of that, for the user."""
    has_ended: bool = True
    """Whether the turn has ended at the service, as far as is known."""


class PrintedStream:
    """A text stream for what an agent prints: shown above the answer while a turn runs, written at once otherwise."""

    def __init__(self, file: IO[str]) -> None:
        self._file: Final = file
        self.events: SimpleQueue[Event] | None = None
        """The events of the turn that runs."""

    def write(self, text: str) -> int:
        """Pass the text on."""
        if self.events is not None:
            self.events.put(PrintedText(text))
        else:
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what was buffered."""
        self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class TurnRunner:
    """Runs turns one after the other."""

    def __init__(self, output: Output) -> None:
        self._output: Final = output
        self.printed: Final = PrintedStream(sys.stderr)

    async def wait(self, seconds: float) -> None:
        """Wait before the client connects again, and say so."""
        if self.printed.events is not None:
            self.printed.events.put(Reconnecting(seconds))
        await asyncio.sleep(seconds)

    def run(
        self, connection: Connection, request_id: UUID, open_stream: OpenStream, *, is_markdown: bool
    ) -> TurnResult:
        """Read a turn to its end. Ctrl-C stops it, also at the service; a second one raises `KeyboardInterrupt`."""
        turn, printed = _RunningTurn(self._output, connection, request_id), cast("IO[str]", self.printed)
        handlers = {number: signal.signal(number, turn.handle_signal) for number in SIGNALS}
        self.printed.events = turn.events
        try:
            with redirect_stdout(printed), redirect_stderr(printed), without_echo():
                self._output.begin(is_markdown=is_markdown)
                try:
                    return turn.read(open_stream)
                finally:
                    self._output.end()
        finally:
            self.printed.events = None
            for number, handler in handlers.items():
                signal.signal(number, handler)


class _RunningTurn:
    """One turn: takes its events one by one. Each turn has a queue of its own, so that none gets those of another."""

    def __init__(self, output: Output, connection: Connection, request_id: UUID) -> None:
        self.events: Final[SimpleQueue[Event]] = SimpleQueue()
        self._output: Final = output
        self._connection: Final = connection
        self._request_id: Final = request_id
        self._error: StreamError | None = None
        self._is_stopped = self._was_lost = False

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C, and the end of Ctrl-Z."""
        del frame
        # Safe in a signal handler, unlike that of `Queue`.
        self.events.put(Interrupted() if number == signal.SIGINT else Resumed())

    def read(self, open_stream: OpenStream) -> TurnResult:
        async def read(client: AsyncClient) -> None:
            async with open_stream(client) as stream:
                async for packet in stream.packets():
                    self.events.put(packet)

        reading = self._connection.start(read)
        reading.add_done_callback(self.events.put)
        try:
            while True:
                try:
                    event = self.events.get(timeout=self._output.wait_s)
                except Empty:
                    self._output.draw()
                    continue
                if (end := self._handle(event)) is not None:
                    return end
        finally:
            reading.cancel()

    def _handle(self, event: Event) -> TurnResult | None:
        match event:
            case Interrupted():
                self._stop()
            case Resumed():
                self._output.go_on_below()
            case CancelFailed(why):
                note = f"Stopped reading, but the turn may go on at the service: {why}"
                return TurnResult(is_stopped=True, note=note, has_ended=False)
            case Reconnecting(seconds):
                self._was_lost = True
                self._output.show_status(f"The connection was lost; trying again in {seconds:.1f} s")
            case PrintedText(text):
                self._output.show_printed(text)
            case Future() as reading:
                error = self._error or _failure_of(reading)
                note = "Stopped." if error is not None else "It ended before it could be stopped."
                return TurnResult(error, self._is_stopped, note if self._is_stopped else "")
            case packet:
                self._take(packet)
        return None

    def _take(self, packet: AnyPacket) -> None:
        if self._was_lost:
            self._was_lost = False
            self._output.show_status("")
            self._output.note("The connection was lost; the answer continues.")
        if isinstance(packet, ErrorPacket):
            self._error = packet.p
            if self._is_stopped and packet.p.code == ErrorCode.CANCELLED:
                return  # as the user wanted
        self._output.feed(packet)

    def _stop(self) -> None:
        if self._is_stopped:
            raise KeyboardInterrupt
        self._is_stopped = True
        self._output.show_status("Stopping; Ctrl-C again leaves")
        self._connection.start(self._cancel)

    async def _cancel(self, client: AsyncClient) -> None:
        try:
            async with asyncio.timeout(CANCEL_S):
                while not await self._is_cancelled(client):  # noqa: ASYNC110 - there is no event for this
                    await asyncio.sleep(CANCEL_AGAIN_S)
        except TimeoutError:
            self.events.put(CancelFailed(f"it did not answer within {CANCEL_S:g} s"))
        except AccordError as error:
            self.events.put(CancelFailed(error.message))

    async def _is_cancelled(self, client: AsyncClient) -> bool:
        """Cancel the turn; False if the service does not have it yet, because the request is still on its way."""
        try:
            await client.cancel(self._request_id)
        except RefusedError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return False
            if error.code is not ErrorCode.REQUEST_CONFLICT:  # which means that it has ended meanwhile
                raise
        return True


def _failure_of(reading: "Future[None]") -> AccordError | None:
    error = None if reading.cancelled() else reading.exception()
    if error is None or isinstance(error, AccordError):
        return error
    raise error


@contextmanager
def without_echo() -> Generator[None]:
    """Do not echo what is typed on the terminal: it would appear in the middle of the answer. It is read afterwards."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
