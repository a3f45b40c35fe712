"""An agent's session updates as pieces of an answer, and its errors as backend errors. Pure; no processes.

Messages of the agent are text and thoughts are thinking. Plans and tool calls are the agent's own work: they are shown,
not answered; what has no event becomes a line of thinking, and so does a notice. Content of an answer that is not text
is described in words. Updates about the session itself (modes, commands) are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never, cast

from accord.acp import schema_parts, schema_v1
from accord.acp.content import AnyBlock
from accord.acp.schema_parts import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.acp.schema_v1 import ContentChunk, PromptResponse, SessionUpdate, StopReason, ToolCallChanged, UsageUpdate
from accord.backends.acp.request import EMBEDDED_CONTEXT
from accord.core.output.agent_work import build_plan_event, build_tool_call_event
from accord.errors import BackendError, RpcCode
from accord.wire.capability import Capability
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkPiece


@dataclass(frozen=True, slots=True)
class AgentErrorRule:
    """The backend error for one JSON-RPC code. The agent's own message stays in the log: it may describe its host."""

    sentence: str
    retryable: bool


AGENT_ERRORS: Final[Mapping[int, AgentErrorRule]] = MappingProxyType(
    {
        RpcCode.AUTH_REQUIRED: AgentErrorRule(
            "The agent requires authentication: sign in with its own tools, then try again", retryable=False
        ),
        RpcCode.NOT_FOUND: AgentErrorRule("The agent does not find what the request names", retryable=False),
        RpcCode.INVALID_REQUEST: AgentErrorRule("The agent reports a malformed request", retryable=False),
        RpcCode.METHOD_NOT_FOUND: AgentErrorRule("The agent lacks a method of the protocol", retryable=False),
        RpcCode.INVALID_PARAMS: AgentErrorRule("The agent refused the parameters of the request", retryable=False),
        RpcCode.INTERNAL_ERROR: AgentErrorRule("The agent reports an internal error", retryable=True),
        RpcCode.PARSE_ERROR: AgentErrorRule("The agent could not parse the request", retryable=False),
        RpcCode.CANCELLED: AgentErrorRule("The agent cancelled the request", retryable=True),
    }
)
OTHER_ERROR: Final = AgentErrorRule("The agent failed", retryable=True)

CAPABILITY_OF_CONTENT: Final[Mapping[str, str]] = MappingProxyType(
    {"image": Capability.IMAGE_INPUT, "audio": Capability.AUDIO, "resource": EMBEDDED_CONTEXT}
)
"""The capability that a refused type of content needs."""


def agent_error(code: int, data: Any) -> BackendError:
    """Return the backend error for an error that the agent returned."""
    rule = AGENT_ERRORS.get(code, OTHER_ERROR)
    refused = None
    if code == RpcCode.INVALID_PARAMS and isinstance(data, Mapping):
        content_type = cast("Mapping[str, Any]", data).get("contentType")
        refused = CAPABILITY_OF_CONTENT.get(content_type) if isinstance(content_type, str) else None
    sentence = rule.sentence if refused is None else f"{rule.sentence}: {refused}"
    return BackendError(f"{sentence} (code {code})", retryable=rule.retryable, refused=refused)


def exit_error(status: int | None) -> BackendError:
    """Return the backend error for an agent that ended; a status below zero is a signal."""
    if status is None:
        how = "closed the connection"
    elif status < 0:
        how = f"was ended by signal {-status}"
    else:
        how = f"ended with exit status {status}"
    return BackendError(f"The agent {how} before it had answered", retryable=True)


Reason = Literal["end_turn", "max_tokens", "refusal"]

REASONS: Final[Mapping[StopReason, Reason | None]] = MappingProxyType(
    {
        StopReason.END_TURN: "end_turn",
        StopReason.MAX_TOKENS: "max_tokens",
        StopReason.MAX_TURN_REQUESTS: "max_tokens",
        StopReason.REFUSAL: "refusal",
        StopReason.CANCELLED: None,
    }
)
"""How an answer ends, by the stop reason of the turn; None where it is an error."""

USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "totalTokens": "total_tokens",
        "thoughtTokens": "thinking_tokens",
        "cachedReadTokens": "cached_input_tokens",
    }
)
"""Token counts that some agents send at the end of a turn; the protocol does not have them yet."""

TERMINAL: Final = {"type": "text", "text": "[A terminal that cannot be passed on]"}
PASSED_ON: Final = ("name", "kind", "status", "locations", "raw_input", "raw_output")
"""The members of a tool call that are passed on as they are."""


class UpdateReader:
    """Turns the updates of one turn into pieces; a later update of a tool call keeps the title of the first."""

    def __init__(self) -> None:
        self._titles: Final[dict[str, str]] = {}

    def read(self, update: SessionUpdate) -> AnyPiece | None:
        """Return the piece of the answer that this update is, if it is one."""
        match update:
            case ContentChunk(session_update="agent_message_chunk"):
                text = _as_text(update.content)
                return TextPiece(text=text) if text else None
            case ContentChunk(session_update="agent_thought_chunk"):
                text = _as_text(update.content)
                return ThinkingPiece(text=text) if text else None
            case schema_v1.ToolCall() | ToolCallChanged():
                return self._tool_call(update)
            case schema_v1.Plan() if update.entries:
                return WorkPiece(event=build_plan_event([entry.dump() for entry in update.entries]))
            case schema_v1.Plan():
                return _line("plan: withdrawn")
            case schema_v1.Notice():
                return _line(f"{update.severity}: {update.title}")
            case _:
                return None

    def _tool_call(self, update: schema_v1.ToolCall | ToolCallChanged) -> AnyPiece:
        call_id = update.tool_call_id
        title = self._titles[call_id] = update.title or self._titles.get(call_id) or call_id
        content = [
            TERMINAL if isinstance(part, schema_parts.Terminal) else part.dump() for part in update.content or ()
        ]
        members = {name: value for name in PASSED_ON if (value := getattr(update, name)) is not None}
        try:
            return WorkPiece(event=build_tool_call_event(call_id, title, content, members))
        except ValueError:
            return _line(f"tool {update.status or ''}: {title}")


def usage_counts(update: UsageUpdate) -> dict[str, Any]:
    """Return a usage update in the names of an answer's usage."""
    counts: dict[str, Any] = {"context_tokens": update.used, "context_size": update.size}
    return counts if update.cost is None else {**counts, "cost": update.cost.dump()}


def end_piece(response: PromptResponse, usage: Mapping[str, Any]) -> EndPiece:
    """Return the end of the answer; raise `BackendError` if the agent gave up."""
    reason = REASONS[response.stop_reason]
    if reason is None:
        raise BackendError("The agent cancelled its turn without being asked to")
    counts = dict(usage)
    given = (response.model_extra or {}).get("usage")
    if isinstance(given, Mapping):
        members = cast("Mapping[str, object]", given)
        counts |= {ours: count for theirs, ours in USAGE.items() if isinstance(count := members.get(theirs), int)}
    return EndPiece(reason=reason, usage=counts or None)


def _line(text: str) -> ThinkingPiece:
    return ThinkingPiece(text=f"[{' '.join(text.split())}]\n")


def _as_text(content: ContentBlock) -> str:
    block = cast("AnyBlock", content)
    match block:
        case TextContent():
            return block.text
        case ResourceLink():
            return f"[{block.title or block.name}]({block.uri})"
        case ImageContent():
            return f"[An image ({block.mime_type}) that cannot be passed on]"
        case AudioContent():
            return f"[Audio ({block.mime_type}) that cannot be passed on]"
        case EmbeddedResource():
            held = block.resource
            return (
                held.text
                if isinstance(held, TextResourceContents)
                else f"[A document that cannot be passed on: {held.uri}]"
            )
        case _:
            assert_never(block)
