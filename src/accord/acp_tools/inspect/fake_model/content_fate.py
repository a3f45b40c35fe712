"""What became of content in a prompt: did it arrive at the model? Pure.

The prompt has a marker in its text and, beside it, one content block. The requests whose text has the marker are those
of the prompt; requests for a title or a summary count only if there are no others. In these requests:

| content | accepted, if there is | otherwise a placeholder, if the text has |
|---|---|---|
| text | its marker | – |
| image, audio | the same bytes, or any image or sound beside the prompt (it was encoded anew) | see below |
| embedded text | its marker, in text or in a file | see below |
| embedded bytes | the same bytes, or any file of its kind beside the prompt | see below |
| link | its uri, or the path of a `file:` uri | its name |

A placeholder is, in the text beside the prompt: the uri, path, name or media type of the content, its bytes as base64
text, a bracket such as `[image]` or `<image omitted>`, a phrase such as "unsupported content", or the path of a file
that was made of it, such as `/tmp/resource-1.txt`. With none of these the content was dropped. If no request has the
prompt, the model was not called for it.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from accord.acp.content import ContentType
from accord.acp_tools.inspect.fake_model.received_request import (
    ReceivedMedia,
    ReceivedRequest,
    kind_of,
    message_media,
    message_text,
)
from accord.acp_tools.inspect.fake_model.script import is_side_request
from accord.wire.conversation import ConversationMessage, Role

BEFORE: Final = 400
AFTER: Final = 2_000
"""How many characters from the marker a placeholder may be: agents put long instructions before the prompt."""
BASE64_START: Final = 32
SHOWN: Final = 120


class FateKind(StrEnum):
    """What became of content."""

    ACCEPTED = "accepted"
    PLACEHOLDER = "replaced by a placeholder"
    DROPPED = "dropped"
    NOT_SENT = "not sent"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of content, the evidence for it, and the number of the request that has the evidence."""

    kind: FateKind
    evidence: str
    request_number: int | None = None


@dataclass(frozen=True, slots=True)
class ProbeContent:
    """Content that was sent, and the marker of the prompt that it was in.

    `marker` is part of the text of a text or an embedded text; the others have `data`. `name` and `uri` must be
    unmistakable, too.
    """

    type: ContentType
    prompt_marker: str
    marker: str = ""
    data: bytes = b""
    media_type: str = ""
    uri: str = ""
    name: str = ""


WORDS: Final[Mapping[ContentType, str]] = {
    ContentType.TEXT: "text",
    ContentType.IMAGE: "image|picture|photo|screenshot|img",
    ContentType.AUDIO: "audio|sound|voice|recording",
    ContentType.RESOURCE: "resource|embedded|attachment",
    ContentType.RESOURCE_LINK: "resource|link",
}
"""What agents call the content in a placeholder."""
_MISSING: Final = (
    r"unsupported|omitted|removed|skipped|ignored|not (?:be )?(?:supported|shown|available)"
    r"|cannot|can't|could not|unable"
)


def find_content(requests: Sequence[ReceivedRequest], sent: ProbeContent) -> Fate:
    """What became of this content in these requests."""
    of_prompt = [request for request in requests if sent.prompt_marker in request.text]
    of_turn = [request for request in of_prompt if not is_side_request(request)] or of_prompt
    for request in requests:
        if evidence := _same_bytes(request, sent):
            return Fate(FateKind.ACCEPTED, evidence, request.number)
    if not of_turn:
        return Fate(FateKind.NOT_SENT, "no request to the model has the text of the prompt")
    for kind, find in ((FateKind.ACCEPTED, _find_accepted), (FateKind.PLACEHOLDER, _find_placeholder)):
        for request in of_turn:
            if evidence := find(request, sent):
                return Fate(kind, evidence, request.number)
    return Fate(FateKind.DROPPED, "the text of the prompt arrived, and nothing of the content", of_turn[0].number)


def _same_bytes(request: ReceivedRequest, sent: ProbeContent) -> str | None:
    same = [media for media in request.media if sent.data and media.data == sent.data]
    return f"{_describe(same[0])}, the same bytes" if same else None


def _find_accepted(request: ReceivedRequest, sent: ProbeContent) -> str | None:
    """What shows that the content arrived, though not as the same bytes."""
    if sent.marker and sent.marker != sent.prompt_marker:
        found = sent.marker in request.text or any(sent.marker.encode() in media.data for media in request.media)
        if found:
            return f"its text, with {sent.marker}"
    media = [media for message in _beside(request, sent.prompt_marker) for media in message_media(message)]
    match sent.type:
        case ContentType.TEXT:
            return f"its text, with {sent.prompt_marker}" if sent.marker in ("", sent.prompt_marker) else None
        case ContentType.RESOURCE_LINK:
            spellings = _spellings(sent.uri)
            spelled = next((each for each in spellings if each in request.text), None)
            # An address that is a member of its own, maybe of a part of a type that no codec knows.
            return spelled or next((each for each in request.body_texts if each in spellings), None)
        case ContentType.IMAGE | ContentType.AUDIO | ContentType.RESOURCE:
            kind = kind_of(sent.media_type) if sent.data else "file"
            other = next((each for each in media if kind in (each.kind, kind_of(each.media_type))), None)
            return f"{_describe(other)}, other bytes" if other else None


def _find_placeholder(request: ReceivedRequest, sent: ProbeContent) -> str | None:
    """The text that stands for the content."""
    text = "\n".join(map(message_text, _beside(request, sent.prompt_marker)))
    at = text.find(sent.prompt_marker)
    near = text[max(0, at - BEFORE) : at + AFTER]
    encoded = base64.b64encode(sent.data).decode()[:BASE64_START]
    literals = [(text, each) for each in (*_spellings(sent.uri), sent.name)]
    literals += [(near, sent.media_type), (text, encoded)]
    for place, literal in literals:
        if literal and (found := place.find(literal)) >= 0:
            line = place.rfind("\n", 0, found) + 1
            return _shown(place[max(line, found - SHOWN // 2) :].partition("\n")[0])
    word = rf"\b(?:{WORDS[sent.type]}|content|attachment|block)s?\b"
    patterns = (
        rf"\[[^\]\n]{{0,120}}\b(?:{WORDS[sent.type]})s?\b[^\]\n]{{0,200}}\]",
        rf"[<({{](?:[\w:-]+\s+){{0,3}}(?:{WORDS[sent.type]})s?\b[^>)}}\n]{{0,120}}[>)}}]",
        rf"{word}[^\n]{{0,60}}\b(?:{_MISSING})\b",
        rf"\b(?:{_MISSING})\b[^\n]{{0,60}}{word}",
    )
    matches = [re.search(pattern, near, re.IGNORECASE) for pattern in patterns]
    # A file that the agent has made of the content; the instructions before the prompt mention others.
    matches.append(re.search(rf"\S*/\S*(?:{WORDS[sent.type]})\S*\.\w{{1,5}}\b", text[at : at + AFTER], re.IGNORECASE))
    return next((_shown(match[0]) for match in matches if match), None)


def _spellings(uri: str) -> list[str]:
    """The uri as it was sent, decoded, and the path of a file."""
    if not uri:
        return []
    path = unquote(uri).removeprefix("file://")
    return [uri, unquote(uri), *([path] if uri.startswith("file://") else [])]


def _beside(request: ReceivedRequest, marker: str) -> Sequence[ConversationMessage]:
    """The messages of users without an answer between them and the prompt: agents may split a prompt into several."""
    messages = request.messages
    prompts = [at for at, each in enumerate(messages) if each.role is Role.USER and marker in message_text(each)]
    if not prompts:
        return ()
    first = end = prompts[-1]
    while first > 0 and messages[first - 1].role is Role.USER:
        first -= 1
    while end < len(messages) and messages[end].role is Role.USER:
        end += 1
    return messages[first:end]


def _describe(media: ReceivedMedia) -> str:
    return f"{media.kind} {media.media_type} {len(media.data)} bytes".replace("  ", " ")


def _shown(text: str) -> str:
    return " ".join(text.split())[:SHOWN]
