"""Content blocks, the same in both protocol versions. Which of them an agent takes is decided in `core`."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, AcpTagged
from accord.wire.message import seal


class ContentType(StrEnum):
    """The five types of content, in the order in which Accord lists them (decision 17)."""

    TEXT = "text"
    RESOURCE_LINK = "resource_link"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"


LenientStr = Annotated[str | None, AbsentIfMalformed()]


class TextResource(AcpMessage, frozen=True):
    """An embedded resource that is text."""

    uri: str
    text: str
    mime_type: LenientStr = None


class BlobResource(AcpMessage, frozen=True):
    """An embedded resource that is bytes, in base64."""

    uri: str
    blob: str
    mime_type: LenientStr = None


class ContentBlock(AcpTagged, frozen=True):
    """A piece of a prompt, a message or a tool's result. `ContentBlock(type=…, …)` builds the kind named."""

    type: ContentType
    annotations: Annotated[dict[str, Any] | None, AbsentIfMalformed()] = None


class TextBlock(ContentBlock, frozen=True):
    """Text; every agent takes it."""

    type: Literal[ContentType.TEXT] = ContentType.TEXT
    text: str


class ImageBlock(ContentBlock, frozen=True):
    """A picture, in base64."""

    type: Literal[ContentType.IMAGE] = ContentType.IMAGE
    data: str
    mime_type: str
    uri: LenientStr = None


class AudioBlock(ContentBlock, frozen=True):
    """Sound, in base64."""

    type: Literal[ContentType.AUDIO] = ContentType.AUDIO
    data: str
    mime_type: str


class ResourceLinkBlock(ContentBlock, frozen=True):
    """A resource that the agent can fetch; every agent takes the link."""

    type: Literal[ContentType.RESOURCE_LINK] = ContentType.RESOURCE_LINK
    uri: str
    name: str
    title: LenientStr = None
    description: LenientStr = None
    mime_type: LenientStr = None
    size: Annotated[int | None, AbsentIfMalformed()] = None


class ResourceBlock(ContentBlock, frozen=True):
    """A resource with its contents."""

    type: Literal[ContentType.RESOURCE] = ContentType.RESOURCE
    resource: TextResource | BlobResource


AnyBlock = TextBlock | ImageBlock | AudioBlock | ResourceLinkBlock | ResourceBlock
"""For a `match` that the type checker can prove complete."""

seal(
    ContentBlock,
    "type",
    {
        ContentType.TEXT: TextBlock,
        ContentType.RESOURCE_LINK: ResourceLinkBlock,
        ContentType.IMAGE: ImageBlock,
        ContentType.AUDIO: AudioBlock,
        ContentType.RESOURCE: ResourceBlock,
    },
)
