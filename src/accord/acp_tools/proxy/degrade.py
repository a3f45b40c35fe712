"""What an agent gets instead of content that it did not declare: down the ladder, and never without a record.

An embedded text becomes text: every agent takes text, and what the editor had, unsaved changes too, still arrives. One
too long for that becomes a link to where it came from, and then the user is told that the agent reads what is stored
there; else it is cut. Anything else becomes a link to where it came from, else to a file that the shell is asked to
save, else its description. What has none of these is refused.
Nothing is written here: a `Save` says what should be in which file before the rewritten prompt is sent.
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
MAX_NAME_CHARS: Final = 80
MAX_ADDRESS_CHARS: Final = 1_000
STORED: Final = ", where the agent reads what is stored and not what the editor had (unsaved changes are lost)"
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
WORDS: Final[Mapping[str, str]] = {"image": "an image", "audio": "a sound", "resource": "an embedded resource"}

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Save:
    """A file that has to be there before the prompt is sent."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Degraded:
    """What stands for a block now, on which rung, in words for the user; and the file that it needs."""

    block: dict[str, Any]
    rung: str
    sentence: str
    save: Save | None = None


def degrade_prompt(
    blocks: list[Any], declaration: Declaration, *, folder: str | None, prefix: str
) -> dict[int, Degraded] | None:
    """What stands for each block that this agent did not declare; None if there is no way down for one of them.

    The blocks are known to be well formed.
    """
    account: dict[int, Degraded] = {}
    for index, block in enumerate(cast("list[Fields]", blocks)):
        if declaration.accepts(block["type"]):
            continue
        degraded = _degrade(block, folder, f"{prefix}-{index}")
        if degraded is None:
            return None
        account[index] = degraded
    return account


def tell_user(account: Iterable[Degraded], session_id: bytes | None, version: int, number: int) -> bytes:
    """One line in the session that says what was done; nothing where the prompt names no session."""
    if session_id is None:
        return b""
    told = "; ".join(dict.fromkeys(degraded.sentence for degraded in account))
    text = f"[Accord: the agent did not declare this content, so {told}.]\n\n"
    update: dict[str, Any] = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    if version >= 2:
        update["messageId"] = f"accord-{number}"
    return notification_line("session/update", {"sessionId": msgspec.Raw(session_id), "update": update})


def _degrade(block: Fields, folder: str | None, stem: str) -> Degraded | None:
    kind = block["type"]
    source = cast("Fields", block["resource"]) if kind == "resource" else block
    return (
        _whole_text(block, source)
        or _linked(block, source)
        or _cut_text(block, source)
        or _saved(block, source, folder, f"{stem}-{kind}")
        or _described(block)
    )


def _linked(block: Fields, source: Fields) -> Degraded | None:
    uri = source.get("uri")
    if not isinstance(uri, str) or _scheme(uri) not in REACHABLE:
        return None
    name = _name(uri)
    link = _link(block, source, uri, name)
    lost = STORED if block["type"] == "resource" else ""
    return Degraded(link, "substituted", f"{WORDS[block['type']]} was sent as a link to {name}{lost}")


def _whole_text(block: Fields, source: Fields) -> Degraded | None:
    text = _text_of(block, source)
    if text is None or len(text) > MAX_TEXT_CHARS:
        return None
    kept = {"type": "text", "text": f"[{_address(source['uri'])}]\n{text}", **_annotations(block)}
    return Degraded(kept, "substituted", f"the embedded resource {_name(source['uri'])} was sent as text")


def _cut_text(block: Fields, source: Fields) -> Degraded | None:
    text = _text_of(block, source)
    if text is None:
        return None
    label = f"[{_address(source['uri'])}, the first {MAX_TEXT_CHARS} of {len(text)} characters]"
    kept = {"type": "text", "text": f"{label}\n{text[:MAX_TEXT_CHARS]}", **_annotations(block)}
    told = f"the embedded resource {_name(source['uri'])} was sent as text, cut after {MAX_TEXT_CHARS} characters"
    return Degraded(kept, "substituted", told)


def _text_of(block: Fields, source: Fields) -> str | None:
    text = source.get("text")
    return text if block["type"] == "resource" and isinstance(text, str) else None


def _saved(block: Fields, source: Fields, folder: str | None, stem: str) -> Degraded | None:
    data = source.get("blob") if block["type"] == "resource" else source.get("data")
    if folder is None or not isinstance(data, str):
        return None
    name = stem + _suffix(source)
    link = _link(block, source, f"file://{quote(folder)}/{name}", name)
    link["size"] = len(decoded := a2b_base64(data))
    told = f"{WORDS[block['type']]} was saved and sent as a link to the file {name}"
    return Degraded(link, "substituted", told, Save(name, decoded))


def _described(block: Fields) -> Degraded | None:
    description = _description(block)
    if description is None:
        return None
    what = block["type"]
    return Degraded(
        {"type": "text", "text": f"[{what}: {description}]", **_annotations(block)},
        "described",
        f"{WORDS[what]} was sent as its description",
    )


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
    """What the sender itself says that this is; nothing is invented."""
    annotations, meta = block.get("annotations"), block.get("_meta")
    for place in (block, annotations, meta):
        for key in ("alt", "description", "title", "name"):
            said: Any = cast("Fields", place).get(key) if isinstance(place, Mapping) else None
            if isinstance(said, str) and said.strip():
                return said.strip()[:MAX_TEXT_CHARS]
    return None


def _scheme(uri: str) -> str:
    try:
        return urlsplit(uri).scheme
    except ValueError:
        return ""


def _name(uri: str) -> str:
    """The last part of an address, fit to be shown in a line."""
    last = uri.split("?", maxsplit=1)[0].split("#", maxsplit=1)[0].rstrip("/").rpartition("/")[2] or uri
    return escape_line(last)[:MAX_NAME_CHARS] or "resource"


def _address(uri: str) -> str:
    return escape_line(uri)[:MAX_ADDRESS_CHARS]


def _suffix(source: Fields) -> str:
    said = source.get("mimeType")
    essence = said.partition(";")[0].strip().lower() if isinstance(said, str) else ""
    return SUFFIXES.get(essence, ".bin")
