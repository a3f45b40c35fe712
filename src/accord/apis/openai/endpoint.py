"""What OpenAI-compatible endpoints report beside answers: errors, and their models. Pure.

Errors are `{"error": {"message", "type", "param", "code"}}`, but servers also send the error bare, as a string, as
`detail`, in a list, or with a number as code. A code counts first, then the type, the message, and last the status.

OpenAI's list of models shows only that a model exists. OpenRouter's entries show what a model takes, and Ollama has a
path of its own for that, at the root of its server. What an endpoint does not mention stays unknown.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from accord.apis.codec import ApiRequest, MalformedAnswerError
from accord.apis.failure import NAMES_FIELDS, Failure, FailureReport, failure_by_status
from accord.apis.named_fields import named_fields, pydantic_locations
from accord.core.work.evidence import Evidence, Layer
from accord.wire.manifest import SupportLevel

BY_CODE: Final[Mapping[str, Failure]] = MappingProxyType(
    {
        "invalid_api_key": Failure.BAD_KEY,
        "incorrect_api_key": Failure.BAD_KEY,
        "authentication_error": Failure.BAD_KEY,
        "permission_error": Failure.FORBIDDEN,
        "permission_denied": Failure.FORBIDDEN,
        "data_residency_mismatch": Failure.FORBIDDEN,
        "model_not_found": Failure.NO_SUCH_MODEL,
        "not_found_error": Failure.NO_SUCH_MODEL,
        "notfounderror": Failure.NO_SUCH_MODEL,
        "deploymentnotfound": Failure.NO_SUCH_MODEL,
        "context_length_exceeded": Failure.CONTEXT_TOO_LONG,
        "exceed_context_size_error": Failure.CONTEXT_TOO_LONG,
        "string_above_max_length": Failure.TOO_LARGE,
        "image_too_large": Failure.TOO_LARGE,
        "image_file_too_large": Failure.TOO_LARGE,
        **dict.fromkeys(
            """empty_image_file failed_to_download_image image_file_not_found image_parse_error image_too_small
            invalid_base64_image invalid_image invalid_image_format invalid_image_mode invalid_image_url
            unsupported_image_media_type""".split(),
            Failure.BAD_REQUEST,
        ),
        "content_filter": Failure.CONTENT_REFUSED,
        "content_policy_violation": Failure.CONTENT_REFUSED,
        "invalid_prompt": Failure.CONTENT_REFUSED,
        "bio_policy": Failure.CONTENT_REFUSED,
        "image_content_policy_violation": Failure.CONTENT_REFUSED,
        "misalignment_policy_violation": Failure.CONTENT_REFUSED,
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
"""Messages of servers without codes: llama.cpp, Ollama, vLLM, LiteLLM, OpenRouter."""

BY_FIELD: Final[Mapping[str, str]] = MappingProxyType(
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
"""The capability that is missing where an endpoint refuses this field of the request."""

_JSON_MODE: Final = re.compile(r"json_object|json mode", re.IGNORECASE)
_ROLE: Final = re.compile(r"(?:messages|input)\[\d+\]\.role")
_FIELD: Final = re.compile(r"[a-z_]+")
_CLEAR_STATUSES: Final = frozenset({401, 403, 429})
"""The meaning of these does not depend on the message."""


def key_headers(key: str | None) -> dict[str, str]:
    """Return the headers of every request; local servers need no key."""
    return {"authorization": f"Bearer {key}"} if key else {}


def read_error(status: int, body: bytes) -> FailureReport:
    """Return what a reply with another status than 200 says went wrong, or an error in an answer with status 200."""
    try:
        error = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FailureReport(failure_by_status(status), status=status)
    return failure_report(error, None if status == 200 else status)


def failure_report(value: Any, status: int | None = None) -> FailureReport:
    """Return what an error means, as the body of a reply or as an event of a stream."""
    error = _error_object(value)
    message, param = _string(error.get("message")) or "", _string(error.get("param")) or ""
    names = [name for name in map(_string, (error.get("code"), error.get("type"), error.get("status"))) if name]
    number = _string(error.get("code")) or ""
    code = status or (int(number) if re.fullmatch(r"[45]\d\d", number) else None)
    failure, refused = _classify(names, message, code)
    if failure is Failure.UNSUPPORTED and refused is None:
        refused = _refused_capability(param, message)
    word = next((name for name in names if not name.isdecimal()), None)
    fields = ()
    if failure in NAMES_FIELDS:
        fields = named_fields(message, param=param, locations=pydantic_locations(value))
    return FailureReport(failure, refused, word, message or None, status=status, fields=fields)


def _classify(names: list[str], message: str, status: int | None) -> tuple[Failure, str | None]:
    """Return the failure, and the refused capability if a message names one."""
    known = next((BY_CODE[name.lower()] for name in names if name.lower() in BY_CODE), None)
    if known is not None and known is not Failure.FAILED:
        return known, None
    if status not in _CLEAR_STATUSES:
        for pattern, failure, refused in MESSAGE_RULES:
            if pattern.search(message):
                return failure, refused
    return Failure.FAILED if status is None else failure_by_status(status), None


def _refused_capability(param: str, message: str) -> str | None:
    if _ROLE.fullmatch(param):
        return "system_message"
    field = _FIELD.match(param)
    refused = BY_FIELD.get(field[0]) if field else None
    if refused == "structured_output_json_schema" and _JSON_MODE.search(message):
        return "json_mode"
    return refused


def _error_object(value: Any) -> Mapping[str, Any]:
    """Return the object with the message, wherever the server put it."""
    if isinstance(value, str):
        return {"message": value}
    if isinstance(value, list):
        return _error_object(cast("list[Any]", value)[0]) if value else {}
    if not isinstance(value, dict):
        return {}
    fields = cast("dict[str, Any]", value)
    for name in ("error", "detail", "response"):  # the last is that of an event of the responses API
        if fields.get(name):
            return _error_object(fields[name])
    return fields if "message" in fields or "msg" not in fields else {"message": fields["msg"]}


def _string(value: Any) -> str | None:
    """Return a string or a number as a string; None for anything else, and for the empty string."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


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
"""OpenRouter's names. It ignores parameters that are not in a model's list, so those are unsupported."""
UNKNOWN_IF_ABSENT: Final = frozenset({"pdf_input"})
"""OpenRouter converts PDFs to text for models that do not take files."""
OLLAMA: Final[Mapping[str, str]] = MappingProxyType(
    {"vision": "image_input", "tools": "tool_use", "thinking": "extended_thinking"}
)
"""Ollama's names; its list is complete, so what is absent is unsupported."""


class _ModelArchitecture(Struct):
    input_modalities: list[str] | None = None


class _ModelEntry(Struct):
    id: str = ""
    architecture: _ModelArchitecture | None = None
    supported_parameters: list[str] | None = None


class _ModelList(Struct):
    data: list[_ModelEntry] | None = None
    capabilities: list[str] | None = None


_decode: Final = msgspec.json.Decoder(_ModelList).decode


def discovery_request(model: str, *, ollama: bool = False) -> ApiRequest:
    """Return the request for the list of models, or for Ollama's description of this one."""
    if ollama:
        return ApiRequest("/api/show", {"model": model}, at_root=True)
    return ApiRequest("/models", method="GET")


def read_discovery(body: bytes, model: str) -> Layer:
    """Return what the reply says of the model."""
    try:
        listed = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedAnswerError("the list of models cannot be read") from None
    if listed.capabilities is not None:
        return _evidence_from_list(listed.capabilities, OLLAMA, "Ollama's account of the model")
    entry = next((entry for entry in listed.data or () if entry.id == model), None)
    if entry is None:
        return {}
    source = "the endpoint's list of models"
    modalities = entry.architecture.input_modalities if entry.architecture else None
    return {
        **_evidence_from_list(modalities, MODALITIES, source),
        **_evidence_from_list(entry.supported_parameters, PARAMETERS, source),
    }


def write_model(name: str, owner: str) -> dict[str, Any]:
    """A model in the API's shape. When it was made is not known, and the member for it may not be absent."""
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}


def write_models(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The list of these models."""
    return {"object": "list", "data": models}


def _evidence_from_list(listed: list[str] | None, names: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return evidence for each capability in the table, by whether the list has its name."""
    if not listed:
        return {}
    return {
        capability: Evidence(SupportLevel.NATIVE if name in listed else SupportLevel.UNSUPPORTED, source)
        for name, capability in names.items()
        if name in listed or capability not in UNKNOWN_IF_ABSENT
    }
