"""What became of the content of a prompt, as far as the fake model shows it."""

from typing import Any

from accord.acp_tools.inspect.blocks import Block
from accord.wire.inspection import ContentFate


def content_fate(model: Any, marker: str, block: Block) -> ContentFate | None:
    """The fate of this block, which was sent with a text that contains this marker; None without the fake model."""
    return None
