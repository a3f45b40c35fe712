"""Reads an agent's declaration as a manifest: what it says and what this backend does for it, nothing hoped for.

Pure. Does not know processes or prompts. Whatever is omitted or malformed in a declaration is unsupported.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from accord.wire.acp.capabilities import (
    AgentCapabilities,
    DraftAgentCapabilities,
    DraftPromptCapabilities,
    PromptCapabilities,
)
from accord.wire.capability import ALIASES, Capability
from accord.wire.manifest import CapabilityManifest
from accord.wire.support import SupportLevel

EMBEDDED_CONTEXT: Final = "embedded_context"
"""Takes documents with their contents; ABP has no name for it, and its vocabulary is open."""

UNCERTAIN_PDF: Final = "the agent takes embedded documents; whether it reads PDF it does not say"

NO_WAY_TO_ASK: Final = (
    Capability.TOOL_USE,
    Capability.STRUCTURED_OUTPUT_JSON_SCHEMA,
    Capability.JSON_MODE,
    Capability.STOP_SEQUENCES,
    Capability.EXTENDED_THINKING,
    Capability.LOGPROBS,
    Capability.SEED_DETERMINISM,
    Capability.TEMPERATURE,
    Capability.TOP_P,
    Capability.TOP_K,
    Capability.MAX_TOKENS,
    Capability.FREQUENCY_PENALTY,
    Capability.PRESENCE_PENALTY,
)
"""What the protocol has no field for: an agent uses tools of its own, and samples as it likes."""

ALWAYS: Final[Mapping[str, SupportLevel]] = MappingProxyType(
    {
        Capability.STREAMING: SupportLevel.NATIVE,
        # Written out before the prompt, as labelled text: the protocol has no place for instructions.
        Capability.SYSTEM_MESSAGE: SupportLevel.EMULATED,
        **dict.fromkeys(NO_WAY_TO_ASK, SupportLevel.UNSUPPORTED),
    }
)
"""What holds for every agent, whatever it declares."""


def agent_manifest(declared: AgentCapabilities | DraftAgentCapabilities) -> CapabilityManifest:
    """The manifest of an agent that declares this."""
    prompt = _prompt(declared)
    return CapabilityManifest(
        {
            **ALWAYS,
            Capability.IMAGE_INPUT: _level(prompt.image),
            Capability.AUDIO: _level(prompt.audio),
            EMBEDDED_CONTEXT: _level(prompt.embedded_context),
            Capability.PDF_INPUT: (
                SupportLevel.limited(UNCERTAIN_PDF) if _is_said(prompt.embedded_context) else SupportLevel.UNSUPPORTED
            ),
        }
    )


def carries(manifest: CapabilityManifest, capability: str) -> bool:
    """Whether content that needs this capability may be sent at all."""
    level = manifest.get(capability) or manifest.get(ALIASES.get(capability, capability))
    return level is not None and level.kind != SupportLevel.UNSUPPORTED.kind


def _prompt(declared: AgentCapabilities | DraftAgentCapabilities) -> PromptCapabilities | DraftPromptCapabilities:
    if isinstance(declared, AgentCapabilities):
        return declared.prompt_capabilities
    return (declared.session and declared.session.prompt) or DraftPromptCapabilities()


def _level(said: object) -> SupportLevel:
    return SupportLevel.NATIVE if _is_said(said) else SupportLevel.UNSUPPORTED


def _is_said(said: object) -> bool:
    # Version 1 says yes with `true`; the draft with an object, be it an empty one.
    return said is not None and said is not False
