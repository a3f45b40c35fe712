"""Emulate image input: replace images by text, for a backend that takes none.

Descriptions are handed in by image number; `describe_images.py` gets them from a backend that can see. Without a
description the image's address is named, if it has one; otherwise the text says that there was an image. An image
without a description is recorded as a loss.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from accord.core.work.emulation.base import (
    AnswerPieceReader,
    PassthroughReader,
    PreparedOrder,
    printable_address,
    replace_messages,
)
from accord.wire.capability import Capability
from accord.wire.conversation import ImagePart, MessagePart, TextPart, ToolResultPart
from accord.wire.emulation import Effect, EffectKind, EmulationStrategy, PostProcessing
from accord.wire.work import WorkOrder

_LABEL = PostProcessing(detail="Replace images by their descriptions")


@dataclass(frozen=True, slots=True)
class ImageDescription:
    """The description of one image by the backend named in `by`."""

    text: str
    by: str


@dataclass(frozen=True, slots=True)
class ImageInput:
    """Replaces images by text. `descriptions` are keyed by the numbers of `number_images`.

    `before` are the effects of getting the descriptions; they are recorded ahead of those of using them.
    """

    descriptions: Mapping[int, ImageDescription] = field(
        default_factory=lambda: MappingProxyType(dict[int, ImageDescription]())
    )
    before: tuple[Effect, ...] = ()
    capability: str = Capability.IMAGE_INPUT
    strategy: EmulationStrategy = _LABEL
    max_retries: int = 0

    def prepare(self, order: WorkOrder) -> PreparedOrder:
        """The order with text in the place of each image."""
        numbers = {image.data or image.uri: number for number, image in number_images(order).items()}
        if not numbers:
            return PreparedOrder(order)

        def replace(part: MessagePart) -> MessagePart:
            if isinstance(part, ImagePart):
                return TextPart(text=self._sentence(part, numbers[part.data or part.uri]))
            if isinstance(part, ToolResultPart):
                return part.model_copy(update={"content": [replace(inner) for inner in part.content]})
            return part

        messages = [
            message.model_copy(update={"content": [replace(part) for part in message.content]})
            if any(_images_in(message.content))
            else message
            for message in order.conversation.messages
        ]
        described = sum(number in self.descriptions for number in numbers.values())
        counts = {EffectKind.IMAGE_DESCRIBED: described, EffectKind.IMAGE_NOT_SEEN: len(numbers) - described}
        effects = [
            Effect(capability=self.capability, kind=kind, count=count) for kind, count in counts.items() if count
        ]
        return PreparedOrder(replace_messages(order, messages), (*self.before, *effects))

    def reader(self, order: WorkOrder) -> AnswerPieceReader:  # noqa: ARG002 - every answer is read alike
        """The answer is not changed."""
        return PassthroughReader()

    def _sentence(self, image: ImagePart, number: int) -> str:
        if description := self.descriptions.get(number):
            return f"[Image {number}, described by {description.by}: {description.text}]"
        if address := printable_address(image.uri):
            return f"[Image {number}, which cannot be seen here; its address: {address}]"
        return f"[Image {number} ({image.media_type}) was sent and cannot be seen here.]"


def number_images(order: WorkOrder) -> dict[int, ImagePart]:
    """The conversation's images by number, those in tool results included; equal images share a number."""
    images: dict[str | None, ImagePart] = {}
    for message in order.conversation.messages:
        for image in _images_in(message.content):
            images.setdefault(image.data or image.uri, image)
    return dict(enumerate(images.values(), start=1))


def _images_in(parts: Sequence[MessagePart]) -> Iterator[ImagePart]:
    for part in parts:
        if isinstance(part, ImagePart):
            yield part
        elif isinstance(part, ToolResultPart):
            yield from _images_in(part.content)
