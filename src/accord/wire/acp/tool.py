"""Tool calls, their results, and permission requests."""

from enum import StrEnum
from typing import Annotated, Literal

from accord.wire.acp.base import (
    AbsentIfMalformed,
    AcpMessage,
    Count,
    Declared,
    ListOrAbsent,
    Open,
    OpenTagged,
    SkipIfMalformed,
)
from accord.wire.acp.content import ContentBlock, DraftContentBlock, LenientStr
from accord.wire.message import FreeValue, close_union


class ToolKind(StrEnum):
    """The kind of a tool, for its icon."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class ToolCallStatus(StrEnum):
    """The status of a call; `paused` and `cancelled` are the draft's."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LenientKind = Annotated[Open[ToolKind] | None, AbsentIfMalformed()]
LenientStatus = Annotated[Open[ToolCallStatus] | None, AbsentIfMalformed()]


class ToolCallLocation(AcpMessage, frozen=True):
    """A place in a file that the call touches."""

    path: str
    line: Annotated[Count | None, AbsentIfMalformed()] = None


class ToolCallContent(OpenTagged, frozen=True):
    """A part of a tool's output."""

    type: str


class DraftToolCallContent(OpenTagged, frozen=True):
    """A part of a tool's output, in the draft."""

    type: str


class ContentPart(ToolCallContent, frozen=True):
    """A content block."""

    type: Literal["content"] = "content"
    content: ContentBlock


class DiffPart(ToolCallContent, frozen=True):
    """One file before and after."""

    type: Literal["diff"] = "diff"
    path: str
    new_text: str
    old_text: LenientStr = None


class TerminalPart(ToolCallContent, DraftToolCallContent, frozen=True):
    """A terminal to show."""

    type: Literal["terminal"] = "terminal"
    terminal_id: str


class OtherPart(ToolCallContent, DraftToolCallContent, frozen=True):
    """A kind of tool content that is not known; every member is kept."""


class DraftContentPart(DraftToolCallContent, frozen=True):
    """A content block, in the draft."""

    type: Literal["content"] = "content"
    content: DraftContentBlock


class DraftDiffChange(OpenTagged, frozen=True):
    """A change of one path."""

    operation: str
    file_type: LenientStr = None
    mime_type: LenientStr = None


class PathChange(DraftDiffChange, frozen=True):
    """A path was added, deleted or modified."""

    operation: Literal["add", "delete", "modify"]
    path: str


class PathPairChange(DraftDiffChange, frozen=True):
    """A path was moved or copied."""

    operation: Literal["move", "copy"]
    old_path: str
    path: str


class OtherChange(DraftDiffChange, frozen=True):
    """An operation that is not known; every member is kept."""


class DiffPatch(AcpMessage, frozen=True):
    """The changes as text; `git_patch` is the only known format."""

    format: str
    text: str


class DraftDiffPart(DraftToolCallContent, frozen=True):
    """Changes to several files, in the draft."""

    type: Literal["diff"] = "diff"
    changes: list[Annotated[DraftDiffChange, SkipIfMalformed()]]
    patch: Annotated[DiffPatch | None, AbsentIfMalformed()] = None


close_union(
    ToolCallContent, "type", {"content": ContentPart, "diff": DiffPart, "terminal": TerminalPart}, other=OtherPart
)
close_union(
    DraftDiffChange,
    "operation",
    {"add": PathChange, "delete": PathChange, "modify": PathChange, "move": PathPairChange, "copy": PathPairChange},
    other=OtherChange,
)
close_union(
    DraftToolCallContent,
    "type",
    {"content": DraftContentPart, "diff": DraftDiffPart, "terminal": TerminalPart},
    other=OtherPart,
)


class ToolCallUpdate(AcpMessage, frozen=True):
    """An update of a call; absent members are unchanged."""

    tool_call_id: str
    title: LenientStr = None
    name: LenientStr = None
    kind: LenientKind = None
    status: LenientStatus = None
    content: ListOrAbsent[ToolCallContent] = None
    locations: ListOrAbsent[ToolCallLocation] = None
    raw_input: FreeValue = None
    raw_output: FreeValue = None


class ToolCall(AcpMessage, frozen=True):
    """A tool call of the model."""

    tool_call_id: str
    title: str
    name: LenientStr = None
    kind: LenientKind = None
    status: LenientStatus = None
    content: ListOrAbsent[ToolCallContent] = None
    locations: ListOrAbsent[ToolCallLocation] = None
    raw_input: FreeValue = None
    raw_output: FreeValue = None


class ToolCallCapabilities(AcpMessage, frozen=True):
    """What can be done with a running call or terminal, in the draft."""

    cancel: Declared = None


class DraftToolCallUpdate(AcpMessage, frozen=True):
    """A call, or an update of it, in the draft.

    There a null clears a member; `model_fields_set` distinguishes a null from an absent member.
    """

    tool_call_id: str
    title: LenientStr = None
    name: LenientStr = None
    kind: LenientKind = None
    status: LenientStatus = None
    content: ListOrAbsent[DraftToolCallContent] = None
    locations: ListOrAbsent[ToolCallLocation] = None
    raw_input: FreeValue = None
    raw_output: FreeValue = None
    capabilities: Annotated[ToolCallCapabilities | None, AbsentIfMalformed()] = None


class PermissionOptionKind(StrEnum):
    """What choosing an option means."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class PermissionOption(AcpMessage, frozen=True):
    """One option that the user can choose."""

    option_id: str
    name: str
    kind: Open[PermissionOptionKind]


class RequestPermissionRequest(AcpMessage, frozen=True):
    """Ask the user for the permission to make a call."""

    session_id: str
    tool_call: ToolCallUpdate
    options: list[PermissionOption]


class DraftPermissionSubject(OpenTagged, frozen=True):
    """What the permission is for."""

    type: str


class ToolCallSubject(DraftPermissionSubject, frozen=True):
    """A tool call."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: DraftToolCallUpdate


class CommandSubject(DraftPermissionSubject, frozen=True):
    """A command line."""

    type: Literal["command"] = "command"
    command: str
    cwd: str
    tool_call_id: LenientStr = None
    terminal_id: LenientStr = None


class OtherSubject(DraftPermissionSubject, frozen=True):
    """A subject that is not known; every member is kept."""


close_union(
    DraftPermissionSubject, "type", {"tool_call": ToolCallSubject, "command": CommandSubject}, other=OtherSubject
)


class DraftRequestPermissionRequest(AcpMessage, frozen=True):
    """Ask the user for a permission, in the draft: with a title, and a subject as data."""

    session_id: str
    title: str
    description: LenientStr = None
    subject: DraftPermissionSubject | None = None
    options: list[PermissionOption]


class PermissionOutcome(OpenTagged, frozen=True):
    """The decision of the user."""

    outcome: str


class CancelledOutcome(PermissionOutcome, frozen=True):
    """The turn was cancelled before a decision."""

    outcome: Literal["cancelled"] = "cancelled"


class SelectedOutcome(PermissionOutcome, frozen=True):
    """The user chose an option."""

    outcome: Literal["selected"] = "selected"
    option_id: str


class OtherOutcome(PermissionOutcome, frozen=True):
    """An outcome that is not known, and so no permission; every member is kept."""


close_union(
    PermissionOutcome, "outcome", {"cancelled": CancelledOutcome, "selected": SelectedOutcome}, other=OtherOutcome
)


class RequestPermissionResponse(AcpMessage, frozen=True):
    """The response to a permission request."""

    outcome: PermissionOutcome
