"""An agent's session updates as pieces of an answer, and its failures as backend errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never, cast

from accord.backends.acp.request import EMBEDDED_CONTEXT
from accord.core.output.agent_work import build_plan_event, build_tool_call_event
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
from accord.wire.capability import Capability
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkPiece

# Says what an agent's failure means for the work: whether to try again, and which capability turned out to be
# missing.
#
# Pure. One table from JSON-RPC code to meaning. The agent's own words stay in the log: they may tell of the machine
# that it runs on.

INVALID_PARAMS: Final = -32602


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one code means."""

    sentence: str
    retryable: bool


MEANINGS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        -32000: Meaning("The agent wants authentication: sign in with its own tools, then try again", retryable=False),
        -32002: Meaning("The agent does not find what it was asked about", retryable=False),
        -32600: Meaning("The agent takes the request for malformed", retryable=False),
        -32601: Meaning("The agent does not know a method that it needs to know", retryable=False),
        INVALID_PARAMS: Meaning("The agent refused what it was sent", retryable=False),
        -32603: Meaning("The agent failed inside", retryable=True),
        -32700: Meaning("The agent could not read what it was sent", retryable=False),
        -32800: Meaning("The agent cancelled the request", retryable=True),
    }
)
OTHERWISE: Final = Meaning("The agent failed", retryable=True)

NEEDED_FOR: Final[Mapping[str, str]] = MappingProxyType(
    {"image": Capability.IMAGE_INPUT, "audio": Capability.AUDIO, "resource": EMBEDDED_CONTEXT}
)
"""The capability that a refused type of content needs."""


def failure_of(code: int, data: Any) -> BackendError:
    """The failure that an agent's error is."""
    meaning = MEANINGS.get(code, OTHERWISE)
    refused = _refused(data) if code == INVALID_PARAMS else None
    told = meaning.sentence if refused is None else f"{meaning.sentence}: {refused}"
    return BackendError(f"{told} (code {code})", retryable=meaning.retryable, refused=refused)


def exit_failure(status: int | None) -> BackendError:
    """The failure that an agent's end is; below zero, a signal ended it."""
    if status is None:
        how = "closed the connection"
    elif status < 0:
        how = f"was ended by signal {-status}"
    else:
        how = f"ended with exit status {status}"
    return BackendError(f"The agent {how} before it had answered", retryable=True)


def _refused(data: Any) -> str | None:
    if not isinstance(data, Mapping):
        return None
    kind = cast("Mapping[str, Any]", data).get("contentType")
    return NEEDED_FOR.get(kind) if isinstance(kind, str) else None


# Turns what an agent tells during a session into pieces of an answer.
#
# Pure. What the agent says is the answer, what it thinks is thinking. Its plans and tool calls are its own work, to
# be shown and not to be answered; what cannot be shown of it is a line of thinking, and so is a notice. Content of an
# answer that is no text is told in words where it stands. What is about the session itself (modes, commands) is no
# piece of it.

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
            return WorkPiece(event=build_tool_call_event(own, title, content, more))
        except ValueError:
            return _line(f"tool {update.status or ''}: {title}")


def _plan(update: PlanUpdate) -> AnyPiece:
    if not update.entries:
        return _line("plan: withdrawn")
    return WorkPiece(event=build_plan_event([entry.dump() for entry in update.entries]))


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
