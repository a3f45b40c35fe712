"""Replaces images by words, for a backend that cannot see, and never claims what did not happen.

The words are handed in: a description from a backend that may see the images, or alternative text. `describe_images.py`
asks for them (`images_of` says which image has which number). Failing that the image's own file name is told, and
failing that, that an image was sent which cannot be seen. All but a description count as a loss.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from accord.core.work.emulation.base import AnswerReader, PassingReader, Prepared, saying
from accord.wire.acp.content import ContentBlock, ImageBlock, TextBlock
from accord.wire.capability import Capability
from accord.wire.conversation import ConversationMessage, ImagePart, MessagePart, TextPart, ToolResultPart
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

MAX_NAME_CHARS: Final = 120

_LABEL = PostProcessing(detail="Replace images by their descriptions")


@dataclass(frozen=True, slots=True)
class ImageWords:
    """Words for one image: a `description` by the backend named in `by`, or alternative text that came with it."""

    text: str
    source: Literal["description", "alt_text"] = "description"
    by: str = "another model"


@dataclass(frozen=True, slots=True)
class ImageInput:
    """Says in words what was sent as images; `words` goes by each image's number, which `images_of` tells.

    `before` is what was done to get the words, and goes on the record ahead of what is done with them.
    """

    words: Mapping[int, ImageWords] = field(default_factory=lambda: MappingProxyType(dict[int, ImageWords]()))
    before: tuple[Effect, ...] = ()
    capability: str = Capability.IMAGE_INPUT
    strategy: EmulationStrategy = _LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order without images, in its conversation and in its prompt."""
        told = _Telling(self.words, _names(order.prompt))
        messages = [told.message(message) for message in order.conversation.messages]
        prompt = [told.block(block) for block in order.prompt]
        if not told.numbers:
            return Prepared(order)
        return Prepared(saying(order, messages).model_copy(update={"prompt": prompt}), (*self.before, *told.effects()))

    def reader(self, order: WorkOrder) -> AnswerReader:  # noqa: ARG002 - every answer is read alike
        """The answer needs nothing."""
        return PassingReader()


def images_of(order: WorkOrder) -> dict[int, ImagePart]:
    """The conversation's images by their numbers, those in tool results included; the same image has one number."""
    images: dict[str, ImagePart] = {}
    for message in order.conversation.messages:
        for image in _images(message.content):
            images.setdefault(image.data, image)
    return dict(enumerate(images.values(), start=1))


def _images(parts: Sequence[MessagePart]) -> Iterator[ImagePart]:
    for part in parts:
        if isinstance(part, ImagePart):
            yield part
        elif isinstance(part, ToolResultPart):
            yield from _images(part.content)


class _Telling:
    """Numbers images as they are met, by what they show, so that prompt and conversation agree."""

    def __init__(self, words: Mapping[int, ImageWords], names: Mapping[str, str]) -> None:
        self._words, self._names = words, names
        self.numbers: dict[str, int] = {}

    def message(self, message: ConversationMessage) -> ConversationMessage:
        if not any(_images(message.content)):
            return message
        return message.model_copy(update={"content": [self._part(part) for part in message.content]})

    def block(self, block: ContentBlock) -> ContentBlock:
        return TextBlock(text=self._sentence(block.data, block.mime_type)) if isinstance(block, ImageBlock) else block

    def effects(self) -> Iterator[Effect]:
        described = sum(self._described(number) for number in self.numbers.values())
        counts = {EffectKind.IMAGE_DESCRIBED: described, EffectKind.IMAGE_NOT_SEEN: len(self.numbers) - described}
        for kind, count in counts.items():
            if count:
                yield Effect(capability=Capability.IMAGE_INPUT, kind=kind, count=count)

    def _part(self, part: MessagePart) -> MessagePart:
        if isinstance(part, ImagePart):
            return TextPart(text=self._sentence(part.data, part.media_type))
        if isinstance(part, ToolResultPart):
            return part.model_copy(update={"content": [self._part(inner) for inner in part.content]})
        return part

    def _described(self, number: int) -> bool:
        words = self._words.get(number)
        return words is not None and words.source == "description"

    def _sentence(self, data: str, media_type: str) -> str:
        number = self.numbers.setdefault(data, len(self.numbers) + 1)
        if words := self._words.get(number):
            if words.source == "description":
                return f"[Image {number}, described by {words.by}: {words.text}]"
            return f"[Image {number}, which cannot be seen here; its alternative text: {words.text}]"
        if name := self._names.get(data):
            return f"[Image {number}, which cannot be seen here; its file name: {name}]"
        return f"[Image {number} ({media_type}) was sent and cannot be seen here.]"


def _names(prompt: Sequence[ContentBlock]) -> dict[str, str]:
    """File names by image, from the addresses that came with the prompt."""
    named: dict[str, str] = {}
    for block in prompt:
        if isinstance(block, ImageBlock) and block.uri and not block.uri.startswith("data:"):
            name = block.uri.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
            if name.isprintable() and name:
                named[block.data] = name[:MAX_NAME_CHARS]
    return named
