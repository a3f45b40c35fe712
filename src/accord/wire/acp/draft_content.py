"""Content blocks as the version 2 draft has them: the five known types, open to new ones."""

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from accord.wire.acp.base import AcpMessage
from accord.wire.acp.content import ContentBlock
from accord.wire.acp.lenient import known_or_other


class OtherBlock(AcpMessage, frozen=True):
    """A block of a type that is not known yet; keeps everything."""

    type: str


class _KnownFirst:
    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known, other = handler.generate_schema(ContentBlock), handler.generate_schema(OtherBlock)
        return known_or_other(known, other, ContentBlock.tag, ContentBlock.kinds)


DraftContentBlock = Annotated[ContentBlock | OtherBlock, _KnownFirst()]
"""A block of a known type, or one that is kept for those who know it."""
