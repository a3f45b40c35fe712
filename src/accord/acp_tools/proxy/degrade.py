"""Replacements for content that the agent did not declare, each with a record of what was done. Pure.

Embedded text becomes text: every agent accepts it, and unsaved changes still arrive. Text too long for that becomes a
link to its address, with a notice that the agent reads the stored version; without an address it is cut. Other content
becomes a link to its address, else to a saved file, else its description. Content with none of these has no
replacement, and the prompt is refused. Nothing is written here: a `FileToSave` must be saved before the prompt is sent.
"""

from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import msgspec

from accord.core.prompt.verdict import Declaration
from accord.core.rpc import notification_line
from accord.terminal import escape_line

MAX_TEXT_CHARS: Final = 64 * 1024
"""How much embedded text is sent as text, unless the caller says otherwise, and of a description in any case."""
MAX_NAME_CHARS: Final = 80
MAX_ADDRESS_CHARS: Final = 1_000
STORED: Final = ", where the agent reads the stored version (unsaved changes are lost)"
REACHABLE: Final = frozenset({"file", "http", "https"})
SUFFIXES: Final[Mapping[str, str]] = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "audio/wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
}
NAMES: Final[Mapping[str, str]] = {"image": "an image", "audio": "audio", "resource": "an embedded resource"}

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FileToSave:
    """A file that must be saved before the prompt is sent."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Degraded:
    """The replacement of a block, its rung, a sentence for the user, and the file that it needs."""

    block: dict[str, Any]
    rung: str
    sentence: str
    file: FileToSave | None = None


def degrade_prompt(
    blocks: list[Any],
    declaration: Declaration,
    *,
    folder: str | None,
    prefix: str,
    max_text_chars: int = MAX_TEXT_CHARS,
) -> dict[int, Degraded] | None:
    """The replacement of each undeclared block by its index; None if one of them has none.

    The blocks must be well formed.
    """
    replacements: dict[int, Degraded] = {}
    for index, block in enumerate(cast("list[Fields]", blocks)):
        if declaration.accepts(block["type"]):
            continue
        source = cast("Fields", block["resource"]) if block["type"] == "resource" else block
        degraded = (
            _whole_text(block, source, max_text_chars)
            or _link_to_address(block, source)
            or _cut_text(block, source, max_text_chars)
            or _save_to_file(block, source, folder, f"{prefix}-{index}-{block['type']}")
            or _describe_block(block)
        )
        if degraded is None:
            return None
        replacements[index] = degraded
    return replacements


def user_notice(degraded: Iterable[Degraded], session_id: bytes | None, version: int, number: int) -> bytes:
    """An update that tells the user what was replaced; empty if the prompt names no session."""
    if session_id is None:
        return b""
    sentences = "; ".join(dict.fromkeys(block.sentence for block in degraded))
    text = f"[Accord: the agent did not declare this content, so {sentences}.]\n\n"
    update: dict[str, Any] = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if version >= 2:
        update["messageId"] = f"accord-{number}"
    return notification_line("session/update", {"sessionId": msgspec.Raw(session_id), "update": update})


def _link_to_address(block: Fields, source: Fields) -> Degraded | None:
    uri = source.get("uri")
    try:
        is_reachable = isinstance(uri, str) and urlsplit(uri).scheme in REACHABLE
    except ValueError:
        is_reachable = False
    if not isinstance(uri, str) or not is_reachable:
        return None
    name = _name(uri)
    loss = STORED if block["type"] == "resource" else ""
    sentence = f"{NAMES[block['type']]} was sent as a link to {name}{loss}"
    return Degraded(_link(block, source, uri, name), "substituted", sentence)


def _whole_text(block: Fields, source: Fields, max_chars: int) -> Degraded | None:
    text = _text_of(block, source)
    if text is None or len(text) > max_chars:
        return None
    replacement = {"type": "text", "text": f"[{_address(source['uri'])}]\n{text}", **_annotations(block)}
    return Degraded(replacement, "substituted", f"the embedded resource {_name(source['uri'])} was sent as text")


def _cut_text(block: Fields, source: Fields, max_chars: int) -> Degraded | None:
    text = _text_of(block, source)
    if text is None:
        return None
    label = f"[{_address(source['uri'])}, the first {max_chars} of {len(text)} characters]"
    replacement = {"type": "text", "text": f"{label}\n{text[:max_chars]}", **_annotations(block)}
    sentence = f"the embedded resource {_name(source['uri'])} was sent as text, cut after {max_chars} characters"
    return Degraded(replacement, "substituted", sentence)


def _text_of(block: Fields, source: Fields) -> str | None:
    text = source.get("text")
    return text if block["type"] == "resource" and isinstance(text, str) else None


def _save_to_file(block: Fields, source: Fields, folder: str | None, stem: str) -> Degraded | None:
    data = source.get("blob") if block["type"] == "resource" else source.get("data")
    if folder is None or not isinstance(data, str):
        return None
    media_type = source.get("mimeType")
    essence = media_type.partition(";")[0].strip().lower() if isinstance(media_type, str) else ""
    name = stem + SUFFIXES.get(essence, ".bin")
    # Without `size`: it is optional, and an agent failed to write such a link to its own storage.
    link = _link(block, source, f"file://{quote(folder)}/{name}", name)
    sentence = f"{NAMES[block['type']]} was saved and sent as a link to the file {name}"
    return Degraded(link, "substituted", sentence, FileToSave(f"{folder}/{name}", a2b_base64(data)))


def _describe_block(block: Fields) -> Degraded | None:
    description = _description(block)
    if description is None:
        return None
    replacement = {"type": "text", "text": f"[{block['type']}: {description}]", **_annotations(block)}
    return Degraded(replacement, "described", f"{NAMES[block['type']]} was sent as its description")


def _link(block: Fields, source: Fields, uri: str, name: str) -> dict[str, Any]:
    link: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": name}
    if isinstance(media_type := source.get("mimeType"), str):
        link["mimeType"] = media_type
    if (description := _description(block)) is not None:
        link["description"] = description
    return {**link, **_annotations(block)}


def _annotations(block: Fields) -> dict[str, Any]:
    return {"annotations": block["annotations"]} if isinstance(block.get("annotations"), Mapping) else {}


def _description(block: Fields) -> str | None:
    """The description that the sender gave; nothing is invented."""
    annotations, meta = block.get("annotations"), block.get("_meta")
    for place in (block, annotations, meta):
        for key in ("alt", "description", "title", "name"):
            text: Any = cast("Fields", place).get(key) if isinstance(place, Mapping) else None
            if isinstance(text, str) and text.strip():
                return text.strip()[:MAX_TEXT_CHARS]
    return None


def _name(uri: str) -> str:
    """The last part of an address, escaped and shortened for one line."""
    last = uri.split("?", maxsplit=1)[0].split("#", maxsplit=1)[0].rstrip("/").rpartition("/")[2] or uri
    return escape_line(last)[:MAX_NAME_CHARS] or "resource"


def _address(uri: str) -> str:
    return escape_line(uri)[:MAX_ADDRESS_CHARS]
