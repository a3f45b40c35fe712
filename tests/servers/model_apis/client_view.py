"""What a client gets of an answer: the values at places that its SDK's types have, what was said, and the label."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, cast, get_args, get_origin

import anthropic.types as anthropic
from openai.types import chat, responses
from pydantic import BaseModel

from accord.wire.disposition import Api
from tests.servers.model_apis.answer_samples import is_model, members_of, variants_of
from tests.servers.model_apis.scripted_upstream import ClientAnswer

WHOLE: Final[Mapping[Api, Any]] = {
    Api.CHAT: chat.ChatCompletion,
    Api.RESPONSES: responses.Response,
    Api.MESSAGES: anthropic.Message,
}
EVENT: Final[Mapping[Api, Any]] = {
    Api.CHAT: chat.ChatCompletionChunk,
    Api.RESPONSES: responses.ResponseStreamEvent,
    Api.MESSAGES: anthropic.RawMessageStreamEvent,
}
MESSAGE: Final = members_of(chat.ChatCompletionMessage)
BESIDE: Final[Mapping[Api, Mapping[str, Any]]] = {
    Api.CHAT: {
        **dict.fromkeys("reasoning_content reasoning thinking_blocks extra_content images".split(), Any),
        **{name: MESSAGE[name] for name in ("annotations", "audio")},  # in the deltas of a stream
        "content": Any,  # of a citation: what the source says, as OpenRouter has it
        "stop_reason": Any,  # of a choice: the stop sequence, as vLLM has it
    },
    Api.RESPONSES: {"extra_content": Any},
    Api.MESSAGES: {
        "service_tier": Any,  # of the usage at the end of a stream
        "signature": Any,  # of a call, as it was signed: a client sends the whole block back
    },
}
"""Members that no type of the SDK has, and that servers of this API and their clients know."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What values an annotation of an SDK allows."""

    models: Sequence[type[BaseModel]]
    by_type: Mapping[str, type[BaseModel]]
    """The models by the `type` of their objects, for those that have one."""
    items: Any
    """The annotation of the items of a list."""
    literals: frozenset[Any]
    """The only values; empty if there are others."""
    is_free: bool
    """Whether objects may have any members."""

    def model_of(self, members: Mapping[str, Any]) -> type[BaseModel] | None:
        """The model of an object; of one whose type is not known, the first that might be it."""
        name = members.get("type")
        found = self.by_type.get(name) if isinstance(name, str) else None
        return found or (self.models[0] if self.models else None)


_SHAPES: Final[dict[int, tuple[Any, Shape]]] = {}
"""The shapes by the identity of their annotations, which are kept: some have no hash."""


def shape_of(annotation: Any) -> Shape:
    known = _SHAPES.get(id(annotation))
    if known is None:
        known = _SHAPES[id(annotation)] = annotation, _find_shape(annotation)
    return known[1]


def _find_shape(annotation: Any) -> Shape:
    variants = variants_of(annotation)
    models = [each for each in variants if is_model(each)]
    by_type = {name: model for model in reversed(models) for name in _literals(members_of(model).get("type"))}
    items = next((get_args(each)[0] for each in variants if get_origin(each) is list), Any)
    is_free = not models and any(each in {Any, object} or get_origin(each) is dict for each in variants)
    return Shape(models, by_type, items, frozenset() if str in variants else _literals(annotation), is_free)


def _literals(annotation: Any) -> frozenset[Any]:
    return frozenset(name for each in variants_of(annotation) if get_origin(each) is Literal for name in get_args(each))


def known_leaves(api: Api, value: Any, annotation: Any) -> Iterator[Any]:
    """The values at places that the type has; with members that are known beside it."""
    if isinstance(value, dict):
        members, shape = cast("dict[str, Any]", value), shape_of(annotation)
        model = shape.model_of(members)
        names = BESIDE[api] if model is None else {**BESIDE[api], **members_of(model)}
        for name, each in members.items():
            if shape.is_free or name in names:
                yield from known_leaves(api, each, Any if shape.is_free else names[name])
    elif isinstance(value, list):
        items = shape_of(annotation).items
        for each in cast("list[Any]", value):
            yield from known_leaves(api, each, items)
    elif value is not None and value != "":
        yield value


@dataclass
class ClientView:
    """What was said, as the client's program reads it."""

    answer: ClientAnswer
    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    end: Any = None
    is_error: bool = False
    model: Any = None
    usage: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def said(self) -> tuple[Any, ...]:
        """What must be the same whole and streamed."""
        return self.text, self.refusal, self.thinking, self.calls, self.end

    @cached_property
    def label(self) -> dict[str, str]:
        """What became of the parts that are not native, by their names."""
        labels = [each["accord"]["answer"] for each in self.answer.objects if "answer" in (each.get("accord") or {})]
        return {each["part"]: each["disposition"] for each in labels[-1]} if labels else {}

    @cached_property
    def _leaves(self) -> list[Any]:
        annotation = EVENT[self.answer.api] if self.answer.is_stream else WHOLE[self.answer.api]
        return [leaf for each in self.answer.objects for leaf in known_leaves(self.answer.api, each, annotation)]

    @cached_property
    def strings(self) -> str:
        """Every text that the client's types have, and what was said, which may have come in pieces."""
        calls = [part for call in self.calls for part in call]
        texts = [each for each in self._leaves if isinstance(each, (str, bool))]
        return "\n".join(map(str, [*texts, self.text, self.refusal, self.thinking, *calls]))

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Every number that the client's types have."""
        return frozenset(each for each in self._leaves if isinstance(each, (int, float)) and not isinstance(each, bool))


def view_of(answer: ClientAnswer) -> ClientView:
    """Read an answer, whole or streamed."""
    view = ClientView(answer)
    {Api.CHAT: _read_chat, Api.RESPONSES: _read_responses, Api.MESSAGES: _read_messages}[answer.api](view, answer)
    view.is_error |= answer.status != 200
    return view


def _list(value: Any) -> list[Any]:
    return value or []


def _read_chat(view: ClientView, answer: ClientAnswer) -> None:
    calls: dict[int, list[str]] = {}
    for each in answer.objects:
        view.is_error |= bool(each.get("error"))
        view.model = view.model or each.get("model")
        view.usage = each.get("usage") or view.usage
        for choice in _list(each.get("choices")):
            message: dict[str, Any] = choice.get("delta") or choice.get("message") or {}
            view.text += message.get("content") or ""
            view.refusal += message.get("refusal") or ""
            view.thinking += message.get("reasoning_content") or ""
            view.end = choice.get("finish_reason") or view.end
            older = [{"function": message["function_call"]}] if message.get("function_call") else []
            for number, call in enumerate([*_list(message.get("tool_calls")), *older]):
                body: dict[str, Any] = call.get("function") or call.get("custom") or {}
                place = calls.setdefault(call.get("index", number), ["", ""])
                place[0] += body.get("name") or ""
                place[1] += body.get("arguments") or body.get("input") or ""
    view.calls = [(name, _decoded(text)) for name, text in calls.values()]


def _read_responses(view: ClientView, answer: ClientAnswer) -> None:
    body: dict[str, Any] = {} if answer.is_stream else answer.body
    for event in answer.events if answer.is_stream else []:
        view.is_error |= event.get("type") in {"error", "response.failed"}
        if event.get("type") in {"response.completed", "response.incomplete", "response.failed"}:
            body = event["response"]
    first = answer.objects[0] if answer.objects else {}
    view.model, view.usage = first.get("response", first).get("model"), body.get("usage") or {}
    view.is_error |= bool(body.get("error"))
    details: dict[str, Any] = body.get("incomplete_details") or {}
    view.end = body.get("status"), details.get("reason")
    for item in _list(body.get("output")):
        match item:
            case {"type": "message"}:
                view.text += "".join(part.get("text") or "" for part in item["content"])
                view.refusal += "".join(part.get("refusal") or "" for part in item["content"])
            case {"type": "reasoning"}:
                parts = [*_list(item.get("summary")), *_list(item.get("content"))]
                view.thinking += "".join(part.get("text") or "" for part in parts)
            case {"type": "function_call", "arguments": text} | {"type": "custom_tool_call", "input": text}:
                view.calls.append((item["name"], _decoded(text)))
            case _:
                pass


def _read_messages(view: ClientView, answer: ClientAnswer) -> None:
    if answer.is_stream:
        _read_message_events(view, answer.events)
        return
    view.is_error = answer.body.get("type") == "error"
    view.model, view.usage = answer.body.get("model"), answer.body.get("usage") or {}
    view.end = answer.body.get("stop_reason"), answer.body.get("stop_sequence")
    for block in _list(answer.body.get("content")):
        _add_text(view, block)
        if block["type"] == "tool_use":
            view.calls.append((block["name"], block["input"]))


def _read_message_events(view: ClientView, events: list[dict[str, Any]]) -> None:
    inputs: dict[int, list[str]] = {}
    for event in events:
        match event:
            case {"type": "error"}:
                view.is_error = True
            case {"type": "message_start", "message": message}:
                view.model, view.usage = message["model"], message["usage"]
            case {"type": "content_block_start", "index": index, "content_block": block}:
                _add_text(view, block)
                if block["type"] == "tool_use":
                    inputs[index] = [block["name"], ""]
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                _add_text(view, delta)
                inputs.setdefault(index, ["", ""])[1] += delta.get("partial_json") or ""
            case {"type": "message_delta", "delta": delta}:
                view.end = delta.get("stop_reason"), delta.get("stop_sequence")
                view.usage = {**view.usage, **event["usage"]}
            case _:
                pass
    view.calls = [(name, _decoded(text)) for name, text in inputs.values() if name]


def _add_text(view: ClientView, block: Mapping[str, Any]) -> None:
    view.text += block.get("text") or ""
    view.thinking += block.get("thinking") or ""


def _decoded(text: str) -> Any:
    """The arguments of a call; those that are no JSON, as they are."""
    try:
        return json.loads(text or "{}")
    except json.JSONDecodeError:
        return text
