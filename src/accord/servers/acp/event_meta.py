"""The `_meta` of an update: the event that it was made from, without the values that the update has itself. Pure.

A tool call can have megabytes of content, which should not be sent twice in one line. So the event in `_meta` lacks
what the update has, and a list of copies says where it is: `path` in the event, `from` in the update, both JSON
pointers (RFC 6901). A value is left out only if it is equal to the one in the update, so rebuilding the event is exact;
docs/acp.md shows how. How an event becomes an update is decided in `updates`.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic.alias_generators import to_camel

from accord.wire.agent_work import PLAN, TOOL_CALL
from accord.wire.event import PresentationEventType

EVENT_KEY: Final = "accord.event"
"""The key of `_meta` under which an update carries the event that it was made from."""

COPIES_KEY: Final = "accord.copies"
"""The key of `_meta` that lists the values of the event that are in the update."""

THOUGHT_KEYS: Final = ("thought", "text", "content")
"""The members of a thought that may be its text, the first that is there."""

_TEXT: Final = ("content", "text")
SOURCES: Final[Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]]] = {
    PresentationEventType.THOUGHT_TRACE: dict.fromkeys(THOUGHT_KEYS, (_TEXT,)),
    PresentationEventType.PROGRESS_INDICATOR: {"label": (("title",),)},
    PLAN: {"entries": (("entries",), ("plan", "entries"))},
}
"""Where an update may have the members of an event's `data`; a tool call has them under their own names."""

DIFF_TEXTS: Final = {"oldText": "removed", "newText": "added"}
"""The texts of a diff, and the lines of the draft's patch that have them."""

Copy = dict[str, str]


def build_event_meta(event: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` of this update, which is given as plain JSON values and has no `_meta` yet."""
    kind = str(event.get("type", "")).lower()
    data: Any = event.get("data")
    rest, copies = data, list[Copy]()
    if isinstance(data, Mapping) and (kind in SOURCES or kind == TOOL_CALL):
        rest, copies = _split_data(cast("Mapping[str, Any]", data), kind, update)
    if not copies and kind == PresentationEventType.THOUGHT_TRACE and "data" in event:
        # A thought without a text is shown as JSON.
        copies = [_copy(("data",), _TEXT, "json")]
        return {EVENT_KEY: {name: event[name] for name in event if name != "data"}, COPIES_KEY: copies}
    return {EVENT_KEY: {**event, "data": rest}, COPIES_KEY: copies} if copies else {EVENT_KEY: event}


def _split_data(data: Mapping[str, Any], kind: str, update: Mapping[str, Any]) -> tuple[dict[str, Any], list[Copy]]:
    """The members of `data` that the update does not have, and copies for those that it has."""
    rest: dict[str, Any] = {}
    copies: list[Copy] = []
    for name, value in data.items():
        places = ((name,), (to_camel(name),)) if kind == TOOL_CALL else SOURCES[kind].get(name, ())
        place = next((place for place in places if _has(update, place, value)), None)
        if place is not None:
            copies.append(_copy(("data", name), place))
            continue
        rest[name] = value
        if kind == TOOL_CALL and name == "content" and isinstance(value, list):
            rest[name] = _split_parts(cast("list[Any]", value), update.get(name), copies)
    return rest, copies


def _split_parts(parts: list[Any], sent: Any, copies: list[Copy]) -> list[Any]:
    """The parts of a tool call without what was sent, null for a whole part; adds to `copies`."""
    if not isinstance(sent, list) or len(cast("list[Any]", sent)) != len(parts):
        return parts  # malformed parts were left out of the update, so the indexes do not match
    rest: list[Any] = []
    for index, (part, other) in enumerate(zip(parts, cast("list[Any]", sent), strict=True)):
        place = ("content", str(index))
        if part == other:
            copies.append(_copy(("data", *place), place))
            rest.append(None)
        elif "patch" in other and "\n" not in part["path"]:  # which would shift the lines of the draft's patch
            texts = [name for name in DIFF_TEXTS if isinstance(part.get(name), str)]
            copies += [_copy(("data", *place, name), (*place, "patch", "text"), DIFF_TEXTS[name]) for name in texts]
            rest.append({name: value for name, value in part.items() if name not in texts})
        else:
            rest.append(part)
    return rest


def _has(update: Any, place: tuple[str, ...], value: Any) -> bool:
    for key in place:
        if not isinstance(update, Mapping) or key not in update:
            return False
        update = cast("Mapping[str, Any]", update)[key]
    return bool(update == value)


def _copy(path: tuple[str, ...], source: tuple[str, ...], form: str | None = None) -> Copy:
    entry = {"path": _pointer(path), "from": _pointer(source)}
    return entry if form is None else {**entry, "as": form}


def _pointer(keys: tuple[str, ...]) -> str:
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)
