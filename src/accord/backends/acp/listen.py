"""Turns what an agent tells during a session into pieces of an answer.

Pure. What the agent says is the answer, what it thinks is thinking. Its plans and tool calls are its own work, to be
shown and not to be answered; what cannot be shown of it is a line of thinking, and so is a notice. Content of an answer
that is no text is told in words where it stands. What is about the session itself (modes, commands) is no piece of it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never, cast

from accord.core.show import show_plan, show_tool_call
from accord.errors import BackendError
from accord.wire.acp.content import (
    AnyBlock,
    AudioBlock,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceLinkBlock,
    TextBlock,
    TextResource,
)
from accord.wire.acp.session import PromptResponse, StopReason
from accord.wire.acp.tool import TerminalPart
from accord.wire.acp.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    NoticeUpdate,
    PlanUpdate,
    SessionUpdate,
    ToolCallChanged,
    ToolCallStarted,
    UsageUpdate,
)
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkPiece

Reason = Literal["end_turn", "max_tokens", "refusal"]

REASONS: Final[Mapping[StopReason, Reason | None]] = MappingProxyType(
    {
        StopReason.END_TURN: "end_turn",
        StopReason.MAX_TOKENS: "max_tokens",
        StopReason.MAX_TURN_REQUESTS: "max_tokens",
        StopReason.REFUSAL: "refusal",
        StopReason.CANCELLED: None,
        StopReason.ERROR: None,
    }
)
"""How an answer ends by the reason that the turn does; None where it has no proper end."""

USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "totalTokens": "total_tokens",
        "thoughtTokens": "thinking_tokens",
        "cachedReadTokens": "cached_input_tokens",
    }
)
"""Counts that some agents tell at the end of a turn, ahead of the protocol."""

TERMINAL: Final = {"type": "text", "text": "[A terminal that cannot be passed on]"}
PASSED_ON: Final = ("name", "kind", "status", "locations", "raw_input", "raw_output")
"""What of a tool call is shown as it is."""


class Listening:
    """One turn of an agent, as it is heard: a call that goes on is called what it was called at its beginning."""

    def __init__(self) -> None:
        self._titles: Final[dict[str, str]] = {}

    def piece_of(self, update: SessionUpdate) -> AnyPiece | None:
        """The piece of the answer that this update is, if it is one."""
        match update:
            case AgentMessageChunk():
                text = _words(update.content)
                return TextPiece(text=text) if text else None
            case AgentThoughtChunk():
                text = _words(update.content)
                return ThinkingPiece(text=text) if text else None
            case ToolCallStarted() | ToolCallChanged():
                return self._call(update)
            case PlanUpdate():
                return _plan(update)
            case NoticeUpdate():
                return _line(f"{update.severity}: {update.title}")
            case _:
                return None

    def _call(self, update: ToolCallStarted | ToolCallChanged) -> AnyPiece:
        own = update.tool_call_id
        title = self._titles[own] = update.title or self._titles.get(own) or own
        content = [TERMINAL if isinstance(part, TerminalPart) else part.dump() for part in update.content or ()]
        more = {name: value for name in PASSED_ON if (value := getattr(update, name)) is not None}
        try:
            return WorkPiece(shown=show_tool_call(own, title, content, more))
        except ValueError:
            return _line(f"tool {update.status or ''}: {title}")


def _plan(update: PlanUpdate) -> AnyPiece:
    if not update.entries:
        return _line("plan: withdrawn")
    return WorkPiece(shown=show_plan([entry.dump() for entry in update.entries]))


def usage_of(update: UsageUpdate) -> dict[str, Any]:
    """What a usage update says, as an answer's usage does."""
    told: dict[str, Any] = {"context_tokens": update.used, "context_size": update.size}
    return told if update.cost is None else {**told, "cost": update.cost.dump()}


def end_of(response: PromptResponse, usage: Mapping[str, Any]) -> EndPiece:
    """The end of the answer; raises `BackendError` if the agent gave up without one."""
    reason = REASONS[response.stop_reason]
    if reason is None:
        raise BackendError("The agent cancelled its turn without being asked to")
    whole = {**usage, **_counts((response.model_extra or {}).get("usage"))}
    return EndPiece(reason=reason, usage=whole or None)


def _counts(told: object) -> dict[str, int]:
    if not isinstance(told, Mapping):
        return {}
    counts = cast("Mapping[str, object]", told)
    return {ours: count for theirs, ours in USAGE.items() if isinstance(count := counts.get(theirs), int)}


def _line(text: str) -> ThinkingPiece:
    return ThinkingPiece(text=f"[{' '.join(text.split())}]\n")


def _words(content: ContentBlock) -> str:
    block = cast("AnyBlock", content)
    match block:
        case TextBlock():
            return block.text
        case ResourceLinkBlock():
            return f"[{block.title or block.name}]({block.uri})"
        case ImageBlock():
            return f"[An image ({block.mime_type}) that cannot be passed on]"
        case AudioBlock():
            return f"[A sound ({block.mime_type}) that cannot be passed on]"
        case ResourceBlock():
            held = block.resource
            return held.text if isinstance(held, TextResource) else f"[A document that cannot be passed on: {held.uri}]"
        case _:
            assert_never(block)
