"""Writes tools, calls and results as text, and reads calls back, for a model that knows no tools.

A call is `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, a form that many open models have been trained on.
This is the format only; what becomes of a wrong call is decided in `tool_use.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from accord.core.emulate.find_json import read_json, structure_end
from accord.core.emulate.fit_schema import Finding
from accord.wire.chat import Role
from accord.wire.conversation import ConversationMessage, MessagePart, TextPart, ToolResultPart, ToolUsePart
from accord.wire.work import ToolSpec

OPENING: Final = "<tool_call>"
CLOSING: Final = "</tool_call>"

_INCOMPLETE: Final = "is not one complete JSON object followed by </tool_call>"
_BEGIN: Final = re.compile(r"\s*[{\[]")
_CLOSED: Final = re.compile(r"\s*(?:</tool_call>|\Z)")

PROMPT: Final = (
    "You can call tools. To call one, write its name and its arguments as JSON, exactly in this form:\n"
    '<tool_call>{{"name": "the tool\'s name", "arguments": {{}}}}</tool_call>\n'
    "Write one such element for every call, then end your answer: the results come in the next message. "
    "Call no tool that is not listed, and never write a result yourself.\n"
    "The tools, each with the JSON Schema of its arguments:\n{tools}"
)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as the model wrote it: a name and arguments, not checked yet."""

    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """What should have been a call."""

    finding: Finding


NOT_A_CALL: Final = BrokenCall(Finding(_INCOMPLETE, _INCOMPLETE))
NOT_AN_OBJECT: Final = BrokenCall(Finding("should be a JSON object", "should be a JSON object"))
NO_NAME: Final = BrokenCall(Finding('has no "name"', 'has no "name"'))


def tools_prompt(tools: Sequence[ToolSpec]) -> str:
    """The prompt that describes these tools."""
    return PROMPT.format(tools="\n".join(_described(tool) for tool in tools))


def read_calls(text: str) -> Iterator[str | WrittenCall | BrokenCall]:
    """The text and the calls in it, in order."""
    start = 0
    while (opening := text.find(OPENING, start)) >= 0:
        yield text[start:opening]
        call, start = _read_call(text, opening + len(OPENING))
        yield call
    yield text[start:]


def written_out(messages: Sequence[ConversationMessage]) -> list[ConversationMessage]:
    """The messages with their calls and results as text; a tool's message becomes the user's."""
    names = {part.id: part.name for message in messages for part in message.content if isinstance(part, ToolUsePart)}
    return [_written(message, names) for message in messages]


def _described(tool: ToolSpec) -> str:
    told = f"- {tool.name}: {tool.description}" if tool.description else f"- {tool.name}"
    return f"{told}\n  arguments: {_compact(tool.input_schema or {'type': 'object'})}"


def _read_call(text: str, start: int) -> tuple[WrittenCall | BrokenCall, int]:
    begin = _BEGIN.match(text, start)
    if begin is None:
        return NOT_A_CALL, _after_closing(text, start)
    stop = structure_end(text, begin.end() - 1)
    if stop is None:
        return NOT_A_CALL, len(text)
    candidate = read_json(text[begin.end() - 1 : stop])
    # Only the last call may lack its closing tag: its value is whole, and nothing follows.
    closed = _CLOSED.match(text, stop)
    if candidate is None or closed is None:
        return NOT_A_CALL, _after_closing(text, stop)
    return _call(candidate.value), closed.end()


def _after_closing(text: str, start: int) -> int:
    closing = text.find(CLOSING, start)
    return len(text) if closing < 0 else closing + len(CLOSING)


def _call(value: Any) -> WrittenCall | BrokenCall:
    if not isinstance(value, dict):
        return NOT_AN_OBJECT
    fields = cast("dict[str, Any]", value)
    name = fields.get("name")
    if not isinstance(name, str):
        return NO_NAME
    if unknown := sorted(set(fields) - {"name", "arguments"}):
        sentence = 'should have "name" and "arguments" only'
        return BrokenCall(Finding(f'{sentence}, not "{unknown[0][:40]}"', sentence))
    return WrittenCall(name, fields.get("arguments", {}))


def _written(message: ConversationMessage, names: Mapping[str, str]) -> ConversationMessage:
    content = [piece for part in message.content for piece in _as_text(part, names)]
    role = Role.USER if message.role is Role.TOOL else message.role
    return message.model_copy(update={"role": role, "content": content})


def _as_text(part: MessagePart, names: Mapping[str, str]) -> Iterator[MessagePart]:
    if isinstance(part, ToolUsePart):
        yield TextPart(text=f"{OPENING}{_compact({'name': part.name, 'arguments': part.input})}{CLOSING}")
    elif isinstance(part, ToolResultPart):
        status = ' status="error"' if part.is_error else ""
        yield TextPart(text=f'<tool_result tool="{names.get(part.tool_use_id, "")}" call="{part.tool_use_id}"{status}>')
        yield from part.content
        yield TextPart(text="</tool_result>")
    else:
        yield part


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
