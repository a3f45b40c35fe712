"""The responses API: a request becomes a work order, and a stored response is continued. Pure.

The items of its input are read in `read_items.py`, its tools in `tools.py`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.apis.codec import invalid_member
from accord.apis.responses.read_items import ItemReader
from accord.apis.responses.tools import read_choice, read_tools
from accord.apis.shapes import as_flag, as_list, as_name, as_number, as_object, as_text, as_whole_number
from accord.core.work.fields import ANY_OTHER, TABLE, Api, ModelRequest, row_name
from accord.wire.conversation import Conversation, ConversationMessage, Role, TextPart
from accord.wire.work import Reasoning, ToolSpec, WorkOrder

EFFORT_AND_SUMMARY: Final = ("effort", "summary")
SHOWN, SHOWN_ALONE = "reasoning.summary", "reasoning.summary.alone"
ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"
INCLUDED: Final[Mapping[str, str]] = MappingProxyType(
    {ENCRYPTED_REASONING: "include.reasoning", LOGPROBS: "include.logprobs"}
)
STATEFUL: Final = ("previous_response_id", "conversation", "prompt")
"""Members that name input which an endpoint or Accord keeps: with one of them, `input` may be absent."""

_ROWS: Final = TABLE[Api.RESPONSES]
_OTHER: Final = _ROWS[ANY_OTHER]


def parse(body: dict[str, Any]) -> ModelRequest:
    """Translate a request; raises `RefusedError` for a body that is not one of this API."""
    model, accord = as_name(body.get("model"), "model"), body.get("accord")
    accord = {} if accord is None else as_object(accord, "accord")
    if "accord" in body:
        body = {name: value for name, value in body.items() if name != "accord"}
    reading = _RequestReading()
    for name, value in body.items():
        if value is None or name == "model":
            continue
        read = _READERS.get(name)
        if read is not None:
            read(reading, name, value)
        elif (_ROWS.get(name) or _OTHER).asks(value):
            reading.used[row_name(Api.RESPONSES, name, value)] = None
    if body.get("input") is None and not any(body.get(name) for name in STATEFUL):
        raise invalid_member("input", "text or a list of items")
    return ModelRequest(Api.RESPONSES, model, reading.order(), tuple(reading.used), body, accord=accord)


def input_items(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the input of a request as items; text is a message of the user."""
    value = body.get("input")
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return list(cast("list[dict[str, Any]]", value or []))


def continue_from(body: Mapping[str, Any], stored_items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a request with the items of earlier turns before its own input."""
    return {**body, "input": [*stored_items, *input_items(body)]}


class _RequestReading:
    """The parts of one work order while its request is read. `used` are the rows of the table, in order."""

    __slots__ = ("choice", "fields", "instructions", "items", "parameters", "reasoning", "tools", "used")

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self.fields: dict[str, Any] = {}
        self.parameters: dict[str, Any] = {}
        self.reasoning: dict[str, str] = {}
        self.instructions: str | None = None
        self.items: Final = ItemReader(self.used)
        self.tools: list[ToolSpec] = []
        self.choice: Any = None

    def order(self) -> WorkOrder:
        if "safety_identifier" in self.used and "user" in self.used:
            del self.used["user"]
            self.used["user.second"] = None
        if self.items.effort:
            self.reasoning["effort"] = self.items.effort
        if self.reasoning:
            effort, summary = self.reasoning.get("effort"), self.reasoning.get("summary")
            self.fields["reasoning"] = Reasoning.from_effort(effort, summary)
            if summary is not None:
                self.used[SHOWN_ALONE if effort is None else SHOWN] = None
        messages = self.items.messages
        if self.instructions:
            messages.insert(0, _message(Role.SYSTEM, self.instructions))
        choice, tools = read_choice(self.choice, [*self.tools, *self.items.tools], self.used)
        return WorkOrder(
            conversation=Conversation(messages=messages),
            tools=tools,
            tool_choice=choice,
            parameters=self.parameters,
            **self.fields,
        )


def _message(role: Role, text: str) -> ConversationMessage:
    return ConversationMessage(role=role, content=[TextPart(text=text)])


def _read_input(reading: _RequestReading, name: str, value: Any) -> None:
    if isinstance(value, str):
        reading.items.messages.append(_message(Role.USER, value))
        return
    for place, item in enumerate(as_list(value, name, "text or a list of items")):
        reading.items.read(as_object(item, f"{name}[{place}]"), f"{name}[{place}]")


def _read_instructions(reading: _RequestReading, name: str, value: Any) -> None:
    reading.instructions = as_text(value, name)
    if value:
        reading.used[name] = None


def _read_tools(reading: _RequestReading, name: str, value: Any) -> None:
    reading.tools += read_tools(value, name, reading.used)


def _read_tool_choice(reading: _RequestReading, name: str, value: Any) -> None:  # noqa: ARG001 - as every reader
    reading.choice = value


def _read_include(reading: _RequestReading, name: str, value: Any) -> None:
    for each in as_list(value, name, "a list of names"):
        reading.used[INCLUDED.get(each, "include.other") if isinstance(each, str) else "include.other"] = None
        if each == LOGPROBS:
            reading.parameters.setdefault("logprobs", True)


def _read_text(reading: _RequestReading, name: str, value: Any) -> None:
    for member, held in as_object(value, name).items():
        if member == "format":
            _read_format(reading, held)
        elif (_ROWS.get(f"text.{member}") or _OTHER).asks(held):
            reading.used["text.verbosity" if member == "verbosity" else "text.other"] = None


def _read_format(reading: _RequestReading, value: Any) -> None:
    match value:
        case None | {"type": "text"}:
            pass
        case {"type": "json_object"}:
            reading.used["text.format.json_object"] = None
            reading.fields["json_mode"] = True
        case {"type": "json_schema", "schema": dict(), "name": str(name)}:
            reading.used["text.format.json_schema"] = None
            held = cast("dict[str, Any]", value)
            reading.fields |= {"response_schema": held["schema"], "schema_name": name}
            if held.get("description") is not None:
                reading.used["text.format.description"] = None
                reading.fields["schema_description"] = as_text(held["description"], "text.format.description")
        case {"type": "json_schema"}:
            raise invalid_member("text.format", "a name and a schema")
        case {"type": str()}:
            reading.used["text.format.other"] = None
        case _:
            raise invalid_member("text.format", 'an object such as {"type": "json_schema", "name": …, "schema": …}')


def _read_members(reading: _RequestReading, name: str, value: Any) -> None:
    """Note the members of an object that have a row each, and all others together."""
    rest = name if name in _ROWS else f"{name}.other"
    for member, held in as_object(value, name).items():
        row = _ROWS.get(f"{name}.{member}")
        if (row or _OTHER).asks(held):
            reading.used[row.name if row else rest] = None


def _read_reasoning(reading: _RequestReading, name: str, value: Any) -> None:
    for member, held in as_object(value, name).items():
        if held is None:
            continue
        wanted = "summary" if member == "generate_summary" else member  # the older name
        if wanted not in EFFORT_AND_SUMMARY:
            reading.used["reasoning.other"] = None
            continue
        reading.used["reasoning"] = None
        reading.reasoning.setdefault(wanted, as_text(held, f"{name}.{member}"))


def _read_number(reading: _RequestReading, name: str, value: Any) -> None:
    reading.used[name] = None
    reading.parameters[name] = as_number(value, name)


def _read_max_tokens(reading: _RequestReading, name: str, value: Any) -> None:
    reading.used[name] = None
    reading.parameters["max_tokens"] = as_whole_number(value, name, least=1)


def _read_top_logprobs(reading: _RequestReading, name: str, value: Any) -> None:
    if as_whole_number(value, name):
        reading.used[name] = None
        reading.parameters["logprobs"] = value


def _read_parallel(reading: _RequestReading, name: str, value: Any) -> None:
    reading.fields["parallel_tool_calls"] = as_flag(value, name)
    if not value:
        reading.used[name] = None


def _read_stream(reading: _RequestReading, name: str, value: Any) -> None:
    reading.fields["stream"] = as_flag(value, name)


_READERS: Final[Mapping[str, Callable[[_RequestReading, str, Any], None]]] = MappingProxyType(
    {
        "input": _read_input,
        "instructions": _read_instructions,
        "stream": _read_stream,
        "tools": _read_tools,
        "tool_choice": _read_tool_choice,
        "parallel_tool_calls": _read_parallel,
        "include": _read_include,
        "text": _read_text,
        "stream_options": _read_members,
        "prompt_cache_options": _read_members,
        "reasoning": _read_reasoning,
        "temperature": _read_number,
        "top_p": _read_number,
        "top_logprobs": _read_top_logprobs,
        "max_output_tokens": _read_max_tokens,
    }
)
"""The fields that the work order holds, or that are reported by their members."""
