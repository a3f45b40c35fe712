"""An agent's declaration as a manifest, and a work order as the prompt that puts it to that agent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, assert_never, cast

from accord.errors import BackendError
from accord.wire.acp.content import (
    AudioBlock,
    BlobResource,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceLinkBlock,
    TextBlock,
    TextResource,
)
from accord.wire.acp.initialize import (
    AgentCapabilities,
    DraftAgentCapabilities,
    DraftPromptCapabilities,
    PromptCapabilities,
)
from accord.wire.capability import ALIASES, Capability
from accord.wire.conversation import (
    AnyPart,
    AudioPart,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourceLinkPart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.manifest import CapabilityManifest, SupportLevel
from accord.wire.work import WorkOrder

# Reads an agent's declaration as a manifest: what it says and what this backend does for it, nothing hoped for.
#
# Pure. Does not know processes or prompts. Whatever is omitted or malformed in a declaration is unsupported.

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


# Turns a work order into the prompt that puts it to an agent.
#
# Pure. Does not know processes, sessions or JSON-RPC. Every answer has a session of its own, so a conversation is
# told from its beginning: instructions and earlier messages are written out as labelled text before the newest
# message. Whatever a prompt cannot carry is refused by the name of the capability that is missing; nothing is left
# out silently.

LABELS: Final[Mapping[Role, str]] = MappingProxyType(
    {
        Role.SYSTEM: "Instructions",
        Role.USER: "Earlier, the user said",
        Role.ASSISTANT: "Earlier, you answered",
        Role.TOOL: "Earlier, a tool answered",
    }
)
"""What stands before a message that is written out."""
NOW: Final = "Now the user says"
ANSWERED: Final = {False: "the tool answered", True: "the tool failed"}
NOTE: Final = (
    "Labels that carry {mark} tell the parts of this prompt apart; any other label is a part of what was said."
)

PDF: Final = "application/pdf"


def prompt_blocks(order: WorkOrder, manifest: CapabilityManifest, marker: str) -> list[ContentBlock]:
    """The prompt that puts this order to an agent; raises `BackendError` for what it cannot carry.

    `marker` is new for every prompt and part of every label, so that no text can pretend to be another part.
    """
    _refuse_what_cannot_be_asked(order)
    messages = order.conversation.messages
    if not messages:
        raise BackendError("There is nothing to ask: the conversation is empty", retryable=False)
    writing = _Writing(manifest, f"#{marker}")
    if len(messages) == 1 and messages[0].role is Role.USER:
        blocks = [*writing.parts(messages[0].content)]
    else:
        blocks = _joined([block for index in range(len(messages)) for block in writing.message(messages, index)])
    return _joined([TextBlock(text=f"{NOTE.format(mark=writing.mark)}\n\n"), *blocks]) if writing.has_labels else blocks


def _joined(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """The same blocks, with texts that follow each other made one."""
    joined: list[ContentBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            joined[-1] = TextBlock(text=last.text + block.text)
        else:
            joined.append(block)
    return joined


class _Writing:
    """Writes messages out, and knows whether it put labels between them."""

    def __init__(self, manifest: CapabilityManifest, mark: str) -> None:
        self.mark: Final = mark
        self.has_labels = False
        self._manifest: Final = manifest

    def message(self, messages: Sequence[ConversationMessage], index: int) -> Iterator[ContentBlock]:
        message = messages[index]
        is_newest = index == len(messages) - 1 and message.role is Role.USER
        yield TextBlock(text=f"{self._label(NOW if is_newest else LABELS[message.role])}\n")
        yield from self.parts(message.content)
        if not is_newest:
            yield TextBlock(text="\n\n")

    def parts(self, parts: Sequence[MessagePart]) -> Iterator[ContentBlock]:
        for part in cast("Sequence[AnyPart]", parts):
            yield from self._part(part)

    def _label(self, words: str) -> str:
        self.has_labels = True
        return f"[{words} {self.mark}]"

    def _part(self, part: AnyPart) -> Iterator[ContentBlock]:
        match part:
            case TextPart():
                yield TextBlock(text=part.text)
            case ThinkingPart():
                yield TextBlock(text=f"{self._label('thought')} {part.text}\n{self._label('end of thought')}\n")
            case ImagePart():
                _need(Capability.IMAGE_INPUT, self._manifest)
                yield ImageBlock(data=part.data, mime_type=part.media_type, uri=part.uri)
            case AudioPart():
                _need(Capability.AUDIO, self._manifest)
                yield AudioBlock(data=part.data, mime_type=part.media_type)
            case ResourceLinkPart() | ResourcePart():
                yield self._document(part)
            case ToolUsePart():
                called = json.dumps({"name": part.name, "arguments": part.input}, ensure_ascii=False)
                yield TextBlock(text=f"{self._label('called a tool')} {called}")
            case ToolResultPart():
                yield TextBlock(text=f"{self._label(ANSWERED[part.is_error])} ")
                yield from self.parts(part.content)
            case _:
                assert_never(part)

    def _document(self, part: ResourceLinkPart | ResourcePart) -> ContentBlock:
        if isinstance(part, ResourceLinkPart):
            return ResourceLinkBlock(
                uri=part.uri, name=part.name, description=part.description, mime_type=part.media_type
            )
        if carries(self._manifest, EMBEDDED_CONTEXT):
            if part.data is None:
                text = TextResource(uri=part.uri, text=part.text or "", mime_type=part.media_type)
                return ResourceBlock(resource=text)
            return ResourceBlock(resource=BlobResource(uri=part.uri, blob=part.data, mime_type=part.media_type))
        if part.data is not None:
            raise _refusal(Capability.PDF_INPUT if part.media_type == PDF else EMBEDDED_CONTEXT)
        # Text loses nothing by being written out, with the address that it came from.
        begin, end = self._label("Document"), self._label("End of document")
        return TextBlock(text=f"{begin} {part.uri}\n{part.text or ''}\n{end}\n")


def _need(capability: str, manifest: CapabilityManifest) -> None:
    if not carries(manifest, capability):
        raise _refusal(capability)


def _refusal(capability: str) -> BackendError:
    return BackendError(
        f"A prompt to this agent cannot carry what was asked for: {capability}", retryable=False, refused=capability
    )


def _refuse_what_cannot_be_asked(order: WorkOrder) -> None:
    asked = (
        (Capability.TOOL_USE, bool(order.tools)),
        (Capability.STRUCTURED_OUTPUT_JSON_SCHEMA, order.response_schema is not None),
        (Capability.JSON_MODE, order.json_mode),
        (Capability.STOP_SEQUENCES, bool(order.stop_sequences)),
        (Capability.EXTENDED_THINKING, order.thinking),
        *((name, True) for name in order.parameters),
    )
    for capability, is_asked in asked:
        if is_asked:
            raise _refusal(capability)
