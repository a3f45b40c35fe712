"""What a check of content says: block by block, and as the one error to return (decision 17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from accord.errors import FACTS, ErrorCode

INVALID_PARAMS: Final = FACTS[ErrorCode.CONTENT_UNSUPPORTED].jsonrpc
PARSE_ERROR: Final = FACTS[ErrorCode.PARSE_ERROR].jsonrpc
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
