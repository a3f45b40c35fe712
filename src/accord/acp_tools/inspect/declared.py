"""Reads an agent's declaration flag by flag, as it was received: which are supported, which malformed, which unknown.

Decision 16: omitted means unsupported, and so does everything malformed. The known flags are those of the two schemas;
what an agent does about them is not known here.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from accord.acp_tools.inspect.replies import shorten
from accord.wire.inspection import DeclaredCapability, InspectedAgent


class Kind(Enum):
    """How a flag says yes."""

    BOOLEAN = "true or false"
    OBJECT = "an object"
    GROUP = "an object of flags"


FLAGS: Final[Mapping[str, Kind]] = {
    "loadSession": Kind.BOOLEAN,
    "promptCapabilities": Kind.GROUP,
    "promptCapabilities.image": Kind.BOOLEAN,
    "promptCapabilities.audio": Kind.BOOLEAN,
    "promptCapabilities.embeddedContext": Kind.BOOLEAN,
    "mcpCapabilities": Kind.GROUP,
    "mcpCapabilities.http": Kind.BOOLEAN,
    "mcpCapabilities.sse": Kind.BOOLEAN,
    "sessionCapabilities": Kind.GROUP,
    "sessionCapabilities.list": Kind.OBJECT,
    "sessionCapabilities.delete": Kind.OBJECT,
    "sessionCapabilities.additionalDirectories": Kind.OBJECT,
    "sessionCapabilities.resume": Kind.OBJECT,
    "sessionCapabilities.close": Kind.OBJECT,
    "auth": Kind.GROUP,
    "auth.logout": Kind.OBJECT,
}
"""Version 1."""
DRAFT_FLAGS: Final[Mapping[str, Kind]] = {
    "session": Kind.GROUP,
    "session.prompt": Kind.GROUP,
    "session.prompt.image": Kind.OBJECT,
    "session.prompt.audio": Kind.OBJECT,
    "session.prompt.embeddedContext": Kind.OBJECT,
    "session.mcp": Kind.GROUP,
    "session.mcp.stdio": Kind.OBJECT,
    "session.mcp.http": Kind.OBJECT,
    "session.delete": Kind.OBJECT,
    "session.additionalDirectories": Kind.OBJECT,
    "auth": Kind.OBJECT,
}
"""The version 2 draft."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What an agent says of itself in `initialize`, whatever shape that has."""

    agent: InspectedAgent
    capabilities: list[DeclaredCapability]
    prompt: Mapping[str, Any]
    """The flags about prompts, as received."""
    methods: tuple[str, ...] = ()
    """The names of its ways to authenticate."""
    has_sessions: bool = True
    """Whether it says that it has sessions; in version 1 every agent has."""

    @property
    def version(self) -> int:
        """The protocol version that is spoken; 1 if the agent does not say."""
        return self.agent.protocol_version or 1


def read_introduction(result: Any) -> Introduction:
    """What this answer to `initialize` says."""
    told = _object(result)
    version: Any = told.get("protocolVersion")
    spoken = version if isinstance(version, int) and not isinstance(version, bool) else None
    is_draft = (spoken or 1) >= 2
    capabilities = told.get("capabilities" if is_draft else "agentCapabilities")
    info = _object(told.get("info" if is_draft else "agentInfo"))
    declared = _object(capabilities)
    prompt = _object(declared.get("session")).get("prompt") if is_draft else declared.get("promptCapabilities")
    rows = list(_rows(declared, DRAFT_FLAGS if is_draft else FLAGS))
    return Introduction(
        InspectedAgent(name=_text(info.get("name")), version=_text(info.get("version")), protocol_version=spoken),
        rows,
        _object(prompt),
        _methods(told.get("authMethods")),
        not is_draft or isinstance(declared.get("session"), Mapping),
    )


def _rows(declared: Mapping[str, Any], flags: Mapping[str, Kind]) -> Iterator[DeclaredCapability]:
    for flag, kind in flags.items():
        is_present, received = _find(declared, flag)
        if kind is not Kind.GROUP or (is_present and not isinstance(received, Mapping)):
            yield _row(flag, kind, is_present, received)
    yield from _unknown(declared, flags, "")


def _row(flag: str, kind: Kind, is_present: bool, received: Any) -> DeclaredCapability:
    if not is_present:
        return DeclaredCapability(flag=flag, supported=False, remark="omitted")
    supported = received is True if kind is Kind.BOOLEAN else isinstance(received, Mapping)
    is_plain_no = received is None or (kind is Kind.BOOLEAN and received is False)
    remark = None if supported or is_plain_no else f"malformed: should be {kind.value}, counts as unsupported"
    return DeclaredCapability(flag=flag, received=_brief(received), supported=supported, remark=remark)


def _unknown(declared: Mapping[str, Any], flags: Mapping[str, Kind], prefix: str) -> Iterator[DeclaredCapability]:
    for name, received in declared.items():
        flag = prefix + name
        if name == "_meta":
            continue
        if flag not in flags:
            yield DeclaredCapability(
                flag=shorten(flag), received=_brief(received), supported=False, remark="unknown: not in the schema"
            )
        elif flags[flag] is Kind.GROUP and isinstance(received, Mapping):
            yield from _unknown(cast("Mapping[str, Any]", received), flags, f"{flag}.")


def _find(declared: Mapping[str, Any], flag: str) -> tuple[bool, Any]:
    here: Any = declared
    for part in flag.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False, None
        here = cast("Any", here[part])
    return True, here


def _brief(received: Any) -> Any:
    """A value as it was received, unless it is long: then the beginning of its text."""
    written = json.dumps(received)
    return received if len(written) <= 120 else shorten(written)


def _methods(listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    methods = [_object(method) for method in cast("list[Any]", listed)]
    return tuple(name for method in methods if (name := _text(method.get("name"))))


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return shorten(value) if isinstance(value, str) else None
