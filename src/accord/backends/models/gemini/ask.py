"""Writes a work order as the body of a Gemini request. Pure; what cannot be written raises `CannotCarry`.

Calls and their results. The API's pairing of a result with its call is by `id` where there is one and by name and order
where there is none, and it wants the name in both cases. So a result gets the name of the last call with its id before
it, and adjacent results are put in the order of their calls. Ids that `read.py` made because the endpoint gave none are
left out again: they are ours, and the endpoint is given back what it said. A result whose call is not in the
conversation has nothing but its id to be named by; whether that will do is the endpoint's to say.

Seals. A `thoughtSignature` goes back on the part that it came on: a call, or reasoning. One that came on text has no
place on our text, and is kept as redacted reasoning (see `read.py`); it goes back on an empty text after it, which is
how the API itself sends it in streams.

Instructions are text, and stand apart from the conversation wherever in it they were. A file's address has no place
beside its data, and is told in a line of text before it. What the operator sets under a name of the API's is merged
into the body: objects into objects, lists after lists, and otherwise the operator's word wins.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, assert_never, cast

from accord.backends.models.api import CannotCarry
from accord.backends.models.gemini.ids import is_made
from accord.backends.models.words import document_text, link_text
from accord.core.derive import PARAMETERS, needed_for
from accord.wire.capability import Capability
from accord.wire.chat import Role
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.work import ToolSpec, WorkOrder

JSON: Final = "application/json"
ANY_BYTES: Final = "application/octet-stream"
Body = dict[str, Any]

FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "top_k": "topK",
        "max_tokens": "maxOutputTokens",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    }
)
"""Where in `generationConfig` each parameter goes that has one meaning everywhere."""

ROLES: Final[Mapping[Role, str]] = MappingProxyType({Role.USER: "user", Role.TOOL: "user", Role.ASSISTANT: "model"})


def body_of(order: WorkOrder) -> Body:
    """The body that carries this order, its fields in the order of the API's documentation."""
    instructions = [message for message in order.conversation.messages if message.role is Role.SYSTEM]
    spoken = [message for message in order.conversation.messages if message.role is not Role.SYSTEM]
    body: Body = {"contents": _contents(spoken)}
    if order.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in order.tools]}]
    if told := [_instruction(part) for message in instructions for part in message.content]:
        body["systemInstruction"] = {"parts": told}
    if settings := _generation_config(order):
        body["generationConfig"] = settings
    own = {name: value for name, value in order.parameters.items() if name not in PARAMETERS}
    return _merged(body, own) if own else body


def _generation_config(order: WorkOrder) -> Body:
    settings: Body = {}
    if order.stop_sequences:
        settings["stopSequences"] = list(order.stop_sequences)
    if order.json_mode or order.response_schema is not None:
        settings["responseMimeType"] = JSON
    if order.response_schema is not None:
        settings["responseJsonSchema"] = order.response_schema
    for name, capability in PARAMETERS.items():
        if name not in order.parameters:
            continue
        if name not in FIELDS:
            raise CannotCarry(capability, f"{name} has no place in a Gemini request")
        settings[FIELDS[name]] = order.parameters[name]
    if order.thinking:
        settings["thinkingConfig"] = {"includeThoughts": True}
    return settings


def _declaration(tool: ToolSpec) -> Body:
    declared: Body = {"name": tool.name}
    if tool.description:
        declared["description"] = tool.description
    if tool.input_schema:
        declared["parametersJsonSchema"] = tool.input_schema
    return declared


def _instruction(part: MessagePart) -> Body:
    if (text := _as_text(part)) is None:
        raise CannotCarry(needed_for(part) or Capability.SYSTEM_MESSAGE, "instructions to Gemini are text only")
    return {"text": text}


def _contents(messages: Sequence[ConversationMessage]) -> list[Body]:
    """The turns: adjacent messages of one role are one, since the results of parallel calls must come together."""
    calls = _Calls()
    turns = [
        (ROLES[role], [part for message in group for part in message.content])
        for role, group in groupby(messages, key=lambda message: message.role)
    ]
    return [{"role": role, "parts": list(_parts(parts, calls))} for role, parts in turns if parts]


class _Calls:
    """The calls of a conversation so far: what each was called by its id, and when."""

    def __init__(self) -> None:
        self._held: Final[dict[str, tuple[int, str]]] = {}
        self._count = 0

    def add(self, part: ToolUsePart) -> None:
        """Take note of a call; of two with one id, results belong to the later."""
        self._count += 1
        self._held[part.id] = (self._count, part.name)

    def place(self, part: ToolResultPart) -> int:
        """When the call of this result was made; one that nobody made counts as the last."""
        return self._held.get(part.tool_use_id, (self._count + 1, ""))[0]

    def name(self, part: ToolResultPart) -> str:
        """The name of the tool that gave this result."""
        return self._held.get(part.tool_use_id, (0, part.tool_use_id))[1]


def _parts(parts: Sequence[MessagePart], calls: _Calls) -> Iterator[Body]:
    for are_results, run in groupby(parts, key=lambda part: isinstance(part, ToolResultPart)):
        if are_results:
            results = sorted(cast("Iterator[ToolResultPart]", run), key=calls.place)
            yield from (_result(part, calls.name(part)) for part in results)
        else:
            for part in run:
                yield from _part(cast("AnyPart", part), calls)


def _part(part: AnyPart, calls: _Calls) -> Iterator[Body]:
    match part:
        case TextPart() | ResourceLinkPart():
            yield {"text": _as_text(part)}
        case ResourcePart():
            yield from _document(part)
        case ImagePart() | AudioPart():
            yield _inline(part)
        case ThinkingPart():
            yield _thought(part)
        case ToolUsePart():
            calls.add(part)
            yield _call(part)
        case ToolResultPart():
            yield _result(part, calls.name(part))
        case _:
            assert_never(part)


def _document(part: ResourcePart) -> Iterator[Body]:
    if part.data is None:
        yield {"text": document_text(part)}
    else:
        yield {"text": file_line(part.uri)}
        yield _inline(part)


def file_line(uri: str) -> str:
    """The line before a file's data that says where the file is from."""
    return f"<file {json.dumps({'uri': uri}, ensure_ascii=False)}/>"


def _inline(part: ImagePart | AudioPart | ResourcePart) -> Body:
    return {"inlineData": {"mimeType": part.media_type or ANY_BYTES, "data": part.data}}


def _thought(part: ThinkingPart) -> Body:
    if part.redacted and not part.text:
        return {"text": "", **_sealed(part.signature)}
    return {"text": part.text, "thought": True, **_sealed(part.signature)}


def _call(part: ToolUsePart) -> Body:
    given = cast("object", part.input)
    if not isinstance(given, dict):
        raise CannotCarry(Capability.TOOL_USE, "the arguments of a call in Gemini are an object")
    call: Body = {**_identified(part.id), "name": part.name, "args": cast("Body", given)}
    return {"functionCall": call, **_sealed(part.signature)}


def _result(part: ToolResultPart, name: str) -> Body:
    """A result: its text as a value, its media beside it and referred to, so that their order is kept."""
    values: list[Any] = []
    media: list[Body] = []
    for inner in part.content:
        if (text := _as_text(inner)) is not None:
            values.append(text)
        elif isinstance(inner, ImagePart | AudioPart | ResourcePart):
            if isinstance(inner, ResourcePart):
                values.append(file_line(inner.uri))
            shown = f"part_{len(media) + 1}"
            values.append({"$ref": shown})
            media.append({"inlineData": {**_inline(inner)["inlineData"], "displayName": shown}})
        else:
            raise CannotCarry(Capability.TOOL_USE, "a tool's result holds a call, a result or reasoning")
    value = values[0] if len(values) == 1 else values
    told: Body = {**_identified(part.tool_use_id), "name": name, "response": {_outcome(part): value}}
    return {"functionResponse": {**told, "parts": media} if media else told}


def _outcome(part: ToolResultPart) -> str:
    return "error" if part.is_error else "output"


def _as_text(part: MessagePart) -> str | None:
    match part:
        case TextPart():
            return part.text
        case ResourceLinkPart():
            return link_text(part)
        case ResourcePart() if part.data is None:
            return document_text(part)
        case _:
            return None


def _identified(call_id: str) -> Body:
    return {} if is_made(call_id) else {"id": call_id}


def _sealed(signature: str | None) -> Body:
    return {} if signature is None else {"thoughtSignature": signature}


def _merged(ours: Body, own: Mapping[str, Any]) -> Body:
    merged = dict(ours)
    for name, value in own.items():
        held = merged.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            merged[name] = _merged(cast("Body", held), cast("Body", value))
        elif isinstance(held, list) and isinstance(value, list):
            merged[name] = [*cast("list[Any]", held), *cast("list[Any]", value)]
        else:
            merged[name] = value
    return merged
