"""Anthropic's Messages API: what it supports, and work orders as request bodies. Pure; knows no transport."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypedDict, assert_never, cast
from urllib.parse import quote

import msgspec

from accord.backends.anthropic.answer import MessagesReader, read_answer, read_error
from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import FailureReport
from accord.backends.model_api import ApiRequest, MalformedAnswerError, UnsupportedByApiError, document_text, link_text
from accord.core.work.derive import PARAMETERS, PDF, capability_for_part, derived_capabilities, parameter_capabilities
from accord.wire.capability import FILE_INPUT, TOOL_RESULT_MEDIA, Capability
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
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, ToolSpec, WorkOrder

# Writes the parts of messages as content blocks of the Messages API. Pure; knows nothing of the rest of a request.
#
# Text without a word is left out: the API refuses such blocks. Reasoning goes back as it came if it has its seal;
# without one (another backend's, an emulation's) the API takes it as text only. Seals of others on calls have no
# place and no use here. Documents are documents where the user or a tool gives them, and text where the API wants
# text.

MAX_TITLE_CHARS: Final = 500
PLAIN: Final = "text/plain"
MEDIA_TYPE: Final = "media type: "

GIVING: Final = frozenset({Role.USER, Role.TOOL})

Block = dict[str, Any]


def blocks_of(message: ConversationMessage) -> list[Block]:
    """What a message says; raises `UnsupportedByApiError` for what its side cannot say."""
    return [
        block for part in cast("list[AnyPart]", message.content) if (block := _block(part, message.role)) is not None
    ]


def _block(part: AnyPart, role: Role) -> Block | None:
    match part:
        case TextPart():
            return _text(part.text)
        case ThinkingPart():
            return _thinking(part, role)
        case ToolUsePart():
            return _call(part, role)
        case ToolResultPart():
            return _result(part, role)
        case ImagePart() | AudioPart() | ResourcePart() | ResourceLinkPart():
            return _given(part) if role in GIVING else _written(part, role)
        case _:
            assert_never(part)


def _written(part: ImagePart | AudioPart | ResourcePart | ResourceLinkPart, role: Role) -> Block | None:
    """What the system prompt and the assistant can say of it: text."""
    if isinstance(part, ResourceLinkPart):
        return _text(link_text(part))
    if isinstance(part, ResourcePart) and part.data is None:
        return _text(document_text(part))
    raise UnsupportedByApiError(
        capability_for_part(part) or FILE_INPUT, f"the Messages API takes only text where the {role} speaks"
    )


def _given(part: ImagePart | AudioPart | ResourcePart | ResourceLinkPart) -> Block | None:
    match part:
        case ImagePart():
            return {"type": "image", "source": _base64(part.media_type, part.data)}
        case ResourceLinkPart():
            return _text(link_text(part))
        case ResourcePart():
            return _document(part)
        case AudioPart():
            raise UnsupportedByApiError(Capability.AUDIO, "the Messages API takes no sound")
        case _:
            assert_never(part)


def _document(part: ResourcePart) -> Block | None:
    if part.data is not None:
        if part.media_type != PDF:
            raise UnsupportedByApiError(FILE_INPUT, "the Messages API takes PDF documents and text, and no other files")
        name = "title" if 0 < len(part.uri) <= MAX_TITLE_CHARS else "context"
        return {"type": "document", "source": _base64(PDF, part.data), name: part.uri}
    if not part.text or part.text.isspace() or not 0 < len(part.uri) <= MAX_TITLE_CHARS:
        return _text(document_text(part))
    source = {"type": "text", "media_type": PLAIN, "data": part.text}
    told = {} if part.media_type is None else {"context": MEDIA_TYPE + part.media_type}
    return {"type": "document", "source": source, "title": part.uri, **told}


def _base64(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}


def _text(text: str) -> Block | None:
    return {"type": "text", "text": text} if text and not text.isspace() else None


def _thinking(part: ThinkingPart, role: Role) -> Block | None:
    if role is Role.ASSISTANT and part.signature is not None:
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return _text(f"[thought: {part.text}]") if part.text else None


def _call(part: ToolUsePart, role: Role) -> Block:
    if role is not Role.ASSISTANT:
        raise UnsupportedByApiError(Capability.TOOL_USE, "only the assistant calls tools")
    arguments: Any = {} if part.input is None else part.input
    if not isinstance(arguments, dict):
        raise UnsupportedByApiError(Capability.TOOL_USE, "arguments of a tool that are not an object")
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}


def _result(part: ToolResultPart, role: Role) -> Block:
    if role not in GIVING:
        raise UnsupportedByApiError(Capability.TOOL_USE, f"a tool's result in a message of the role {role}")
    content = list(_inside(part))
    given = {"content": content} if content else {}
    failed = {"is_error": True} if part.is_error else {}
    return {"type": "tool_result", "tool_use_id": part.tool_use_id, **given, **failed}


def _inside(result: ToolResultPart) -> Iterator[Block]:
    for part in cast("list[AnyPart]", result.content):
        if isinstance(part, ToolUsePart | ToolResultPart):
            raise UnsupportedByApiError(TOOL_RESULT_MEDIA, "a tool's result that holds a call or another result")
        if (block := _block(part, Role.TOOL)) is not None:
            yield block


# Writes work orders as bodies of the Messages API. Pure; knows no model and no transport.
#
# Three things are said elsewhere than in the order, because the API has one place for them: system messages go to
# `system` in their order, wherever in the conversation they stood; neighbours of one side become one message; and in
# such a message results of tools come first. A conversation that begins without the user is opened by a line that
# says so.

LEAST_THINKING: Final = 1024
OPENING: Final = "(The conversation begins without a message of the user.)"
SIDES: Final[Mapping[Role, str]] = {Role.USER: "user", Role.TOOL: "user", Role.ASSISTANT: "assistant"}
SAMPLED: Final[Mapping[str, Capability]] = {
    "temperature": Capability.TEMPERATURE,
    "top_p": Capability.TOP_P,
    "top_k": Capability.TOP_K,
}
UNTOUCHED_TEMPERATURE: Final = 1
LEAST_TOP_P: Final = 0.95


class Turn(TypedDict):
    """One message of the API."""

    role: str
    content: list[Block]


@dataclass(frozen=True, slots=True)
class Manner:
    """How the operator wants the API to be spoken: see `AnthropicMessages`."""

    max_tokens: int
    thinking_budget: int | None
    lacks: Mapping[str, str]


def request_body(order: WorkOrder, model: str, manner: Manner) -> dict[str, Any]:
    """The body that carries this work; raises `UnsupportedByApiError` for what it cannot."""
    _refuse_what_is_lacking(order, manner.lacks)
    system, messages = _conversation(order.conversation.messages)
    _mark(order.parameters.get("cache_control"), system, messages)
    max_tokens = _max_tokens(order, manner)
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    if system:
        body["system"] = system
    body["messages"] = messages
    if order.tools:
        body["tools"] = [_tool(tool) for tool in order.tools]
    if order.stop_sequences:
        body["stop_sequences"] = list(order.stop_sequences)
    body |= _sampling(order)
    if order.thinking:
        body["thinking"] = _thinking_config(manner, max_tokens)
    if order.response_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": order.response_schema}}
    if order.stream:
        body["stream"] = True
    return _with_the_operators_words(body, order.parameters)


def _refuse_what_is_lacking(order: WorkOrder, lacks: Mapping[str, str]) -> None:
    for needed in (*derived_capabilities(order), *parameter_capabilities(order)):
        if needed in lacks:
            raise UnsupportedByApiError(needed, lacks[needed])


def _conversation(messages: Sequence[ConversationMessage]) -> tuple[list[Block], list[Turn]]:
    system: list[Block] = []
    turns: list[Turn] = []
    for message in messages:
        written = blocks_of(message)
        if message.role is Role.SYSTEM:
            system += written
        elif not written:
            continue
        elif turns and turns[-1]["role"] == SIDES[message.role]:
            turns[-1]["content"] += written
        else:
            turns.append({"role": SIDES[message.role], "content": written})
    for turn in turns:
        if turn["role"] == "user":
            turn["content"].sort(key=_is_no_result)
    if not turns or turns[0]["role"] != "user":
        turns.insert(0, {"role": "user", "content": [{"type": "text", "text": OPENING}]})
    return system, turns


def _is_no_result(block: Block) -> bool:
    return block["type"] != "tool_result"


def _mark(wish: Any, system: list[Block], messages: list[Turn]) -> None:
    """Have what comes before the end of the system prompt, and before the end of what the user said last, kept."""
    if not wish:
        return
    mark = {"type": "ephemeral", **(cast("Mapping[str, Any]", wish) if isinstance(wish, Mapping) else {})}
    said = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    for blocks in (system, said):
        if blocks:
            blocks[-1]["cache_control"] = mark


def _max_tokens(order: WorkOrder, manner: Manner) -> Any:
    """How long the answer may be, thinking included: unless the order says so, thinking does not shorten the answer."""
    asked = order.parameters.get("max_tokens")
    if asked is not None:
        return asked
    return manner.max_tokens + ((manner.thinking_budget or 0) if order.thinking else 0)


def _thinking_config(manner: Manner, max_tokens: Any) -> dict[str, Any]:
    if manner.thinking_budget is None:
        # Some models think without a word unless they are asked to tell.
        return {"type": "adaptive", "display": "summarized"}
    budget = manner.thinking_budget
    if isinstance(max_tokens, int) and max_tokens <= budget:
        # The budget has to be less than the whole; half of it is left for the answer.
        budget = max(LEAST_THINKING, max_tokens // 2)
        if max_tokens <= LEAST_THINKING:
            why = f"max_tokens leaves no room to think: that takes more than {LEAST_THINKING}"
            raise UnsupportedByApiError(Capability.EXTENDED_THINKING, why, always=False)
    return {"type": "enabled", "budget_tokens": budget}


def _sampling(order: WorkOrder) -> dict[str, Any]:
    told = {name: value for name in SAMPLED if (value := order.parameters.get(name)) is not None}
    if order.thinking:
        for name, value in told.items():
            if not _goes_with_thinking(name, value):
                why = f"the Messages API does not take this {name} while the model thinks"
                raise UnsupportedByApiError(SAMPLED[name], why, always=False)
    return told


def _goes_with_thinking(name: str, value: Any) -> bool:
    if name == "temperature":
        return value == UNTOUCHED_TEMPERATURE
    return name == "top_p" and isinstance(value, int | float) and LEAST_TOP_P <= value <= 1


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.input_schema}}


def _with_the_operators_words(body: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What has no meaning of ours is passed on as it is; where both say something of one object, both count."""
    for name, value in parameters.items():
        if name in PARAMETERS:
            continue
        ours = body.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping) and name == "output_config":
            body[name] = {**cast("dict[str, Any]", ours), **cast("Mapping[str, Any]", value)}
        else:
            body[name] = value
    return body


# Anthropic's Messages API as the one model backend needs it: what it has, what it lacks, where each question goes.
#
# How orders are written is in `ask`, how answers are read in `read`, what errors mean in `failure`. Knows no model by
# name: what differs between models is the operator's to choose here, or told by the endpoint.

NAME: Final = "anthropic messages API"
BASE_URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
WITHOUT_SAMPLING: Final = "2026-10-21"
"""From this version on, the API has no temperature, no top_p and no top_k."""
MAX_TOKENS: Final = 8192

SAMPLING: Final = (Capability.TEMPERATURE, Capability.TOP_P, Capability.TOP_K)

SUPPORTED: Final = (
    Capability.STREAMING,
    "reasoning_history",
    Capability.SYSTEM_MESSAGE,
    Capability.STOP_SEQUENCES,
    Capability.MAX_TOKENS,
    Capability.CACHE_CONTROL,
    TOOL_RESULT_MEDIA,
)

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.AUDIO: "the Messages API takes no sound",
        FILE_INPUT: "the Messages API takes PDF documents and text, and no other files",
        Capability.JSON_MODE: "the Messages API has no JSON mode without a schema",
        Capability.FREQUENCY_PENALTY: "the Messages API has no frequency_penalty",
        Capability.PRESENCE_PENALTY: "the Messages API has no presence_penalty",
        Capability.SEED_DETERMINISM: "the Messages API has no seed",
        Capability.LOGPROBS: "the Messages API tells no probabilities",
    }
)

TOLD: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "image_input": Capability.IMAGE_INPUT,
        "pdf_input": Capability.PDF_INPUT,
        "structured_outputs": Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    }
)
"""What the endpoint calls what it tells of a model; thinking has forms and is looked at apart."""


class AnthropicMessages:
    """The Messages API.

    `max_tokens` is how long an answer may be if the order does not say: the API insists on a number. `thinking_budget`
    is how many tokens the model may think, for models that are told so; without one they decide (`adaptive`),
    as all models since 4.7 must and none before 4.6 can. `structured_output` says whether schemas go to the API;
    otherwise Accord's own emulation is planned. `version` is the API's, and `betas` are features to be asked for.
    """

    def __init__(
        self,
        *,
        max_tokens: int = MAX_TOKENS,
        thinking_budget: int | None = None,
        structured_output: bool = True,
        version: str = VERSION,
        betas: Sequence[str] = (),
    ) -> None:
        if max_tokens < 1:
            raise ValueError("max_tokens is at least 1")
        if thinking_budget is not None and thinking_budget < LEAST_THINKING:
            raise ValueError(f"thinking_budget is at least {LEAST_THINKING}")
        self.name: Final = NAME
        self.base_url: Final = BASE_URL
        lacks = dict(UNSUPPORTED)
        if not structured_output:
            lacks[Capability.STRUCTURED_OUTPUT_JSON_SCHEMA] = "the operator keeps schemas from the Messages API"
        if version >= WITHOUT_SAMPLING:
            lacks |= {name: f"version {version} of the Messages API has no {name}" for name in SAMPLING}
        self.unsupported: Final[Mapping[str, str]] = MappingProxyType(lacks)
        given = (name for name in (*SUPPORTED, *SAMPLING) if name not in lacks)
        self.supported: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(given, "native"))
        self._manner: Final = Manner(max_tokens, thinking_budget, self.unsupported)
        self._fixed: Final = {"anthropic-version": version} | ({"anthropic-beta": ",".join(betas)} if betas else {})

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of every request."""
        return {**({} if key is None else {"x-api-key": key}), **self._fixed}

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """The request that carries this work."""
        return ApiRequest("/v1/messages", request_body(order, model, self._manner))

    def answer_reader(self) -> MessagesReader:
        """A reader for one streamed answer."""
        return MessagesReader()

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        return read_answer(body)

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """What an answer that is not 200 says went wrong."""
        return read_error(status, body)

    def discovery_request(self, model: str) -> ApiRequest:
        """Ask what the model is."""
        return ApiRequest(f"/v1/models/{quote(model, safe='')}", method="GET")

    def read_discovery(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - the answer is about one model
        """What the endpoint tells of the model: newer ones tell their capabilities, others nothing."""
        try:
            told = _decode(body).capabilities or {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise MalformedAnswerError("what the endpoint tells of the model cannot be understood") from None
        found = {
            ours: is_there for theirs, ours in TOLD.items() if (is_there := _is_there(told.get(theirs))) is not None
        }
        thinks = _is_there(thinking := told.get("thinking"))
        if thinks is not None and thinking is not None:
            form = thinking.types.get("adaptive" if self._manner.thinking_budget is None else "enabled")
            found[Capability.EXTENDED_THINKING] = thinks and _is_there(form) is not False
        return {name: Evidence(LEVELS[is_there], self.name) for name, is_there in found.items()}


LEVELS: Final[Mapping[bool, SupportLevel]] = MappingProxyType(
    {True: SupportLevel.model_validate("native"), False: SupportLevel.model_validate("unsupported")}
)


class _Support(msgspec.Struct):
    supported: bool | None = None
    types: dict[str, "_Support"] = msgspec.field(default_factory=dict[str, "_Support"])


class _Model(msgspec.Struct):
    capabilities: dict[str, _Support | None] | None = None


_decode: Final = msgspec.json.Decoder(_Model).decode


def _is_there(told: _Support | None) -> bool | None:
    return None if told is None else told.supported
