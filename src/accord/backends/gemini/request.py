"""The Gemini API (`generateContent`): what it supports, and work orders as request bodies. Pure; knows no transport."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, assert_never, cast
from urllib.parse import quote

import msgspec

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import FailureReport
from accord.backends.gemini.answer import GeminiReader, is_made, read_answer, read_error
from accord.backends.model_api import ApiRequest, MalformedAnswerError, UnsupportedByApiError, document_text, link_text
from accord.core.work.derive import PARAMETERS, capability_for_part
from accord.wire.capability import FILE_INPUT, TOOL_RESULT_MEDIA, Capability
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
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
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, ToolSpec, WorkOrder

# Writes a work order as the body of a Gemini request. Pure; what cannot be written raises `UnsupportedByApiError`.
#
# Calls and their results. The API's pairing of a result with its call is by `id` where there is one and by name and
# order where there is none, and it wants the name in both cases. So a result gets the name of the last call with its
# id before it, and adjacent results are put in the order of their calls. Ids that `read.py` made because the endpoint
# gave none are left out again: they are ours, and the endpoint is given back what it said. A result whose call is not
# in the conversation has nothing but its id to be named by; whether that will do is the endpoint's to say.
#
# Seals. A `thoughtSignature` goes back on the part that it came on: a call, or reasoning. One that came on text has
# no place on our text, and is kept as redacted reasoning (see `read.py`); it goes back on an empty text after it,
# which is how the API itself sends it in streams.
#
# Instructions are text, and stand apart from the conversation wherever in it they were. A file's address has no place
# beside its data, and is told in a line of text before it. What the operator sets under a name of the API's is merged
# into the body: objects into objects, lists after lists, and otherwise the operator's word wins.

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


def request_body(order: WorkOrder) -> Body:
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
            raise UnsupportedByApiError(capability, f"{name} has no place in a Gemini request")
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
        raise UnsupportedByApiError(
            capability_for_part(part) or Capability.SYSTEM_MESSAGE, "instructions to Gemini are text only"
        )
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
        raise UnsupportedByApiError(Capability.TOOL_USE, "the arguments of a call in Gemini are an object")
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
            raise UnsupportedByApiError(Capability.TOOL_USE, "a tool's result holds a call, a result or reasoning")
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


# The Gemini API: its address, what it has, what it lacks, and what it tells of a model. No I/O.
#
# What it has depends on the model in more ways than elsewhere. So it says nothing of penalties, which have a field
# and are refused by most models: the operator, the facts or the endpoint's refusal decide. Media in the results of
# tools have a place of their own (`functionResponse.parts`) since Gemini 3; earlier models refuse them loudly, by a
# sentence that `failure.py` knows, so the API counts as having them. Log probabilities can be asked for, but an
# answer of ours has no place for them; and caching takes a cached content that was made beforehand, not a mark on a
# message.

NAME: Final = "gemini API"
BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
KEY_HEADER: Final = "x-goog-api-key"

SUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.STREAMING: "native",
        "reasoning_history": "native",
        Capability.SYSTEM_MESSAGE: "native",
        Capability.STOP_SEQUENCES: "native",
        Capability.TEMPERATURE: "native",
        Capability.TOP_P: "native",
        Capability.TOP_K: "native",
        Capability.MAX_TOKENS: "native",
        Capability.SEED_DETERMINISM: "native",
        FILE_INPUT: "native",
        TOOL_RESULT_MEDIA: "native",
    }
)

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.LOGPROBS: "answers have no place for the probabilities that the Gemini API tells",
        Capability.CACHE_CONTROL: "the Gemini API caches contents that were made beforehand, not parts of a request",
    }
)

GENERATING: Final = frozenset({"generateContent", "streamGenerateContent"})
NEEDS_GENERATING: Final = (
    Capability.STREAMING,
    Capability.SYSTEM_MESSAGE,
    Capability.TOOL_USE,
    Capability.EXTENDED_THINKING,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.JSON_MODE,
)
"""What a model that answers nothing (one for embeddings, say) cannot have."""


class Described(msgspec.Struct, rename="camel", gc=False):
    """What the endpoint tells of a model, as far as it says what the model can do."""

    thinking: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    supported_generation_methods: list[str] | None = None


_described: Final = msgspec.json.Decoder(Described)


class Gemini:
    """The API at generativelanguage.googleapis.com, and whatever else speaks it."""

    @property
    def name(self) -> str:
        """What evidence calls it."""
        return NAME

    @property
    def base_url(self) -> str:
        """Where it is spoken unless the operator says otherwise."""
        return BASE_URL

    @property
    def supported(self) -> Mapping[str, str]:
        """What every model has through it, or refuses in words that are understood."""
        return SUPPORTED

    @property
    def unsupported(self) -> Mapping[str, str]:
        """What cannot be carried through it."""
        return UNSUPPORTED

    def headers(self, key: str | None) -> dict[str, str]:
        """The key has a header of its own; it is never part of an address."""
        return {} if key is None else {KEY_HEADER: key}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """The request that carries this work."""
        method = "streamGenerateContent?alt=sse" if order.stream else "generateContent"
        return ApiRequest(f"/{_resource(model)}:{method}", request_body(order))

    def answer_reader(self) -> GeminiReader:
        """A reader for one streamed answer."""
        return GeminiReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """What an answer that is not 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """The model's own description."""
        return ApiRequest(f"/{_resource(model)}", method="GET")

    def read_discovery(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - one model is described, the one asked for
        """What the description says the model can do.

        A description that has other ways of sampling and no `topK` says that the model takes none. That it thinks is
        told, that it does not is not: the field is then left out, as it is by endpoints that do not know it.
        """
        try:
            told = _described.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("the description of the model cannot be read") from None
        return {name: Evidence(level, NAME) for name, level in _levels(told).items()}


def _levels(told: Described) -> dict[str, SupportLevel]:
    methods = told.supported_generation_methods
    if methods and GENERATING.isdisjoint(methods):
        return dict.fromkeys(NEEDS_GENERATING, SupportLevel.UNSUPPORTED)
    levels: dict[str, SupportLevel] = {}
    if told.thinking:
        levels[Capability.EXTENDED_THINKING] = SupportLevel.NATIVE
    if told.temperature is not None:
        levels[Capability.TEMPERATURE] = SupportLevel.NATIVE
    if told.top_p is not None:
        levels[Capability.TOP_P] = SupportLevel.NATIVE
    if told.top_k is not None:
        levels[Capability.TOP_K] = SupportLevel.NATIVE
    elif levels.keys() & {Capability.TEMPERATURE, Capability.TOP_P}:
        levels[Capability.TOP_K] = SupportLevel.UNSUPPORTED
    return levels


def _resource(model: str) -> str:
    """The path of a model: a plain name is one of `models/`, a tuned model has its own collection."""
    collection, slash, name = model.rpartition("/")
    if slash and collection in {"models", "tunedModels"}:
        return f"{collection}/{quote(name, safe='@')}"
    return f"models/{quote(model, safe='@')}"
