"""The parts of a chat answer that are neither text nor calls: reasoning, content in parts, citations, media. Pure.

Most are members of compatible servers. What does not have the expected shape is left out here; the table of parts
(`answer_rows.py`) reports it.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from accord.apis.openai.parts import split_data_url
from accord.wire.work import AnyPiece, CitationPiece, MediaPiece, TextPiece, ThinkingPiece

SOUNDS: Final = (
    ("UklGR", "audio/wav"),
    ("SUQz", "audio/mpeg"),
    ("//", "audio/mpeg"),
    ("ZkxhQ", "audio/flac"),
    ("T2dnUw", "audio/ogg"),
)
"""Media types by how their base64 data begins: the API names the format of its sound in the request only."""
PCM: Final = "audio/pcm"


def read_details(details: Any) -> str:
    """The text of `reasoning_details`."""
    texts = (each.get("text") or each.get("summary") for each in objects(details))
    return "".join(text for text in texts if isinstance(text, str))


class ReasoningReader:
    """Reads reasoning: its text, and blocks that repeat the text with its signatures.

    Of a whole answer, the blocks have all text, or none. In a stream, a block has the text since the last signature, or
    a part of it, or none; what came as text already is not taken from it.
    """

    __slots__ = ("_has_text", "_is_whole")

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole: Final = is_whole
        self._has_text = False
        """Whether text has come since the last signature."""

    def note_text(self) -> None:
        """Note that text was read."""
        self._has_text = True

    def read(self, text: str, blocks: Any) -> list[ThinkingPiece]:
        """The pieces of this text and these blocks."""
        listed, pieces = objects(blocks), list[ThinkingPiece]()
        if self._is_whole and any(block.get("thinking") for block in listed):
            text = ""
        for block in listed:
            match block:
                case {"type": "redacted_thinking", "data": str(data)}:
                    self._has_text = False
                    pieces.append(ThinkingPiece(text="", signature=data, redacted=True))
                case {"thinking": str(words)}:
                    if text or (self._has_text and not self._is_whole):
                        words, text = text, ""
                    value = block.get("signature")
                    signature = value if isinstance(value, str) and value else None
                    self._has_text = signature is None and (self._has_text or bool(words))
                    if words or signature:
                        pieces.append(ThinkingPiece(text=words, signature=signature))
                case _:
                    pass
        if text:
            self._has_text = True
            pieces.insert(0, ThinkingPiece(text=text))
        return pieces


def read_content(parts: Iterable[Any]) -> list[AnyPiece]:
    """The pieces of content in parts; parts of reasoning hold parts themselves."""
    pieces: list[AnyPiece] = []
    for part in objects(parts):
        match part:
            case {"type": "thinking", "thinking": str(text)} if text:
                pieces.append(ThinkingPiece(text=text))
            case {"type": "thinking", "thinking": [*inner]}:
                texts = (each.get("text") for each in objects(inner))
                pieces += [ThinkingPiece(text=text) for text in texts if text and isinstance(text, str)]
            case {"refusal": str(text)} if text:
                pieces.append(TextPiece(text=text, refusal=True))
            case {"type": "image_url"}:
                pieces += read_images([part])
            case {"text": str(text)} if text:
                pieces.append(TextPiece(text=text))
            case _:
                pass
    return pieces


def read_annotations(annotations: Any) -> list[CitationPiece]:
    """The citations among annotations."""
    pieces: list[CitationPiece] = []
    for annotation in objects(annotations):
        match annotation:
            case {"type": "url_citation", "url_citation": {"url": str(url)}}:
                about = cast("dict[str, Any]", annotation["url_citation"])
                pieces.append(
                    CitationPiece(
                        url=url,
                        title=_text(about, "title"),
                        quote=_text(about, "content"),
                        start=_place(about, "start_index"),
                        end=_place(about, "end_index"),
                        source=annotation,
                    )
                )
            case _:
                pass
    return pieces


def read_sources(answer: Mapping[str, Any]) -> list[CitationPiece]:
    """The pages that the whole answer rests on, as servers with a search of their own list them beside it."""
    pages = [page for name in ("search_results", "citations") for page in objects(answer.get(name))]
    listed = answer.get("citations")
    links = [link for link in cast("list[Any]", listed) if isinstance(link, str)] if isinstance(listed, list) else []
    pieces: dict[str, CitationPiece] = {}
    for page in (*pages, *({"url": link} for link in links)):
        if (url := _text(page, "url")) and url not in pieces:
            pieces[url] = CitationPiece(url=url, title=_text(page, "title"), quote=_text(page, "snippet"), source=page)
    return [*pieces.values()]


def read_images(images: Any) -> list[MediaPiece]:
    """Images by their address, which may hold the data."""
    pieces: list[MediaPiece] = []
    for image in objects(images):
        address = image.get("image_url")
        url = cast("dict[str, Any]", address).get("url") if isinstance(address, dict) else address
        if not isinstance(url, str) or not url:
            continue
        if (split := split_data_url(url)) is not None:
            pieces.append(MediaPiece(media_type=split[0], data=split[1], source=image))
        else:
            pieces.append(MediaPiece(media_type="image/*", uri=url, source=image))
    return pieces


def read_audio(parts: Sequence[Mapping[str, Any]]) -> list[MediaPiece]:
    """The sound whose parts these are; of a whole answer, it is one."""
    data = join_base64([each["data"] for each in parts if isinstance(each.get("data"), str)])
    transcript = "".join(each["transcript"] for each in parts if isinstance(each.get("transcript"), str))
    if not data and not transcript:
        return []
    names = ("id", "expires_at")
    source = {name: each[name] for each in parts for name in names if each.get(name) is not None}
    media_type = next((sound_type for start, sound_type in SOUNDS if data.startswith(start)), PCM)
    return [MediaPiece(media_type=media_type, data=data or None, transcript=transcript or None, source=source)]


def join_base64(parts: Sequence[str]) -> str:
    """Several pieces of base64 data as one: each is encoded alone, or the text was cut."""
    whole = "".join(parts)
    if "=" not in whole.rstrip("="):
        return whole
    try:
        return b64encode(b"".join(map(b64decode, parts))).decode()
    except (Base64Error, ValueError):
        return whole


def objects(values: Any) -> list[dict[str, Any]]:
    """The objects of a list; none of anything else."""
    if not isinstance(values, Iterable) or isinstance(values, str):
        return []
    return [cast("dict[str, Any]", each) for each in cast("Iterable[Any]", values) if isinstance(each, dict)]


def _text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) and value else None


def _place(members: Mapping[str, Any], name: str) -> int | None:
    value = members.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
