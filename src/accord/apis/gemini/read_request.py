"""Requests of the Gemini API as work orders: the inverse of `codec.request_body`. Pure.

The path has the model, and says whether the answer is streamed. What a work order has no place for stays in its
parameters, where it was in the body, so that `request_body` writes it again. Parts of messages that no part of a work
order can hold are left out and reported as fields. Members have both of the spellings that Google's JSON has,
`inlineData` and `inline_data`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import unquote

from pydantic.alias_generators import to_camel

from accord.apis.codec import invalid_member
from accord.apis.gemini.call_ids import generate_id
from accord.apis.shapes import as_list, as_name, as_number, as_object, as_text, as_whole_number
from accord.core.work.derive import PARAMETERS, PDF
from accord.core.work.fields import ModelRequest
from accord.wire.conversation import (
    AudioPart,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.disposition import Api
from accord.wire.work import Reasoning, ToolChoice, ToolMode, ToolSpec, WorkOrder

Json = dict[str, Any]

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": Role.USER, "model": Role.ASSISTANT, "function": Role.TOOL, "system": Role.SYSTEM}
)
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "topP": "top_p",
        "topK": "top_k",
        "maxOutputTokens": "max_tokens",
        "seed": "seed",
        "presencePenalty": "presence_penalty",
        "frequencyPenalty": "frequency_penalty",
    }
)
"""The parameter of each member of `generationConfig` that every API has."""
MODES: Final[Mapping[str, ToolMode]] = MappingProxyType({"AUTO": "auto", "NONE": "none", "ANY": "required"})
OUTCOMES: Final = frozenset({"output", "result", "error"})
"""The members of a function's response that are understood if they are alone; any other response is one text."""
SCHEMA_NUMBERS: Final = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})

_PATH: Final = re.compile(r"(?:^|/)(?:models|(tunedModels))/([^/:]+):(generateContent|streamGenerateContent)$")
_FILE_LINE: Final = re.compile(r"<file (\{.*\})/>")


def read_path(path: str) -> tuple[str, bool] | None:
    """The model that this path names, and whether its answer is streamed; None if it is not for an answer."""
    if (match := _PATH.search(path)) is None:
        return None
    collection, model, method = match.groups()
    name = unquote(model)
    return (f"{collection}/{name}" if collection else name), method == "streamGenerateContent"


def read_request(body: Json, model: str = "", *, streaming: bool = False) -> ModelRequest:
    """Read the body of `generateContent`; raises `RefusedError` for a body that is no such request."""
    reader = _GeminiRequestReader()
    members = _members(body, "")
    if unknown := members.keys() & PARAMETERS.keys():
        raise invalid_member(min(unknown), "no such member; parameters are in generationConfig")
    accord = _object(members.pop("accord", None), "accord")
    answers = _members(members.get("generationConfig"), "generationConfig").get("candidateCount", 1)
    as_whole_number(answers, "generationConfig.candidateCount", least=1)
    order = reader.read(members, streaming=streaming)
    return ModelRequest(Api.GEMINI, model, order, tuple(reader.fields), body, answers, accord)


class _GeminiRequestReader:
    """What has been read of one request: the fields that the order lacks, and the calls that have no result yet."""

    def __init__(self) -> None:
        self.fields: Final[dict[str, None]] = {}
        self._calls: Final[list[tuple[str, str]]] = []
        self._call_count = 0

    def read(self, body: Json, *, streaming: bool) -> WorkOrder:
        """The work order in this body."""
        messages = list(self._read_contents(_list(body.pop("contents", None), "contents")))
        if instruction := _members(body.pop("systemInstruction", None), "systemInstruction"):
            parts = self._read_parts(instruction.get("parts"), "systemInstruction.parts")
            messages.insert(0, ConversationMessage(role=Role.SYSTEM, content=parts))
        tools, others = self._read_tools(_list(body.pop("tools", None), "tools"))
        choice, calling = _read_choice(_members(body.pop("toolConfig", None), "toolConfig"))
        fields, settings = _read_settings(_members(body.pop("generationConfig", None), "generationConfig"))
        more = {"tools": others, "toolConfig": calling, "generationConfig": settings}
        fields["parameters"] |= {**body, **{name: members for name, members in more.items() if members}}
        conversation = Conversation(messages=messages)
        return WorkOrder(conversation=conversation, tools=tools, tool_choice=choice, stream=streaming, **fields)

    def _read_contents(self, contents: list[Any]) -> Iterator[ConversationMessage]:
        for place, item in enumerate(contents):
            content = _members(item, f"contents[{place}]")
            role = ROLES.get(str(content.get("role") or "user"))
            if role is None:
                raise invalid_member(f"contents[{place}].role", "user or model")
            parts = self._read_parts(content.get("parts"), f"contents[{place}].parts")
            for is_result, run in groupby(parts, key=lambda part: isinstance(part, ToolResultPart)):
                yield ConversationMessage(role=Role.TOOL if is_result else role, content=list(run))

    def _read_parts(self, value: Any, path: str) -> list[MessagePart]:
        parts: list[MessagePart] = []
        for place, item in enumerate(_list(value, path)):
            for part in self._read_part(_members(item, f"{path}[{place}]"), f"{path}[{place}]"):
                _add_part(parts, part)
        return parts

    def _read_part(self, part: Json, path: str) -> Iterator[MessagePart]:
        signature = _text(part.pop("thoughtSignature", None), f"{path}.thoughtSignature") or None
        is_thought = part.pop("thought", None)
        if (call := part.pop("functionCall", None)) is not None:
            yield self._read_call(_members(call, f"{path}.functionCall"), signature, path)
            signature = None
        elif (result := part.pop("functionResponse", None)) is not None:
            yield self._read_result(_members(result, f"{path}.functionResponse"), f"{path}.functionResponse")
        elif (blob := part.pop("inlineData", None)) is not None:
            yield _read_blob(_members(blob, f"{path}.inlineData"), f"{path}.inlineData")
        elif (file := part.pop("fileData", None)) is not None:
            yield _read_file(_members(file, f"{path}.fileData"), f"{path}.fileData")
        else:
            text = _text(part.pop("text", None), f"{path}.text")
            if is_thought and (text or signature):
                yield ThinkingPart(text=text, signature=signature)
                signature = None
            elif text:
                yield TextPart(text=text)
        if signature is not None:
            yield ThinkingPart(text="", signature=signature, redacted=True)
        self.fields.update({f"contents[].parts[].{name}": None for name, value in part.items() if value})

    def _read_call(self, call: Json, signature: str | None, path: str) -> ToolUsePart:
        name = _name(call, f"{path}.functionCall")
        arguments = _object(call.get("args"), f"{path}.functionCall.args")
        self._call_count += 1
        call_id = _text(call.get("id"), f"{path}.functionCall.id")
        call_id = call_id or generate_id(None, self._call_count, name, arguments)
        self._calls.append((call_id, name))
        return ToolUsePart(id=call_id, name=name, input=arguments, signature=signature)

    def _read_result(self, result: Json, path: str) -> ToolResultPart:
        name = _name(result, path)
        call_id = _text(result.get("id"), f"{path}.id")
        # Without an id, results are paired with calls by name and order.
        paired = next((call for call in self._calls if (call[0] == call_id if call_id else call[1] == name)), None)
        if paired is not None:
            self._calls.remove(paired)
            call_id = paired[0]
        response = _object(result.get("response"), f"{path}.response")
        outcome, value = next(iter(response.items()), ("", None))
        is_alone = len(response) == 1 and outcome in OUTCOMES
        media: dict[str, MessagePart] = {}
        for place, item in enumerate(_list(result.get("parts"), f"{path}.parts")):
            for part in self._read_part(_members(item, f"{path}.parts[{place}]"), f"{path}.parts[{place}]"):
                media[_display_name(item) or str(place)] = part
        parts: list[MessagePart] = []
        for each in _values(value) if is_alone else [json.dumps(response, ensure_ascii=False)]:
            reference = cast("Json", each).get("$ref") if isinstance(each, dict) else None
            if reference in media:
                _add_part(parts, media.pop(reference))
            else:
                text = each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)
                parts.append(TextPart(text=text))
        return ToolResultPart(
            tool_use_id=call_id or name, content=[*parts, *media.values()], is_error=is_alone and outcome == "error"
        )

    def _read_tools(self, tools: list[Any]) -> tuple[list[ToolSpec], list[Json]]:
        """The functions, and the tools that the endpoint itself has."""
        functions: list[ToolSpec] = []
        others: list[Json] = []
        for place, item in enumerate(tools):
            tool = _members(item, f"tools[{place}]")
            declared = _list(tool.pop("functionDeclarations", None), f"tools[{place}].functionDeclarations")
            for number, each in enumerate(declared):
                path = f"tools[{place}].functionDeclarations[{number}]"
                functions.append(self._read_function(_members(each, path), path))
            others += [tool] if tool else []
        return functions, others

    def _read_function(self, function: Json, path: str) -> ToolSpec:
        name = _name(function, path)
        schema = _object(function.get("parametersJsonSchema"), f"{path}.parametersJsonSchema")
        schema = schema or json_schema(_object(function.get("parameters"), f"{path}.parameters"))
        listed = {"name", "description", "parametersJsonSchema", "parameters"}
        further = (name for name, value in function.items() if name not in listed and value)
        self.fields.update({f"tools[].functionDeclarations[].{name}": None for name in further})
        description = _text(function.get("description"), f"{path}.description")
        return ToolSpec(name=name, description=description, input_schema=schema)


def _read_choice(config: Json) -> tuple[ToolChoice | None, Json]:
    """Whether a function must be called, and what else the configuration of tools has."""
    calling = _members(config.pop("functionCallingConfig", None), "toolConfig.functionCallingConfig")
    mode = calling.get("mode")
    names = _list(calling.get("allowedFunctionNames"), "toolConfig.functionCallingConfig.allowedFunctionNames")
    choice = None
    if isinstance(mode, str) and mode in MODES:
        choice = ToolChoice(mode=MODES[calling.pop("mode")])
        if mode == "ANY" and len(names) == 1:
            calling.pop("allowedFunctionNames")
            choice = ToolChoice(mode="tool", name=names[0])
    return choice, {**config, **({"functionCallingConfig": calling} if calling else {})}


def _read_settings(settings: Json) -> tuple[Json, Json]:
    """The fields of the order that `generationConfig` sets, and what else it has."""
    parameters: Json = {}
    for member, name in SETTINGS.items():
        if (value := settings.pop(member, None)) is not None:
            parameters[name] = as_number(value, f"generationConfig.{member}")
    parameters |= _read_logprobs(settings)
    fields: Json = {"parameters": parameters}
    if (stop := _list(settings.pop("stopSequences", None), "generationConfig.stopSequences")) != []:
        fields["stop_sequences"] = [_text(each, "generationConfig.stopSequences[]") for each in stop]
    schema = settings.pop("responseJsonSchema", None)
    if (older := settings.pop("responseSchema", None)) is not None and schema is None:
        schema = json_schema(older)
    if schema is not None:
        fields["response_schema"] = _object(schema, "generationConfig.responseJsonSchema")
    if settings.get("responseMimeType") == "application/json":
        del settings["responseMimeType"]
        fields["json_mode"] = schema is None
    settings.pop("candidateCount", None)
    thinking = _members(settings.pop("thinkingConfig", None), "generationConfig.thinkingConfig")
    return {**fields, "reasoning": _read_thinking(thinking)}, settings


def _read_logprobs(settings: Json) -> Json:
    likeliest = settings.pop("logprobs", None)
    is_wanted = settings.pop("responseLogprobs", None)
    return {"logprobs": True if likeliest is None else likeliest} if is_wanted else {}


def _read_thinking(thinking: Json) -> Reasoning | None:
    """Whether and how long to think; None if that is left to the model."""
    budget, level = thinking.get("thinkingBudget"), thinking.get("thinkingLevel")
    if isinstance(level, str) and level:
        return Reasoning.from_effort(level.lower())
    if isinstance(budget, int) and budget > 0:
        return Reasoning(enabled=True, max_tokens=budget)
    if budget == 0:
        return Reasoning(enabled=False)
    return Reasoning(enabled=True) if thinking.get("includeThoughts") else None


def json_schema(schema: Any) -> Any:
    """A schema in Google's older form as JSON Schema: types in lower case, numbers that are text, `nullable`."""
    if isinstance(schema, list):
        return [json_schema(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    older = cast("Json", schema)
    members = {name: _schema_member(name, value) for name, value in older.items() if name != "nullable"}
    if older.get("nullable") and "type" in members:
        members["type"] = [members["type"], "null"]
    return members


def _schema_member(name: str, value: Any) -> Any:
    match name:
        case "type" if isinstance(value, str):
            return value.lower()
        case "properties" if isinstance(value, dict):
            return {key: json_schema(each) for key, each in cast("Json", value).items()}
        case "items" | "anyOf" | "prefixItems" | "additionalProperties":
            return json_schema(value)
        case _:
            is_number = name in SCHEMA_NUMBERS and isinstance(value, str) and value.isdecimal()
            return int(value) if is_number else value


def _read_blob(blob: Json, path: str) -> MessagePart:
    media_type, data = _text(blob.get("mimeType"), f"{path}.mimeType"), _text(blob.get("data"), f"{path}.data")
    if media_type.startswith("image/"):
        return ImagePart(media_type=media_type, data=data)
    if media_type.startswith("audio/"):
        return AudioPart(media_type=media_type, data=data)
    uri = _text(blob.get("displayName"), f"{path}.displayName")
    return ResourcePart(uri=uri, media_type=media_type, data=data)


def _read_file(file: Json, path: str) -> MessagePart:
    uri, media_type = _text(file.get("fileUri"), f"{path}.fileUri"), _text(file.get("mimeType"), f"{path}.mimeType")
    if media_type.startswith("image/"):
        return ImagePart(media_type=media_type, data="", uri=uri)
    if media_type == PDF and uri.startswith(("http://", "https://")):
        return ResourcePart(uri=uri, media_type=media_type, data="")
    name = _text(file.get("displayName"), f"{path}.displayName") or uri
    return ResourceLinkPart(uri=uri, name=name, media_type=media_type or None)


def _add_part(parts: list[MessagePart], part: MessagePart) -> None:
    """Add a part; the address of a file is in the text before it (`codec.file_line`)."""
    last = parts[-1] if parts else None
    uri = _read_file_line(last.text) if isinstance(last, TextPart) else None
    is_named = isinstance(part, ImagePart) and part.uri is not None
    if uri is not None and isinstance(part, ImagePart | AudioPart | ResourcePart) and not is_named:
        parts[-1] = ResourcePart(uri=uri, media_type=part.media_type, data=part.data)
    else:
        parts.append(part)


def _read_file_line(text: str) -> str | None:
    if (match := _FILE_LINE.fullmatch(text)) is None:
        return None
    try:
        uri = json.loads(match[1]).get("uri")
    except ValueError:
        return None
    return uri if isinstance(uri, str) else None


def _display_name(part: Any) -> str:
    blob = _members(_members(part, "").get("inlineData"), "")
    return str(blob.get("displayName") or "")


def _values(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _members(value: Any, path: str) -> Json:
    """A copy of an object whose members have their names in Google's first spelling; an absent one is empty."""
    return {to_camel(name) if "_" in name else name: member for name, member in _object(value, path).items()}


def _object(value: Any, path: str) -> Json:
    return {} if value is None else as_object(value, path)


def _list(value: Any, path: str) -> list[Any]:
    return [] if value is None else as_list(value, path)


def _text(value: Any, path: str) -> str:
    return "" if value is None else as_text(value, path)


def _name(member: Json, path: str) -> str:
    return as_name(member.get("name"), f"{path}.name")
