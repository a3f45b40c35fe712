"""Reads what an agent declares about prompts, as it was received.

Decision 16: omitted means unsupported, and so does everything malformed. Version 1 says yes with `true`, the version 2
draft with an object. There are eight possible declarations and one object for each, so that reading one is cheap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from accord.wire.acp.capabilities import DraftPromptCapabilities, PromptCapabilities
from accord.wire.acp.content import ContentType

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
