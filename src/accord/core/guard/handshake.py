"""What the `initialize` exchange settles: the version, and what a prompt may carry.

Until the agent has answered, nothing is declared: omitted means unsupported (decision 16), and an agent that has said
nothing yet has omitted everything. A later answer replaces an earlier one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from accord.core.validate import ContentValidator

V1_PATH = ("agentCapabilities", "promptCapabilities")
DRAFT_PATH = ("capabilities", "session", "prompt")
EVERYTHING = {1: {"image": True, "audio": True, "embeddedContext": True}}


@dataclass(frozen=True, slots=True)
class Handshake:
    """What is known of the agent."""

    validator: ContentValidator
    version: int = 1
    is_done: bool = False


BEFORE = Handshake(ContentValidator(None))
SHAPE_ONLY = ContentValidator(EVERYTHING[1])
"""Takes every type of content, so that only what is malformed is found."""


def read_handshake(result: Any) -> Handshake:
    """What this answer to `initialize` settles, however odd it is."""
    said = result.get("protocolVersion") if isinstance(result, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    version = said if isinstance(said, int) and not isinstance(said, bool) else 1
    declared = _at(result, DRAFT_PATH if version >= 2 else V1_PATH)
    return Handshake(ContentValidator(declared, protocol_version=version), version, is_done=True)


def _at(value: Any, path: tuple[str, ...]) -> Mapping[str, Any] | None:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(key)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
