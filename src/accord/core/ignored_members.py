"""Find members of a request that are ignored but were probably meant to be read.

Envelopes ignore unknown members, so a member in the wrong place or with a misspelled name has no effect
and would go unnoticed. Members that are similar to no known one give no warning.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

from accord.core.vocabulary import closest
from accord.wire.capability import snake_case
from accord.wire.request import AgentRequest, ClientCapabilities, ServiceRequest, SessionContext

MAX_EXAMINED: Final = 8
"""How many unknown members of a request are checked: finding the closest name takes a fraction of a millisecond."""

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(ServiceRequest.model_fields),
    "context": frozenset(SessionContext.model_fields),
    "payload": frozenset(AgentRequest.model_fields) - {"payload"},
    "payload.capabilities": frozenset(ClientCapabilities.model_fields),
}
"""The members that are read at each place in a request."""

_LEGACY: Final[Mapping[str, frozenset[str]]] = {"payload": frozenset({"payload"})}
"""Members of older request formats, which are read but never suggested."""


def _path(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


_PLACES: Final[Mapping[str, str]] = {
    # A name that occurs at two places, such as session_id, is read from the outer one.
    **{name: _path(place, name) for place in reversed(_MEMBERS) for name in _MEMBERS[place]},
    "client_capabilities": "payload.capabilities",
}
"""The full path of each name."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,47}")
_NULL: Final = msgspec.Raw(b"null")
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _known_members(place: str, **objects: Any) -> type[msgspec.Struct]:
    """A type of objects that have no other members than those of this place; `objects` are the types of some."""
    fields = [(name, objects.get(name, msgspec.Raw), _NULL) for name in sorted(_MEMBERS[place])]
    return msgspec.defstruct("KnownMembers", fields, forbid_unknown_fields=True)


_KNOWN: Final = msgspec.json.Decoder(
    _known_members(
        "",
        context=_known_members("context"),
        payload=_known_members("payload", capabilities=_known_members("payload.capabilities") | None),
    )
)


def find_ignored_members(body: bytes) -> list[str]:
    """Return a warning for each ignored member of this request that was probably meant to be read.

    The body is a valid request. One without unknown members, as nearly all are, is only read for its names: 0.5 µs.
    """
    try:
        _KNOWN.decode(body)
    except msgspec.MsgspecError:
        pass
    else:
        return []
    try:
        unknown = list(islice(_unknown_members(body), MAX_EXAMINED))
    except msgspec.DecodeError:
        return []
    return [warning for place, name in unknown if (warning := _warning(place, name)) is not None]


def _unknown_members(body: bytes) -> Iterator[tuple[str, str]]:
    request = _OBJECT.decode(body)
    context, payload = _OBJECT.decode(request["context"]), _OBJECT.decode(request["payload"])
    declared = payload.get("capabilities", _NULL)
    capabilities = {} if bytes(declared) == b"null" else _OBJECT.decode(declared)
    for (place, members), given in zip(_MEMBERS.items(), (request, context, payload, capabilities), strict=True):
        if not given.keys() <= members:
            yield from ((place, name) for name in given if name not in members and name not in _LEGACY.get(place, ()))


@lru_cache(maxsize=1024)
def _warning(place: str, name: str) -> str | None:
    if not _NAME.fullmatch(name):
        return None
    members, spelled = _MEMBERS[place], snake_case(name).replace("-", "_")
    if spelled in members:
        meant = _path(place, spelled)
    elif spelled in _PLACES:
        meant = _PLACES[spelled]
    elif near := closest(spelled, members):
        meant = _path(place, near)
    else:
        meant = _PLACES.get(closest(spelled, _PLACES) or "")
    return None if meant is None else f"{_path(place, name)} is ignored; did you mean {meant}?"
