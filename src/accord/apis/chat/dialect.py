"""What servers of the chat completions API differ in. Pure.

A dialect is a `ChatDialect` with other values (`apis/dialects/`); the codec, the relay and the table of fields follow
it. The words of answers that are listed here are those of well-known servers together; none of them means anything else
at another server.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct

from accord.apis.failure import FAILED_ENDS, Failure, FailureReport, failure_of_end
from accord.apis.usage import read_counts
from accord.wire.work import EndReason

OPENAI_URL: Final = "https://api.openai.com/v1"
ReasoningField = Literal["reasoning_content", "reasoning"]

OWN_REASONS: Final[Mapping[str, EndReason]] = MappingProxyType(
    {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "content_filter": "refusal",
    }
)
"""The reasons that the API itself has."""
REASONS: Final[Mapping[str, EndReason]] = MappingProxyType(
    {
        **OWN_REASONS,
        "eos": "end_turn",
        "eos_token": "end_turn",
        "end_turn": "end_turn",
        "stop_sequence": "end_turn",
        "model_length": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
        "sensitive": "refusal",
    }
)
"""Words of TGI, xAI, Mistral and GLM as well. Any other is unknown: the answer counts as cut off."""
USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "prompt_cache_hit_tokens": "cached_input_tokens",
        "cache_read_input_tokens": "cached_input_tokens",
        "cache_creation_input_tokens": "cache_write_tokens",
        "reasoning_tokens": "reasoning_tokens",
        "prompt_tokens": "input_tokens",
        "completion_tokens": "output_tokens",
        "prompt_tokens_details.cached_tokens": "cached_input_tokens",
        "prompt_tokens_details.cache_write_tokens": "cache_write_tokens",
        "completion_tokens_details.reasoning_tokens": "reasoning_tokens",
    }
)
"""First the names of DeepSeek, LiteLLM and Perplexity: the API's own count where both are reported."""


class ChatDialect(NamedTuple):
    """What one server has otherwise than OpenAI.

    Of its requests: `base_url` is its address, and `title` its name in reasons; `renames` are members under other
    names, `lacks` are rows of the table of fields and `unsupported` are capabilities that it does not have, whatever
    the model. `top_k`, `usage_in_stream` and `reasoning_field` are the defaults of the options with these names; a
    server that is not asked for the usage of its streams has it in every one.

    Of its answers: `reasons` are in lower case; `reasoning` are the members of a message with reasoning as text, of
    which the first counts; `stops` are the members of a choice that may name the stop sequence.
    """

    title: str = "openai chat API"
    base_url: str | None = OPENAI_URL
    renames: Mapping[str, str] = MappingProxyType({})
    lacks: frozenset[str] = frozenset()
    unsupported: frozenset[str] = frozenset()
    top_k: bool = False
    usage_in_stream: bool = True
    reasoning_field: ReasoningField | None = None
    end_mark: bytes = b"[DONE]"
    reasons: Mapping[str, EndReason] = REASONS
    failed_ends: Mapping[str, Failure] = FAILED_ENDS
    usage: Mapping[str, str] = USAGE
    reasoning: tuple[str, ...] = ("reasoning_content", "reasoning")
    stops: tuple[str, ...] = ("stop_reason", "matched_stop")

    def end_reason(self, reason: str | None) -> EndReason:
        """Why an answer ended; without a reason it ended normally, with an unknown one it counts as cut off."""
        return self.reasons.get(reason.lower(), "max_tokens") if reason else "end_turn"

    def failure_of(self, reason: str | None) -> FailureReport | None:
        """What went wrong, if this is the end of an answer that failed."""
        return failure_of_end(reason, self.failed_ends)

    def read_usage(self, usage: Mapping[str, Any]) -> dict[str, int]:
        """The usage under the names that backends use."""
        return read_counts(usage, self.usage)


CHAT: Final = ChatDialect()


class UsageHolder(Struct):
    """An object that may have the usage."""

    usage: dict[str, Any] | None = None


def find_usage(*holders: UsageHolder | None) -> dict[str, Any] | None:
    """The usage, wherever a server puts it: in the event, in `x_groq` as Groq, or in a choice as Moonshot."""
    return next((each.usage for each in holders if each is not None and each.usage is not None), None)
