"""The settings of a session that its user can choose: modes, options, commands."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import StrictBool

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, ListOrEmpty, Open, OpenTagged
from accord.wire.acp.content import LenientStr
from accord.wire.message import close_union


class SessionMode(AcpMessage, frozen=True):
    """A mode of the agent."""

    id: str
    name: str
    description: LenientStr = None


class SessionModeState(AcpMessage, frozen=True):
    """The available modes, and the current one."""

    current_mode_id: str
    available_modes: ListOrEmpty[SessionMode]


class ConfigCategory(StrEnum):
    """The topic of an option, for the layout of a client."""

    MODE = "mode"
    MODEL = "model"
    MODEL_CONFIG = "model_config"
    THOUGHT_LEVEL = "thought_level"


LenientCategory = Annotated[Open[ConfigCategory] | None, AbsentIfMalformed()]


class ConfigChoice(AcpMessage, frozen=True):
    """One value that can be chosen."""

    value: str
    name: str
    description: LenientStr = None


class ConfigGroup(AcpMessage, frozen=True):
    """A group of values."""

    group: str
    name: str
    options: ListOrEmpty[ConfigChoice]


class DraftConfigGroup(AcpMessage, frozen=True):
    """A group of values, in the draft."""

    group_id: str
    name: str
    options: ListOrEmpty[ConfigChoice]


class SessionConfigOption(OpenTagged, frozen=True):
    """An option of a session."""

    type: str
    id: str
    name: str
    description: LenientStr = None
    category: LenientCategory = None


class SelectOption(SessionConfigOption, frozen=True):
    """One value out of several."""

    type: Literal["select"] = "select"
    current_value: str
    options: list[ConfigChoice] | list[ConfigGroup]


class BooleanOption(SessionConfigOption, frozen=True):
    """On or off."""

    type: Literal["boolean"] = "boolean"
    current_value: StrictBool


class OtherOption(SessionConfigOption, frozen=True):
    """A kind of option that is not known; every member is kept."""


class DraftSessionConfigOption(OpenTagged, frozen=True):
    """An option of a session, in the draft."""

    type: str
    config_id: str
    name: str
    description: LenientStr = None
    category: LenientCategory = None


class DraftSelectOption(DraftSessionConfigOption, frozen=True):
    """One value out of several, in the draft."""

    type: Literal["select"] = "select"
    current_value: str
    options: list[ConfigChoice] | list[DraftConfigGroup]


class DraftBooleanOption(DraftSessionConfigOption, frozen=True):
    """On or off, in the draft."""

    type: Literal["boolean"] = "boolean"
    current_value: StrictBool


class DraftOtherOption(DraftSessionConfigOption, frozen=True):
    """A kind of option that is not known, in the draft; every member is kept."""


class CommandInput(AcpMessage, frozen=True):
    """The input of a command."""

    hint: str


class AvailableCommand(AcpMessage, frozen=True):
    """A command that the user can call by name."""

    name: str
    description: str
    input: Annotated[CommandInput | None, AbsentIfMalformed()] = None


class DraftCommandInput(AcpMessage, frozen=True):
    """The input of a command, in the draft; only `text` has a hint."""

    type: str
    hint: LenientStr = None


class DraftAvailableCommand(AcpMessage, frozen=True):
    """A command that the user can call by name, in the draft."""

    type: str
    name: str
    description: str
    input: Annotated[DraftCommandInput | None, AbsentIfMalformed()] = None


close_union(SessionConfigOption, "type", {"select": SelectOption, "boolean": BooleanOption}, other=OtherOption)
close_union(
    DraftSessionConfigOption,
    "type",
    {"select": DraftSelectOption, "boolean": DraftBooleanOption},
    other=DraftOtherOption,
)
