"""The degradation ladder: for one event and one client, the highest rung that the client can show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, Final

from accord.core.output.describe import Pen, Told, describe
from accord.core.output.event_parser import Item, Priority, read_event, sound_items
from accord.core.output.media import LIMITS, ImageShrinker, fit_media, needs_pixels
from accord.core.output.profile import ClientProfile
from accord.errors import ERROR_FACTS, ErrorCode
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import Rung
from accord.wire.event import MediaCarousel, PresentationEventType, ProgressUpdate
from accord.wire.packet import EventPacket, StreamError
from accord.wire.request import MinFidelity

# Thins out progress for clients that show it: four ticks a second over all labels, by the events' own time.
#
# Beyond that rate, the first tick of every label passes, and so do `complete`, `failed` and the last one, that at the
# latest when the stream ends. An event without a time passes: there is nothing to measure. No clock is read here.

MIN_GAP_S: Final = 0.25
MAX_LABELS: Final = 256


@dataclass(frozen=True, slots=True)
class Held:
    """A tick that came too soon, and its place in the ledger."""

    packet: EventPacket
    entry: int


class ProgressGate:
    """Which ticks pass."""

    __slots__ = ("_held", "_latest", "_seen")

    def __init__(self) -> None:
        self._latest = -inf
        self._seen: set[str] = set()
        self._held: dict[str, Held] = {}

    def passes(self, update: ProgressUpdate, event: Mapping[str, Any]) -> bool:
        """Whether this tick is shown now; what was held of its label is then out of date."""
        at = event_time(event.get("timestamp"))
        self._held.pop(update.label, None)
        # A time before the latest one shown is too soon as well. If it were not, what is held until the end could pass
        # at once when the result is adapted again, and the order would change.
        too_soon = at is not None and at < self._latest + MIN_GAP_S
        if update.status == "running" and too_soon and update.label in self._seen:
            return False
        if len(self._seen) < MAX_LABELS:
            self._seen.add(update.label)
        if at is not None:
            self._latest = max(self._latest, at)
        return True

    def hold(self, label: str, packet: EventPacket, entry: int) -> None:
        """Keep a tick that came too soon: it may be the last of its label."""
        self._held[label] = Held(packet, entry)

    def release(self) -> list[Held]:
        """The last tick of every label that is still held, in the order of their coming."""
        held = list(self._held.values())
        self._held.clear()
        return held


def event_time(sent: Any) -> float | None:
    """An event's time in seconds, if it has one that can be read; a time without a zone is UTC."""
    if isinstance(sent, bool) or not isinstance(sent, int | float | str):
        return None
    try:
        if not isinstance(sent, str):
            return float(sent) if isfinite(sent) else None
        read = datetime.fromisoformat(sent)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


# The ladder: for one event and one client, the highest rung it can stand on.
#
# Native if the client declared the type and the payload is sound; simplified with what is sound or small enough;
# substituted by the author's own `fallback` if the client declared that; described in the author's words, else in
# ours; deferred if nothing safe can be told. Ticks of progress and thoughts are dropped. Pure: when and where in the
# stream the outcome appears is not decided here.

MAX_FALLBACKS: Final = 4
SHOWN: Final = frozenset({Rung.NATIVE, Rung.SIMPLIFIED, Rung.SUBSTITUTED})


@dataclass(frozen=True, slots=True)
class Client:
    """One client, as far as placing an event needs it."""

    profile: ClientProfile
    pen: Pen
    images: ImageShrinker | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where an event stands, and what goes out for it: an event, a text, or nothing."""

    rung: Rung
    reason: Reason
    event: dict[str, Any] | None = None
    text: str = ""
    kept: Sequence[str] = ()
    lost: Sequence[str] = ()
    notes: dict[str, int] = field(default_factory=dict[str, int])


def place(item: Item, client: Client, depth: int = 0) -> Outcome:
    """The highest rung this event can stand on for this client."""
    if shown := _shown(item, client):
        return shown
    if item.known is PresentationEventType.THOUGHT_TRACE:
        return Outcome(Rung.DROPPED, Reason.PRIVATE, lost=("data",))
    instead = _instead(item, client, depth)
    if instead and instead.rung is Rung.SUBSTITUTED:
        return instead
    if _is_tick(item):
        return Outcome(Rung.DROPPED, Reason.TRANSIENT, lost=("data",))
    if item.hooks.priority is Priority.LOW and not item.is_failure:
        return Outcome(Rung.DROPPED, Reason.LOW_PRIORITY, lost=("data",))
    return _in_words_of_author(item, client.pen) or instead or _in_our_words(item, client.pen) or _untold(item)


def may_reencode_images(event: dict[str, Any], client: Client, depth: int = 0) -> bool:
    """Whether placing this event may re-encode a picture, of its own or of what its author wants shown instead."""
    if client.images is None or client.profile.resolution not in LIMITS or depth > MAX_FALLBACKS:
        return False
    item = read_event(event, 0)
    payload = item.payload or sound_items(item)[1]
    if isinstance(payload, MediaCarousel) and client.profile.shows(PresentationEventType.MEDIA_CAROUSEL):
        return needs_pixels(payload, client.profile.resolution)
    return item.hooks.fallback is not None and may_reencode_images(item.hooks.fallback, client, depth + 1)


def _shown(item: Item, client: Client) -> Outcome | None:
    """The event itself, if the client declared its type and what is inside is sound."""
    if item.type is None or not client.profile.shows(item.type):
        return None
    if item.is_malformed:
        return _shown_in_part(item, client)
    if not isinstance(item.payload, MediaCarousel):
        return Outcome(Rung.NATIVE, Reason.SUPPORTED, item.event)
    fitted = fit_media(item.event, item.payload, client.profile.resolution, client.images)
    if fitted.smaller:
        lost = [f"items.{index}.resolution" for index in fitted.smaller]
        return Outcome(Rung.SIMPLIFIED, Reason.SMALLER_IMAGE, fitted.event, kept=("items",), lost=lost)
    return Outcome(Rung.NATIVE, Reason.IMAGE_NOT_REDUCED if fitted.too_large else Reason.SUPPORTED, item.event)


def _shown_in_part(item: Item, client: Client) -> Outcome | None:
    """A broken list without its broken items: one bad address does not cost the others."""
    sound, payload = sound_items(item)
    if not sound:
        return None
    sent: list[Any] = item.data["items"]
    lost = [f"items.{index}" for index in range(min(len(sent), max(sound) + 2)) if index not in set(sound)]
    event = item.event | {"data": {**item.data, "items": [sent[index] for index in sound]}}
    if isinstance(payload, MediaCarousel):
        fitted = fit_media(event, payload, client.profile.resolution, client.images)
        event = fitted.event
        lost += [f"items.{sound[index]}.resolution" for index in fitted.smaller]
    kept = [f"items.{index}" for index in sound]
    return Outcome(Rung.SIMPLIFIED, Reason.MALFORMED, event, kept=kept, lost=lost or ["data"])


def _instead(item: Item, client: Client, depth: int) -> Outcome | None:
    """What the author wants shown instead, itself adapted; how often that may nest is bounded."""
    if item.hooks.fallback is None or depth >= MAX_FALLBACKS:
        return None
    named = {key: item.event[key] for key in ("id", "timestamp") if key in item.event}
    other = read_event(named | item.hooks.fallback, 0)
    found = place(other, client, depth + 1)
    if found.rung in SHOWN:
        return replace(found, rung=Rung.SUBSTITUTED, reason=Reason.AUTHOR_FALLBACK, kept=("fallback",), lost=("data",))
    if found.rung is Rung.DESCRIBED:
        return replace(found, reason=Reason.AUTHOR_FALLBACK, kept=("fallback",), lost=("data",))
    return None


def _is_tick(item: Item) -> bool:
    is_progress = item.known is PresentationEventType.PROGRESS_INDICATOR
    return is_progress and item.payload is not None and not item.is_failure


def _in_words_of_author(item: Item, pen: Pen) -> Outcome | None:
    screen = ("fallback_text", item.hooks.fallback_text)
    voice = ("spoken", item.hooks.spoken)
    for name, words in (voice, screen) if pen.speaks else (screen, voice):
        if words and (written := pen.author(words)).text.strip():
            lost, notes = ("data",), written.notes
            return Outcome(Rung.DESCRIBED, Reason.AUTHOR_TEXT, text=written.text, kept=(name,), lost=lost, notes=notes)
    return None


def _in_our_words(item: Item, pen: Pen) -> Outcome | None:
    told: Told | None = describe(item, pen)
    if told is None:
        return None
    reason = Reason.MALFORMED if item.is_malformed else Reason.NOT_DECLARED
    return Outcome(Rung.DESCRIBED, reason, text=told.text, kept=told.kept, lost=told.lost, notes=told.notes)


def _untold(item: Item) -> Outcome:
    """Nothing to tell: an empty payload is nothing to keep either; anything else is kept."""
    if item.payload is not None:
        return Outcome(Rung.DROPPED, Reason.EMPTY, lost=("data",))
    reason = Reason.MALFORMED if item.is_malformed else Reason.UNKNOWN_TYPE
    return Outcome(Rung.DEFERRED, reason, lost=("data",))


# Says no for a client that asked for strictness: an event below `min_fidelity` is refused, with what was available.
#
# Never refused are failures, which are always told; what the table drops for everyone; and what the client itself
# asked for, such as smaller pictures. Ending the stream is the adapter's business.

LADDER: Final[Sequence[Rung]] = tuple(Rung)
NEVER_REFUSED: Final = frozenset(
    {Reason.SMALLER_IMAGE, Reason.TRANSIENT, Reason.PRIVATE, Reason.LOW_PRIORITY, Reason.EMPTY}
)


def refusal(item: Item, outcome: Outcome, minimum: MinFidelity, profile: ClientProfile) -> StreamError | None:
    """The error that ends the stream, if this outcome is below what the client takes."""
    if item.is_failure or outcome.reason in NEVER_REFUSED:
        return None
    if LADDER.index(outcome.rung) <= LADDER.index(Rung(minimum)):
        return None
    facts = ERROR_FACTS[ErrorCode.FIDELITY_UNAVAILABLE]
    return StreamError(
        code=ErrorCode.FIDELITY_UNAVAILABLE,
        message=facts.title,
        severity=facts.severity,
        details={
            "id": item.id,
            "type": item.marker,
            "min_fidelity": str(minimum),
            "available": str(outcome.rung),
            "reason": str(outcome.reason),
            "supported_events": sorted(profile.events),
        },
    )
