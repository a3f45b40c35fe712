"""What an agent declares about prompts, and the verdict on content: for each block, and as one error (decision 17)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, cast

from accord.core.vocabulary import unknown_name
from accord.errors import ERROR_FACTS, ErrorCode, UsageError
from accord.wire.acp.content import ContentType
from accord.wire.acp.initialize import DraftPromptCapabilities, PromptCapabilities

# What an agent declares about prompts: `read_declaration` as it was received, `declare` as an author writes it.
#
# Decision 16: omitted means unsupported, and so does everything malformed. Version 1 says yes with `true`, the
# version 2 draft with an object. There are eight possible declarations and one object for each, so that reading one
# is cheap.

ALWAYS_ACCEPTED: Final = frozenset({ContentType.TEXT, ContentType.RESOURCE_LINK})

FLAGS: Final[Mapping[ContentType, str]] = {
    ContentType.IMAGE: "image",
    ContentType.AUDIO: "audio",
    ContentType.RESOURCE: "embeddedContext",
}
"""Which flag of `promptCapabilities` a type of content needs."""

Declared = Mapping[str, Any] | PromptCapabilities | DraftPromptCapabilities | None


@dataclass(frozen=True, slots=True)
class Declaration:
    """The types of content that an agent takes, in the order in which they are listed."""

    accepted: tuple[str, ...]

    def accepts(self, content_type: str) -> bool:
        """Whether the agent takes this type of content."""
        return content_type in self.accepted


def read_declaration(declared: Declared, protocol_version: int) -> Declaration:
    """What this declaration means."""
    if isinstance(declared, PromptCapabilities | DraftPromptCapabilities):
        return _accepting(bool(declared.image), bool(declared.audio), bool(declared.embedded_context))
    if not isinstance(declared, Mapping):
        return _accepting(False, False, False)
    says_yes = _draft_yes if protocol_version >= 2 else _yes
    image, audio, embedded = (says_yes(declared.get(flag)) for flag in FLAGS.values())
    return _accepting(image, audio, embedded)


def _yes(flag: Any) -> bool:
    return flag is True


def _draft_yes(flag: Any) -> bool:
    return isinstance(flag, Mapping)


@cache
def _accepting(image: bool, audio: bool, embedded: bool) -> Declaration:
    wanted = {ContentType.IMAGE: image, ContentType.AUDIO: audio, ContentType.RESOURCE: embedded}
    return Declaration(tuple(str(kind) for kind in ContentType if kind in ALWAYS_ACCEPTED or wanted[kind]))


_NAMES: Final = {**{flag: flag for flag in FLAGS.values()}, **{str(kind): flag for kind, flag in FLAGS.items()}}


def declare(accepts: Declared | Sequence[str]) -> Declared:
    """What an author wrote, as a declaration; raises `UsageError` for a name or a value that means nothing.

    A list of names is the same as an object that says True for each: `["image"]` is `{"image": True}`.
    """
    if accepts is None or isinstance(accepts, PromptCapabilities | DraftPromptCapabilities):
        return accepts
    if isinstance(accepts, Mapping):
        _check_flags(cast("Mapping[Any, Any]", accepts))
        return accepts
    if isinstance(accepts, str) or not isinstance(accepts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f'accepts: expected names such as ["image"], or {{"image": True}}, not {accepts!r}')
    wanted = [each for each in accepts if each not in ALWAYS_ACCEPTED]
    if unknown := [each for each in wanted if each not in _NAMES]:
        raise _unknown(unknown[0])
    return {_NAMES[each]: True for each in wanted}


def _check_flags(flags: Mapping[Any, Any]) -> None:
    for flag, value in flags.items():
        if flag not in (*FLAGS.values(), "_meta"):
            raise _unknown(flag)
        if flag != "_meta" and not isinstance(value, bool | None):
            raise UsageError(f"accepts: {flag} should be True or False, not {value!r}")


def _unknown(name: Any) -> UsageError:
    return UsageError(f"accepts: {unknown_name('content', str(name), FLAGS.values())}")


# What a check of content says: block by block, and as the one error to return (decision 17).

INVALID_PARAMS: Final = ERROR_FACTS[ErrorCode.CONTENT_UNSUPPORTED].jsonrpc
PARSE_ERROR: Final = ERROR_FACTS[ErrorCode.PARSE_ERROR].jsonrpc
MAX_LISTED: Final = 1_000


class Fault(StrEnum):
    """What is wrong with the structure of content, as `data.error` spells it."""

    STRUCTURE = "invalid_content_structure"
    TYPE = "unsupported_content_type"
    FIELD = "missing_required_field"
    BASE64 = "invalid_base64_format"
    MEDIA_TYPE = "mime_type_mismatch"
    SIZE = "content_size_exceeded"


@dataclass(frozen=True, slots=True)
class Violation:
    """One block that may not come in, and why. Never a part of what it carried.

    `data` of a refused type is to the letter what decision 17 says; of a malformed block it also has the index.
    """

    index: int
    message: str
    data: Mapping[str, Any]

    @property
    def is_malformed(self) -> bool:
        """Whether the block is broken, rather than of a type that the agent did not declare."""
        return "error" in self.data

    def error(self) -> dict[str, Any]:
        """The violation as a JSON-RPC error object."""
        return {"code": INVALID_PARAMS, "message": self.message, "data": dict(self.data)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check. `violations` is what was found, whether or not the policy enforces it."""

    results: Sequence[bool]
    violations: Sequence[Violation] = ()
    enforced: bool = True
    unreadable: str | None = None

    @property
    def valid(self) -> bool:
        """Whether all of it may come in."""
        return self.unreadable is None and not (self.enforced and self.violations)

    @property
    def code(self) -> ErrorCode | None:
        """The row of the error table that this verdict belongs to; None if the content may come in."""
        if self.valid:
            return None
        if self.unreadable is not None:
            return ErrorCode.PARSE_ERROR
        malformed = all(violation.is_malformed for violation in self.violations)
        return ErrorCode.CONTENT_INVALID if malformed else ErrorCode.CONTENT_UNSUPPORTED

    @property
    def error(self) -> dict[str, Any] | None:
        """The one JSON-RPC error to return, or None if the content may come in."""
        if self.valid:
            return None
        if self.unreadable is not None:
            return {"code": PARSE_ERROR, "message": "Parse error", "data": {"details": self.unreadable}}
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
        return {"code": INVALID_PARAMS, "message": message, "data": data}
