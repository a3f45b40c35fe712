"""Read an agent's declaration flag by flag: what was received, what is supported, malformed or unknown. Pure.

An omitted flag is unsupported, and so is a malformed one. The known flags are those of the two schemas.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from accord.acp_tools.inspect.replies import shorten
from accord.acp_tools.json_values import as_object
from accord.wire.inspection import DeclaredCapability, InspectedAgent

MAX_VALUE_CHARS: Final = 120
INFO_KEYS: Final = ("name", "version")


class FlagKind(Enum):
    """The type of a flag; a supported one is `true` or an object."""

    BOOLEAN = "true or false"
    OBJECT = "an object"
    GROUP = "an object of flags"


FLAGS: Final[Mapping[str, FlagKind]] = {
    "loadSession": FlagKind.BOOLEAN,
    "promptCapabilities": FlagKind.GROUP,
    "promptCapabilities.image": FlagKind.BOOLEAN,
    "promptCapabilities.audio": FlagKind.BOOLEAN,
    "promptCapabilities.embeddedContext": FlagKind.BOOLEAN,
    "mcpCapabilities": FlagKind.GROUP,
    "mcpCapabilities.http": FlagKind.BOOLEAN,
    "mcpCapabilities.sse": FlagKind.BOOLEAN,
    "sessionCapabilities": FlagKind.GROUP,
    "sessionCapabilities.list": FlagKind.OBJECT,
    "sessionCapabilities.delete": FlagKind.OBJECT,
    "sessionCapabilities.additionalDirectories": FlagKind.OBJECT,
    "sessionCapabilities.resume": FlagKind.OBJECT,
    "sessionCapabilities.close": FlagKind.OBJECT,
    "auth": FlagKind.GROUP,
    "auth.logout": FlagKind.OBJECT,
}
"""The flags of version 1."""
DRAFT_FLAGS: Final[Mapping[str, FlagKind]] = {
    "session": FlagKind.GROUP,
    "session.prompt": FlagKind.GROUP,
    "session.prompt.image": FlagKind.OBJECT,
    "session.prompt.audio": FlagKind.OBJECT,
    "session.prompt.embeddedContext": FlagKind.OBJECT,
    "session.mcp": FlagKind.GROUP,
    "session.mcp.stdio": FlagKind.OBJECT,
    "session.mcp.http": FlagKind.OBJECT,
    "session.delete": FlagKind.OBJECT,
    "session.additionalDirectories": FlagKind.OBJECT,
    "auth": FlagKind.OBJECT,
}
"""The flags of the version 2 draft."""
UNSTABLE_FLAGS: Final = frozenset(
    {"sessionCapabilities.fork", "mcpCapabilities.acp", "providers", "nes", "positionEncoding", "auth.env_var"}
)
"""Flags that are only in the unstable schema of version 1."""


@dataclass(frozen=True, slots=True)
class DeclaredAgent:
    """What an agent declares in its result of `initialize`, whatever shape that has."""

    agent: InspectedAgent
    capabilities: list[DeclaredCapability]
    prompt: Mapping[str, Any]
    """The prompt capabilities, as received."""
    version: int = 1
    """The version that the agent is treated as: the negotiated one, or 1 if the result has none or its form."""
    has_sessions: bool = True
    """Whether sessions are declared; in version 1 every agent has them."""
    auth_methods: Any = None
    """The member `authMethods`, as received."""

    def supports(self, flag: str) -> bool:
        """Whether this flag is declared."""
        return any(row.flag == flag and row.supported for row in self.capabilities)


def read_initialize_result(result: Any) -> DeclaredAgent:
    """Read a result of `initialize`."""
    members = as_object(result)
    received: Any = members.get("protocolVersion")
    version = received if isinstance(received, int) and not isinstance(received, bool) else None
    # An agent that answers version 2 with the members of version 1 most likely speaks version 1 (`version-body`).
    has_v1_form = not members.keys() & {"capabilities", "info"} and bool(members.keys() & {"agentCapabilities"})
    is_draft = (version or 1) >= 2 and not has_v1_form
    declared = as_object(members.get("capabilities" if is_draft else "agentCapabilities"))
    info = as_object(members.get("info" if is_draft else "agentInfo"))
    name, agent_version = (shorten(text) if isinstance(text := info.get(key), str) else None for key in INFO_KEYS)
    prompt = as_object(declared.get("session")).get("prompt") if is_draft else declared.get("promptCapabilities")
    return DeclaredAgent(
        InspectedAgent(name=name, version=agent_version, protocol_version=version),
        list(_read_flags(declared, DRAFT_FLAGS if is_draft else FLAGS)),
        as_object(prompt),
        1 if has_v1_form else version or 1,
        not is_draft or isinstance(declared.get("session"), Mapping),
        members.get("authMethods"),
    )


def _read_flags(declared: Mapping[str, Any], flags: Mapping[str, FlagKind]) -> Iterator[DeclaredCapability]:
    for flag, kind in flags.items():
        is_present, received = True, cast("Any", declared)
        for part in flag.split("."):
            is_present = is_present and isinstance(received, Mapping) and part in received
            received = cast("Any", received[part]) if is_present else None
        # A well-formed group has no row of its own: its flags have.
        if kind is FlagKind.GROUP and (not is_present or isinstance(received, Mapping)):
            continue
        if not is_present:
            yield DeclaredCapability(flag=flag, supported=False, remark="omitted")
            continue
        supported = received is True if kind is FlagKind.BOOLEAN else isinstance(received, Mapping)
        is_plain_no = received is None or (kind is FlagKind.BOOLEAN and received is False)
        remark = None if supported or is_plain_no else f"malformed: should be {kind.value}, counts as unsupported"
        yield DeclaredCapability(flag=flag, received=_abridge(received), supported=supported, remark=remark)
    yield from _unknown_flags(declared, flags, "")


def _unknown_flags(
    declared: Mapping[str, Any], flags: Mapping[str, FlagKind], prefix: str
) -> Iterator[DeclaredCapability]:
    for name, received in declared.items():
        flag = prefix + name
        if name == "_meta":
            continue
        if flag not in flags:
            remark = "unstable: in the unstable schema only" if flag in UNSTABLE_FLAGS else "unknown: not in the schema"
            yield DeclaredCapability(flag=shorten(flag), received=_abridge(received), supported=False, remark=remark)
        elif flags[flag] is FlagKind.GROUP and isinstance(received, Mapping):
            yield from _unknown_flags(cast("Mapping[str, Any]", received), flags, f"{flag}.")


def _abridge(received: Any) -> Any:
    """The value as received, or the beginning of its JSON text if that is long."""
    text = json.dumps(received)
    return received if len(text) <= MAX_VALUE_CHARS else shorten(text)
