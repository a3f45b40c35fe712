"""The rows of every API's answers together, and what they say of the parts of one answer. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accord.apis.answers import AnswerRow, read_rows
from accord.apis.chat.answer_rows import ROWS as CHAT
from accord.apis.gemini.answer_rows import ROWS as GEMINI
from accord.apis.messages.answer_rows import ROWS as MESSAGES
from accord.apis.responses.answer_rows import ROWS as RESPONSES
from accord.core.work.dispositions import API_NAMES
from accord.wire.disposition import AnswerDisposition, AnswerRecord, Api
from accord.wire.work import AnyPiece, CitationPiece, MediaPiece, ToolCallPiece, WorkPiece

TAKEN_APART: Final = "the answer was taken apart, and put together without it"
UNKNOWN_END: Final = "an end that no rule knows; the answer counts as cut off"
WORK: Final = "work"
"""Work of the backend itself, such as a tool that an agent runs."""
CUT_CALL: Final = "cut_call"
"""A tool call in whose arguments the answer was cut off."""
COMMON: Final = read_rows(f"""
{WORK} L L L
{CUT_CALL} N N L # a whole answer has no form for arguments that are not complete, and is without the call
image N N L
image=address N L L
sound N L L
file L L L
citation L L L # a source without an address
""")
"""Parts that answers of any API may have; of others than the model APIs, these are all that is known."""
UNNAMED: Final = frozenset({Api.ACP, Api.OTHER})
"""Backends that name no parts of their answers themselves."""

ANSWER_TABLE: Final[Mapping[Api, Mapping[str, AnswerRow]]] = MappingProxyType(
    {
        Api.CHAT: CHAT,
        Api.RESPONSES: RESPONSES,
        Api.MESSAGES: MESSAGES,
        Api.GEMINI: GEMINI,
        Api.ACP: COMMON,
        Api.OTHER: COMMON,
    }
)


def part_of(piece: AnyPiece, source: Api) -> str | None:
    """The common part that this piece is, if a client may not get it."""
    match piece:
        case WorkPiece():
            return WORK
        case ToolCallPiece(cut=True):
            return CUT_CALL
        case CitationPiece(url=None) if source in UNNAMED:
            return "citation"
        case MediaPiece() if source in UNNAMED:
            form = piece.media_type.partition("/")[0]
            return {"image": "image" if piece.data else "image=address", "audio": "sound"}.get(form, "file")
        case _:
            return None


def answer_records(source: Api, parts: Iterable[str], target: Api) -> list[AnswerRecord]:
    """What became of these parts of an answer of one API for a client of another; native ones are not listed."""
    rows = ANSWER_TABLE[source]
    no_place = TAKEN_APART if source is target else f"{API_NAMES[target]} has no place for it"
    records: list[AnswerRecord] = []
    for part in parts:
        row = rows.get(part) or COMMON.get(part)
        if row is not None:
            disposition, reason = row.cells[target], row.reason(target) or no_place
        elif "=" in part and part.partition("=")[0] in rows:
            disposition, reason = AnswerDisposition.CARRIED, UNKNOWN_END
        else:
            disposition, reason = AnswerDisposition.LOST, no_place
        if disposition is not AnswerDisposition.NATIVE:
            records.append(AnswerRecord(part=part, disposition=disposition, reason=reason))
    return records
