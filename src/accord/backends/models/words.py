"""Writes documents as text for APIs that have no place of their own for them. One form for all of them.

Also reads it back, so that a conversation survives the way there and back. Knows no API.
"""

import json
import re
from typing import Final

from accord.wire.conversation import MessagePart, ResourceLinkPart, ResourcePart, TextPart

_DOCUMENT: Final = re.compile(r"<document (\{.*\})>\n(.*)\n</document>", re.DOTALL)
_LINK: Final = re.compile(r"<link (\{.*\})/>")


def document_text(part: ResourcePart) -> str:
    """A document that is text, with its address."""
    return f"<document {_facts(uri=part.uri, media_type=part.media_type)}>\n{part.text or ''}\n</document>"


def link_text(part: ResourceLinkPart) -> str:
    """A document that is elsewhere: no API fetches it, but a model with tools may."""
    told = _facts(uri=part.uri, name=part.name, media_type=part.media_type, description=part.description)
    return f"<link {told}/>"


def part_of_text(text: str) -> MessagePart:
    """The part that was written as this text."""
    if found := _DOCUMENT.fullmatch(text):
        return ResourcePart(**json.loads(found[1]), text=found[2])
    if found := _LINK.fullmatch(text):
        return ResourceLinkPart(**json.loads(found[1]))
    return TextPart(text=text)


def _facts(**told: str | None) -> str:
    return json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False)
