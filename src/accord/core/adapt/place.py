"""The ladder: for one event and one client, the highest rung it can stand on.

Native if the client declared the type and the payload is sound; simplified with what is sound or small enough;
substituted by the author's own `fallback` if the client declared that; described in the author's words, else in ours;
deferred if nothing safe can be told. Ticks of progress and thoughts are dropped. Pure: when and where in the stream
the outcome appears is not decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from accord.core.adapt.describe import Told, describe
from accord.core.adapt.media import LIMITS, Shrinks, fit_media, needs_pixels
from accord.core.adapt.pen import Pen
from accord.core.adapt.read import Item, Priority, read_event, sound_items
from accord.core.profile import ClientProfile
from accord.wire.adaptation import AdaptationReason as Reason
from accord.wire.adaptation import Rung
from accord.wire.event import MediaCarousel, PresentationEventType

MAX_FALLBACKS: Final = 4
SHOWN: Final = frozenset({Rung.NATIVE, Rung.SIMPLIFIED, Rung.SUBSTITUTED})


@dataclass(frozen=True, slots=True)
class Client:
    """One client, as far as placing an event needs it."""

    profile: ClientProfile
    pen: Pen
    images: Shrinks | None = None


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


def is_heavy(event: dict[str, Any], client: Client, depth: int = 0) -> bool:
    """Whether placing this event may re-encode a picture, of its own or of what its author wants shown instead."""
    if client.images is None or client.profile.resolution not in LIMITS or depth > MAX_FALLBACKS:
        return False
    item = read_event(event, 0)
    payload = item.payload or sound_items(item)[1]
    if isinstance(payload, MediaCarousel) and client.profile.shows(PresentationEventType.MEDIA_CAROUSEL):
        return needs_pixels(payload, client.profile.resolution)
    return item.hooks.fallback is not None and is_heavy(item.hooks.fallback, client, depth + 1)


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
