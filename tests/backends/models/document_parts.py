"""Reads back the text that documents and links become, so that tests can compare what arrives with what was sent."""

import json
import re
from typing import Final

from accord.wire.conversation import MessagePart, ResourceLinkPart, ResourcePart, TextPart

_DOCUMENT: Final = re.compile(r"<document (\{.*\})>\n(.*)\n</document>", re.DOTALL)
_LINK: Final = re.compile(r"<link (\{.*\})/>")


def part_of_text(text: str) -> MessagePart:
    """The part that was written as this text."""
    if found := _DOCUMENT.fullmatch(text):
        return ResourcePart(**json.loads(found[1]), text=found[2])
    if found := _LINK.fullmatch(text):
        return ResourceLinkPart(**json.loads(found[1]))
    return TextPart(text=text)
