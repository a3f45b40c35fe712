"""Every member that a request can have, by the types of the newest SDKs: each with the smallest request that has it.

A path names the kinds of what is told apart by `type` or `role`: `messages[user].content[image_url].image_url.detail`;
`=` comes before a value where a member takes a few words. Kinds of tools, items and blocks that one row of the table
covers as a whole (`WHOLE`) are not walked into. The walk knows the SDKs' types and no rule of ours.
"""

import json
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, cast

import typing_extensions
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from accord.wire.disposition import Api

Json = dict[str, Any]
Wrap = Callable[[Any], Any]

PIXEL: Final = "iVBORw0KGgo="
FUNCTION: Final[Json] = {"name": "look_up", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}

BASES: Final[Mapping[Api, Json]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "Hello"}]},
    Api.RESPONSES: {"input": "Hello"},
    Api.MESSAGES: {"max_tokens": 4096, "messages": [{"role": "user", "content": "Hello"}]},
}
"""What every request has."""

PARAMETERS: Final[Mapping[Api, Sequence[Any]]] = {
    Api.CHAT: (
        completion_create_params.CompletionCreateParamsBase,
        completion_create_params.CompletionCreateParamsStreaming,
    ),
    Api.RESPONSES: (
        response_create_params.ResponseCreateParamsBase,
        response_create_params.ResponseCreateParamsStreaming,
    ),
    Api.MESSAGES: (
        message_create_params.MessageCreateParamsBase,
        message_create_params.MessageCreateParamsStreaming,
        beta_create_params.MessageCreateParamsBase,
    ),
}

TOOLS: Final[Mapping[Api, Json]] = {
    Api.CHAT: {"type": "function", "function": FUNCTION},
    Api.RESPONSES: {"type": "function", "strict": False, **FUNCTION},
    Api.MESSAGES: {"name": "look_up", "input_schema": FUNCTION["parameters"]},
}

NEEDS: Final[Mapping[str, Callable[[Api], Json]]] = {
    "tool_choice": lambda api: {"tools": [TOOLS[api]]},
    "parallel_tool_calls": lambda api: {"tools": [TOOLS[api]]},
    "function_call": lambda _: {"functions": [FUNCTION]},
    "top_logprobs": lambda api: {"logprobs": True} if api is Api.CHAT else {},
    "stream_options": lambda _: {"stream": True},
}
"""What a request has to have besides a member so that the member means something."""

SAMPLES: Final[Mapping[str, Any]] = {
    "url": "https://images.example/zq-url.png",
    "image_url": f"data:image/png;base64,{PIXEL}",
    "file_url": "https://files.example/zq-file.pdf",
    "file_data": "data:application/pdf;base64,JVBERi0xLjQK",
    "data": PIXEL,
    "arguments": '{"q": "bees"}',
    "schema": SCHEMA,
    "parameters": FUNCTION["parameters"],
    "input_schema": FUNCTION["parameters"],
    "name": "look_up",
    "budget_tokens": 1024,
    "max_tokens": 2048,
    "top_p": 0.96875,
    "temperature": 0.375,
    "top_logprobs": 3,
    "n": 2,
    "top_k": 37,
    "tools": {"type": "function", "name": "look_up", "function": {"name": "look_up"}},
}
"""Values of members that need a certain shape, by their names."""

OBJECTS: Final[Mapping[str, Json]] = {
    "input_image": {"image_url": SAMPLES["image_url"]},
    "input_file": {"file_data": SAMPLES["file_data"]},
    "file": {"file": {"file_data": SAMPLES["file_data"]}},
    "function_call_output": {"call_id": "zq-call"},
    "custom_tool_call_output": {"call_id": "zq-call"},
    "FileFile": {"file_data": SAMPLES["file_data"]},
}
"""What objects of these kinds have besides what their types require, because they mean nothing without."""

INSTEAD: Final[Mapping[str, Sequence[str]]] = {
    "file_id": ("file_data", "image_url"),
    "file_url": ("file_data",),
}
"""Members that an object has instead of others."""

KEYS: Final = ("type", "role")
"""Members that tell the types of a union apart."""
NOT_WALKED: Final = frozenset({"model", "betas", "model_id"})
"""`betas` is a header in the SDK."""


WRONG_SIDES: Final = frozenset(
    (Api.MESSAGES, f"messages[{side}]", kind)
    for side, kinds in (
        ("user", "thinking redacted_thinking tool_use"),
        ("assistant", "tool_result"),
        ("system", "thinking redacted_thinking tool_use tool_result"),
    )
    for kind in kinds.split()
)
"""Blocks that the types allow in messages of either side, and the API in those of the other one only."""


@dataclass(frozen=True, slots=True)
class SdkMember:
    """One member: its path, a request that has it, and the same request without it."""

    api: Api
    path: str
    body: Json
    without: Json
    value: Any


def sdk_members(api: Api) -> list[SdkMember]:
    """Every member of the requests of this API."""
    members: dict[str, SdkMember] = {}
    for parameters in PARAMETERS[api]:
        for each in _Walk(api).walk_object(parameters, "", BASES[api], lambda body: body):
            members.setdefault(each.path, each)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of a member: its path, its type if that is an object's, and how it stands in the member."""

    path: str
    value: Any
    wrap: Wrap
    kind: Any = None


class _Walk:
    """One walk through the types of a request; `_open` are the types that it is inside of."""

    def __init__(self, api: Api) -> None:
        self._api: Final = api
        self._open: list[Any] = []

    def walk_object(self, kind: Any, path: str, base: Json, wrap: Wrap) -> Iterator[SdkMember]:
        """The members of an object of this type, which is the smallest one and stands in a request."""
        self._open.append(kind)
        for name, hint in hints_of(kind).items():
            if name in NOT_WALKED or (name in KEYS and is_word(hint)):
                continue
            around = base if path else {**base, **NEEDS.get(name, lambda _: {})(self._api)}
            around = {key: value for key, value in around.items() if key not in INSTEAD.get(name, ())}
            without = around if not path else {key: value for key, value in around.items() if key != name}
            for each in self._values(hint, name, f"{path}.{name}" if path else name):
                put = partial(_put, wrap, around, name, each.wrap)
                yield SdkMember(self._api, each.path, copy(put(each.value)), copy(wrap(without)), each.value)
                if each.kind is not None and each.kind not in self._open and not is_whole(each.path):
                    yield from self.walk_object(each.kind, each.path, each.value, put)
        self._open.pop()

    def _values(self, hint: Any, name: str, place: str, wrap: Wrap = lambda value: value) -> Iterator[_Value]:
        for each in alternatives(hint):
            if is_object(each):
                if (self._api, place.partition(".")[0], key_of(each)) not in WRONG_SIDES:
                    at = f"{place.removesuffix('[]')}[{key}]" if (key := key_of(each)) else place
                    yield _Value(at, smallest(each), wrap, each)
            elif (item := item_of(each)) is not None:
                yield from self._values(item, name, f"{place}[]", partial(_listed, wrap))
            else:
                yield from (_Value(f"{place}{word}", value, wrap) for value, word in scalars(each, name))


def _put(wrap: Wrap, around: Json, name: str, inner: Wrap, value: Any) -> Any:
    return wrap({**around, name: inner(value)})


def _listed(wrap: Wrap, value: Any) -> Any:
    return wrap([value])


def copy(value: Any) -> Any:
    """A copy that shares nothing."""
    return json.loads(json.dumps(value))


LISTS: Final = frozenset({"input", "tools", "tool_choice", "content"})
"""Members that hold one of many kinds."""
READ: Final = frozenset(
    "function custom namespace message user assistant system developer function_call function_call_output "
    "custom_tool_call custom_tool_call_output reasoning additional_tools configuration_update item_reference "
    "allowed_tools web_search auto any tool none text image document tool_use tool_result thinking redacted_thinking "
    "tool_reference tool_addition input_text output_text refusal input_image input_file image_url input_audio "
    "file".split()
)
"""The kinds in them that Accord reads; one row covers all others, each with all of its members."""


def is_whole(path: str) -> bool:
    """Whether one row covers this kind with all of its members; content in content has the readers of its kinds."""
    outer, bracket, kind = path.removesuffix("]").rpartition("[") if path.endswith("]") else (path, "", "")
    name = outer.rpartition(".")[2]
    return name in ("citations", "tool") or bool(
        bracket and name in LISTS and (kind not in READ or outer.count("content") > 1)
    )


def is_required(kind: Any, name: str) -> bool:
    """Whether a typed dictionary has to have this member; what tells it apart counts as such."""
    hint = typing_extensions.get_type_hints(kind, include_extras=True)[name]
    return typing.get_origin(hint) is typing_extensions.Required or (name in KEYS and is_word(hints_of(kind)[name]))


def hints_of(kind: Any) -> dict[str, Any]:
    """The members of a typed dictionary with their types."""
    return typing_extensions.get_type_hints(kind)


def is_object(hint: Any) -> bool:
    """Whether a type is a typed dictionary."""
    return typing_extensions.is_typeddict(typing.get_origin(hint) or hint)


def is_word(hint: Any) -> bool:
    """Whether a type has only literal values."""
    return all(typing.get_origin(each) is Literal for each in alternatives(hint))


def key_of(kind: Any) -> str:
    """What tells this object apart from others in its place; empty if nothing does."""
    hints = hints_of(kind)
    words = (typing.get_args(alternatives(hints[name])[0]) for name in KEYS if name in hints and is_word(hints[name]))
    return next((str(each[0]) for each in words), "")


def item_of(hint: Any) -> Any:
    """The type of a list's items; None for what is no list."""
    origin = typing.get_origin(hint)
    is_list = isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    is_texts = getattr(cast("Any", origin), "__name__", "") == "SequenceNotStr"  # the SDKs' own
    return typing.get_args(hint)[0] if is_list or is_texts else None


def alternatives(hint: Any) -> list[Any]:
    """The types of a union, without null; another type alone."""
    if isinstance(hint, typing_extensions.TypeAliasType):
        return alternatives(hint.__value__)
    if typing.get_origin(hint) in (Union, UnionType):
        return list(dict.fromkeys(each for part in typing.get_args(hint) for each in alternatives(part)))
    return [] if hint is NoneType else [hint]


FREE: Final = {"zq": "zq-value"}
SCALARS: Final[Mapping[Any, Sequence[tuple[Any, str]]]] = {
    bool: ((True, "=true"), (False, "=false")),
    int: ((7001, ""),),
    float: ((0.375, ""),),
    dict: ((FREE, ""),),
    Mapping: ((FREE, ""),),
    object: ((FREE, ""),),
    Any: ((FREE, ""),),
}


def scalars(hint: Any, name: str) -> Iterator[tuple[Any, str]]:
    """The values of a type that is no object and no list of objects, each with what it adds to the path."""
    origin = typing.get_origin(hint) or hint
    if origin is Literal:
        yield from ((value, f"={json.dumps(value)}") for value in typing.get_args(hint))
    elif name in SAMPLES and _is_of(SAMPLES[name], hint):
        yield SAMPLES[name], ""
    elif origin is str:
        yield f"zq-{name}", ""
    else:
        yield from SCALARS.get(origin, ())


def _is_of(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    if origin is object or origin is Any:
        return True
    names = {str: str, int: int, float: float, bool: bool, dict: dict, Mapping: dict}
    return isinstance(value, names.get(origin, NoneType))


def smallest(kind: Any, name: str = "") -> Any:
    """The smallest value of a type, for a member of this name."""
    for each in alternatives(kind):
        if is_object(each):
            found = {name: _named(name, hint) for name, hint in hints_of(each).items() if is_required(each, name)}
            added = OBJECTS.get(key_of(each) or each.__name__, {})
            return found | {name: value for name, value in added.items() if name in hints_of(each)}
        if (item := item_of(each)) is not None:
            return [smallest(item, name)] if alternatives(item) else []
        for value, _ in scalars(each, name):
            return value
    return None


def _named(name: str, hint: Any) -> Any:
    for each in alternatives(hint):
        if name in SAMPLES and _is_of(SAMPLES[name], each):
            return SAMPLES[name]
    for each in alternatives(hint):
        if not is_object(each) and item_of(each) is None:
            for value, _ in scalars(each, name):
                return value
    return smallest(hint, name)
