"""What OpenAI-compatible endpoints report: errors as failures, and the capabilities of their models."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import Failure, FailureReport, failure_by_status
from accord.backends.model_api import ApiRequest, MalformedAnswerError
from accord.wire.manifest import SupportLevel

# What OpenAI-compatible endpoints say when they fail, as words of the one table.
#
# They agree on `{"error": {"message", "type", "param", "code"}}` and differ in everything else: servers send the
# error bare, as a sentence, as `detail`, in a list, and a number for a code. Codes are believed first, then types,
# then the sentences of servers that have neither, and last the status. Knows nothing of how the APIs carry an answer.

BY_CODE: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "invalid_api_key": Failure.BAD_KEY,
        "incorrect_api_key": Failure.BAD_KEY,
        "authentication_error": Failure.BAD_KEY,
        "permission_error": Failure.FORBIDDEN,
        "permission_denied": Failure.FORBIDDEN,
        "model_not_found": Failure.NO_SUCH_MODEL,
        "not_found_error": Failure.NO_SUCH_MODEL,
        "notfounderror": Failure.NO_SUCH_MODEL,
        "deploymentnotfound": Failure.NO_SUCH_MODEL,
        "context_length_exceeded": Failure.CONTEXT_TOO_LONG,
        "exceed_context_size_error": Failure.CONTEXT_TOO_LONG,
        "string_above_max_length": Failure.TOO_LARGE,
        "content_filter": Failure.CONTENT_REFUSED,
        "content_policy_violation": Failure.CONTENT_REFUSED,
        "invalid_prompt": Failure.CONTENT_REFUSED,
        "insufficient_quota": Failure.OUT_OF_QUOTA,
        "billing_hard_limit_reached": Failure.OUT_OF_QUOTA,
        "billing_not_active": Failure.OUT_OF_QUOTA,
        "budget_exceeded": Failure.OUT_OF_QUOTA,
        "rate_limit_exceeded": Failure.RATE_LIMITED,
        "rate_limit_error": Failure.RATE_LIMITED,
        "unsupported_parameter": Failure.UNSUPPORTED,
        "unsupported_value": Failure.UNSUPPORTED,
        "unknown_parameter": Failure.UNSUPPORTED,
        "not_supported_error": Failure.UNSUPPORTED,
        "server_error": Failure.FAILED,
        "engine_overloaded": Failure.OVERLOADED,
        "overloaded_error": Failure.OVERLOADED,
        "server_is_overloaded": Failure.OVERLOADED,
        "slow_down": Failure.OVERLOADED,
        "unavailable_error": Failure.OVERLOADED,
    }
)
"""Codes and types by their names in lower case."""

MESSAGE_RULES: Final[tuple[tuple[re.Pattern[str], Failure, str | None], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure, refused)
    for pattern, failure, refused in (
        ((r"maximum context length|exceeds? the (?:available )?context|context (?:window|size|length).{0,40}exceed"
         r"|contextwindowexceeded"), Failure.CONTEXT_TOO_LONG, None),
        (r"contentpolicyviolation|responsibleaipolicy", Failure.CONTENT_REFUSED, None),
        (r"does not support tools|support tool use|enable-auto-tool-choice|tools param requires",
         Failure.UNSUPPORTED, "tool_use"),
        (r"does not support thinking|encrypted content is not supported", Failure.UNSUPPORTED, "extended_thinking"),
        ((r"does not support (?:image|vision)|image input is not supported|support image input|not a multimodal model"
         r"|at most 0 image|invalid content type\. image_url"), Failure.UNSUPPORTED, "image_input"),
        (r"does not support audio|audio input is not supported|support audio input|at most 0 audio",
         Failure.UNSUPPORTED, "audio"),
    )
)  # fmt: skip
"""What servers without codes say: llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter."""

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools": "tool_use",
        "tool_choice": "tool_use",
        "parallel_tool_calls": "tool_use",
        "response_format": "structured_output_json_schema",
        "text": "structured_output_json_schema",
        "reasoning": "extended_thinking",
        "reasoning_effort": "extended_thinking",
        "include": "extended_thinking",
        "stream": "streaming",
        "stop": "stop_sequences",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "max_tokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "seed": "seed_determinism",
        "logprobs": "logprobs",
        "top_logprobs": "logprobs",
    }
)
"""Which capability an endpoint does not have that refuses a field of the request."""

_JSON_MODE: Final = re.compile(r"json_object|json mode", re.IGNORECASE)
_ROLE: Final = re.compile(r"(?:messages|input)\[\d+\]\.role")
_FIELD: Final = re.compile(r"[a-z_]+")
_NEVER_BY_SENTENCE: Final = frozenset({401, 403, 429})
"""What these mean does not depend on the sentence."""


def read_error(status: int, body: bytes) -> FailureReport:
    """What this answer, which is not 200, says went wrong."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FailureReport(failure_by_status(status), status=status)
    return explained_by(told, status)


def explained_by(told: Any, status: int | None = None) -> FailureReport:
    """What an error says, as it stands in a body or in the middle of a stream."""
    error = _error(told)
    message, param = _text(error.get("message")), _text(error.get("param"))
    names = [name for name in map(_text, (error.get("code"), error.get("type"), error.get("status"))) if name]
    short = next((name for name in names if not name.isdecimal()), None)
    failure, refused = _judged(names, message or "", status or _number(error.get("code")))
    if failure is Failure.UNSUPPORTED and refused is None:
        refused = _refused(param or "", message or "")
    return FailureReport(failure, refused, short, message, status=status)


def _judged(names: list[str], message: str, status: int | None) -> tuple[Failure, str | None]:
    known = next((BY_CODE[name.lower()] for name in names if name.lower() in BY_CODE), None)
    if known is not None and known is not Failure.FAILED:
        return known, None
    if status not in _NEVER_BY_SENTENCE:
        for pattern, failure, refused in MESSAGE_RULES:
            if pattern.search(message):
                return failure, refused
    return Failure.FAILED if status is None else failure_by_status(status), None


def _refused(param: str, message: str) -> str | None:
    if _ROLE.fullmatch(param):
        return "system_message"
    field = _FIELD.match(param)
    refused = REFUSED.get(field[0]) if field else None
    if refused == "structured_output_json_schema" and _JSON_MODE.search(message):
        return "json_mode"
    return refused


def _error(told: Any) -> Mapping[str, Any]:
    """The object that says what is wrong, wherever the server put it."""
    if isinstance(told, str):
        return {"message": told}
    if isinstance(told, list):
        return _error(cast("list[Any]", told)[0]) if told else {}
    if not isinstance(told, dict):
        return {}
    fields = cast("dict[str, Any]", told)
    for name in ("error", "detail"):
        if fields.get(name):
            return _error(fields[name])
    return fields if "message" in fields or "msg" not in fields else {"message": fields["msg"]}


def _text(value: Any) -> str | None:
    """A value as text, if it is one or a number."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _number(code: Any) -> int | None:
    text = _text(code) or ""
    return int(text) if re.fullmatch(r"[45]\d\d", text) else None


# What an endpoint tells of its models before one is asked: the list of models, and Ollama's own account of one.
#
# OpenAI's list tells that a model exists, nothing else. OpenRouter's entries tell what a model takes, and Ollama has
# a path of its own for that, at the root of its server. What an endpoint does not speak of stays unknown.

MODALITIES: Final[Mapping[str, str]] = MappingProxyType({"image": "image_input", "audio": "audio", "file": "pdf_input"})
PARAMETERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools": "tool_use",
        "structured_outputs": "structured_output_json_schema",
        "response_format": "json_mode",
        "reasoning": "extended_thinking",
        "stop": "stop_sequences",
        "temperature": "temperature",
        "top_p": "top_p",
        "top_k": "top_k",
        "max_tokens": "max_tokens",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
    }
)
"""OpenRouter's names. It overlooks what is not on a model's list, so what is not there is missing."""
NOT_BY_ABSENCE: Final = frozenset({"pdf_input"})
"""OpenRouter reads PDFs out to models that do not take files."""
OLLAMA: Final[Mapping[str, str]] = MappingProxyType(
    {"vision": "image_input", "tools": "tool_use", "thinking": "extended_thinking"}
)
"""Ollama's names for what a model has; it lists all that it knows to ask about."""


class _Architecture(Struct):
    input_modalities: list[str] | None = None


class _Entry(Struct):
    id: str = ""
    architecture: _Architecture | None = None
    supported_parameters: list[str] | None = None


class _Told(Struct):
    data: list[_Entry] | None = None
    capabilities: list[str] | None = None


_decode: Final = msgspec.json.Decoder(_Told).decode


def discovery_request(model: str, *, ollama: bool = False) -> ApiRequest:
    """The question that costs nothing."""
    if ollama:
        return ApiRequest("/api/show", {"model": model}, at_root=True)
    return ApiRequest("/models", method="GET")


def read_discovery(body: bytes, model: str) -> Layer:
    """What the answer tells of the model."""
    try:
        told = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedAnswerError("the list of models cannot be read") from None
    if told.capabilities is not None:
        return _layer(told.capabilities, OLLAMA, "Ollama's account of the model")
    entry = next((entry for entry in told.data or () if entry.id == model), None)
    if entry is None:
        return {}
    source = "the endpoint's list of models"
    takes = entry.architecture.input_modalities if entry.architecture else None
    return {**_layer(takes, MODALITIES, source), **_layer(entry.supported_parameters, PARAMETERS, source)}


def _layer(listed: list[str] | None, names: Mapping[str, str], source: str) -> dict[str, Any]:
    if not listed:
        return {}
    return {
        capability: Evidence(SupportLevel.model_validate("native" if name in listed else "unsupported"), source)
        for name, capability in names.items()
        if name in listed or capability not in NOT_BY_ABSENCE
    }
