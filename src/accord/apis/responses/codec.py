"""OpenAI's responses API: the codec, and requests as they are written. Pure; it does no I/O.

Requests are read in `read_request.py`, answers are read and written in `read_answer.py` and `write_answer.py`.

The endpoint stores nothing: every request carries its conversation. The model's reasoning comes back encrypted and goes
along with the next request, if thinking is requested or the conversation has such reasoning: models that do not reason
refuse a request for it. Reasoning without encrypted content has no field and is not sent. Log probabilities are
requested as something to include, too.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.apis.chat.dialect import OPENAI_URL
from accord.apis.codec import ApiRequest, UnsupportedByApiError, document_text, is_by_address, link_text
from accord.apis.openai.endpoint import (
    discovery_request,
    key_headers,
    read_discovery,
    read_error,
    write_model,
    write_models,
)
from accord.apis.openai.errors import error_body
from accord.apis.openai.parts import (
    arguments_text,
    assumed_effort,
    breakpoint_of,
    custom_input,
    file_name,
    image_address,
    misplaced,
    openai_effort,
    parameters_of,
    pdf_url,
    result_text,
    schema_members,
    with_parameters,
)
from accord.apis.responses.read_answer import ResponsesReader, read_answer
from accord.apis.responses.read_request import ENCRYPTED_REASONING, LOGPROBS, parse
from accord.apis.responses.relayed import ResponsesWatcher, relayed_body, with_texts
from accord.apis.responses.write_answer import ResponseWriter, write_answer, write_error_event
from accord.core.work.derive import capability_for_part
from accord.core.work.reasoning import requested_reasoning
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.disposition import Api
from accord.wire.work import NO_EFFORT, ToolSpec, WorkOrder

SUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "streaming": "native",
        "reasoning_history": "native",
        "system_message": "native",
        "temperature": "native",
        "top_p": "native",
        "max_tokens": "native",
        "tool_result_media": "native",
        "image_url": "native",
        "logprobs": "native",
    }
)
UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio": "the API takes no audio",
        "file_input": "the API takes no files other than PDF",
        "stop_sequences": "the API takes no stop sequences",
        "top_k": "the API has no top_k",
        "frequency_penalty": "the API has no frequency_penalty",
        "presence_penalty": "the API has no presence_penalty",
        "seed_determinism": "the API has no seed",
        "cache_control": "the endpoint itself decides what it caches",
    }
)
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_output_tokens",
        "logprobs": "top_logprobs",
    }
)


class ResponsesCodec:
    """The responses API. `summary` is the form of reasoning summary to request; None requests none."""

    path = "/responses"
    headers = staticmethod(key_headers)
    answer_reader = staticmethod(ResponsesReader)
    read_answer = staticmethod(read_answer)
    read_error = staticmethod(read_error)
    discovery_request = staticmethod(discovery_request)
    read_discovery = staticmethod(read_discovery)
    with_texts = staticmethod(with_texts)
    watcher = staticmethod(ResponsesWatcher)
    read_request = staticmethod(parse)
    write_answer = staticmethod(write_answer)
    answer_writer = staticmethod(ResponseWriter)
    write_error = staticmethod(error_body)
    write_error_event = staticmethod(write_error_event)
    write_model = staticmethod(write_model)
    write_models = staticmethod(write_models)

    def __init__(self, *, effort: str = "medium", summary: str | None = "auto") -> None:
        self.api: Final = Api.RESPONSES
        self.name: Final = "openai responses API"
        self.base_url: Final = OPENAI_URL
        self.supported: Final = SUPPORTED
        self.unsupported: Final = UNSUPPORTED
        self._effort: Final = effort
        self._summary: Final = summary

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        if order.stop_sequences:
            raise UnsupportedByApiError("stop_sequences", UNSUPPORTED["stop_sequences"])
        items = [item for message in order.conversation.messages for item in _items(message)]
        _mark_custom_results(items)
        body: dict[str, Any] = {"model": model, "input": items, "stream": order.stream}
        body |= _tools(order)
        body = with_parameters(body, order, FIELDS, UNSUPPORTED)
        if (text_format := _format(order)) is not None:
            text = body.get("text", {})  # the operator may set other members of it
            if not isinstance(text, dict) or "format" in text:
                raise UnsupportedByApiError("text", "the work order itself sets text.format")
            body["text"] = {**cast("dict[str, Any]", text), "format": text_format}
        if reasoning := self._reasoning(order):
            body.setdefault("reasoning", reasoning)
        reasons = reasoning and reasoning.get("effort") != NO_EFFORT
        include = [ENCRYPTED_REASONING] if reasons or any(item["type"] == "reasoning" for item in items) else []
        if _set_logprobs(body, order.parameters.get("logprobs")):
            include.append(LOGPROBS)
        if include:
            body.setdefault("include", include)
        body.setdefault("store", False)
        return ApiRequest(self.path, body)

    def _reasoning(self, order: WorkOrder) -> dict[str, str]:
        """The reasoning that the order asks for; its text only if that is requested."""
        effort = openai_effort(order, self._effort)
        summary = requested_reasoning(order).summary or (self._summary if order.thinking else None)
        return {name: word for name, word in (("effort", effort), ("summary", summary)) if word}

    def assumed(self, order: WorkOrder) -> dict[str, str]:
        """The effort, if the order asks for reasoning without one."""
        return assumed_effort(order, self._effort)

    def relayed_body(self, body: dict[str, Any], model: str, *, keeps_reasoning: bool) -> tuple[dict[str, Any], bool]:
        """A client's body as it is sent to the endpoint, and whether its usage is requested for Accord alone."""
        return relayed_body(body, model, keeps_reasoning=keeps_reasoning), False


def _items(message: ConversationMessage) -> Iterator[dict[str, Any]]:
    """Yield a message as items: adjacent content is one item; each call, result and reasoning is one of its own."""
    role = "user" if message.role is Role.TOOL else str(message.role)
    pending: list[dict[str, Any]] = []
    for part in cast("list[AnyPart]", message.content):
        if not isinstance(part, ThinkingPart | ToolUsePart | ToolResultPart):
            pending.append(_content(part, message.role))
            continue
        if pending:
            yield {"type": "message", "role": role, "content": pending}
            pending = []
        yield from _standalone_item(part, message.role)
    if pending or not message.content:
        yield {"type": "message", "role": role, "content": pending}


def _mark_custom_results(items: list[dict[str, Any]]) -> None:
    """The result of a call with text has a type of its own, which a result alone does not show."""
    custom = {item["call_id"] for item in items if item["type"] == "custom_tool_call"}
    for item in items if custom else ():
        if item["type"] == "function_call_output" and item["call_id"] in custom:
            item["type"] = "custom_tool_call_output"


def _standalone_item(part: ThinkingPart | ToolUsePart | ToolResultPart, role: Role) -> Iterator[dict[str, Any]]:
    if isinstance(part, ToolResultPart) is (role is Role.ASSISTANT) or role is Role.SYSTEM:
        raise misplaced(part, "extended_thinking" if isinstance(part, ThinkingPart) else "tool_use", f"the {role}")
    match part:
        case ThinkingPart():
            if part.signature is not None:
                summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                yield {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
        case ToolUsePart():
            if part.custom:
                text = custom_input(part.input)
                yield {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": text}
                return
            arguments = arguments_text(part.input)
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
        case ToolResultPart():
            yield {"type": "function_call_output", "call_id": part.tool_use_id, "output": _output(part)}
        case _:
            assert_never(part)


def _output(result: ToolResultPart) -> str | list[dict[str, Any]]:
    """Return the output of a tool: as text if it is one or none, else in parts."""
    contents = [_content(part, Role.TOOL) for part in cast("list[AnyPart]", result.content)]
    if len(contents) < 2 and all(content.keys() == {"type", "text"} for content in contents):
        return result_text(result, [content["text"] for content in contents])
    failed = [{"type": "input_text", "text": result_text(result, [])}] if result.is_error else []
    return [*failed, *contents]


def _content(part: AnyPart, role: Role) -> dict[str, Any]:
    # What the assistant said has no such points.
    return {**_plain_content(part, role), **({} if role is Role.ASSISTANT else breakpoint_of(part))}


def _plain_content(part: AnyPart, role: Role) -> dict[str, Any]:
    text_type = "output_text" if role is Role.ASSISTANT else "input_text"
    _check_role(part, role)
    match part:
        case TextPart():
            return {"type": text_type, "text": part.text}
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "input_image", "image_url": image_address(part), **detail}
        case ResourcePart() if part.data is not None:
            return _file(part)
        case ResourcePart():
            return {"type": text_type, "text": document_text(part)}
        case ResourceLinkPart():
            return {"type": text_type, "text": link_text(part)}
        case AudioPart() | ThinkingPart() | ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", "a tool")
        case _:
            assert_never(part)


def _file(part: ResourcePart) -> dict[str, Any]:
    if part.file_id is not None:
        return {"type": "input_file", "file_id": part.file_id}
    if is_by_address(part):
        return {"type": "input_file", "file_url": part.uri}
    return {"type": "input_file", "filename": file_name(part), "file_data": pdf_url(part)}


def _check_role(part: AnyPart, role: Role) -> None:
    """Raise `UnsupportedByApiError` for media that the API does not take, or not in messages of this role."""
    capability = capability_for_part(part)
    if capability is None:
        return
    if capability in UNSUPPORTED:
        raise UnsupportedByApiError(capability, UNSUPPORTED[capability])
    if role in (Role.ASSISTANT, Role.SYSTEM):
        raise misplaced(part, capability, f"the {role}")


def _set_logprobs(body: dict[str, Any], count: Any) -> bool:
    """Write the number of alternatives that are requested into the body; return whether there are to be any at all."""
    if isinstance(count, bool):  # without a number of alternatives
        del body["top_logprobs"]
    return count is not None and count is not False


def _tools(order: WorkOrder) -> dict[str, Any]:
    """Return the tools, and how they may be called."""
    members: dict[str, Any] = {}
    if order.tools:
        members["tools"] = [_tool(tool) for tool in order.tools]
    if (choice := order.tool_choice) is not None:
        is_custom = any(tool.name == choice.name and tool.custom is not None for tool in order.tools)
        named = {"type": "custom" if is_custom else "function", "name": choice.name}
        members["tool_choice"] = named if choice.mode == "tool" else choice.mode
    if order.parallel_tool_calls is not None:
        members["parallel_tool_calls"] = order.parallel_tool_calls
    return members


def _tool(tool: ToolSpec) -> dict[str, Any]:
    if tool.custom is not None:
        return {"type": "custom", "name": tool.name, **tool.custom}
    description = {"description": tool.description} if tool.description else {}
    # Without the member, the endpoint tries to be strict, which changes what most tools' schemas mean.
    strict = {"parameters": parameters_of(tool), "strict": tool.strict is True}
    return {"type": "function", "name": tool.name, **description, **strict}


def _format(order: WorkOrder) -> dict[str, Any] | None:
    if (schema := order.response_schema) is not None:
        return {"type": "json_schema", **schema_members(order, schema)}
    return {"type": "json_object"} if order.json_mode else None
