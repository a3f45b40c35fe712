"""Writes work orders as bodies of the Messages API. Pure; knows no model and no transport.

Three things are said elsewhere than in the order, because the API has one place for them: system messages go to
`system` in their order, wherever in the conversation they stood; neighbours of one side become one message; and in such
a message results of tools come first. A conversation that begins without the user is opened by a line that says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, cast

from accord.backends.models.anthropic.blocks import blocks_of
from accord.backends.models.api import CannotCarry
from accord.core.derive import PARAMETERS, follows_from, set_in
from accord.wire.capability import Capability
from accord.wire.chat import Role
from accord.wire.conversation import ConversationMessage
from accord.wire.work import ToolSpec, WorkOrder

LEAST_THINKING: Final = 1024
OPENING: Final = "(The conversation begins without a message of the user.)"
SIDES: Final[Mapping[Role, str]] = {Role.USER: "user", Role.TOOL: "user", Role.ASSISTANT: "assistant"}
SAMPLED: Final[Mapping[str, Capability]] = {
    "temperature": Capability.TEMPERATURE,
    "top_p": Capability.TOP_P,
    "top_k": Capability.TOP_K,
}
UNTOUCHED_TEMPERATURE: Final = 1
LEAST_TOP_P: Final = 0.95

Block = dict[str, Any]


class Turn(TypedDict):
    """One message of the API."""

    role: str
    content: list[Block]


@dataclass(frozen=True, slots=True)
class Manner:
    """How the operator wants the API to be spoken: see `AnthropicMessages`."""

    max_tokens: int
    thinking_budget: int | None
    lacks: Mapping[str, str]


def body_of(order: WorkOrder, model: str, manner: Manner) -> dict[str, Any]:
    """The body that carries this work; raises `CannotCarry` for what it cannot."""
    _refuse_what_is_lacking(order, manner.lacks)
    system, messages = _conversation(order.conversation.messages)
    _mark(order.parameters.get("cache_control"), system, messages)
    max_tokens = _max_tokens(order, manner)
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    if system:
        body["system"] = system
    body["messages"] = messages
    if order.tools:
        body["tools"] = [_tool(tool) for tool in order.tools]
    if order.stop_sequences:
        body["stop_sequences"] = list(order.stop_sequences)
    body |= _sampling(order)
    if order.thinking:
        body["thinking"] = _thinking(manner, max_tokens)
    if order.response_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": order.response_schema}}
    if order.stream:
        body["stream"] = True
    return _with_the_operators_words(body, order.parameters)


def _refuse_what_is_lacking(order: WorkOrder, lacks: Mapping[str, str]) -> None:
    for needed in (*follows_from(order), *set_in(order)):
        if needed in lacks:
            raise CannotCarry(needed, lacks[needed])


def _conversation(messages: Sequence[ConversationMessage]) -> tuple[list[Block], list[Turn]]:
    system: list[Block] = []
    turns: list[Turn] = []
    for message in messages:
        written = blocks_of(message)
        if message.role is Role.SYSTEM:
            system += written
        elif not written:
            continue
        elif turns and turns[-1]["role"] == SIDES[message.role]:
            turns[-1]["content"] += written
        else:
            turns.append({"role": SIDES[message.role], "content": written})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=_is_no_result)
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return system, turns


def _is_no_result(block: Block) -> bool:
    return block["type"] != "tool_result"


def _mark(wish: Any, system: list[Block], messages: list[Turn]) -> None:
    """Have what comes before the end of the system prompt, and before the end of what the user said last, kept."""
    if not wish:
        return
    mark = {"type": "ephemeral", **(cast("Mapping[str, Any]", wish) if isinstance(wish, Mapping) else {})}
    said = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    for blocks in (system, said):
        if blocks:
            blocks[-1]["cache_control"] = mark


def _max_tokens(order: WorkOrder, manner: Manner) -> Any:
    """How long the answer may be, thinking included: unless the order says so, thinking does not shorten the answer."""
    asked = order.parameters.get("max_tokens")
    if asked is not None:
        return asked
    return manner.max_tokens + ((manner.thinking_budget or 0) if order.thinking else 0)


def _thinking(manner: Manner, max_tokens: Any) -> dict[str, Any]:
    if manner.thinking_budget is None:
        # Some models think without a word unless they are asked to tell.
        return {"type": "adaptive", "display": "summarized"}
    budget = manner.thinking_budget
    if isinstance(max_tokens, int) and max_tokens <= budget:
        # The budget has to be less than the whole; half of it is left for the answer.
        budget = max(LEAST_THINKING, max_tokens // 2)
        if max_tokens <= LEAST_THINKING:
            why = f"max_tokens leaves no room to think: that takes more than {LEAST_THINKING}"
            raise CannotCarry(Capability.EXTENDED_THINKING, why, always=False)
    return {"type": "enabled", "budget_tokens": budget}


def _sampling(order: WorkOrder) -> dict[str, Any]:
    told = {name: value for name in SAMPLED if (value := order.parameters.get(name)) is not None}
    if order.thinking:
        for name, value in told.items():
            if not _goes_with_thinking(name, value):
                why = f"the Messages API does not take this {name} while the model thinks"
                raise CannotCarry(SAMPLED[name], why, always=False)
    return told


def _goes_with_thinking(name: str, value: Any) -> bool:
    if name == "temperature":
        return value == UNTOUCHED_TEMPERATURE
    return name == "top_p" and isinstance(value, int | float) and LEAST_TOP_P <= value <= 1


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.input_schema}}


def _with_the_operators_words(body: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What has no meaning of ours is passed on as it is; where both say something of one object, both count."""
    for name, value in parameters.items():
        if name in PARAMETERS:
            continue
        ours = body.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping) and name == "output_config":
            body[name] = {**cast("dict[str, Any]", ours), **cast("Mapping[str, Any]", value)}
        else:
            body[name] = value
    return body
