"""Requests of the Messages API as work orders. Pure; the messages are read in `read_content.py`.

The body is read once, member by member, in the order in which it was sent. What the common form of a work order cannot
hold is left out of it and reported as a field: only a request that is passed on unchanged can carry it. Shapes are
checked by hand, because this runs for every request; only what would change the meaning is refused.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from accord.apis.codec import invalid_member
from accord.apis.messages.read_content import (
    Json,
    MessagesContentReader,
    MessagesFieldError,
    as_list,
    as_object,
    text_member,
)
from accord.core.work.fields import Api, ModelRequest, asks_for_more, row_of
from accord.wire.conversation import Conversation, ConversationMessage, Role
from accord.wire.work import Reasoning, ToolChoice, ToolMode, ToolSpec, WorkOrder

TOOL_MEMBERS: Final = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
THINKING_MEMBERS: Final = frozenset({"type", "budget_tokens", "display"})
CHOICES: Final[Mapping[str, ToolMode]] = MappingProxyType(
    {"auto": "auto", "any": "required", "tool": "tool", "none": "none"}
)
SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
NO_EXTENSION: Final[Mapping[str, Any]] = MappingProxyType({})


def parse_request(body: Json) -> ModelRequest:
    """Translate the body of `POST /v1/messages`; raises `RefusedError` for a body that is not such a request."""
    request = count_request(body)
    if request.order.parameters.get("max_tokens", 0) < 1:
        raise invalid_member("max_tokens", "a number of tokens from 1; the Messages API requires it")
    return request


def count_request(body: Json) -> ModelRequest:
    """Translate the body of `POST /v1/messages/count_tokens`: the same members, of which none limits the answer."""
    reader = _MessagesRequestReader()
    try:
        for name, value in body.items():
            reader.read(name, value)
        model = text_member(body, "model")
        if body.get("messages") is None:
            raise MessagesFieldError("messages", "a list of messages")
        order = reader.order()
    except MessagesFieldError as error:
        raise invalid_member(error.path, error.expected) from None
    accord = body.get("accord") or NO_EXTENSION
    if "accord" in body:
        body = {name: value for name, value in body.items() if name != "accord"}
    return ModelRequest(Api.MESSAGES, model, order, tuple(reader.fields), body, accord=accord)


class _MessagesRequestReader:
    """What has been read of one request."""

    __slots__ = (
        "_choice",
        "_content",
        "_hosted",
        "_parallel",
        "_parameters",
        "_reasoning",
        "_schema",
        "_stop",
        "_stream",
        "_tools",
        "fields",
    )

    def __init__(self) -> None:
        self.fields: Final[dict[str, None]] = {}
        self._content: Final = MessagesContentReader(self.fields)
        self._tools: Final[list[ToolSpec]] = []
        self._hosted: Final[set[str]] = set()
        self._choice: ToolChoice | None = None
        self._parallel: bool | None = None
        self._schema: Json | None = None
        self._stop: list[str] = []
        self._stream = False
        self._parameters: Final[Json] = {}
        self._reasoning: Final[Json] = {}

    def read(self, name: str, value: Any) -> None:
        """Read one member of the body."""
        if value is None:
            return
        reader = READERS.get(name)
        if reader is not None:
            reader(self, value)
        elif name in SAMPLING:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise MessagesFieldError(name, "a number")
            self.fields[name] = None
            self._parameters[name] = value
        elif row_of(Api.MESSAGES, name).asks(value):
            self.fields[name] = None

    def order(self) -> WorkOrder:
        """The work order of everything that was read."""
        messages = self._content.messages
        if self._content.system:
            messages.insert(0, ConversationMessage(role=Role.SYSTEM, content=self._content.system))
        if self._reasoning.get("enabled") is False and "effort" in self._reasoning:
            self.fields["output_config.effort.alone"] = None
        return WorkOrder(
            conversation=Conversation.model_validate({"messages": messages}),
            tools=self._tools,
            tool_choice=self._checked_choice(),
            parallel_tool_calls=self._parallel,
            response_schema=self._schema,
            stop_sequences=self._stop,
            stream=self._stream,
            reasoning=Reasoning(**self._reasoning) if self._reasoning else None,
            parameters=self._parameters,
        )

    def _checked_choice(self) -> ToolChoice | None:
        choice = self._choice
        if choice is None or choice.mode != "tool" or any(tool.name == choice.name for tool in self._tools):
            return choice
        if choice.name in self._hosted:
            self.fields["tool_choice.hosted"] = None
            return None
        raise MessagesFieldError("tool_choice.name", "the name of one of the tools")

    def read_accord(self, value: Any) -> None:
        as_object(value, "accord")

    def read_stream(self, value: Any) -> None:
        if not isinstance(value, bool):
            raise MessagesFieldError("stream", "true or false")
        self._stream = value

    def read_max_tokens(self, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise MessagesFieldError("max_tokens", "a whole number of at least 1")
        self.fields["max_tokens"] = None
        self._parameters["max_tokens"] = value

    def read_stop_sequences(self, value: Any) -> None:
        texts = as_list(value, "stop_sequences")
        if not all(isinstance(text, str) for text in texts):
            raise MessagesFieldError("stop_sequences", "a list of strings")
        if texts:
            self.fields["stop_sequences"] = None
            self._stop = texts

    def read_thinking(self, value: Any) -> None:
        config = as_object(value, "thinking")
        kind = config.get("type")
        if not isinstance(kind, str):
            raise MessagesFieldError("thinking.type", 'a word such as "adaptive"')
        self.fields["thinking"] = None
        self._reasoning["enabled"] = kind != "disabled"
        if kind == "enabled":
            budget = config.get("budget_tokens")
            if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
                raise MessagesFieldError("thinking.budget_tokens", "a whole number of tokens from 1")
            self._reasoning["max_tokens"] = budget
        display = config.get("display")
        if display == "summarized":
            self.fields["thinking.display"] = None
            self._reasoning["summary"] = "auto"
        if (
            kind not in ("enabled", "adaptive", "disabled")
            or display not in (None, "summarized")
            or asks_for_more(config, THINKING_MEMBERS)
        ):
            self.fields["thinking.other"] = None

    def read_output_config(self, value: Any) -> None:
        for name, member in as_object(value, "output_config").items():
            if member is None:
                continue
            if name == "format":
                self._read_format("output_config.format", member)
            elif name == "effort":
                if not isinstance(member, str):
                    raise MessagesFieldError("output_config.effort", 'a word such as "medium"')
                self.fields["output_config.effort"] = None
                self._reasoning["effort"] = member
            else:
                self.fields["output_config.other"] = None

    def read_output_format(self, value: Any) -> None:
        self._read_format("output_format", value)

    def _read_format(self, name: str, value: Any) -> None:
        wanted = as_object(value, name)
        if wanted.get("type") != "json_schema":
            raise MessagesFieldError(f"{name}.type", '"json_schema"')
        self._schema = as_object(wanted.get("schema"), f"{name}.schema")
        self.fields[name] = None

    def read_metadata(self, value: Any) -> None:
        for name, member in as_object(value, "metadata").items():
            if member is not None:
                self.fields["metadata.user_id" if name == "user_id" else "metadata"] = None

    def read_tools(self, value: Any) -> None:
        for place, item in enumerate(as_list(value, "tools")):
            try:
                self._read_tool(as_object(item))
            except MessagesFieldError as error:
                raise error.inside(f"tools[{place}]") from None

    def _read_tool(self, tool: Json) -> None:
        if tool.get("type") not in (None, "custom"):
            self.fields["tools[].hosted"] = None
            if isinstance(name := tool.get("name"), str):
                self._hosted.add(name)
            return
        self.fields["tools"] = None
        strict = tool.get("strict")
        if strict not in (None, True, False):
            raise MessagesFieldError("strict", "true or false")
        if strict:
            self.fields["tools[].strict"] = None
        if asks_for_more(tool, TOOL_MEMBERS):
            self.fields["tools[].other"] = None
        self._tools.append(
            ToolSpec(
                name=text_member(tool, "name"),
                description=text_member(tool, "description", ""),
                input_schema=as_object(tool.get("input_schema"), "input_schema"),
                strict=strict,
                cache_control=self._content.cache_control(tool),
            )
        )

    def read_tool_choice(self, value: Any) -> None:
        choice = as_object(value, "tool_choice")
        mode = CHOICES.get(kind) if isinstance(kind := choice.get("type"), str) else None
        if mode is None:
            raise MessagesFieldError("tool_choice.type", "one of auto, any, tool and none")
        if mode != "auto":
            name = text_member(choice, "name", path="tool_choice.name") if mode == "tool" else None
            self._choice = ToolChoice(mode=mode, name=name)
            self.fields["tool_choice"] = None
        if choice.get("disable_parallel_tool_use"):
            self._parallel = False
            self.fields["tool_choice.disable_parallel_tool_use"] = None

    def read_messages(self, value: Any) -> None:
        self._content.read_messages(value)

    def read_system(self, value: Any) -> None:
        self._content.read_system(value)

    def skip(self, value: Any) -> None:
        """Nothing: the member is read at the end, where it may also be missing."""


READERS: Final[Mapping[str, Callable[[_MessagesRequestReader, Any], None]]] = MappingProxyType(
    {
        "accord": _MessagesRequestReader.read_accord,
        "max_tokens": _MessagesRequestReader.read_max_tokens,
        "messages": _MessagesRequestReader.read_messages,
        "metadata": _MessagesRequestReader.read_metadata,
        "model": _MessagesRequestReader.skip,
        "output_config": _MessagesRequestReader.read_output_config,
        "output_format": _MessagesRequestReader.read_output_format,
        "stop_sequences": _MessagesRequestReader.read_stop_sequences,
        "stream": _MessagesRequestReader.read_stream,
        "system": _MessagesRequestReader.read_system,
        "thinking": _MessagesRequestReader.read_thinking,
        "tool_choice": _MessagesRequestReader.read_tool_choice,
        "tools": _MessagesRequestReader.read_tools,
    }
)
"""How each member is read that the work order holds; every other one is only reported."""
