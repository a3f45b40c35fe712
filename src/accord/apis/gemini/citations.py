"""What an answer of the Gemini API rests on, both directions: `groundingMetadata` and `citationMetadata`. Pure.

The API counts bytes, pieces count characters. A support is about a segment of a part, whose text it repeats: an offset
that does not fit that text is left out, for it would point at other words. A grounding chunk that no support names is
about the whole answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, Final, cast

import msgspec

from accord.wire.work import CitationPiece

Json = dict[str, Any]

SOURCES: Final[Mapping[str, str]] = {"web": "uri", "retrievedContext": "uri", "maps": "uri", "image": "sourceUri"}
"""What a grounding chunk may be, and the member with its address."""
WITHOUT_ADDRESS: Final[Mapping[str, str]] = {
    "groundingChunk": "candidates[].groundingMetadata.groundingChunks[]=no_address",
    "citation": "candidates[].citationMetadata.citations[]=no_address",
    "citationSource": "candidates[].citationMetadata.citationSources[]=no_address",
}
"""The part of an answer whose source has no address, so that no API that is served can name it."""
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))


class GeminiSegment(msgspec.Struct, rename="camel"):
    """What a support is about: offsets in a part, and its text."""

    start_index: int | None = None
    end_index: int | None = None
    part_index: int | None = None
    text: str | None = None


class GeminiSupport(msgspec.Struct, rename="camel"):
    """A segment, and the chunks that support it."""

    segment: GeminiSegment | None = None
    grounding_chunk_indices: list[int] | None = None
    confidence_scores: list[float] | None = None


class GeminiGrounding(msgspec.Struct, rename="camel"):
    """The sources of an answer, and what rests on each."""

    grounding_chunks: list[Json] | None = None
    grounding_supports: list[GeminiSupport] | None = None


class GeminiCitations(msgspec.Struct, rename="camel"):
    """Sources that an answer quotes at length; Google's two APIs name the list differently."""

    citations: list[Json] | None = None
    citation_sources: list[Json] | None = None


class CitationReader:
    """Collects what an answer rests on while it arrives, and reads it when all its text is there."""

    __slots__ = ("_citations", "_groundings", "texts")

    def __init__(self) -> None:
        self.texts: Final[list[str]] = []
        """The text of each part of the answer; empty for a part that is no text."""
        self._groundings: Final[list[GeminiGrounding]] = []
        self._citations: Final[list[GeminiCitations]] = []

    def add(self, grounding: GeminiGrounding | None, citations: GeminiCitations | None) -> None:
        """Note what an event has."""
        if grounding is not None:
            self._groundings.append(grounding)
        if citations is not None:
            self._citations.append(citations)

    def read(self) -> Sequence[CitationPiece]:
        """The citations, each once: an event may repeat those of the events before it."""
        if not self._groundings and not self._citations:
            return ()
        sizes = [len(text.encode()) for text in self.texts]
        data = "".join(self.texts).encode()
        places = [*_read_groundings(self._groundings, data, [0, *accumulate(sizes)])]
        places += [_read_citation(name, each) for name, each in _list_citations(self._citations)]
        characters = _count_characters(data, (offset for _, span in places for offset in span or ()))
        pieces: dict[tuple[Any, ...], CitationPiece] = {}
        for fields, span in places:
            if span is not None and span[1] <= len(data):
                fields |= {"start": characters[span[0]], "end": characters[span[1]]}
            piece = CitationPiece(**fields)
            pieces.setdefault((piece.url, piece.title, piece.quote, piece.start, piece.end), piece)
        # A source comes before what rests on it, in a stream perhaps by some events.
        placed = {key[:3] for key, piece in pieces.items() if piece.start is not None}
        return [piece for key, piece in pieces.items() if piece.start is not None or key[:3] not in placed]


_Place = tuple[Json, tuple[int, int] | None]
"""The fields of a citation, and the bytes that it is about."""


def _read_groundings(groundings: Iterable[GeminiGrounding], data: bytes, starts: Sequence[int]) -> Iterable[_Place]:
    chunks: list[Json] = []
    for grounding in groundings:
        chunks = grounding.grounding_chunks or chunks
        for support in grounding.grounding_supports or ():
            span = _find_segment(support.segment, data, starts)
            for order, index in enumerate(support.grounding_chunk_indices or ()):
                if 0 <= index < len(chunks):
                    yield _read_chunk(chunks[index], support, order), span
        yield from ((_read_chunk(chunk), None) for chunk in grounding.grounding_chunks or ())


def _read_chunk(chunk: Json, support: GeminiSupport | None = None, order: int = 0) -> Json:
    source: Json = {"groundingChunk": chunk}
    if support is not None:
        scores = support.confidence_scores or ()
        source |= {"confidenceScore": scores[order]} if order < len(scores) else {}
    name = next((name for name in SOURCES if isinstance(chunk.get(name), dict)), None)
    described = cast("Json", chunk[name]) if name is not None else {}
    address = described.get(SOURCES[name]) if name is not None else None
    return {
        "url": _text(address),
        "title": _text(described.get("title")),
        "quote": _text(described.get("text")),
        "source": source,
    }


def _find_segment(segment: GeminiSegment | None, data: bytes, starts: Sequence[int]) -> tuple[int, int] | None:
    """The bytes of the answer's text that a segment is about; some models count from the answer's start."""
    if segment is None or segment.end_index is None:
        return None
    start, end = segment.start_index or 0, segment.end_index
    words = None if segment.text is None else segment.text.encode()
    part = segment.part_index or 0
    for base in dict.fromkeys((starts[part] if 0 <= part < len(starts) else 0, 0)):
        if 0 <= start <= end <= len(data) - base and words in (None, data[base + start : base + end]):
            return base + start, base + end
    return None


def _list_citations(metadata: Iterable[GeminiCitations]) -> Iterable[tuple[str, Json]]:
    for each in metadata:
        yield from (("citation", citation) for citation in each.citations or ())
        yield from (("citationSource", citation) for citation in each.citation_sources or ())


def _read_citation(name: str, citation: Json) -> _Place:
    start, end = citation.get("startIndex") or 0, citation.get("endIndex")
    span = (start, end) if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end else None
    return {"url": _text(citation.get("uri")), "title": _text(citation.get("title")), "source": {name: citation}}, span


def _count_characters(data: bytes, offsets: Iterable[int]) -> dict[int, int]:
    """How many characters begin before each of these offsets, in one pass."""
    counts: dict[int, int] = {}
    place = count = 0
    for offset in sorted(set(offsets)):
        count += len(data[place:offset].translate(None, _CONTINUATION_BYTES))
        counts[offset], place = count, offset
    return counts


def parts_without_address(pieces: Iterable[CitationPiece]) -> Iterable[str]:
    """The parts that the citations without an address are."""
    return (
        WITHOUT_ADDRESS[name]
        for piece in pieces
        if piece.url is None
        for name in piece.source
        if name in WITHOUT_ADDRESS
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def write_citations(pieces: Sequence[CitationPiece], text: str) -> Json:
    """The members of a candidate that say what this text of an answer rests on."""
    quoted = [piece for piece in pieces if piece.source.keys() & {"citation", "citationSource"}]
    members: Json = {}
    if citations := [each for piece in quoted for name, each in piece.source.items() if name == "citation"]:
        members["citations"] = citations
    if sources := [each for piece in quoted for name, each in piece.source.items() if name == "citationSource"]:
        members["citationSources"] = sources
    written: Json = {"citationMetadata": members} if members else {}
    grounded = [piece for piece in pieces if piece not in quoted]
    if not grounded:
        return written
    chunks: list[Json] = []
    supports: list[Json] = []
    for span, group in groupby(grounded, key=lambda piece: (piece.start, piece.end)):
        indices: list[int] = []
        scores: list[float] = []
        for piece in group:
            chunk = _write_chunk(piece)
            if chunk not in chunks:
                chunks.append(chunk)
            indices.append(chunks.index(chunk))
            scores += [piece.source["confidenceScore"]] if "confidenceScore" in piece.source else []
        support: Json = {"groundingChunkIndices": indices, **_write_segment(span, text)}
        supports.append(support | ({"confidenceScores": scores} if len(scores) == len(indices) else {}))
    return {**written, "groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports}}


def _write_chunk(piece: CitationPiece) -> Json:
    if isinstance(chunk := piece.source.get("groundingChunk"), dict):
        return cast("Json", chunk)
    members = {"uri": piece.url, "title": piece.title, "text": piece.quote}
    source = "web" if piece.quote is None else "retrievedContext"
    return {source: {name: value for name, value in members.items() if value is not None}}


def _write_segment(span: tuple[int | None, int | None], text: str) -> Json:
    start, end = span
    if start is None or end is None:
        return {}
    words = text[start:end]
    first = len(text[:start].encode())
    return {"segment": {"startIndex": first, "endIndex": first + len(words.encode()), "text": words}}
