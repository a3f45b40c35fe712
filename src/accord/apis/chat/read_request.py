"""A chat completions request as a work order; its messages are read in `read_messages.py`. Pure.

The body is read by hand: this is on the path of every request, and the API itself is lenient where a model class would
not be. Whatever the order cannot hold is reported as a field. The older form of tools (`functions`, `function_call`)
becomes tools and a tool choice.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.apis.chat.read_messages import ChatMessageParser
from accord.apis.openai.parts import custom_tool
from accord.apis.shapes import (
    as_flag,
    as_list,
    as_name,
    as_number,
    as_object,
    as_text,
    as_whole_number,
    invalid_field,
)
from accord.core.work.fields import TABLE, Api, ModelRequest, row_name, row_of
from accord.wire.work import Reasoning, ToolChoice, ToolSpec, WorkOrder

Body = dict[str, Any]

MAX_ANSWERS: Final = 128
MAX_TOP_LOGPROBS: Final = 20
TOOL_MEMBERS: Final = frozenset({"name", "description", "parameters", "strict", "cache_control"})
CUSTOM_MEMBERS: Final = frozenset({"name", "description", "format"})
SCHEMA_MEMBERS: Final = frozenset({"name", "description", "schema", "strict"})

_ROWS: Final = TABLE[Api.CHAT]


def parse_chat(body: Body) -> ModelRequest:
    """Translate a request; raises `RefusedError` with the field for a body that is not one."""
    accord: Any = None
    if "accord" in body:
        body = dict(body)
        accord = body.pop("accord")
    parser = _ChatParser()
    for name, value in body.items():
        if value is None or name == "model":
            continue
        read = READERS.get(name)
        if read is not None:
            read(parser, name, value)
        elif row_of(Api.CHAT, name).asks(value):
            parser.fields[row_name(Api.CHAT, name, value)] = None
    model = as_name(body.get("model"), "model")
    if "conversation" not in parser.order:
        raise invalid_field("messages", "a list of at least one message", None)
    parser.settle()
    given: Mapping[str, Any] = {} if accord is None else as_object(accord, "accord")
    order = WorkOrder(**parser.order)
    return ModelRequest(Api.CHAT, model, order, tuple(parser.fields), body, parser.answers, given)


class _ChatParser:
    """What was read of a request so far: members of the order, and the rows that were used, in their order."""

    __slots__ = ("answers", "fields", "order", "parameters", "top_logprobs")

    def __init__(self) -> None:
        self.fields: dict[str, None] = {}
        self.parameters: Body = {}
        self.order: Body = {"parameters": self.parameters}
        self.answers = 1
        self.top_logprobs = 0

    def read_messages(self, _: str, value: Any) -> None:
        self.order["conversation"] = ChatMessageParser(self.fields).read(value)

    def read_tools(self, name: str, value: Any) -> None:
        for place, each in enumerate(as_list(value, name)):
            tool = as_object(each, f"{name}[{place}]")
            kind = "function" if name == "functions" else tool.get("type", "function")
            if kind == "custom":
                self.fields["tools"] = self.fields["tools[].custom"] = None
                at = f"{name}[{place}].custom"
                self.order.setdefault("tools", []).append(self._custom_tool(as_object(tool.get("custom"), at), at))
                continue
            if kind != "function":
                self.fields["tools[].other"] = None
                continue
            self.fields[name] = None
            function = tool if name == "functions" else as_object(tool.get("function"), f"{name}[{place}].function")
            self.order.setdefault("tools", []).append(self._tool(tool, function, f"{name}[{place}]"))

    def _tool(self, tool: Body, function: Body, at: str) -> ToolSpec:
        schema, strict = function.get("parameters"), function.get("strict")
        cache_control: Any = tool.get("cache_control") or function.get("cache_control")
        if strict is True:
            self.fields["tools[].function.strict"] = None
        if cache_control is not None:
            self.fields["tools[].cache_control"] = None
        self.report_others(function, TOOL_MEMBERS, "tools[].function")
        return ToolSpec(
            name=as_name(function.get("name"), f"{at}.name"),
            description=as_text(function.get("description") or "", f"{at}.description"),
            input_schema={} if schema is None else as_object(schema, f"{at}.parameters"),
            strict=strict if isinstance(strict, bool) else None,
            cache_control=None if cache_control is None else as_object(cache_control, f"{at}.cache_control"),
        )

    def _custom_tool(self, tool: Body, at: str) -> ToolSpec:
        self.report_others(tool, CUSTOM_MEMBERS, "tools[].custom")
        text_format: Body | None = None
        match tool.get("format"):
            case None | {"type": "text"}:
                pass
            case {"type": "grammar", "grammar": {"syntax": str(), "definition": str()} as grammar}:
                text_format = {"type": "grammar", **cast("Body", grammar)}
            case other:
                raise invalid_field(f"{at}.format", "type text, or type grammar with syntax and definition", other)
        name = as_name(tool.get("name"), f"{at}.name")
        return custom_tool(name, as_text(tool.get("description") or "", f"{at}.description"), text_format)

    def read_tool_choice(self, name: str, value: Any) -> None:
        match value:
            case "auto":
                return
            case "none" | "required":
                choice = ToolChoice(mode=value)
            case (
                {"type": "function", "function": {"name": str(tool)}}
                | {"type": "custom", "custom": {"name": str(tool)}}
                | {"name": str(tool)}
            ):
                choice = ToolChoice(mode="tool", name=tool)
            case {"type": "allowed_tools", "allowed_tools": dict()}:
                # Read when all tools are known.
                self.fields["tool_choice.allowed_tools"] = None
                self.order["tool_choice"] = value
                return
            case _:
                raise invalid_field(name, "none, auto, required, or an object that names a function", value)
        self.fields[name] = None
        self.order["tool_choice"] = choice

    def read_parallel(self, name: str, value: Any) -> None:
        if self.flag(name, value) is False:
            self.order["parallel_tool_calls"] = False

    def read_format(self, name: str, value: Any) -> None:
        given = as_object(value, name)
        match given:
            case {"type": "text"}:
                expected = {"type"}
            case {"type": "json_object"}:
                expected = {"type"}
                self.fields[f"{name}.json_object"] = None
                self.order["json_mode"] = True
            case {"type": "json_schema"}:
                expected = {"type", "json_schema"}
                self._read_schema(as_object(given.get("json_schema"), f"{name}.json_schema"), f"{name}.json_schema")
            case _:
                expected = {"type"}
                as_name(given.get("type"), f"{name}.type")
                self.fields[f"{name}.other"] = None
        if given.keys() - expected:
            self.fields[f"{name}.other"] = None

    def _read_schema(self, given: Body, at: str) -> None:
        self.fields[at] = None
        schema = given.get("schema")
        self.order["response_schema"] = {} if schema is None else as_object(schema, f"{at}.schema")
        self.order["schema_name"] = as_name(given.get("name"), f"{at}.name")
        if (description := given.get("description")) is not None:
            self.fields[f"{at}.description"] = None
            self.order["schema_description"] = as_text(description, f"{at}.description")
        # `strict` is not kept: every answer is checked against the schema.
        self.report_others(given, SCHEMA_MEMBERS, at)

    def report_others(self, given: Body, members: frozenset[str], at: str) -> None:
        for name, value in given.items():
            if name not in members and value is not None:
                self.fields[f"{at}.{name}"] = None

    def read_stream_options(self, name: str, value: Any) -> None:
        for option, wanted in as_object(value, name).items():
            if option in ("include_usage", "include_obfuscation"):
                if wanted:
                    self.fields[f"{name}.{option}"] = None
            elif wanted is not None and wanted is not False:
                self.fields[f"{name}.other"] = None

    def flag(self, name: str, value: Any) -> bool:
        if _ROWS[name].asks(as_flag(value, name)):
            self.fields[name] = None
        return value

    def read_stream(self, name: str, value: Any) -> None:
        self.order["stream"] = as_flag(value, name)

    def read_number(self, name: str, value: Any) -> None:
        if _ROWS[name].asks(as_number(value, name)):
            self.fields[name] = None
            self.parameters[name] = value

    def whole_number(self, name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
        if _ROWS[name].asks(as_whole_number(value, name, least=least, most=most)):
            self.fields[name] = None
        return value

    def read_seed(self, name: str, value: Any) -> None:
        self.parameters[name] = self.whole_number(name, value)

    def read_limit(self, name: str, value: Any) -> None:
        limit = self.whole_number(name, value, 1)
        if self.parameters.setdefault("max_tokens", limit) != limit:  # endpoints differ in which of the two counts
            raise invalid_field(name, "the same number as the other limit, or no other limit", value)

    def read_count(self, name: str, value: Any) -> None:
        self.answers = self.whole_number(name, value, 1, MAX_ANSWERS)

    def read_logprobs(self, name: str, value: Any) -> None:
        if self.flag(name, value):
            self.parameters["logprobs"] = True

    def read_top_logprobs(self, name: str, value: Any) -> None:
        self.top_logprobs = self.whole_number(name, value, 0, MAX_TOP_LOGPROBS)

    def read_stop(self, name: str, value: Any) -> None:
        texts = [value] if isinstance(value, str) else as_list(value, name)
        if texts:
            self.fields[name] = None
            self.order["stop_sequences"] = [as_text(each, f"{name}[{place}]") for place, each in enumerate(texts)]

    def read_effort(self, name: str, value: Any) -> None:
        self.fields[name] = None
        self.order["reasoning"] = Reasoning.from_effort(as_name(value, name))

    def settle(self) -> None:
        """Settle what depends on several members, whatever their order in the body."""
        if self.top_logprobs:
            if not self.parameters.get("logprobs"):
                raise invalid_field("logprobs", "true, because top_logprobs is given", None)
            self.parameters["logprobs"] = self.top_logprobs
        if "safety_identifier" in self.fields and "user" in self.fields:
            del self.fields["user"]
            self.fields["user.second"] = None
        if self.order.keys() & {"tool_choice", "parallel_tool_calls"} or "functions" in self.fields:
            self._settle_tools()

    def _settle_tools(self) -> None:
        tools: list[ToolSpec] = self.order.get("tools", [])
        choice: Any = self.order.get("tool_choice")
        if isinstance(choice, dict):
            choice = self._allow_tools(cast("Body", choice)["allowed_tools"], tools)
        names = {tool.name for tool in self.order.get("tools", ())}
        has_others = "tools[].other" in self.fields
        if isinstance(choice, ToolChoice) and choice.mode in ("required", "tool") and not has_others:
            if choice.mode == "tool" and choice.name not in names:
                raise invalid_field("tool_choice", "the name of one of the tools", choice.name)
            if not names:
                raise invalid_field("tools", "at least one tool, because tool_choice requires a call", None)
        if not tools and not has_others:
            # Neither asks for anything without tools, and endpoints refuse them then.
            for name in ("tool_choice", "parallel_tool_calls", "function_call"):
                self.order.pop(name, None)
                self.fields.pop(name, None)
        if "functions" in self.fields and "tools" not in self.fields:
            self.order["parallel_tool_calls"] = False  # the older form of an answer has one call

    def _allow_tools(self, allowed: Body, tools: list[ToolSpec]) -> ToolChoice | None:
        at = "tool_choice.allowed_tools"
        listed = as_list(allowed.get("tools"), f"{at}.tools")
        names = {as_name(_name_of(each), f"{at}.tools[{place}].function.name") for place, each in enumerate(listed)}
        mode = allowed.get("mode")
        if mode not in ("auto", "required"):
            raise invalid_field(f"{at}.mode", "auto or required", mode)
        if tools:
            self.order["tools"] = [tool for tool in tools if tool.name in names]
        choice = self.order["tool_choice"] = ToolChoice(mode="required") if mode == "required" else None
        return choice


def _name_of(tool: Any) -> Any:
    match tool:
        case {"function": {"name": name}} | {"custom": {"name": name}}:
            return name
        case _:
            return None


READERS: Final[Mapping[str, Callable[[_ChatParser, str, Any], None]]] = MappingProxyType(
    {
        "messages": _ChatParser.read_messages,
        "stream": _ChatParser.read_stream,
        "stream_options": _ChatParser.read_stream_options,
        "tools": _ChatParser.read_tools,
        "functions": _ChatParser.read_tools,
        "tool_choice": _ChatParser.read_tool_choice,
        "function_call": _ChatParser.read_tool_choice,
        "parallel_tool_calls": _ChatParser.read_parallel,
        "response_format": _ChatParser.read_format,
        "temperature": _ChatParser.read_number,
        "top_p": _ChatParser.read_number,
        "top_k": _ChatParser.read_number,
        "frequency_penalty": _ChatParser.read_number,
        "presence_penalty": _ChatParser.read_number,
        "seed": _ChatParser.read_seed,
        "max_tokens": _ChatParser.read_limit,
        "max_completion_tokens": _ChatParser.read_limit,
        "n": _ChatParser.read_count,
        "logprobs": _ChatParser.read_logprobs,
        "top_logprobs": _ChatParser.read_top_logprobs,
        "stop": _ChatParser.read_stop,
        "reasoning_effort": _ChatParser.read_effort,
    }
)
"""The fields that have a place in a work order. All others are only reported, if they ask for anything."""
