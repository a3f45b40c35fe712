"""The vocabulary of capabilities (ABP): known names with their meaning, open to unknown ones."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from accord.errors import UsageError

MAX_NAME_CHARS: Final = 128
CAPABILITY_NAME: Final = (
    f"a capability such as tool_use: at most {MAX_NAME_CHARS} letters, digits and underscores, a letter first"
)
_ANY_CASE: Final = r"^[A-Za-z][A-Za-z0-9_]*$"


class _SnakeCase:
    """Reads a name in any letter case and converts it to snake_case; compiled code alone reads one that is."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        snake = core_schema.str_schema(pattern="^[a-z][a-z0-9_]*$", max_length=MAX_NAME_CHARS, strict=True)
        other = core_schema.str_schema(pattern=_ANY_CASE, max_length=MAX_NAME_CHARS, strict=True)
        converted = core_schema.no_info_after_validator_function(snake_case, other)
        return core_schema.custom_error_schema(
            core_schema.union_schema([snake, converted], mode="left_to_right"),
            custom_error_type="capability_name",
            custom_error_message=f"Expected {CAPABILITY_NAME}",
        )


CapabilityName = Annotated[
    str, _SnakeCase(), WithJsonSchema({"type": "string", "pattern": _ANY_CASE, "maxLength": MAX_NAME_CHARS})
]
"""The name of a `Capability`, or one that Accord does not know. `ToolUse` is read as `tool_use`."""


class Capability(StrEnum):
    """The capabilities that Agent Backplane defines."""

    STREAMING = "streaming"
    TOOL_READ = "tool_read"
    TOOL_WRITE = "tool_write"
    TOOL_EDIT = "tool_edit"
    TOOL_BASH = "tool_bash"
    TOOL_GLOB = "tool_glob"
    TOOL_GREP = "tool_grep"
    TOOL_WEB_SEARCH = "tool_web_search"
    TOOL_WEB_FETCH = "tool_web_fetch"
    TOOL_ASK_USER = "tool_ask_user"
    HOOKS_PRE_TOOL_USE = "hooks_pre_tool_use"
    HOOKS_POST_TOOL_USE = "hooks_post_tool_use"
    SESSION_RESUME = "session_resume"
    SESSION_FORK = "session_fork"
    CHECKPOINTING = "checkpointing"
    STRUCTURED_OUTPUT_JSON_SCHEMA = "structured_output_json_schema"
    MCP_CLIENT = "mcp_client"
    MCP_SERVER = "mcp_server"
    TOOL_USE = "tool_use"
    EXTENDED_THINKING = "extended_thinking"
    IMAGE_INPUT = "image_input"
    PDF_INPUT = "pdf_input"
    CODE_EXECUTION = "code_execution"
    LOGPROBS = "logprobs"
    SEED_DETERMINISM = "seed_determinism"
    STOP_SEQUENCES = "stop_sequences"
    FUNCTION_CALLING = "function_calling"
    VISION = "vision"
    AUDIO = "audio"
    JSON_MODE = "json_mode"
    SYSTEM_MESSAGE = "system_message"
    TEMPERATURE = "temperature"
    TOP_P = "top_p"
    TOP_K = "top_k"
    MAX_TOKENS = "max_tokens"
    FREQUENCY_PENALTY = "frequency_penalty"
    PRESENCE_PENALTY = "presence_penalty"
    CACHE_CONTROL = "cache_control"
    BATCH_MODE = "batch_mode"
    EMBEDDINGS = "embeddings"
    IMAGE_GENERATION = "image_generation"


MEANINGS: Final[Mapping[Capability, str]] = MappingProxyType(
    {
        Capability.STREAMING: "Sends its answer in pieces while it is generated",
        Capability.TOOL_READ: "Reads files",
        Capability.TOOL_WRITE: "Writes files",
        Capability.TOOL_EDIT: "Changes parts of files",
        Capability.TOOL_BASH: "Runs shell commands",
        Capability.TOOL_GLOB: "Finds files by pattern",
        Capability.TOOL_GREP: "Searches the contents of files",
        Capability.TOOL_WEB_SEARCH: "Searches the web",
        Capability.TOOL_WEB_FETCH: "Fetches pages from the web",
        Capability.TOOL_ASK_USER: "Asks the user while it works",
        Capability.HOOKS_PRE_TOOL_USE: "Lets the caller intervene before a tool runs",
        Capability.HOOKS_POST_TOOL_USE: "Lets the caller intervene after a tool ran",
        Capability.SESSION_RESUME: "Continues an earlier session",
        Capability.SESSION_FORK: "Forks a session into two",
        Capability.CHECKPOINTING: "Saves states that can be restored",
        Capability.STRUCTURED_OUTPUT_JSON_SCHEMA: "Answers in JSON that matches a given schema",
        Capability.MCP_CLIENT: "Uses the tools of MCP servers",
        Capability.MCP_SERVER: "Offers itself as an MCP server",
        Capability.TOOL_USE: "Calls tools that the caller describes",
        Capability.EXTENDED_THINKING: "Reasons at length before it answers",
        Capability.IMAGE_INPUT: "Reads images",
        Capability.PDF_INPUT: "Reads PDF documents",
        Capability.CODE_EXECUTION: "Runs code in its own sandbox",
        Capability.LOGPROBS: "Returns the probabilities of its tokens",
        Capability.SEED_DETERMINISM: "Repeats an answer when given the same seed",
        Capability.STOP_SEQUENCES: "Stops at strings that the caller names",
        Capability.FUNCTION_CALLING: "Calls functions that the caller describes (the same as tool_use)",
        Capability.VISION: "Reads images (the same as image_input)",
        Capability.AUDIO: "Takes audio input",
        Capability.JSON_MODE: "Answers in JSON of any shape",
        Capability.SYSTEM_MESSAGE: "Takes instructions separate from the conversation",
        Capability.TEMPERATURE: "Lets the caller set the sampling temperature",
        Capability.TOP_P: "Lets the caller limit sampling by cumulative probability",
        Capability.TOP_K: "Lets the caller limit sampling to the likeliest tokens",
        Capability.MAX_TOKENS: "Lets the caller limit the length of the answer",
        Capability.FREQUENCY_PENALTY: "Lets the caller discourage frequent tokens",
        Capability.PRESENCE_PENALTY: "Lets the caller discourage tokens that occurred",
        Capability.CACHE_CONTROL: "Lets the caller choose which part of a prompt to cache",
        Capability.BATCH_MODE: "Takes many requests at once, to be answered later",
        Capability.EMBEDDINGS: "Turns text into vectors",
        Capability.IMAGE_GENERATION: "Makes images",
    }
)

FILE_INPUT: Final = "file_input"
TOOL_RESULT_MEDIA: Final = "tool_result_media"
REASONING_HISTORY: Final = "reasoning_history"
IMAGE_URL: Final = "image_url"

ADDED_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        FILE_INPUT: "Reads files that are neither images, audio, text nor PDF",
        TOOL_RESULT_MEDIA: "Takes images and files in the results of tools",
        REASONING_HISTORY: "Takes its earlier reasoning in later messages",
        IMAGE_URL: "Fetches images by their addresses",
    }
)
"""Accord's additions to ABP's capabilities."""

KNOWN_CAPABILITIES: Final[Mapping[str, str]] = MappingProxyType(
    {str(name): meaning for name, meaning in (MEANINGS | ADDED_MEANINGS).items()}
)
"""Every known name with its meaning."""

CANONICAL: Final[Mapping[str, str]] = MappingProxyType(
    {Capability.VISION: Capability.IMAGE_INPUT, Capability.FUNCTION_CALLING: Capability.TOOL_USE}
)
"""Aliases of capabilities, and their canonical names."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {**CANONICAL, **{name: alias for alias, name in CANONICAL.items()}}
)
"""Pairs of names for one capability, in both directions: declaring one declares the other."""


def snake_case(name: str) -> str:
    """Return the name in snake_case: `tool_read` for `ToolRead` and for `tool_read`."""
    return name if name.islower() else _WORD_STARTS.sub("_", name).lower()


_WORD_STARTS: Final = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def capability_name(given: object) -> str:
    """Return the name of a capability in snake_case; raises `UsageError` for anything that is no text."""
    if not isinstance(given, str):
        raise UsageError(f'capability: expected a name such as "streaming", not {type(given).__name__}')
    return snake_case(str(given))


def capability_names(given: str | Iterable[str]) -> list[str]:
    """Return each of these names in snake_case; a single name is a list of one."""
    if isinstance(given, str):
        return [capability_name(given)]
    if not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
        raise UsageError(f'capabilities: expected names such as ["streaming"], not {type(given).__name__}')
    return [capability_name(name) for name in given]


def canonical_name(name: str) -> str:
    """Return the canonical name: `image_input` for `vision`, any other name unchanged."""
    return str(CANONICAL.get(name, name))


def pascal_case(name: str) -> str:
    """Return the name as ABP's reports and warnings spell it: `ToolRead` for `tool_read`."""
    return "".join(word.capitalize() for word in name.split("_"))
