"""Says what an agent's failure means for the work: whether to try again, and which capability turned out to be missing.

Pure. One table from JSON-RPC code to meaning. The agent's own words stay in the log: they may tell of the machine that
it runs on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast

from accord.backends.acp.manifest import EMBEDDED_CONTEXT
from accord.errors import BackendError
from accord.wire.capability import Capability

INVALID_PARAMS: Final = -32602


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one code means."""

    sentence: str
    retryable: bool


MEANINGS: Final[Mapping[int, Meaning]] = MappingProxyType(
    {
        -32000: Meaning("The agent wants authentication: sign in with its own tools, then try again", retryable=False),
        -32002: Meaning("The agent does not find what it was asked about", retryable=False),
        -32600: Meaning("The agent takes the request for malformed", retryable=False),
        -32601: Meaning("The agent does not know a method that it needs to know", retryable=False),
        INVALID_PARAMS: Meaning("The agent refused what it was sent", retryable=False),
        -32603: Meaning("The agent failed inside", retryable=True),
        -32700: Meaning("The agent could not read what it was sent", retryable=False),
        -32800: Meaning("The agent cancelled the request", retryable=True),
    }
)
OTHERWISE: Final = Meaning("The agent failed", retryable=True)

NEEDED_FOR: Final[Mapping[str, str]] = MappingProxyType(
    {"image": Capability.IMAGE_INPUT, "audio": Capability.AUDIO, "resource": EMBEDDED_CONTEXT}
)
"""The capability that a refused type of content needs."""


def failure_of(code: int, data: Any) -> BackendError:
    """The failure that an agent's error is."""
    meaning = MEANINGS.get(code, OTHERWISE)
    refused = _refused(data) if code == INVALID_PARAMS else None
    told = meaning.sentence if refused is None else f"{meaning.sentence}: {refused}"
    return BackendError(f"{told} (code {code})", retryable=meaning.retryable, refused=refused)


def exit_failure(status: int | None) -> BackendError:
    """The failure that an agent's end is; below zero, a signal ended it."""
    if status is None:
        how = "closed the connection"
    elif status < 0:
        how = f"was ended by signal {-status}"
    else:
        how = f"ended with exit status {status}"
    return BackendError(f"The agent {how} before it had answered", retryable=True)


def _refused(data: Any) -> str | None:
    if not isinstance(data, Mapping):
        return None
    kind = cast("Mapping[str, Any]", data).get("contentType")
    return NEEDED_FOR.get(kind) if isinstance(kind, str) else None
