"""Anthropic's Messages API: the codec, and requests as they are written. Pure; it does no I/O.

Requests are read in `read_request.py`, answers are read and written in `read_answer.py` and `write_answer.py`.

The API knows no model by name here: what differs between models is an option of `MessagesCodec`, or reported by the
endpoint. Three things do not stay where the conversation has them, because the API has one place for each:

- System messages at the beginning go to `system`; later ones stay in their place as marked text of the user, since only
  some models take them there.
- Adjacent messages of one side become one message, in which results of tools come first.
- A conversation that does not begin with the user gets a first line of the user's that says so.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypedDict, assert_never, cast
from urllib.parse import quote

import msgspec

from accord.apis.codec import (
    AnswerLabels,
    ApiRequest,
    MalformedAnswerError,
    UnsupportedByApiError,
    document_text,
    is_by_address,
    lead_and_rest,
    link_text,
)
from accord.apis.messages.read_answer import MessagesReader, read_answer, read_error
from accord.apis.messages.read_request import count_request, parse_request
from accord.apis.messages.relayed import MessagesWatcher
from accord.apis.messages.write_answer import MessagesStream, error_body, write_answer, write_error_event
from accord.apis.relayed import with_texts
from accord.core.work.derive import PARAMETERS, PDF, capability_for_part, derived_capabilities, setting_capabilities
from accord.core.work.evidence import Evidence, Layer
from accord.core.work.fields import CONVERSATION, ModelRequest
from accord.core.work.reasoning import requested_reasoning, tokens_for
from accord.wire.capability import FILE_INPUT, IMAGE_URL, REASONING_HISTORY, TOOL_RESULT_MEDIA, Capability
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
from accord.wire.manifest import SupportLevel
from accord.wire.work import Reasoning, ToolSpec, WorkOrder

NAME: Final = "anthropic messages API"
BASE_URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
VERSION_WITHOUT_SAMPLING: Final = "2026-10-21"
"""From this version on, the API has no temperature, no top_p and no top_k."""
MAX_TOKENS: Final = 8192
MIN_THINKING_TOKENS: Final = 1024

SAMPLING: Final[Mapping[str, Capability]] = MappingProxyType(
    {"temperature": Capability.TEMPERATURE, "top_p": Capability.TOP_P, "top_k": Capability.TOP_K}
)
"""The sampling parameters, whose names are the API's own."""
DEFAULT_TEMPERATURE: Final = 1
MIN_TOP_P_WITH_THINKING: Final = 0.95

SUPPORTED: Final = (
    Capability.STREAMING,
    REASONING_HISTORY,
    Capability.SYSTEM_MESSAGE,
    Capability.STOP_SEQUENCES,
    Capability.MAX_TOKENS,
    Capability.CACHE_CONTROL,
    TOOL_RESULT_MEDIA,
    IMAGE_URL,
)

UNSUPPORTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        Capability.AUDIO: "the Messages API takes no audio",
        FILE_INPUT: "the Messages API takes PDF documents and text, and no other files",
        Capability.JSON_MODE: "the Messages API has no JSON mode without a schema",
        Capability.FREQUENCY_PENALTY: "the Messages API has no frequency_penalty",
        Capability.PRESENCE_PENALTY: "the Messages API has no presence_penalty",
        Capability.SEED_DETERMINISM: "the Messages API has no seed",
        Capability.LOGPROBS: "the Messages API reports no log probabilities",
    }
)

MODEL_CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "image_input": Capability.IMAGE_INPUT,
        "pdf_input": Capability.PDF_INPUT,
        "structured_outputs": Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    }
)
"""The endpoint's names for capabilities of a model. Thinking has several forms and is read separately."""

SIDES: Final[Mapping[Role, str]] = {Role.USER: "user", Role.TOOL: "user", Role.ASSISTANT: "assistant"}
CHOICES: Final[Mapping[str, str]] = MappingProxyType(
    {"auto": "auto", "none": "none", "required": "any", "tool": "tool"}
)
EFFORTS: Final[Mapping[str, str]] = MappingProxyType({"minimal": "low"})
"""Words for an effort that the API does not have, and its nearest one."""
FIRST_LINE: Final = "(The conversation begins without a message of the user.)"
NO_FIRST_MESSAGE: Final = f"the API requires a first message of the user: {FIRST_LINE}"
THINKING_BLOCKS: Final = frozenset({"thinking", "redacted_thinking"})
"""The kinds of blocks that take no mark to cache up to them."""
MAX_TITLE_CHARS: Final = 500
MEDIA_TYPE: Final = "media type: "

Block = dict[str, Any]


class _MessagesMessage(TypedDict):
    role: str
    content: list[Block]


class _ModelSupport(msgspec.Struct):
    supported: bool | None = None
    types: dict[str, "_ModelSupport"] = msgspec.field(default_factory=dict[str, "_ModelSupport"])


class _ModelDescription(msgspec.Struct):
    capabilities: dict[str, _ModelSupport | None] | None = None


class _TokenCount(msgspec.Struct):
    input_tokens: int


_decode_count: Final = msgspec.json.Decoder(_TokenCount).decode
COUNT_TOKENS_PATH: Final = "/v1/messages/count_tokens"
UNKNOWN_DATE: Final = "1970-01-01T00:00:00Z"
"""When a model was made is not known, and the member for it may not be absent; the documentation allows this value."""
_decode_description: Final = msgspec.json.Decoder(_ModelDescription).decode


class MessagesCodec:
    """The Messages API.

    `max_tokens` limits an answer if the work order does not: the API requires a number. Without it, that is the
    `output_limit` of the model, which the model facts have for most, else 8,192. `thinking_budget` is how many tokens
    the model may think, for models that take a number; without it the model decides (`adaptive`), which all models
    since 4.7 require and none before 4.6 has. `structured_output`: whether schemas go to the API; otherwise Accord's
    emulation is planned. `version` is the API's version, `betas` are beta features to enable.
    """

    path = "/v1/messages"
    answer_reader = staticmethod(MessagesReader)
    read_answer = staticmethod(read_answer)
    read_error = staticmethod(read_error)
    with_texts = staticmethod(with_texts)
    watcher = staticmethod(MessagesWatcher)
    read_request = staticmethod(parse_request)
    read_count_request = staticmethod(count_request)
    write_answer = staticmethod(write_answer)
    write_error = staticmethod(error_body)
    write_error_event = staticmethod(write_error_event)

    def __init__(  # noqa: PLR0913 - one for each difference between models
        self,
        *,
        max_tokens: int | None = None,
        output_limit: int | None = None,
        thinking_budget: int | None = None,
        structured_output: bool = True,
        version: str = VERSION,
        betas: Sequence[str] = (),
    ) -> None:
        for name, tokens in (("max_tokens", max_tokens), ("output_limit", output_limit)):
            if tokens is not None and tokens < 1:
                raise ValueError(f"{name} should be at least 1, not {tokens}")
        if thinking_budget is not None and thinking_budget < MIN_THINKING_TOKENS:
            raise ValueError(f"thinking_budget should be at least {MIN_THINKING_TOKENS}, not {thinking_budget}")
        self.api: Final = Api.MESSAGES
        self.name: Final = NAME
        self.base_url: Final = BASE_URL
        unsupported = dict(UNSUPPORTED)
        if not structured_output:
            unsupported[Capability.STRUCTURED_OUTPUT_JSON_SCHEMA] = "structured_output is off for this backend"
        if version >= VERSION_WITHOUT_SAMPLING:
            unsupported |= {name: f"version {version} of the Messages API has no {name}" for name in SAMPLING}
        self.unsupported: Final[Mapping[str, str]] = MappingProxyType(unsupported)
        supported = (name for name in (*SUPPORTED, *SAMPLING.values()) if name not in unsupported)
        self.supported: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(supported, "native"))
        self._max_tokens: Final = max_tokens
        self._output_limit: Final = output_limit
        self._thinking_budget: Final = thinking_budget
        self._fixed_headers: Final = {"anthropic-version": version} | (
            {"anthropic-beta": ",".join(betas)} if betas else {}
        )

    def answer_writer(self, request: ModelRequest, labels: AnswerLabels) -> MessagesStream:  # noqa: ARG002 - the interface
        """A writer for one streamed answer."""
        return MessagesStream(labels)

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request."""
        return {**({} if key is None else {"x-api-key": key}), **self._fixed_headers}

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order."""
        return ApiRequest(self.path, self.request_body(order, model))

    def request_body(self, order: WorkOrder, model: str) -> dict[str, Any]:
        """Return the body for this work order, with the operator's own fields last."""
        self._check_supported(order)
        system, messages = _conversation(order.conversation.messages)
        _mark_cached(order.parameters.get("cache_control"), system, messages)
        wanted = requested_reasoning(order)
        thinks = wanted.enabled is True
        budget = self._budget(wanted) if thinks else None
        max_tokens = order.parameters.get("max_tokens")
        if max_tokens is None:
            max_tokens = self._default_limit(budget)
        body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
        if system:
            body["system"] = system
        body["messages"] = messages
        body |= _tools(order, thinks=thinks)
        if order.stop_sequences:
            body["stop_sequences"] = list(order.stop_sequences)
        body |= _sampling(order, thinks=thinks)
        if thinks:
            shows = order.thinking or wanted.summary is not None
            body["thinking"] = _thinking(budget, max_tokens, shows=shows, is_stated=wanted.max_tokens is not None)
        elif wanted.enabled is False:
            body["thinking"] = {"type": "disabled"}
        # With a configured budget, the budget says how much effort the thinking is.
        by_budget = thinks and self._thinking_budget is not None and wanted.max_tokens is None
        effort = None if by_budget or wanted.effort is None else EFFORTS.get(wanted.effort, wanted.effort)
        if config := _output_config(order, effort):
            body["output_config"] = config
        if order.stream:
            body["stream"] = True
        return _with_own_fields(body, order.parameters)

    def assumed(self, order: WorkOrder) -> dict[str, str]:
        """The limit of the answer, and a first message of the user, if the order has none."""
        first = {} if _begins_with_user(order.conversation.messages) else {CONVERSATION: NO_FIRST_MESSAGE}
        if order.parameters.get("max_tokens") is not None:
            return first
        wanted = requested_reasoning(order)
        tokens = f"{self._default_limit(self._budget(wanted) if wanted.enabled else None):,}"
        if self._max_tokens is not None:
            choice = f"max_tokens of this backend, {tokens}"
        elif self._output_limit is not None:
            choice = f"the model's maximum, {tokens}"
        else:
            choice = f"{tokens}, since the model's maximum is not known"
        return {Capability.MAX_TOKENS: f"the API requires it: {choice}", **first}

    def _default_limit(self, budget: int | None) -> int:
        """The limit of answers to orders that have none. It includes thinking, which does not shorten the answer."""
        if self._max_tokens is None and self._output_limit is not None:
            return self._output_limit
        tokens = (self._max_tokens or MAX_TOKENS) + (budget or 0)
        return tokens if self._output_limit is None else min(tokens, self._output_limit)

    def discovery_request(self, model: str) -> ApiRequest:
        """Return the request for the description of the model."""
        return ApiRequest(f"/v1/models/{quote(model, safe='')}", method="GET")

    def read_discovery(self, body: bytes, model: str) -> Layer:  # noqa: ARG002 - the reply is about one model
        """Return what the description says of the model; only newer endpoints list capabilities."""
        try:
            listed = _decode_description(body).capabilities or {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise MalformedAnswerError("the description of the model cannot be understood") from None
        found: dict[str, bool] = {}
        for theirs, ours in MODEL_CAPABILITIES.items():
            if (entry := listed.get(theirs)) is not None and entry.supported is not None:
                found[ours] = entry.supported
        thinking = listed.get("thinking")
        if thinking is not None and thinking.supported is not None:
            form = thinking.types.get("adaptive" if self._thinking_budget is None else "enabled")
            found[Capability.EXTENDED_THINKING] = thinking.supported and (form is None or form.supported is not False)
        levels = {True: SupportLevel.NATIVE, False: SupportLevel.UNSUPPORTED}
        return {name: Evidence(levels[is_supported], self.name) for name, is_supported in found.items()}

    def write_model(self, name: str, owner: str) -> dict[str, Any]:  # noqa: ARG002 - the API names no owner
        """A model in the API's shape."""
        fixed = {"type": "model", "created_at": UNKNOWN_DATE, "lifecycle": "active"}
        return {**fixed, "id": name, "display_name": name}

    def write_models(self, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The list of these models, which is complete."""
        ids = [model["id"] for model in models]
        ends = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return {"data": models, "has_more": False, **ends}

    def _check_supported(self, order: WorkOrder) -> None:
        for capability in (*derived_capabilities(order), *setting_capabilities(order)):
            if capability in self.unsupported:
                raise UnsupportedByApiError(capability, self.unsupported[capability])

    def _budget(self, wanted: Reasoning) -> int | None:
        """How many tokens the model may think: what the order says, else a share of what is configured."""
        if wanted.max_tokens is not None or self._thinking_budget is None:
            return wanted.max_tokens
        share = tokens_for(wanted.effort, self._thinking_budget)
        return self._thinking_budget if share is None else max(MIN_THINKING_TOKENS, share)

    def relayed_body(self, body: dict[str, Any], model: str, *, keeps_reasoning: bool) -> tuple[dict[str, Any], bool]:  # noqa: ARG002 - the interface
        """A client's body as it is sent to the endpoint, and whether its usage is requested for Accord alone."""
        return {**body, "model": model}, False

    def count_request(self, body: dict[str, Any], model: str, headers: Mapping[str, str]) -> ApiRequest:
        """The request that has the tokens of this one counted."""
        return ApiRequest(COUNT_TOKENS_PATH, {**body, "model": model}, headers)

    def write_count(self, tokens: int) -> dict[str, Any]:
        """The answer to a request that has its tokens counted."""
        return {"input_tokens": tokens}

    def read_count(self, body: bytes) -> int:
        """The number of input tokens."""
        try:
            return _decode_count(body).input_tokens
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise MalformedAnswerError("it is not a count of tokens") from None


def _thinking(budget: int | None, max_tokens: Any, *, shows: bool, is_stated: bool) -> dict[str, Any]:
    # Some models return no text of their thinking unless it is requested.
    display = {"display": "summarized"} if shows else {}
    if budget is None:
        return {"type": "adaptive", **display}
    if isinstance(max_tokens, int) and max_tokens <= budget:
        # The budget has to be less than the whole; half of it is left for the answer.
        budget = max(MIN_THINKING_TOKENS, max_tokens // 2)
        if max_tokens <= MIN_THINKING_TOKENS:
            reason = f"max_tokens leaves nothing for thinking, which takes more than {MIN_THINKING_TOKENS}"
            raise UnsupportedByApiError(Capability.EXTENDED_THINKING, reason)
    # Models that take a number return the text without a request; only a caller's own is passed on.
    return {"type": "enabled", "budget_tokens": budget, **(display if is_stated else {})}


def _output_config(order: WorkOrder, effort: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if order.response_schema is not None:
        config["format"] = {"type": "json_schema", "schema": order.response_schema}
    if effort is not None:
        config["effort"] = effort
    return config


def _tools(order: WorkOrder, *, thinks: bool) -> dict[str, Any]:
    """The tools and how they may be chosen; without tools, the API takes no choice."""
    choice = order.tool_choice
    mode = "auto" if choice is None else choice.mode
    is_forced = mode in ("required", "tool")
    if not order.tools:
        if is_forced:
            reason = "a tool has to be called, and no tool is given"
            raise UnsupportedByApiError(Capability.TOOL_USE, reason)
        return {}
    if is_forced and thinks:
        reason = "the Messages API does not force a tool while the model thinks"
        raise UnsupportedByApiError(Capability.EXTENDED_THINKING, reason)
    chosen: dict[str, Any] = {"type": CHOICES[mode]}
    if choice is not None and mode == "tool":
        chosen["name"] = choice.name
    if order.parallel_tool_calls is False and mode != "none":
        chosen["disable_parallel_tool_use"] = True
    tools = list(map(_tool, order.tools))
    return {"tools": tools} if chosen == {"type": "auto"} else {"tools": tools, "tool_choice": chosen}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["input_schema"] = {"type": "object", **tool.input_schema}
    if tool.strict is not None:
        written["strict"] = tool.strict
    if tool.cache_control is not None:
        written["cache_control"] = tool.cache_control
    return written


def _sampling(order: WorkOrder, *, thinks: bool) -> dict[str, Any]:
    given = {name: value for name in SAMPLING if (value := order.parameters.get(name)) is not None}
    for name, value in given.items() if thinks else ():
        is_top_p = name == "top_p" and isinstance(value, int | float) and MIN_TOP_P_WITH_THINKING <= value <= 1
        if not is_top_p and not (name == "temperature" and value == DEFAULT_TEMPERATURE):
            reason = f"the Messages API does not take this {name} while the model thinks"
            raise UnsupportedByApiError(SAMPLING[name], reason)
    return given


def _with_own_fields(body: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Add the parameters that only this API knows; `output_config` is merged, because the schema is in it too."""
    for name, value in parameters.items():
        if name in PARAMETERS:
            continue
        ours = body.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping) and name == "output_config":
            body[name] = {**cast("dict[str, Any]", ours), **cast("Mapping[str, Any]", value)}
        else:
            body[name] = value
    return body


def _conversation(messages: Sequence[ConversationMessage]) -> tuple[list[Block], list[_MessagesMessage]]:
    """Return the system prompt and the messages of the two sides."""
    lead, rest = lead_and_rest(messages)
    system = [block for message in lead for block in _blocks(message)]
    written: list[_MessagesMessage] = []
    for message in rest:
        blocks = _blocks(message)
        if not blocks:
            continue
        if written and written[-1]["role"] == SIDES[message.role]:
            written[-1]["content"] += blocks
        else:
            written.append({"role": SIDES[message.role], "content": blocks})
    for each in written:
        if each["role"] == "user":
            each["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not written or written[0]["role"] != "user":
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": FIRST_LINE}]})
    return system, written


def _begins_with_user(messages: Sequence[ConversationMessage]) -> bool:
    """Whether the first message that `_conversation` writes is one of the user; what it refuses is not written."""
    try:
        first = next((each.role for each in lead_and_rest(messages)[1] if _blocks(each)), None)
    except UnsupportedByApiError:
        return True
    return first is not None and SIDES[first] == "user"


def _mark_cached(mark: Any, system: list[Block], messages: Sequence[_MessagesMessage]) -> None:
    """Mark the ends of the system prompt and of the user's last message as points to cache up to."""
    if not mark:
        return
    control = {"type": "ephemeral", **(cast("Mapping[str, Any]", mark) if isinstance(mark, Mapping) else {})}
    last = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    for blocks in (system, last):
        if blocks:
            blocks[-1]["cache_control"] = control


def _blocks(message: ConversationMessage) -> list[Block]:
    parts = cast("list[AnyPart]", message.content)
    return [block for part in parts if (block := _block(part, message.role)) is not None]


def _block(part: AnyPart, role: Role) -> Block | None:
    """Return a part as a content block with its mark to cache up to it; None for empty text, which the API refuses."""
    block = _plain_block(part, role)
    if block is not None and part.cache_control is not None and block["type"] not in THINKING_BLOCKS:
        block["cache_control"] = _cache_mark(part.cache_control)
    return block


def _cache_mark(mark: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mark to cache up to a block. What OpenAI keeps for 30 minutes or 12 hours is kept for an hour at most here."""
    if "mode" not in mark:
        return mark
    return {"type": "ephemeral", **({"ttl": "1h"} if mark.get("ttl") else {})}


def _plain_block(part: AnyPart, role: Role) -> Block | None:
    match part:
        case TextPart():
            return _text(part.text)
        case ThinkingPart():
            # Without a signature (from another backend, or an emulation) the API takes reasoning as text only.
            if role is Role.ASSISTANT and part.signature is not None:
                if part.redacted:
                    return {"type": "redacted_thinking", "data": part.signature}
                return {"type": "thinking", "thinking": part.text, "signature": part.signature}
            return _text(f"[thought: {part.text}]") if part.text else None
        case ToolUsePart():
            return _tool_use(part, role)
        case ToolResultPart():
            return _tool_result(part, role)
        case ImagePart() | AudioPart() | ResourcePart() | ResourceLinkPart():
            return _medium(part, role)
        case _:
            assert_never(part)


def _text(text: str) -> Block | None:
    return {"type": "text", "text": text} if text and not text.isspace() else None


def _tool_use(part: ToolUsePart, role: Role) -> Block:
    if role is not Role.ASSISTANT:
        raise UnsupportedByApiError(Capability.TOOL_USE, "only the assistant calls tools")
    arguments: Any = {} if part.input is None else part.input
    if not isinstance(arguments, dict):
        raise UnsupportedByApiError(Capability.TOOL_USE, "the arguments of a tool call are not an object")
    # A signature on a call comes from another API and has no field here.
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}


def _tool_result(part: ToolResultPart, role: Role) -> Block:
    if role not in (Role.USER, Role.TOOL):
        raise UnsupportedByApiError(Capability.TOOL_USE, f"a tool's result is in a message of the role {role}")
    content: list[Block] = []
    for inner in cast("list[AnyPart]", part.content):
        if isinstance(inner, ToolUsePart | ToolResultPart):
            raise UnsupportedByApiError(TOOL_RESULT_MEDIA, "a tool's result holds a call or another result")
        if (block := _block(inner, Role.TOOL)) is not None:
            content.append(block)
    result: Block = {"type": "tool_result", "tool_use_id": part.tool_use_id}
    if content:
        result["content"] = content
    if part.is_error:
        result["is_error"] = True
    return result


def _medium(part: ImagePart | AudioPart | ResourcePart | ResourceLinkPart, role: Role) -> Block | None:
    if isinstance(part, ResourceLinkPart):
        return _text(link_text(part))
    if role not in (Role.USER, Role.TOOL):
        if isinstance(part, ResourcePart) and part.data is None:
            return _text(document_text(part))
        reason = f"the Messages API takes only text in messages of the {role}"
        raise UnsupportedByApiError(capability_for_part(part) or FILE_INPUT, reason)
    match part:
        case ImagePart():
            is_address = not part.data and part.uri is not None
            source = {"type": "url", "url": part.uri} if is_address else _base64(part.media_type, part.data)
            return {"type": "image", "source": source}
        case AudioPart():
            raise UnsupportedByApiError(Capability.AUDIO, UNSUPPORTED[Capability.AUDIO])
        case ResourcePart():
            return _document(part)
        case _:
            assert_never(part)


def _document(part: ResourcePart) -> Block | None:
    title: Block = {"title": part.uri} if part.uri else {}
    is_titled = len(part.uri) <= MAX_TITLE_CHARS
    if part.data is not None:
        if is_by_address(part):
            return {"type": "document", "source": {"type": "url", "url": part.uri}}
        if part.media_type != PDF:
            raise UnsupportedByApiError(FILE_INPUT, UNSUPPORTED[FILE_INPUT])
        return {
            "type": "document",
            "source": _base64(PDF, part.data),
            **(title if is_titled else {"context": part.uri}),
        }
    if not part.text or part.text.isspace() or not is_titled:
        return _text(document_text(part))
    source = {"type": "text", "media_type": "text/plain", "data": part.text}
    context = {} if part.media_type is None else {"context": MEDIA_TYPE + part.media_type}
    return {"type": "document", "source": source, **title, **context}


def _base64(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}
