"""The declaration of an agent, and the verdict on content: per block, and as one error."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeGuard, cast

from accord.acp.base import AcpMessage
from accord.acp.content import ContentType
from accord.core.vocabulary import unknown_name
from accord.errors import ErrorCode, RpcCode, UsageError
from accord.wire.capability import snake_case

ALWAYS_ACCEPTED: Final = frozenset({ContentType.TEXT, ContentType.RESOURCE_LINK})

FLAGS: Final[Mapping[ContentType, str]] = {
    ContentType.IMAGE: "image",
    ContentType.AUDIO: "audio",
    ContentType.RESOURCE: "embeddedContext",
}
"""The flag of the prompt capabilities that declares each type of content."""

EVERY_TYPE: Final = dict.fromkeys(FLAGS.values(), True)
"""The prompt capabilities of an agent that accepts every type of content."""

FLAG_PATHS: Final[Mapping[int, str]] = {1: "promptCapabilities", 2: "session.prompt"}
"""Where the agent's capabilities have these flags, in each version of the protocol."""

_FLAGS_BY_NAME: Final = {**{flag: flag for flag in FLAGS.values()}, **{str(kind): flag for kind, flag in FLAGS.items()}}

PromptCapabilitiesLike = Mapping[str, Any] | AcpMessage | None
"""Prompt capabilities as a model of either version, as received, or absent."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The types of content that an agent accepts, in the order of `ContentType`, and the version that it speaks."""

    accepted: tuple[str, ...]
    protocol_version: int = 1

    def accepts(self, content_type: str) -> bool:
        """Whether the agent accepts this type of content."""
        return content_type in self.accepted

    def capability(self, content_type: str) -> str | None:
        """The path of the flag that declares this type, in the agent's capabilities; None for a type without a flag."""
        flag = FLAGS.get(cast("ContentType", content_type))
        return None if flag is None else f"{FLAG_PATHS[self.protocol_version]}.{flag}"


def read_declaration(declared: PromptCapabilitiesLike | Declaration, protocol_version: int) -> Declaration:
    """Read prompt capabilities as they were received: what is omitted or malformed is unsupported.

    A `Declaration` keeps its types and gets this version. Versions after the draft are read like the draft.
    """
    version = 2 if protocol_version >= 2 else 1
    if isinstance(declared, Declaration):
        return _accepting(*map(declared.accepts, FLAGS), version)
    if isinstance(declared, AcpMessage):
        return _accepting(*(bool(getattr(declared, snake_case(flag), None)) for flag in FLAGS.values()), version)
    if not isinstance(declared, Mapping):
        return _accepting(False, False, False, version)
    flags = [_member(declared, flag) for flag in FLAGS.values()]
    # Version 1 declares a capability with `true`, the version 2 draft with an object.
    if version >= 2:
        image, audio, embedded = (isinstance(flag, Mapping) for flag in flags)
    else:
        image, audio, embedded = (flag is True for flag in flags)
    return _accepting(image, audio, embedded, version)


def unwrap_declaration(given: object) -> PromptCapabilitiesLike | Declaration:
    """Return the prompt capabilities in this value: they themselves, an agent's capabilities, or an initialize result.

    Raises `UsageError` for a value that is none of these.
    """
    if given is None or isinstance(given, Declaration) or _is_prompt_capabilities(given):
        return given
    members: Any = given.dump() if isinstance(given, AcpMessage) else given
    if not isinstance(members, Mapping):
        raise UsageError(
            'capabilities: expected prompt capabilities such as {"image": True}, or an object with promptCapabilities, '
            f"not {type(given).__name__}"
        )
    declared = cast("Mapping[str, Any]", members)
    if any(_member(declared, flag) is not None for flag in FLAGS.values()):
        return declared  # whatever else it contains
    for path in PROMPT_PATHS:
        inner: Any = declared
        for key in path:
            inner = _member(cast("Mapping[str, Any]", inner), key) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            return cast("Mapping[str, Any]", inner)
    return declared


def _is_prompt_capabilities(given: object) -> TypeGuard[AcpMessage]:
    """Whether this is a model of the protocol, of either version.

    Decided by a field and not by its class, so that a service does not load the models of the draft.
    """
    return isinstance(given, AcpMessage) and "embedded_context" in type(given).model_fields


_V1_PATH: Final = ("result", "agentCapabilities", "promptCapabilities")
_DRAFT_PATH: Final = ("result", "capabilities", "session", "prompt")
PROMPT_PATHS: Final = [path[start:] for path in (_V1_PATH, _DRAFT_PATH) for start in range(len(path))]
"""Where prompt capabilities are in each message or object that contains them, in both versions of the protocol."""


def _member(members: Mapping[str, Any], name: str) -> Any:
    """Return a member by its name on the wire, or as Python spells that: `embedded_context`."""
    return members.get(name, members.get(snake_case(name)))


@cache
def _accepting(image: bool, audio: bool, embedded: bool, version: int) -> Declaration:
    """One object for each possible declaration, of which a version has eight, so that reading one is cheap."""
    declared = {ContentType.IMAGE: image, ContentType.AUDIO: audio, ContentType.RESOURCE: embedded}
    accepted = tuple(str(kind) for kind in ContentType if kind in ALWAYS_ACCEPTED or declared[kind])
    return Declaration(accepted, version)


def parse_accepts(accepts: PromptCapabilitiesLike | Sequence[str]) -> PromptCapabilitiesLike:
    """Read the `accepts` of an agent's author; raises `UsageError` for an unknown name or a value that is no boolean.

    A list of names is the same as an object with True for each: `["image"]` is `{"image": True}`.
    """
    if accepts is None or isinstance(accepts, AcpMessage):
        return accepts
    if isinstance(accepts, Mapping):
        for flag, value in cast("Mapping[Any, Any]", accepts).items():
            if flag not in (*FLAGS.values(), "_meta"):
                raise _unknown_flag(flag)
            if flag != "_meta" and not isinstance(value, bool | None):
                raise UsageError(f"accepts: {flag} should be True or False, not {value!r}")
        return accepts
    if not isinstance(accepts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
        raise UsageError(f'accepts: expected names such as ["image"], or {{"image": True}}, not {accepts!r}')
    names = [name for name in ([accepts] if isinstance(accepts, str) else accepts) if name not in ALWAYS_ACCEPTED]
    if unknown := [name for name in names if name not in _FLAGS_BY_NAME]:
        raise _unknown_flag(unknown[0])
    return {_FLAGS_BY_NAME[name]: True for name in names}


def _unknown_flag(name: Any) -> UsageError:
    return UsageError(f"accepts: {unknown_name('content', str(name), FLAGS.values())}")


MAX_LISTED: Final = 1_000
"""How many violations an error lists at most."""


class Fault(StrEnum):
    """What is wrong with a malformed block, as `data.error` spells it."""

    STRUCTURE = "invalid_content_structure"
    TYPE = "unsupported_content_type"
    FIELD = "missing_required_field"
    BASE64 = "invalid_base64_format"
    MEDIA_TYPE = "mime_type_mismatch"
    SIZE = "content_size_exceeded"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rejected block and the reason. It never quotes the content of the block.

    For a type that was not declared, `data` has exactly the members that the protocol's users expect; for a malformed
    block it also has the index.
    """

    index: int
    message: str
    data: Mapping[str, Any]

    @property
    def is_malformed(self) -> bool:
        """Whether the block is malformed, rather than of a type that the agent did not declare."""
        return "error" in self.data

    def error(self) -> dict[str, Any]:
        """The violation as a JSON-RPC error object."""
        return {"code": RpcCode.INVALID_PARAMS, "message": self.message, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check. `violations` lists every finding, also those that the policy does not enforce."""

    results: Sequence[bool]
    violations: Sequence[Violation] = ()
    enforced: bool = True
    unreadable: str | None = None

    @property
    def valid(self) -> bool:
        """Whether all of the content is accepted."""
        return self.unreadable is None and not (self.enforced and self.violations)

    @property
    def code(self) -> ErrorCode | None:
        """The error code of this verdict; None if the content is accepted."""
        if self.valid:
            return None
        if self.unreadable is not None:
            return ErrorCode.PARSE_ERROR
        malformed = all(violation.is_malformed for violation in self.violations)
        return ErrorCode.CONTENT_INVALID if malformed else ErrorCode.CONTENT_UNSUPPORTED

    @property
    def error(self) -> dict[str, Any] | None:
        """The one JSON-RPC error object to return; None if the content is accepted."""
        if self.valid:
            return None
        if self.unreadable is not None:
            return {"code": RpcCode.PARSE_ERROR, "message": "Parse error", "data": {"details": self.unreadable}}
        if len(self.violations) == 1:
            return self.violations[0].error()
        count = len(self.violations)
        data: dict[str, Any] = {
            "violationCount": count,
            "violations": [violation.error() for violation in self.violations[:MAX_LISTED]],
        }
        if count > MAX_LISTED:
            data["violationsListed"] = MAX_LISTED
        message = f"Multiple content capability violations: {count} issues"
        return {"code": RpcCode.INVALID_PARAMS, "message": message, "data": data}
