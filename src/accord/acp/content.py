"""Content blocks beyond their schema: the types in Accord's order, and the draft's open set of them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler, model_serializer
from pydantic_core import CoreSchema

from accord.acp.base import known_or_other
from accord.acp.schema_parts import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from accord.wire.message import FreeValue, Message


class ContentType(StrEnum):
    """The five types of content, in the order in which Accord lists them."""

    TEXT = "text"
    RESOURCE_LINK = "resource_link"
    IMAGE = "image"
    AUDIO = "audio"
    RESOURCE = "resource"


AnyBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""The union of all kinds, for an exhaustive `match`."""


def prompt_text(blocks: Iterable[Mapping[str, Any]]) -> str:
    """The text of a prompt, which is an agent's query: that of its text blocks, joined by line ends."""
    return "\n".join([block["text"] for block in blocks if block["type"] == ContentType.TEXT])


class OtherContentBlock(Message, frozen=True):
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
        known, other = handler.generate_schema(ContentBlock), handler.generate_schema(OtherContentBlock)
        return known_or_other(known, other, ContentBlock.tag, ContentBlock.kinds)


OpenContentBlock = Annotated[ContentBlock | OtherContentBlock, _KnownFirst()]
"""A block of a known type, or of any other, which is kept."""
