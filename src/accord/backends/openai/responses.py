"""OpenAI's responses API: the request. Answers are in `responses_answer.py`. Pure; it does no I/O.

The endpoint stores nothing: every request carries its conversation. The model's reasoning comes back encrypted and goes
along with the next request, if thinking is requested or the conversation has such reasoning: models that do not reason
refuse a request for it. Reasoning without encrypted content has no field and is not sent. Log probabilities are
requested as something to include, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.backends.evidence import Layer
from accord.backends.failure import FailureReport
from accord.backends.model_api import AnswerReader, ApiRequest, UnsupportedByApiError, document_text, link_text
from accord.backends.openai.chat import BASE_URL
from accord.backends.openai.endpoint import discovery_request, read_discovery, read_error
from accord.backends.openai.parts import (
    allows_strict,
    arguments_text,
    data_url,
    file_name,
    misplaced,
    parameters_of,
    pdf_url,
    result_text,
    schema_name,
    with_parameters,
)
from accord.backends.openai.responses_answer import ResponsesReader, read_answer
from accord.core.work.derive import capability_for_part
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
from accord.wire.work import AnyPiece, ToolSpec, WorkOrder

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
        "reasoning": "reasoning",
    }
)
ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"
EFFORT_LIMITS: Final = ((4_096, "low"), (16_384, "medium"))
"""The effort that stands for a number of tokens to think: the API takes no number. More than these is `high`."""
NOT_SENT: Final = frozenset({"max_tokens", "enabled"})
"""What the common form of reasoning has and this API has no field for."""


class OpenAiResponses:
    """The responses API. `summary` is the form of reasoning summary to request; None requests none."""

    def __init__(self, *, effort: str = "medium", summary: str | None = "auto") -> None:
        self.name: Final = "openai responses API"
        self.base_url: Final = BASE_URL
        self.supported: Final = SUPPORTED
        self.unsupported: Final = UNSUPPORTED
        self._reasoning: Final = {"effort": effort, **({"summary": summary} if summary else {})}

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        if order.stop_sequences:
            raise UnsupportedByApiError("stop_sequences", UNSUPPORTED["stop_sequences"])
        items = [item for message in order.conversation.messages for item in _items(message)]
        body: dict[str, Any] = {"model": model, "input": items, "stream": order.stream}
        body |= _tools(order)
        body = with_parameters(body, order, FIELDS, UNSUPPORTED)
        if (text_format := _format(order)) is not None:
            text = body.get("text", {})  # the operator may set other members of it
            if not isinstance(text, dict) or "format" in text:
                raise UnsupportedByApiError("text", "the work order itself sets text.format", always=False)
            body["text"] = {**cast("dict[str, Any]", text), "format": text_format}
        reasons = self._set_reasoning(body, thinks=order.thinking)
        include = [ENCRYPTED_REASONING] if reasons or any(item["type"] == "reasoning" for item in items) else []
        if _set_logprobs(body, order.parameters.get("logprobs")):
            include.append(LOGPROBS)
        if include:
            body.setdefault("include", include)
        body.setdefault("store", False)
        return ApiRequest("/responses", body)

    def _set_reasoning(self, body: dict[str, Any], *, thinks: bool) -> bool:
        """Write the reasoning that is requested into the body, and return whether there is any."""
        given = body.get("reasoning")
        if not isinstance(given, Mapping):
            if thinks and given is None:
                body["reasoning"] = self._reasoning
            return thinks
        members = cast("Mapping[str, Any]", given)
        wanted = {name: value for name, value in members.items() if name not in NOT_SENT and value is not None}
        tokens = members.get("max_tokens")
        if isinstance(tokens, int):
            effort = next((word for limit, word in EFFORT_LIMITS if tokens <= limit), "high")
            wanted = {"effort": effort, **wanted}
        if thinks:
            wanted = {**self._reasoning, **wanted}
        if wanted:
            body["reasoning"] = wanted
        else:
            del body["reasoning"]
        return thinks or wanted.get("effort") != "none"

    def answer_reader(self) -> AnswerReader:
        """Return a new reader for one streamed answer."""
        return ResponsesReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """Return what a reply with another status than 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """Return the request for the list of models."""
        return discovery_request(model)

    def read_discovery(self, body: bytes, model: str) -> Layer:
        """Return what the list says of the model."""
        return read_discovery(body, model)


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


def _standalone_item(part: ThinkingPart | ToolUsePart | ToolResultPart, role: Role) -> Iterator[dict[str, Any]]:
    if isinstance(part, ToolResultPart) is (role is Role.ASSISTANT) or role is Role.SYSTEM:
        raise misplaced(part, "extended_thinking" if isinstance(part, ThinkingPart) else "tool_use", f"the {role}")
    match part:
        case ThinkingPart():
            if part.signature is not None:
                summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                yield {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
        case ToolUsePart():
            arguments = arguments_text(part.input)
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
        case ToolResultPart():
            yield {"type": "function_call_output", "call_id": part.tool_use_id, "output": _output(part)}
        case _:
            assert_never(part)


def _output(result: ToolResultPart) -> str | list[dict[str, Any]]:
    """Return the output of a tool: as one text if it is text only, else in parts."""
    contents = [_content(part, Role.TOOL) for part in cast("list[AnyPart]", result.content)]
    if all(content["type"] == "input_text" for content in contents):
        return result_text(result, [content["text"] for content in contents])
    failed = [{"type": "input_text", "text": result_text(result, [])}] if result.is_error else []
    return [*failed, *contents]


def _content(part: AnyPart, role: Role) -> dict[str, Any]:
    text_type = "output_text" if role is Role.ASSISTANT else "input_text"
    _check_role(part, role)
    match part:
        case TextPart():
            return {"type": text_type, "text": part.text}
        case ImagePart():
            address = part.uri if not part.data and part.uri else data_url(part.media_type, part.data)
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "input_image", "image_url": address, **detail}
        case ResourcePart() if part.data is not None:
            return {"type": "input_file", "filename": file_name(part), "file_data": pdf_url(part)}
        case ResourcePart():
            return {"type": text_type, "text": document_text(part)}
        case ResourceLinkPart():
            return {"type": text_type, "text": link_text(part)}
        case AudioPart() | ThinkingPart() | ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", "a tool")
        case _:
            assert_never(part)


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
        is_named = choice.mode == "tool"
        members["tool_choice"] = {"type": "function", "name": choice.name} if is_named else choice.mode
    if order.parallel_tool_calls is not None:
        members["parallel_tool_calls"] = order.parallel_tool_calls
    return members


def _tool(tool: ToolSpec) -> dict[str, Any]:
    description = {"description": tool.description} if tool.description else {}
    # Without the member, the endpoint tries to be strict, which changes what most tools' schemas mean.
    strict = {"parameters": parameters_of(tool), "strict": tool.strict is True}
    return {"type": "function", "name": tool.name, **description, **strict}


def _format(order: WorkOrder) -> dict[str, Any] | None:
    if (schema := order.response_schema) is not None:
        strict = allows_strict(schema)
        name = order.schema_name or schema_name(schema)
        return {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    return {"type": "json_object"} if order.json_mode else None
