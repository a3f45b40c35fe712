"""The adapter: a live stream of packets and one client's declaration in, the packets that client can show out.

Pure and synchronous: no I/O, no clock, no dice. It decides *when* things appear; *what* stands for an event is
decided in `place`, and where the text may be interrupted in `boundary`.

Order. Text passes as it comes. Sources, media, blocks and events of the agent's own wait until the text before them is
out: at once where text passes untouched, else at the end of the block being written. Words of ours always wait for the
end of a block, so that no sentence and no code is broken. Progress and `user_error` overtake: sent as events they go
at once; told as text they go before everything that waits, also at a line that ends a sentence if the client reads
markdown. An error packet ends the stream, so everything that waits goes out before it, and so it does at the close.

Strictness. With `min_fidelity`, an event below that rung ends the stream: what waits goes out, then an error that says
what was available; whatever the agent still sends is recorded as refused and only the close passes. Failures, ticks,
thoughts, what its author gave a low priority and what the client asked for itself (smaller pictures) are never refused.
"""

from collections.abc import Mapping
from typing import Any, Final, assert_never, cast

from accord.core.output.describe import IN_ENGLISH, Catalogue, Pen
from accord.core.output.event_parser import Item, Priority, read_event
from accord.core.output.insertion import AdaptLimits, Boundary, Deferred, Waiter, WaitingRoom, estimate_chars
from accord.core.output.ladder import Client, Outcome, ProgressGate, may_reencode_images, place, refusal
from accord.core.output.media import ImageShrinker
from accord.core.output.profile import TextForm, profile_client
from accord.core.output.report import Ledger
from accord.core.output.text import MAX_UNREAD, MAX_UNREAD_CHARS, TextChannel
from accord.errors import UsageError
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import AdaptationReport, Rung
from accord.wire.event import PresentationEventType, ProgressUpdate
from accord.wire.message import as_model
from accord.wire.packet import AnyPacket, ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket
from accord.wire.request import ClientCapabilities, SpeechFormat

REPORT_EVENT: Final = "adaptation_report"
"""The one event of Accord's own: the account, for clients that declare it."""

USUAL: Final = AdaptLimits()
DELIVERED: Final = Outcome(Rung.NATIVE, Reason.ALWAYS_DELIVERED)

PACKETS: Final = frozenset(StreamPacket.kinds.values())
PACKET: Final = """{"op": "delta", "p": "Hello"}"""
CAPABILITIES: Final = """{"supported_events": [], "prefers_markdown": False}"""
"""What a dict for each argument looks like, for the message of a wrong call."""

OVERTAKING: Final = frozenset({PresentationEventType.PROGRESS_INDICATOR, PresentationEventType.USER_ERROR})


class ClientAdapter:
    """Turns one stream into what one client can show, and keeps the account."""

    def __init__(
        self,
        declared: ClientCapabilities | Mapping[str, Any] | None = None,
        *,
        messages: Mapping[str, str] | None = None,
        images: ImageShrinker | None = None,
        limits: AdaptLimits | None = None,
    ) -> None:
        if declared is not None:
            declared = as_model(ClientCapabilities, declared, "declared", CAPABILITIES)
        self._limits: Final = limits or USUAL
        self._declared: Final = declared
        self._profile: Final = profile_client(declared)
        ssml = declared is not None and declared.speech_format is SpeechFormat.SSML
        speaks = self._profile.text is TextForm.SPEECH
        catalogue = Catalogue(messages) if messages else IN_ENGLISH
        self._pen: Final = Pen(self._profile.text, catalogue, ssml=ssml and speaks)
        self._client: Final = Client(self._profile, self._pen, images)
        self._channel: Final = TextChannel(self._pen)
        self._unread: Final = self._channel.unread
        self._ledger: Final = Ledger(self._limits.max_entries)
        self._waiting: Final = WaitingRoom(self._limits)
        self._deferred: Final = Deferred(self._limits)
        self._progress: Final = ProgressGate()
        self._noticed: Final[set[str]] = set()
        self._out: list[StreamPacket] = []
        self._is_ended = False
        self._is_closed = False
        self._flows = False

    @property
    def report(self) -> AdaptationReport:
        """The account of everything fed so far."""
        return AdaptationReport.model_validate({**self.report_json(), "declared": self._declared})

    def report_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        declared = {"declared": self._declared.dump()} if self._declared else {}
        return {**declared, "assumed": list(map(str, self._profile.assumed)), **self._ledger.members(self._channel)}

    @property
    def deferred(self) -> Mapping[str, dict[str, Any]]:
        """What could not be shown, by the id that the notice names."""
        return self._deferred.events

    def may_reencode_images(self, packet: StreamPacket) -> bool:
        """Whether feeding this packet may re-encode pictures: work for a thread, where others wait for this one."""
        return isinstance(packet, EventPacket) and not self._is_ended and may_reencode_images(packet.p, self._client)

    def feed(self, packet: StreamPacket | Mapping[str, Any]) -> list[StreamPacket]:
        """The packets that go out for this one."""
        if self._flows and type(packet) is DeltaPacket:
            text = packet.p
            self._unread.append(text)
            if len(self._unread) >= MAX_UNREAD or len(text) > MAX_UNREAD_CHARS:
                self._channel.catch_up()
            return [packet]
        if self._is_closed:
            raise UsageError("The stream is closed: nothing can be fed after it")
        # By class, not by isinstance: pydantic's instance check costs more than adapting a delta does.
        if packet.__class__ not in PACKETS:
            packet = as_model(StreamPacket, packet, "packet", PACKET)
        self._take(cast("AnyPacket", packet))
        return self._sent()

    def close(self) -> list[StreamPacket]:
        """Everything that still waits; a second call gives nothing."""
        if not self._is_closed:
            self._release()
            self._is_closed = True
        return self._sent()

    def _sent(self) -> list[StreamPacket]:
        out, self._out = self._out, []
        idle = not self._waiting and not self._channel.margin.owed and not self._is_ended and not self._is_closed
        # Nothing waits, nothing is owed: the next delta passes as it is. The first one is looked at, for the account.
        self._flows = idle and self._channel.is_untouched and self._channel.deltas > 0
        return out

    def _take(self, packet: AnyPacket) -> None:
        match packet:
            case DeltaPacket():
                self._take_text(packet)
            case EventPacket():
                self._take_event(packet)
            case ErrorPacket():
                self._take_error(packet)
            case ClosePacket():
                self._release()
                self._write_packet("close")
                self._is_closed = True
                self._tell_the_account()
                self._out.append(packet)
            case _:
                assert_never(packet)

    def _tell_the_account(self) -> None:
        """Send the report to a client that declared it; to nobody else, whatever was assumed of them."""
        if self._profile.shows(REPORT_EVENT):
            self._out.append(EventPacket(p={"type": REPORT_EVENT, "data": self.report_json()}))

    def _take_text(self, packet: DeltaPacket) -> None:
        if self._is_ended:
            self._ledger.refuse_delta()
            return
        self._ledger.text_begins()
        if not self._waiting:
            self._say(self._channel.feed(packet.p), packet)
            return
        said = ""
        for piece in self._channel.feed_lines(packet.p):
            said += piece
            if self._waiting and self._waiting.is_due(boundary := self._channel.boundary):
                self._say(said)
                said = ""
                self._seat(boundary)
        self._say(said)

    def _take_error(self, packet: ErrorPacket) -> None:
        if self._is_ended:
            self._write_packet("error", Outcome(Rung.REFUSED, Reason.STREAM_ENDED))
            return
        self._release()
        self._write_packet("error")
        self._out.append(packet)

    def _take_event(self, packet: EventPacket) -> None:
        item = read_event(packet.p, self._ledger.ordinal)
        if self._is_ended:
            self._write(item, Outcome(Rung.REFUSED, Reason.STREAM_ENDED, lost=("data",)))
            return
        outcome = self._within_limits(item, place(item, self._client))
        minimum = self._declared.min_fidelity if self._declared else None
        if minimum and (error := refusal(item, outcome, minimum, self._profile)):
            self._refuse(item, error)
        elif outcome.event is not None:
            # What is shown as it was sent is the very packet that came.
            self._show(item, outcome, packet if outcome.event is packet.p else EventPacket(p=outcome.event))
        elif outcome.text:
            self._tell(item, outcome)
        elif outcome.rung is Rung.DEFERRED:
            self._defer(item, outcome)
        else:
            self._write(item, outcome)

    def _show(self, item: Item, outcome: Outcome, packet: EventPacket) -> None:
        if isinstance(item.payload, ProgressUpdate) and outcome.rung is Rung.NATIVE:
            self._show_progress(item, item.payload, packet)
            return
        self._write(item, outcome)
        weight = 0 if self._may_go(item) else estimate_chars(packet.p, self._limits.max_waiting_chars)
        if weight and self._waiting.has_room(weight):
            self._waiting.add(Waiter(packet=packet, weight=weight))
        else:
            # Also where there is no room: out of its place is better than lost.
            self._out.append(packet)

    def _may_go(self, item: Item) -> bool:
        """Whether an event may go at once: it overtakes, or all the text before it is out and nobody waits."""
        if item.known in OVERTAKING:
            return True
        return not self._waiting and (self._channel.is_untouched or self._channel.boundary is Boundary.BLOCK)

    def _show_progress(self, item: Item, update: ProgressUpdate, packet: EventPacket) -> None:
        if self._progress.passes(update, packet.p):
            self._write(item, Outcome(Rung.NATIVE, Reason.SUPPORTED))
            self._out.append(packet)
            return
        entry = self._write(item, Outcome(Rung.SIMPLIFIED, Reason.COALESCED, lost=("data",)))
        self._progress.hold(update.label, packet, entry)

    def _within_limits(self, item: Item, outcome: Outcome) -> Outcome:
        """What can be told now or may wait; what finds no room to wait is deferred."""
        if not outcome.text or self._waiting.has_room(len(outcome.text), failure=item.is_failure):
            return outcome
        if self._channel.boundary is Boundary.BLOCK:
            return outcome
        return Outcome(Rung.DEFERRED, Reason.LIMIT_REACHED, lost=("data",))

    def _tell(self, item: Item, outcome: Outcome) -> None:
        self._write(item, outcome)
        self._wait(outcome.text, urgent=item.is_failure or item.hooks.priority is Priority.HIGH)

    def _defer(self, item: Item, outcome: Outcome) -> None:
        key = self._deferred.keep(item.id, self._ledger.ordinal, item.event)
        if key is None:
            self._write(item, Outcome(Rung.DROPPED, Reason.LIMIT_REACHED, lost=("data",)))
            self._notice("deferred_full", "")
            return
        self._write(item, outcome, key)
        about = key if item.hooks.priority is Priority.HIGH else item.marker.lower()
        self._notice("deferred", about, type=item.marker, id=key)

    def _notice(self, message: str, about: str, **parameters: str) -> None:
        """Tell once for every type that something was kept, and once that no more can be."""
        if (message + about) in self._noticed:
            return
        self._noticed.add(message + about)
        quoted = {name: self._pen.quote(value) for name, value in parameters.items()}
        spoken = "_spoken" if self._pen.speaks else ""
        self._wait(self._pen.finish(self._pen.tell(message + spoken, **quoted)))

    def _wait(self, text: str, *, urgent: bool = False) -> None:
        self._waiting.add(Waiter(text=text, urgent=urgent, weight=len(text)))
        self._seat(self._channel.boundary)

    def _seat(self, boundary: Boundary) -> None:
        """Let out those whose time has come."""
        for waiter in self._waiting.leave(boundary):
            if waiter.packet is not None:
                self._out.append(waiter.packet)
            else:
                self._say(self._channel.margin.block(waiter.text))

    def _release(self) -> None:
        """Everything that is held back or waits, in order: text, what waits for it, the last ticks."""
        self._say(self._channel.close(closing_code=self._waiting.has_text))
        self._seat(Boundary.BLOCK)
        for held in self._progress.release():
            self._ledger.amend(held.entry, Outcome(Rung.NATIVE, Reason.SUPPORTED), was=Rung.SIMPLIFIED)
            self._out.append(held.packet)

    def _refuse(self, item: Item, error: StreamError) -> None:
        self._write(item, Outcome(Rung.REFUSED, Reason.BELOW_MIN_FIDELITY, lost=("data",)))
        self._release()
        self._out.append(ErrorPacket(p=error))
        self._is_ended = True

    def _say(self, text: str, packet: DeltaPacket | None = None) -> None:
        if packet is not None and text == packet.p and self._channel.is_untouched:
            self._out.append(packet)
        elif text:
            self._out.append(DeltaPacket(p=text))

    def _position(self) -> int:
        return self._ledger.position(self._channel.deltas + self._ledger.refused_deltas)

    def _write(self, item: Item, outcome: Outcome, key: str | None = None) -> int:
        return self._ledger.write(self._position(), key or item.id, item.marker, outcome)

    def _write_packet(self, op: str, outcome: Outcome = DELIVERED) -> None:
        self._ledger.write(self._position(), op, op, outcome)
