"""The degradation ladder: for one event and one client, the highest rung that the client can show.

Native if the client declared the type and the payload is valid; simplified to what is valid, small enough or plain;
substituted by the author's `fallback` if the client declared that; described in the author's words, else in Accord's;
deferred if nothing can safely be described. Progress updates and thoughts are dropped. When and where in the stream the
result appears is decided in `adapter`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Any, Final, NamedTuple

from accord.core.output.describe import TextFormatter, describe
from accord.core.output.event_parser import ParsedEvent, Priority, find_valid_items, parse_event
from accord.core.output.media import LIMITS, ImageShrinker, fit_media, needs_decoding
from accord.core.output.profile import ClientProfile, TextForm
from accord.errors import ERROR_FACTS, ErrorCode
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import Rung
from accord.wire.event import MarkdownBlock, MediaCarousel, PresentationEventType, ProgressUpdate
from accord.wire.packet import EventPacket, StreamError
from accord.wire.request import MinFidelity

MAX_FALLBACKS: Final = 4  # fallbacks of fallbacks; a sender must not choose how deep the recursion goes
EVENT_RUNGS: Final = frozenset({Rung.NATIVE, Rung.SIMPLIFIED, Rung.SUBSTITUTED})


class AdaptationTarget(NamedTuple):
    """The client that events are adapted for."""

    profile: ClientProfile
    formatter: TextFormatter
    images: ImageShrinker | None = None


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The rung of one packet, the reason, and what is sent for it: an event, a text, or nothing."""

    rung: Rung
    reason: Reason
    event: dict[str, Any] | None = None
    text: str = ""
    kept: Sequence[str] = ()
    lost: Sequence[str] = ()
    notes: dict[str, int] = field(default_factory=dict[str, int])


def choose_rung(event: ParsedEvent, target: AdaptationTarget, depth: int = 0) -> Adaptation:
    """Return the highest rung on which this client can show this event."""
    if as_event := _as_event(event, target):
        return as_event
    if event.known_type is PresentationEventType.THOUGHT_TRACE:
        return Adaptation(Rung.DROPPED, Reason.PRIVATE, lost=("data",))
    fallback = _as_fallback(event, target, depth)
    if fallback and fallback.rung is Rung.SUBSTITUTED:
        return fallback
    is_progress = event.known_type is PresentationEventType.PROGRESS_INDICATOR
    if is_progress and event.payload is not None and not event.is_failure:
        return Adaptation(Rung.DROPPED, Reason.TRANSIENT, lost=("data",))
    if event.hooks.priority is Priority.LOW and not event.is_failure:
        return Adaptation(Rung.DROPPED, Reason.LOW_PRIORITY, lost=("data",))
    return _as_author_text(event, target.formatter) or fallback or _as_description(event, target)


def may_reencode_images(event: dict[str, Any], target: AdaptationTarget, depth: int = 0) -> bool:
    """Whether adapting this event, or a fallback of its author, may re-encode an image."""
    if target.images is None or target.profile.resolution not in LIMITS or depth > MAX_FALLBACKS:
        return False
    parsed = parse_event(event, 0)
    payload = parsed.payload or find_valid_items(parsed)[1]
    if isinstance(payload, MediaCarousel) and target.profile.shows(PresentationEventType.MEDIA_CAROUSEL):
        return needs_decoding(payload, target.profile.resolution)
    return parsed.hooks.fallback is not None and may_reencode_images(parsed.hooks.fallback, target, depth + 1)


def _as_event(event: ParsedEvent, target: AdaptationTarget) -> Adaptation | None:
    """Return the event itself, if the client declared its type and its payload is valid."""
    if event.type is None or not target.profile.shows(event.type):
        return None
    if event.is_malformed:
        return _as_partial_event(event, target)
    if isinstance(event.payload, MarkdownBlock) and target.formatter.form is not TextForm.MARKDOWN:
        return _as_unmarked_block(event, event.payload, target.formatter)
    if not isinstance(event.payload, MediaCarousel):
        return Adaptation(Rung.NATIVE, Reason.SUPPORTED, event.event)
    fitted = fit_media(event.event, event.payload, target.profile.resolution, target.images)
    if fitted.smaller:
        lost = [f"items.{index}.resolution" for index in fitted.smaller]
        return Adaptation(Rung.SIMPLIFIED, fitted.reason, fitted.event, kept=("items",), lost=lost, notes=fitted.notes)
    return Adaptation(Rung.NATIVE, fitted.reason, event.event, notes=fitted.notes)


def _as_unmarked_block(event: ParsedEvent, block: MarkdownBlock, formatter: TextFormatter) -> Adaptation | None:
    """Return a block of markdown as plain text or speech; None if it has no text.

    It is the only event whose text is markdown: titles, snippets, labels, messages and alt texts are plain already.
    """
    written = formatter.format_markdown(block.content)
    if not written.changed:
        return Adaptation(Rung.NATIVE, Reason.SUPPORTED, event.event)
    if not written.text.strip():
        return None
    plain = event.event | {"data": {**event.data, "content": written.text}}
    return Adaptation(
        Rung.SIMPLIFIED, Reason.MARKUP_REMOVED, plain, kept=("content",), lost=("markup",), notes=written.notes
    )


def _as_partial_event(event: ParsedEvent, target: AdaptationTarget) -> Adaptation | None:
    """Return an invalid list without its invalid items: one bad URL does not cost the other items."""
    valid, payload = find_valid_items(event)
    if not valid:
        return None
    sent: list[Any] = event.data["items"]
    lost = [f"items.{index}" for index in range(min(len(sent), max(valid) + 2)) if index not in set(valid)]
    partial = event.event | {"data": {**event.data, "items": [sent[index] for index in valid]}}
    notes: dict[str, int] = {}
    if isinstance(payload, MediaCarousel):
        fitted = fit_media(partial, payload, target.profile.resolution, target.images)
        partial, notes = fitted.event, fitted.notes
        lost += [f"items.{valid[index]}.resolution" for index in fitted.smaller]
    kept = [f"items.{index}" for index in valid]
    return Adaptation(Rung.SIMPLIFIED, Reason.MALFORMED, partial, kept=kept, lost=lost or ["data"], notes=notes)


def _as_fallback(event: ParsedEvent, target: AdaptationTarget, depth: int) -> Adaptation | None:
    """Return the author's fallback event, itself adapted; how deep fallbacks may nest is limited."""
    if event.hooks.fallback is None or depth >= MAX_FALLBACKS:
        return None
    identity = {key: event.event[key] for key in ("id", "timestamp") if key in event.event}
    adapted = choose_rung(parse_event(identity | event.hooks.fallback, 0), target, depth + 1)
    if adapted.rung in EVENT_RUNGS:
        rung = Rung.SUBSTITUTED
    elif adapted.rung is Rung.DESCRIBED:
        rung = Rung.DESCRIBED
    else:
        return None
    return replace(adapted, rung=rung, reason=Reason.AUTHOR_FALLBACK, kept=("fallback",), lost=("data",))


def _as_author_text(event: ParsedEvent, formatter: TextFormatter) -> Adaptation | None:
    """Return the author's text for this kind of client, else for the other kind."""
    screen = ("fallback_text", event.hooks.fallback_text)
    voice = ("spoken", event.hooks.spoken)
    for name, markdown in (voice, screen) if formatter.is_speech else (screen, voice):
        if markdown and (written := formatter.format_markdown(markdown)).text.strip():
            return Adaptation(
                Rung.DESCRIBED,
                Reason.AUTHOR_TEXT,
                text=written.text,
                kept=(name,),
                lost=("data",),
                notes=written.notes,
            )
    return None


def _as_description(event: ParsedEvent, target: AdaptationTarget) -> Adaptation:
    """Return Accord's description; without one, an empty payload is dropped and anything else is deferred."""
    if description := describe(event, target.formatter, target.profile.resolution):
        return Adaptation(
            Rung.DESCRIBED,
            Reason.MALFORMED if event.is_malformed else Reason.NOT_DECLARED,
            text=description.text,
            kept=description.kept,
            lost=description.lost,
            notes=description.notes,
        )
    if event.payload is not None:
        return Adaptation(Rung.DROPPED, Reason.EMPTY, lost=("data",))
    reason = Reason.MALFORMED if event.is_malformed else Reason.UNKNOWN_TYPE
    return Adaptation(Rung.DEFERRED, reason, lost=("data",))


LADDER: Final[Sequence[Rung]] = tuple(Rung)
NEVER_REFUSED: Final = frozenset(
    {
        Reason.SMALLER_IMAGE,
        Reason.MARKUP_REMOVED,
        Reason.TRANSIENT,
        Reason.PRIVATE,
        Reason.LOW_PRIORITY,
        Reason.EMPTY,
    }
)
"""What is dropped for every client, and what the client asked for itself (smaller images, plain text)."""


def check_fidelity(
    event: ParsedEvent, adaptation: Adaptation, minimum: MinFidelity, profile: ClientProfile
) -> StreamError | None:
    """Return the error that ends the stream, if the rung is below the client's `min_fidelity`."""
    if event.is_failure or adaptation.reason in NEVER_REFUSED:
        return None
    if LADDER.index(adaptation.rung) <= LADDER.index(Rung(minimum)):
        return None
    facts = ERROR_FACTS[ErrorCode.FIDELITY_UNAVAILABLE]
    return StreamError(
        code=ErrorCode.FIDELITY_UNAVAILABLE,
        message=facts.title,
        severity=facts.severity,
        details={
            "id": event.id,
            "type": event.type_label,
            "min_fidelity": str(minimum),
            "available": str(adaptation.rung),
            "reason": str(adaptation.reason),
            "supported_events": sorted(profile.events),
        },
    )


MIN_INTERVAL_S: Final = 0.25
MAX_LABELS: Final = 256  # updates of further labels are always sent


@dataclass(frozen=True, slots=True)
class HeldUpdate:
    """A progress update that came too soon, and the number of its entry in the report."""

    packet: EventPacket
    entry: int


class ProgressThrottle:
    """Limits progress updates to four a second over all labels, by the time stamps of the events; no clock is read.

    Always sent are the first and the last update of every label, and `complete` and `failed`. An update without a time
    stamp is sent as well.
    """

    __slots__ = ("_held", "_labels", "_latest")

    def __init__(self) -> None:
        self._latest = -inf
        self._labels: set[str] = set()
        self._held: dict[str, HeldUpdate] = {}

    def allows(self, update: ProgressUpdate, event: Mapping[str, Any]) -> bool:
        """Whether to send this update now; an update of the same label that was held back is obsolete then."""
        at = parse_timestamp(event.get("timestamp"))
        self._held.pop(update.label, None)
        # A time before the latest one sent is too soon as well. Otherwise an update that is held back until the end
        # could be sent at once when the result is adapted again, and the order would change.
        too_soon = at is not None and at < self._latest + MIN_INTERVAL_S
        if update.status == "running" and too_soon and update.label in self._labels:
            return False
        if len(self._labels) < MAX_LABELS:
            self._labels.add(update.label)
        if at is not None:
            self._latest = max(self._latest, at)
        return True

    def hold_back(self, label: str, packet: EventPacket, entry: int) -> None:
        """Keep an update that came too soon: it may be the last one of its label."""
        self._held[label] = HeldUpdate(packet, entry)

    def release(self) -> list[HeldUpdate]:
        """Remove and return the updates that are held back, in the order in which they came."""
        held = list(self._held.values())
        self._held.clear()
        return held


def parse_timestamp(timestamp: Any) -> float | None:
    """Return a time stamp in seconds, `None` if it cannot be read; without a time zone it is UTC."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float | str):
        return None
    try:
        if not isinstance(timestamp, str):
            return float(timestamp) if isfinite(timestamp) else None
        parsed = datetime.fromisoformat(timestamp)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
