"""The Gemini API (`generateContent`): the class of its codec, and the request as it is written. Pure; it does no I/O.

Requests are read in `read_request.py`, answers are read and written in `read_answer.py` and `write_answer.py`.

Tool calls and results. The API pairs a result with its call by `id` where there is one, else by name and order, and
requires the name in both cases. So a result gets the name of the last call with its id before it, and adjacent results
are put in the order of their calls. Ids that `call_ids.py` generated are left out again. A result whose call is not in
the conversation is named by its id.

Signatures. A `thoughtSignature` goes back on the part that it came on: a call, or reasoning. One that came on text is
kept as redacted reasoning and goes back on an empty text, which is how the API itself sends it in streams.

Instructions are text, apart from the conversation; later ones stay in it as marked text of the user. A file's address
has no field beside its data and is a line of text before it. Parameters that only this API knows are merged into the
body: objects into objects, lists after lists; of other values the operator's counts.

What models support differs more than elsewhere. Penalties have a field and most models refuse them, so this API claims
nothing about them. Media in tool results have a field (`functionResponse.parts`) since Gemini 3; earlier models refuse
them with a message that `errors.py` recognises, so they count as supported. So do images and PDFs by address, which the
endpoint fetches for all models but those of Gemini 2.0.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, assert_never, cast
from urllib.parse import quote, urlsplit

import msgspec

from accord.apis.codec import (
    ApiRequest,
    MalformedAnswerError,
    UnsupportedByApiError,
    document_text,
    is_by_address,
    lead_and_rest,
    link_text,
)
from accord.apis.gemini.errors import read_error, write_error, write_error_event
from accord.apis.gemini.read_answer import GeminiReader, read_answer
from accord.apis.gemini.read_request import SETTINGS, read_path, read_request
from accord.apis.gemini.write_answer import GeminiStreamWriter, id_member, signature_member, write_answer
from accord.core.work.derive import PARAMETERS, PDF, capability_for_part
from accord.core.work.evidence import Evidence, Layer
from accord.core.work.reasoning import NOT_REQUESTED, requested_reasoning, tokens_for
from accord.wire.capability import FILE_INPUT, IMAGE_URL, TOOL_RESULT_MEDIA, Capability
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
from accord.wire.disposition import Api
from accord.wire.manifest import SupportLevel
from accord.wire.work import ToolChoice, ToolSpec, WorkOrder

NAME: Final = "gemini API"
BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
KEY_HEADER: Final = "x-goog-api-key"
JSON: Final = "application/json"
ANY_BYTES: Final = "application/octet-stream"
IMAGE_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif"}
)
"""The media type of an image by the end of its address, which other APIs send alone."""

Body = dict[str, Any]

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
        Capability.LOGPROBS: "native",
        FILE_INPUT: "native",
        TOOL_RESULT_MEDIA: "native",
        IMAGE_URL: "native",
    }
)

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.CACHE_CONTROL: "the Gemini API caches content that was created beforehand, not parts of a request",
    }
)

COUNT_TOKENS_METHOD: Final = ":countTokens"
"""The end of the paths by which tokens are counted."""
GENERATING: Final = frozenset({"generateContent", "streamGenerateContent"})
NEEDS_GENERATING: Final = (
    Capability.STREAMING,
    Capability.SYSTEM_MESSAGE,
    Capability.TOOL_USE,
    Capability.EXTENDED_THINKING,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.JSON_MODE,
)
"""What a model without those methods, such as one for embeddings, does not have."""


FIELDS: Final[Mapping[str, str]] = MappingProxyType({name: member for member, name in SETTINGS.items()})
"""Where in `generationConfig` each common parameter goes."""

CALLING_MODES: Final[Mapping[str, str]] = MappingProxyType({"auto": "AUTO", "none": "NONE", "required": "ANY"})

ROLES: Final[Mapping[Role, str]] = MappingProxyType({Role.USER: "user", Role.TOOL: "user", Role.ASSISTANT: "model"})


class GeminiModel(msgspec.Struct, rename="camel", gc=False):
    """The endpoint's description of a model, as far as it shows capabilities."""

    thinking: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    supported_generation_methods: list[str] | None = None


_decode_model: Final = msgspec.json.Decoder(GeminiModel).decode


class GeminiCodec:
    """The API at generativelanguage.googleapis.com, and endpoints that are compatible with it."""

    answer_reader = staticmethod(GeminiReader)
    read_answer = staticmethod(read_answer)
    read_error = staticmethod(read_error)
    read_path = staticmethod(read_path)
    read_request = staticmethod(read_request)
    write_answer = staticmethod(write_answer)
    answer_writer = staticmethod(GeminiStreamWriter)
    write_error = staticmethod(write_error)
    write_error_event = staticmethod(write_error_event)

    def __init__(self) -> None:
        self.api: Final = Api.GEMINI
        self.name: Final = NAME
        self.base_url: Final = BASE_URL
        self.supported: Final = SUPPORTED
        self.unsupported: Final = UNSUPPORTED

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request. The key has a header; it is never part of an address."""
        return {} if key is None else {KEY_HEADER: key}

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        method = "streamGenerateContent?alt=sse" if order.stream else "generateContent"
        return ApiRequest(f"/{_model_path(model)}:{method}", request_body(order))

    def discovery_request(self, model: str) -> ApiRequest:
        """Return the request for the description of the model."""
        return ApiRequest(f"/{_model_path(model)}", method="GET")

    def read_discovery(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - the reply is about one model
        """Return what the description says of the model.

        A description with `temperature` or `topP` and without `topK` means that the model takes no `topK`. `thinking`
        is only ever written when it is true, so its absence means nothing.
        """
        try:
            described = _decode_model(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("the description of the model cannot be read") from None
        methods = described.supported_generation_methods
        levels: dict[str, SupportLevel] = {}
        if methods and GENERATING.isdisjoint(methods):
            levels = dict.fromkeys(NEEDS_GENERATING, SupportLevel.UNSUPPORTED)
        else:
            given = {
                Capability.EXTENDED_THINKING: described.thinking or None,
                Capability.TEMPERATURE: described.temperature,
                Capability.TOP_P: described.top_p,
                Capability.TOP_K: described.top_k,
            }
            levels = {name: SupportLevel.NATIVE for name, value in given.items() if value is not None}
            if levels.keys() & {Capability.TEMPERATURE, Capability.TOP_P}:
                levels.setdefault(Capability.TOP_K, SupportLevel.UNSUPPORTED)
        return {name: Evidence(level, NAME) for name, level in levels.items()}

    def write_model(self, name: str, owner: str) -> dict[str, Any]:  # noqa: ARG002 - the API names no owner
        """A model in the API's shape."""
        methods = [*sorted(GENERATING), COUNT_TOKENS_METHOD.removeprefix(":")]
        return {"name": _model_path(name), "displayName": name, "supportedGenerationMethods": methods}

    def write_models(self, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The list of these models."""
        return {"models": models}

    def write_count(self, tokens: int) -> dict[str, Any]:
        """The answer to a request that has its tokens counted."""
        return {"totalTokens": tokens}


def _model_path(model: str) -> str:
    """Return the path of a model: a plain name is in `models/`, a tuned model in its own collection."""
    collection, slash, name = model.rpartition("/")
    if slash and collection in {"models", "tunedModels"}:
        return f"{collection}/{quote(name, safe='@')}"
    return f"models/{quote(model, safe='@')}"


def request_body(order: WorkOrder) -> Body:
    """Return the body for this work order, its fields in the order of the API's documentation."""
    lead, rest = lead_and_rest(order.conversation.messages)
    body: Body = {"contents": _contents(rest)}
    if order.tools:
        body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in order.tools]}]
        if order.tool_choice is not None:
            body["toolConfig"] = {"functionCallingConfig": _calling_config(order.tool_choice)}
    system: list[Body] = []
    for message in lead:
        for part in message.content:
            if (text := _as_text(part)) is None:
                capability = capability_for_part(part) or Capability.SYSTEM_MESSAGE
                raise UnsupportedByApiError(capability, "instructions to Gemini are text only")
            system.append({"text": text})
    if system:
        body["systemInstruction"] = {"parts": system}
    if settings := _generation_config(order):
        body["generationConfig"] = settings
    return _merged(body, {name: value for name, value in order.parameters.items() if name not in PARAMETERS})


def _generation_config(order: WorkOrder) -> Body:
    settings: Body = {}
    if order.stop_sequences:
        settings["stopSequences"] = list(order.stop_sequences)
    if order.json_mode or order.response_schema is not None:
        settings["responseMimeType"] = JSON
    if order.response_schema is not None:
        settings["responseJsonSchema"] = order.response_schema
    for name, capability in PARAMETERS.items():
        if name not in order.parameters or name == "logprobs":
            continue
        if name not in FIELDS:
            raise UnsupportedByApiError(capability, f"a Gemini request has no field for {name}")
        settings[FIELDS[name]] = order.parameters[name]
    settings |= _logprob_settings(order.parameters.get("logprobs"))
    if thinking := _thinking_config(order):
        settings["thinkingConfig"] = thinking
    return settings


def _logprob_settings(likeliest: int | None) -> Body:
    """Whether the tokens' probabilities are wanted, and of how many of the likeliest ones."""
    if likeliest is None or likeliest is False:
        return {}
    return {"responseLogprobs": True, **({} if likeliest is True else {"logprobs": likeliest})}


def _thinking_config(order: WorkOrder) -> Body:
    """Return whether and how long to think. Every thinking model takes a budget; levels came with Gemini 3."""
    wanted = requested_reasoning(order)
    if wanted == NOT_REQUESTED:
        return {}
    if wanted.enabled is False:
        return {"thinkingBudget": 0}
    # By an unknown word, the model itself decides.
    budget = tokens_for(wanted.effort) if wanted.max_tokens is None else wanted.max_tokens
    return {"includeThoughts": True, **({} if budget is None else {"thinkingBudget": budget})}


def _calling_config(choice: ToolChoice) -> Body:
    if choice.mode == "tool":
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": CALLING_MODES[choice.mode]}


def _declaration(tool: ToolSpec) -> Body:
    given = {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema}
    return {name: value for name, value in given.items() if value}


class _GeminiCalls:
    """The calls of a conversation so far, by id: their position, and the name of the tool."""

    def __init__(self) -> None:
        self._by_id: Final[dict[str, tuple[int, str]]] = {}
        self._count = 0

    def add(self, part: ToolUsePart) -> None:
        """Add a call; of two with one id, results belong to the later one."""
        self._count += 1
        self._by_id[part.id] = (self._count, part.name)

    def position(self, part: ToolResultPart) -> int:
        """Return the position of this result's call; after all others if it is not in the conversation."""
        return self._by_id.get(part.tool_use_id, (self._count + 1, ""))[0]

    def name(self, part: ToolResultPart) -> str:
        """Return the name of the tool that gave this result."""
        return self._by_id.get(part.tool_use_id, (0, part.tool_use_id))[1]


def _contents(messages: Sequence[ConversationMessage]) -> list[Body]:
    """Return the messages; adjacent ones of one role become one, as the results of parallel calls must."""
    calls = _GeminiCalls()
    contents: list[Body] = []
    for role, group in groupby(messages, key=lambda message: message.role):
        if parts := [part for message in group for part in message.content]:
            contents.append({"role": ROLES[role], "parts": list(_parts(parts, calls))})
    return contents


def _parts(parts: Sequence[MessagePart], calls: _GeminiCalls) -> Iterator[Body]:
    for are_results, run in groupby(parts, key=lambda part: isinstance(part, ToolResultPart)):
        if are_results:
            results = sorted(cast("Iterator[ToolResultPart]", run), key=calls.position)
            yield from (_tool_result(part, calls.name(part)) for part in results)
        else:
            for part in run:
                yield from _part(cast("AnyPart", part), calls)


def _part(part: AnyPart, calls: _GeminiCalls) -> Iterator[Body]:
    match part:
        case TextPart() | ResourceLinkPart():
            yield {"text": _as_text(part)}
        case ResourcePart() if part.data is None:
            yield {"text": document_text(part)}
        case ResourcePart() if not is_by_address(part):
            yield {"text": file_line(part.uri)}
            yield _medium(part)
        case ImagePart() | AudioPart() | ResourcePart():
            yield _medium(part)
        case ThinkingPart():
            thought = {} if part.redacted and not part.text else {"thought": True}
            yield {"text": part.text, **thought, **signature_member(part.signature)}
        case ToolUsePart():
            calls.add(part)
            yield _tool_call(part)
        case ToolResultPart():
            yield _tool_result(part, calls.name(part))
        case _:
            assert_never(part)


def file_line(uri: str) -> str:
    """Return the line before a file's data that gives its address."""
    return f"<file {json.dumps({'uri': uri}, ensure_ascii=False)}/>"


def _medium(part: ImagePart | AudioPart | ResourcePart, **members: str) -> Body:
    """Return media with their data, or by an address from which the endpoint fetches them."""
    match part:
        case ImagePart(data="", uri=str(uri)) if uri:
            media_type = part.media_type or IMAGE_TYPES.get(urlsplit(uri).path.rpartition(".")[2].lower())
            return {"fileData": {**({"mimeType": media_type} if media_type else {}), "fileUri": uri, **members}}
        case ResourcePart() if is_by_address(part):
            return {"fileData": {"mimeType": part.media_type or PDF, "fileUri": part.uri, **members}}
        case _:
            return {"inlineData": {"mimeType": part.media_type or ANY_BYTES, "data": part.data, **members}}


def _tool_call(part: ToolUsePart) -> Body:
    arguments = cast("object", part.input)
    if not isinstance(arguments, dict):
        raise UnsupportedByApiError(Capability.TOOL_USE, "the arguments of a Gemini call are an object")
    call: Body = {**id_member(part.id), "name": part.name, "args": cast("Body", arguments)}
    return {"functionCall": call, **signature_member(part.signature)}


def _tool_result(part: ToolResultPart, name: str) -> Body:
    """Return a result: its text as values, its media beside them and referred to, so that their order is kept."""
    values: list[Any] = []
    media: list[Body] = []
    for inner in part.content:
        if (text := _as_text(inner)) is not None:
            values.append(text)
        elif isinstance(inner, ImagePart | AudioPart | ResourcePart):
            if isinstance(inner, ResourcePart) and not is_by_address(inner):
                values.append(file_line(inner.uri))
            reference = f"part_{len(media) + 1}"
            values.append({"$ref": reference})
            media.append(_medium(inner, displayName=reference))
        else:
            raise UnsupportedByApiError(Capability.TOOL_USE, "a tool's result holds a call, a result or reasoning")
    outcome = {"error" if part.is_error else "output": values[0] if len(values) == 1 else values}
    response: Body = {**id_member(part.tool_use_id), "name": name, "response": outcome}
    return {"functionResponse": {**response, "parts": media} if media else response}


def _as_text(part: MessagePart) -> str | None:
    """Return a part that can be written as text; None for any other."""
    match part:
        case TextPart():
            return part.text
        case ResourceLinkPart():
            return link_text(part)
        case ResourcePart() if part.data is None:
            return document_text(part)
        case _:
            return None


def _merged(ours: Body, given: Mapping[str, Any]) -> Body:
    merged = dict(ours)
    for name, value in given.items():
        current = merged.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            merged[name] = _merged(cast("Body", current), cast("Body", value))
        elif isinstance(current, list) and isinstance(value, list):
            merged[name] = [*cast("list[Any]", current), *cast("list[Any]", value)]
        else:
            merged[name] = value
    return merged
