"""OpenAI's responses API: the request. Nothing is kept by the endpoint: every question carries its conversation.

The model's reasoning comes back sealed and goes along with the next question, if thinking is asked for or the
conversation has such a seal: models that do not reason refuse to be asked for one. Reasoning without a seal has no
place here and is not sent. How an answer is read is in `responses_answer.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.backends.evidence import Layer
from accord.backends.failure import Explained
from accord.backends.models.api import Asking, CannotCarry, Reading
from accord.backends.models.openai.chat import BASE_URL
from accord.backends.models.openai.failure import explain
from accord.backends.models.openai.look import discovered, look
from accord.backends.models.openai.parts import (
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
from accord.backends.models.openai.responses_answer import ResponsesReading, read_whole
from accord.backends.models.words import document_text, link_text
from accord.core.derive import needed_for
from accord.wire.answer import AnyPiece
from accord.wire.chat import Role
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import ToolSpec, WorkOrder

GIVES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "streaming": "native",
        "reasoning_history": "native",
        "system_message": "native",
        "temperature": "native",
        "top_p": "native",
        "max_tokens": "native",
        "tool_result_media": "native",
    }
)
LACKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio": "it takes no sound",
        "file_input": "it takes no files other than PDF",
        "stop_sequences": "it takes no texts to stop at",
        "top_k": "sampling cannot be limited to a number of tokens",
        "frequency_penalty": "it takes no penalties",
        "presence_penalty": "it takes no penalties",
        "seed_determinism": "it takes no seed",
        "logprobs": "answers here have no place for probabilities",
        "cache_control": "the endpoint itself decides what it caches",
    }
)
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
)
SEALS: Final = "reasoning.encrypted_content"


class OpenAiResponses:
    """The responses API. `summary` is how the model is asked to tell of its reasoning; None asks for nothing."""

    def __init__(self, *, effort: str = "medium", summary: str | None = "auto") -> None:
        self.name: Final = "openai responses API"
        self.base_url: Final = BASE_URL
        self.gives: Final = GIVES
        self.lacks: Final = LACKS
        self._reasoning: Final = {"effort": effort, **({"summary": summary} if summary else {})}

    def headers(self, key: str | None) -> dict[str, str]:
        """The key, if there is one."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def ask(self, order: WorkOrder, model: str) -> Asking:
        """The request that carries this work."""
        if order.stop_sequences:
            raise CannotCarry("stop_sequences", LACKS["stop_sequences"])
        items = [item for message in order.conversation.messages for item in _items(message)]
        body: dict[str, Any] = {"model": model, "input": items, "stream": order.stream}
        if order.tools:
            body["tools"] = [_tool(tool) for tool in order.tools]
        body = with_parameters(body, order, FIELDS, LACKS)
        if (wanted := _format(order)) is not None:
            body["text"] = _with_format(body.get("text", {}), wanted)
        if order.thinking:
            body.setdefault("reasoning", self._reasoning)
        if order.thinking or any(item["type"] == "reasoning" for item in items):
            body.setdefault("include", [SEALS])
        body.setdefault("store", False)
        return Asking("/responses", body)

    def reading(self) -> Reading:
        """A reader for one streamed answer."""
        return ResponsesReading()

    def read_whole(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_whole(body)

    def explain(self, status: int, body: bytes) -> Explained:
        """What an answer that is not 200 says went wrong."""
        return explain(status, body)

    def look(self, model: str) -> Asking:
        """The list of models."""
        return look(model)

    def discovered(self, body: bytes, model: str) -> Layer:
        """What that tells of the model."""
        return discovered(body, model)


def _items(message: ConversationMessage) -> Iterator[dict[str, Any]]:
    """A message as items: what is said together stays together, calls, results and reasoning stand alone."""
    role = "user" if message.role is Role.TOOL else str(message.role)
    said: list[dict[str, Any]] = []
    for part in cast("list[AnyPart]", message.content):
        if not isinstance(part, ThinkingPart | ToolUsePart | ToolResultPart):
            said.append(_content(part, message.role))
            continue
        if said:
            yield {"type": "message", "role": role, "content": said}
            said = []
        yield from _alone(part, message.role)
    if said or not message.content:
        yield {"type": "message", "role": role, "content": said}


def _alone(part: ThinkingPart | ToolUsePart | ToolResultPart, role: Role) -> Iterator[dict[str, Any]]:
    if isinstance(part, ToolResultPart) is (role is Role.ASSISTANT) or role is Role.SYSTEM:
        raise misplaced(part, "extended_thinking" if isinstance(part, ThinkingPart) else "tool_use", f"the {role}")
    match part:
        case ThinkingPart():
            if part.signature is not None:
                summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                yield {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
        case ToolUsePart():
            called = arguments_text(part.input)
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": called}
        case ToolResultPart():
            yield {"type": "function_call_output", "call_id": part.tool_use_id, "output": _output(part)}
        case _:
            assert_never(part)


def _output(result: ToolResultPart) -> str | list[dict[str, Any]]:
    """What a tool gave: text as text, and anything else in parts."""
    parts = cast("list[AnyPart]", result.content)
    contents = [_content(part, Role.TOOL) for part in parts]
    if all(content["type"] == "input_text" for content in contents):
        return result_text(result, [content["text"] for content in contents])
    told = [{"type": "input_text", "text": result_text(result, [])}] if result.is_error else []
    return [*told, *contents]


def _content(part: AnyPart, role: Role) -> dict[str, Any]:
    text = "output_text" if role is Role.ASSISTANT else "input_text"
    _check_place(part, role)
    match part:
        case TextPart():
            return {"type": text, "text": part.text}
        case ImagePart():
            return {"type": "input_image", "image_url": data_url(part.media_type, part.data)}
        case ResourcePart() if part.data is not None:
            return {"type": "input_file", "filename": file_name(part), "file_data": pdf_url(part)}
        case ResourcePart():
            return {"type": text, "text": document_text(part)}
        case ResourceLinkPart():
            return {"type": text, "text": link_text(part)}
        case AudioPart() | ThinkingPart() | ToolUsePart() | ToolResultPart():
            raise misplaced(part, "tool_use", "a tool")
        case _:
            assert_never(part)


def _check_place(part: AnyPart, role: Role) -> None:
    """Only users and tools show things; nobody can say sound."""
    needed = needed_for(part)
    if needed is None:
        return
    if needed in LACKS:
        raise CannotCarry(needed, LACKS[needed])
    if role in (Role.ASSISTANT, Role.SYSTEM):
        raise misplaced(part, needed, f"the {role}")


def _tool(tool: ToolSpec) -> dict[str, Any]:
    # Strict unless told otherwise, which would refuse most schemas that tools have.
    told = {"type": "function", "name": tool.name, "description": tool.description}
    named = {name: value for name, value in told.items() if value}
    return {**named, "parameters": parameters_of(tool), "strict": False}


def _format(order: WorkOrder) -> dict[str, Any] | None:
    schema = order.response_schema
    if schema is not None:
        name, strict = schema_name(schema), allows_strict(schema)
        return {"type": "json_schema", "name": name, "schema": schema, "strict": strict}
    return {"type": "json_object"} if order.json_mode else None


def _with_format(text: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's own words on text, with the format that the work asks for."""
    if not isinstance(text, dict) or "format" in text:
        raise CannotCarry("text", "the work itself sets text.format", always=False)
    return {**cast("dict[str, Any]", text), "format": wanted}
