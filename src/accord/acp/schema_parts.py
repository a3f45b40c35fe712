"""The parts of the Agent Client Protocol that requests and events of Accord have, too.

Written by scripts/acp_types.py from the JSON Schema of the protocol, with its descriptions; do not edit. The schema is
Copyright 2025 Zed Industries, Inc. and contributors, under the Apache License 2.0: see scripts/acp_schema/README.md.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from accord.acp.base import AbsentIfMalformed, AcpMessage, Count, Flag, LenientStr, ListOrAbsent, Open, OpenTagged
from accord.wire.message import FreeObject, FreeValue, close_union


class TextResourceContents(AcpMessage, frozen=True):
    """Text-based resource contents."""

    mime_type: LenientStr = Field(default=None, description="MIME type describing the encoded media payload.")
    text: str = Field(description="Text payload carried by this content block.")
    uri: str = Field(description="URI associated with this resource or media payload.")


class BlobResourceContents(AcpMessage, frozen=True):
    """Binary resource contents."""

    blob: str = Field(description="Base64-encoded bytes for a binary resource payload.")
    mime_type: LenientStr = Field(default=None, description="MIME type describing the encoded media payload.")
    uri: str = Field(description="URI associated with this resource or media payload.")


class ContentBlock(OpenTagged, frozen=True):
    """Content blocks represent displayable information in the Agent Client Protocol.

    Content blocks appear in:
    - User prompts sent via `session/prompt`
    - Language model output streamed through `session/update` notifications
    - Progress updates and results from tool calls

    This structure is compatible with the Model Context Protocol (MCP), so agents can forward content from MCP tool
    outputs without transformation.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class TextContent(ContentBlock, frozen=True):
    """Text provided to or from an LLM."""

    type: Literal["text"] = "text"
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional annotations that help clients decide how to display or route this content."
    )
    text: str = Field(description="Text payload carried by this content block.")


class ImageContent(ContentBlock, frozen=True):
    """An image provided to or from an LLM."""

    type: Literal["image"] = "image"
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional annotations that help clients decide how to display or route this content."
    )
    data: str = Field(description="Base64-encoded media payload.")
    mime_type: str = Field(description="MIME type describing the encoded media payload.")
    uri: LenientStr = Field(default=None, description="URI associated with this resource or media payload.")


class AudioContent(ContentBlock, frozen=True):
    """Audio provided to or from an LLM."""

    type: Literal["audio"] = "audio"
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional annotations that help clients decide how to display or route this content."
    )
    data: str = Field(description="Base64-encoded media payload.")
    mime_type: str = Field(description="MIME type describing the encoded media payload.")


class ResourceLink(ContentBlock, frozen=True):
    """A resource that the server is capable of reading, included in a prompt or tool call result."""

    type: Literal["resource_link"] = "resource_link"
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional annotations that help clients decide how to display or route this content."
    )
    description: LenientStr = Field(
        default=None, description="Optional human-readable details shown with this protocol object."
    )
    mime_type: LenientStr = Field(default=None, description="MIME type describing the encoded media payload.")
    name: str = Field(description="Human-readable name shown for this protocol object.")
    size: Annotated[int | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional size of the linked resource in bytes, if known."
    )
    title: LenientStr = Field(default=None, description="Optional display title for end-user UI.")
    uri: str = Field(description="URI associated with this resource or media payload.")


class EmbeddedResource(ContentBlock, frozen=True):
    """The contents of a resource, embedded into a prompt or tool call result."""

    type: Literal["resource"] = "resource"
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional annotations that help clients decide how to display or route this content."
    )
    resource: TextResourceContents | BlobResourceContents = Field(
        description="Embedded resource payload, either text or binary data."
    )


close_union(
    ContentBlock,
    "type",
    {
        "text": TextContent,
        "image": ImageContent,
        "audio": AudioContent,
        "resource_link": ResourceLink,
        "resource": EmbeddedResource,
    },
)


class PlanEntryPriority(StrEnum):
    """Priority levels for plan entries.

    Used to indicate the relative importance or urgency of different tasks in the execution plan.
    """

    HIGH = "high"
    """High priority task - critical to the overall goal."""
    MEDIUM = "medium"
    """Medium priority task - important but not critical."""
    LOW = "low"
    """Low priority task - nice to have but not essential."""


class PlanEntryStatus(StrEnum):
    """Status of a plan entry in the execution flow.

    Tracks the lifecycle of each task from planning through completion.
    """

    PENDING = "pending"
    """The task has not started yet."""
    IN_PROGRESS = "in_progress"
    """The task is currently being worked on."""
    COMPLETED = "completed"
    """The task has been successfully completed."""
    CANCELLED = "cancelled"
    """The task was cancelled before it completed."""


class PlanEntry(AcpMessage, frozen=True):
    """A single entry in the execution plan.

    Represents a task or goal that the assistant intends to accomplish as part of fulfilling the user's request.
    """

    content: str = Field(description="Human-readable description of what this task aims to accomplish.")
    priority: Open[PlanEntryPriority] = Field(
        description="The relative importance of this task. Used to indicate which tasks are most critical to the overall goal."
    )
    status: Open[PlanEntryStatus] = Field(description="Current execution status of this task.")


class PromptCapabilities(AcpMessage, frozen=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests.

    Baseline agent functionality requires support for `text` and `resource_link` content blocks in prompt requests.

    Other variants must be explicitly opted in to. Capabilities for different types of content in prompt requests.

    Indicates which content types beyond the baseline (text and resource links) the agent can process.
    """

    image: Flag = Field(default=False, description="Agent supports `image` content blocks.")
    audio: Flag = Field(default=False, description="Agent supports `audio` content blocks.")
    embedded_context: Flag = Field(
        default=False, description="Agent supports embedded context in `session/prompt` requests."
    )


class ToolKind(StrEnum):
    """Categories of tools that can be invoked.

    Tool kinds help clients choose appropriate icons and optimize how they display tool execution progress.
    """

    READ = "read"
    """Reading files or data."""
    EDIT = "edit"
    """Modifying files or content."""
    DELETE = "delete"
    """Removing files or data."""
    MOVE = "move"
    """Moving or renaming files."""
    SEARCH = "search"
    """Searching for information."""
    EXECUTE = "execute"
    """Running commands or code."""
    THINK = "think"
    """Internal reasoning or planning."""
    FETCH = "fetch"
    """Retrieving external data."""
    SWITCH_MODE = "switch_mode"
    """Switching the current session mode."""
    OTHER = "other"
    """Other tool types (default)."""


class ToolCallStatus(StrEnum):
    """Execution status of a tool call.

    Tool calls progress through different statuses during their lifecycle.
    """

    PENDING = "pending"
    """The tool call hasn't started running yet because the input is either streaming or we're awaiting approval."""
    IN_PROGRESS = "in_progress"
    """The tool call is currently running."""
    COMPLETED = "completed"
    """The tool call completed successfully."""
    FAILED = "failed"
    """The tool call failed with an error."""
    PAUSED = "paused"
    """The tool call has started, is not running now, and will not continue until something resumes it. It may return
    to `in_progress` any number of times.
    """
    CANCELLED = "cancelled"
    """The tool call was cancelled before it completed."""


class ToolCallContent(OpenTagged, frozen=True):
    """Content produced by a tool call.

    Tool calls can produce different types of content including standard content blocks (text, images) or file diffs.
    """

    type: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, type: str, **members: Any) -> None: ...


class Content(ToolCallContent, frozen=True):
    """Standard content block (text, images, resources)."""

    type: Literal["content"] = "content"
    content: ContentBlock = Field(description="The actual content block.")


class Diff(ToolCallContent, frozen=True):
    """A diff representing file modifications.

    Shows changes to files in a format suitable for display in the client UI.
    """

    type: Literal["diff"] = "diff"
    path: str = Field(description="The absolute file path being modified.")
    old_text: LenientStr = Field(default=None, description="The original content (omitted or `null` for new files).")
    new_text: str = Field(description="The new content after modification.")


class Terminal(ToolCallContent, frozen=True):
    """Embed a terminal created with `terminal/create` by its id.

    The terminal must be added before calling `terminal/release`.
    """

    type: Literal["terminal"] = "terminal"
    terminal_id: str = Field(description="Identifier of the terminal instance to embed in the content stream.")


class OtherToolCallContent(ToolCallContent, frozen=True):
    """A kind of `ToolCallContent` that is not known; every member is kept."""


close_union(
    ToolCallContent, "type", {"content": Content, "diff": Diff, "terminal": Terminal}, other=OtherToolCallContent
)


class ToolCallLocation(AcpMessage, frozen=True):
    """A file location being accessed or modified by a tool.

    Enables clients to implement "follow-along" features that track which files the agent is working with in real-time.
    """

    path: str = Field(description="The absolute file path being accessed or modified.")
    line: Annotated[Count | None, AbsentIfMalformed()] = Field(
        default=None, description="Optional 1-based line number within the file."
    )


class ToolCallUpdate(AcpMessage, frozen=True):
    """An update to an existing tool call.

    Used to report progress and results as tools execute. All fields except the tool call ID are optional - only changed
    fields need to be included.
    """

    tool_call_id: str = Field(description="The ID of the tool call being updated.")
    kind: Annotated[Open[ToolKind] | None, AbsentIfMalformed()] = Field(
        default=None, description="Update the tool kind."
    )
    status: Annotated[Open[ToolCallStatus] | None, AbsentIfMalformed()] = Field(
        default=None, description="Update the execution status."
    )
    title: LenientStr = Field(default=None, description="Update the human-readable title.")
    name: LenientStr = Field(default=None, description="Update the programmatic name of the tool being invoked.")
    content: ListOrAbsent[ToolCallContent] = Field(default=None, description="Replace the content collection.")
    locations: ListOrAbsent[ToolCallLocation] = Field(default=None, description="Replace the locations collection.")
    raw_input: FreeValue = Field(default=None, description="Update the raw input.")
    raw_output: FreeValue = Field(default=None, description="Update the raw output.")


class PermissionOptionKind(StrEnum):
    """The type of permission option being presented to the user.

    Helps clients choose appropriate icons and UI treatment.
    """

    ALLOW_ONCE = "allow_once"
    """Allow this operation only this time."""
    ALLOW_ALWAYS = "allow_always"
    """Allow this operation and remember the choice."""
    REJECT_ONCE = "reject_once"
    """Reject this operation only this time."""
    REJECT_ALWAYS = "reject_always"
    """Reject this operation and remember the choice."""


class PermissionOption(AcpMessage, frozen=True):
    """An option presented to the user when requesting permission."""

    option_id: str = Field(description="Unique identifier for this permission option.")
    name: str = Field(description="Human-readable label to display to the user.")
    kind: Open[PermissionOptionKind] = Field(description="Hint about the nature of this permission option.")


class RequestPermissionRequest(AcpMessage, frozen=True):
    """Request for user permission to execute a tool call.

    Sent when the agent needs authorization before performing a sensitive operation.
    """

    session_id: str = Field(description="The session ID for this request.")
    tool_call: ToolCallUpdate = Field(description="Details about the tool call requiring permission.")
    options: list[PermissionOption] = Field(description="Available permission options for the user to choose from.")


class RequestPermissionOutcome(OpenTagged, frozen=True):
    """The outcome of a permission request."""

    outcome: str

    if TYPE_CHECKING:  # the other members are those of the kind

        def __init__(self, *, outcome: str, **members: Any) -> None: ...


class CancelledPermissionOutcome(RequestPermissionOutcome, frozen=True):
    """The prompt turn was cancelled before the user responded.

    When a client sends a `session/cancel` notification to cancel an ongoing prompt turn, it MUST respond to all pending
    `session/request_permission` requests with this `cancelled` outcome.
    """

    outcome: Literal["cancelled"] = "cancelled"


class SelectedPermissionOutcome(RequestPermissionOutcome, frozen=True):
    """The user selected one of the provided options."""

    outcome: Literal["selected"] = "selected"
    option_id: str = Field(description="The ID of the option the user selected.")


class OtherRequestPermissionOutcome(RequestPermissionOutcome, frozen=True):
    """A kind of `RequestPermissionOutcome` that is not known; every member is kept."""


close_union(
    RequestPermissionOutcome,
    "outcome",
    {"cancelled": CancelledPermissionOutcome, "selected": SelectedPermissionOutcome},
    other=OtherRequestPermissionOutcome,
)


class RequestPermissionResponse(AcpMessage, frozen=True):
    """Response to a permission request."""

    outcome: RequestPermissionOutcome = Field(description="The user's decision on the permission request.")
