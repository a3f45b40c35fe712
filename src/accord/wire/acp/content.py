"""Content blocks: the five types of both protocol versions, and the draft's open set."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, model_serializer
from pydantic_core import CoreSchema

from accord.wire.acp.base import AbsentIfMalformed, AcpMessage, AcpTagged, known_or_other
from accord.wire.message import FreeObject, FreeValue, Message, WrittenAsText, close_union


class ContentType(StrEnum):
    """The five types of content, in the order in which Accord lists them."""

    TEXT = "text"
    RESOURCE_LINK = "resource_link"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"


LenientStr = Annotated[str | None, AbsentIfMalformed()]


class TextResource(AcpMessage, frozen=True):
    """An embedded resource that is text."""

    uri: str = Field(description="Its address.")
    text: str = Field(description="Its text.")
    mime_type: LenientStr = Field(default=None, description="Such as `text/csv`.")


class BlobResource(AcpMessage, frozen=True):
    """An embedded resource that is bytes, in base64."""

    uri: str = Field(description="Its address.")
    blob: str = Field(description="Its bytes in base64.")
    mime_type: LenientStr = Field(default=None, description="Such as `application/pdf`.")


class ContentBlock(AcpTagged, frozen=True):
    """A part of a prompt, a message or a tool result. `ContentBlock(type=…, …)` builds the kind that `type` names."""

    type: ContentType
    annotations: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, description="For whom it is and how important, as MCP defines it."
    )

    if TYPE_CHECKING:  # the other fields are those of the kind that `type` names

        def __init__(self, *, type: ContentType | str, **fields: Any) -> None: ...


class TextBlock(ContentBlock, frozen=True):
    """Text; every agent accepts it."""

    type: Annotated[Literal[ContentType.TEXT], WrittenAsText()] = ContentType.TEXT
    text: str = Field(description="The text.")


class ImageBlock(ContentBlock, frozen=True):
    """An image, in base64."""

    type: Annotated[Literal[ContentType.IMAGE], WrittenAsText()] = ContentType.IMAGE
    data: str = Field(description="The image in base64.")
    mime_type: str = Field(description="Such as `image/png`.")
    uri: LenientStr = Field(default=None, description="Where it was read from.")


class AudioBlock(ContentBlock, frozen=True):
    """Audio, in base64."""

    type: Annotated[Literal[ContentType.AUDIO], WrittenAsText()] = ContentType.AUDIO
    data: str = Field(description="The audio in base64.")
    mime_type: str = Field(description="Such as `audio/wav`.")


class ResourceLinkBlock(ContentBlock, frozen=True):
    """A link to a resource; every agent accepts it."""

    type: Annotated[Literal[ContentType.RESOURCE_LINK], WrittenAsText()] = ContentType.RESOURCE_LINK
    uri: str = Field(description="Its address.")
    name: str = Field(description="Its name.")
    title: LenientStr = Field(default=None, description="Its title for people.")
    description: LenientStr = Field(default=None, description="What it is.")
    mime_type: LenientStr = Field(default=None, description="Such as `text/csv`.")
    size: Annotated[int | None, AbsentIfMalformed()] = Field(default=None, description="Its size in bytes.")


class ResourceBlock(ContentBlock, frozen=True):
    """A resource with its contents."""

    type: Annotated[Literal[ContentType.RESOURCE], WrittenAsText()] = ContentType.RESOURCE
    resource: TextResource | BlobResource = Field(description="The resource.")


AnyBlock = TextBlock | ImageBlock | AudioBlock | ResourceLinkBlock | ResourceBlock
"""The union of all kinds, for an exhaustive `match`."""

close_union(
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


def prompt_text(blocks: Iterable[Mapping[str, Any]]) -> str:
    """The text of a prompt, which is an agent's query: that of its text blocks, joined by line ends."""
    return "\n".join([block["text"] for block in blocks if block["type"] == ContentType.TEXT])


class OtherBlock(Message, frozen=True):
    """A block of an unknown type; every member is kept as it was sent, also `_meta` and nulls."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    type: str

    @model_serializer
    def _write(self) -> dict[str, Any]:
        # Written by pydantic, a null would be left out like an absent optional field.
        return {"type": self.type, **(self.model_extra or {})}


class _KnownFirst:
    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known, other = handler.generate_schema(ContentBlock), handler.generate_schema(OtherBlock)
        return known_or_other(known, other, ContentBlock.tag, ContentBlock.kinds)


DraftContentBlock = Annotated[ContentBlock | OtherBlock, _KnownFirst()]
"""A block of a known type, or of any other, which is kept."""
