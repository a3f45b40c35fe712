"""The digest of a request, which tells a repeated request from another one with the same id.

It is stored with its turn, and the same request is the same request for ever. So each version is computed as it always
was: a change of what is hashed adds a version and keeps those before it.
"""

from hashlib import sha256
from typing import Any, Final

from accord.acp.schema_parts import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextResourceContents,
)
from accord.core.receipt import LONG_TEXT, digest_in_pieces, digest_object
from accord.run.admit import SentContent
from accord.wire.request import AgentRequest
from accord.wire.session import RunRecord

DIGEST_VERSION: Final = 2
"""The version of new digests."""


def request_digest(request: AgentRequest, sent: SentContent | None = None, version: int = DIGEST_VERSION) -> str:
    """The digest of this request; `sent` is content that the request does not hold because it was refused."""
    members = request.dump() if version == DIGEST_VERSION else _members_1(request)
    if sent is not None and sent.unparsed is not None:
        members["content"] = sha256(sent.blocks).hexdigest()  # it may be too malformed for a canonical form
    is_long = max([len(request.query), *(_payload_chars(block) for block in request.content or ())]) > LONG_TEXT
    return digest_in_pieces(members) if is_long else digest_object(members)


def is_same_request(turn: RunRecord, digest: str, request: AgentRequest) -> bool:
    """Whether this request, which has this digest, began this turn."""
    if digest == turn.request_digest:
        return True
    # Turns of earlier schemas do not name their version. None of version 1 had content that could not be parsed.
    return turn.digest_version in (None, 1) and turn.request_digest == request_digest(request, version=1)


def _members_1(request: AgentRequest) -> dict[str, Any]:
    """Version 1 had absent members as their defaults, and only the query of what the older shape has in its payload."""
    request = request.model_copy(update=request.payload) if request.payload else request
    members: dict[str, Any] = {"files": [], "meta": {}, **request.dump()}
    if request.capabilities is not None:
        members["capabilities"]["prefers_markdown"] = request.capabilities.prefers_markdown
    if request.requirements is not None:
        stated = {name: needs for name, needs in members["requirements"].items() if needs}
        members["requirements"] = {"required": [], **stated}
    return members


def _payload_chars(block: ContentBlock) -> int:
    match block:
        case ImageContent() | AudioContent():
            return len(block.data)
        case EmbeddedResource(resource=TextResourceContents() as resource):
            return len(resource.text)
        case EmbeddedResource(resource=BlobResourceContents() as resource):
            return len(resource.blob)
        case _:
            return 0  # texts are the query, and links are short
