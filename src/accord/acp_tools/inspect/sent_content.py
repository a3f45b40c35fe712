"""What became of the content of a prompt, as far as the fake model shows it."""

from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from accord.acp.content import ContentType
from accord.acp_tools.inspect.blocks import EMBEDDED_MARKER, Block
from accord.acp_tools.inspect.fake_model import FateKind, ProbeContent, find_content
from accord.wire.inspection import ContentFate

if TYPE_CHECKING:
    from accord.acp_tools.inspect.fake_model.server import FakeModel

FATES: Final[Mapping[FateKind, ContentFate]] = {
    FateKind.ACCEPTED: ContentFate.ACCEPTED,
    FateKind.DROPPED: ContentFate.DROPPED,
    FateKind.PLACEHOLDER: ContentFate.PLACEHOLDER,
    FateKind.NOT_SENT: ContentFate.UNKNOWN,
}


def content_fate(model: "FakeModel | None", marker: str, block: Block) -> ContentFate | None:
    """The fate of this block, which was sent with a text that contains this marker; None without the fake model."""
    kind = block.get("type")
    if model is None or kind not in list(ContentType):
        return None
    source = cast("Mapping[str, Any]", block["resource"]) if kind == ContentType.RESOURCE else block
    data = source.get("data")
    try:
        content = b64decode(data, validate=True) if isinstance(data, str) else b""
    except ValueError:
        return None  # not base64: there is nothing that could arrive
    sent = ProbeContent(
        type=ContentType(kind),
        prompt_marker=marker,
        marker=EMBEDDED_MARKER if EMBEDDED_MARKER in str(source.get("text")) else "",
        data=content,
        media_type=str(source.get("mimeType", "")),
        uri=str(source.get("uri", "")),
        name=str(source.get("name", "")),
    )
    return FATES[find_content(model.received(marker), sent).kind]
