"""Reads answers of the responses API, streamed or whole.

A stream is a story of items: what each is told as it grows counts, and the whole response at the end fills in what a
server did not tell on the way. Only that end completes an answer.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from accord.backends.models.api import Broken, Told
from accord.backends.models.openai.chat_answer import DONE
from accord.backends.models.openai.failure import explained_by
from accord.backends.models.openai.parts import arguments_of
from accord.core.sse import ServerEvent
from accord.wire.answer import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

TEXT_DELTA: Final = "response.output_text.delta"
INCOMPLETE: Final[Mapping[str, EndReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "max_tokens": "max_tokens", "content_filter": "refusal"}
)
ENDED: Final = frozenset({"completed", "incomplete"})


class _Content(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str = ""
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Content] | None = None
    summary: list[_Content] | None = None
    encrypted_content: str | None = None


class _InputDetails(Struct):
    cached_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _Event(Struct):
    type: str = ""
    delta: Any = None
    item: _Item | None = None
    response: _Response | None = None
    summary_index: int | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_whole: Final = msgspec.json.Decoder(_Response).decode


class ResponsesReading:
    """One answer while it is read."""

    __slots__ = ("_has_called", "_has_refused", "_has_spoken", "_has_thought", "_told")

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._has_called = False
        self._has_refused = False
        self._has_spoken = False
        self._has_thought = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces that this event completes."""
        data = event.data
        if data.startswith(DONE):
            return ()
        try:
            told = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Broken("an event is not what the API says") from None
        if told.type == TEXT_DELTA:
            self._has_spoken = True
            return (TextPiece(text=told.delta),) if told.delta and isinstance(told.delta, str) else ()
        if told.type == "error" or told.error or event.name == "error":
            raise Told(explained_by(msgspec.json.decode(data)))
        return self._rarer(told)

    def finish(self) -> Sequence[AnyPiece]:
        """Nothing: an answer that is complete has said so."""
        raise Broken("the stream ended before the answer did")

    def ended(self, response: _Response) -> Sequence[AnyPiece]:
        """The end of an answer, with all that was not told before."""
        if response.error or response.status in ("failed", "cancelled"):
            raise Told(explained_by(response.error))
        if response.status not in ENDED:
            raise Broken("the answer is not complete")
        pieces = [piece for item in response.output or () for piece in self._untold(item)]
        return [*pieces, EndPiece.trusted(reason=self._reason(response), usage=_neutral(response.usage))]

    def _rarer(self, told: _Event) -> Sequence[AnyPiece]:
        match told.type:
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thought(told.delta)
            case "response.reasoning_summary_part.added" if told.summary_index and self._has_thought:
                return self._thought("\n\n")
            case "response.refusal.delta":
                self._has_refused = self._has_spoken = True
                return (TextPiece(text=told.delta),) if told.delta and isinstance(told.delta, str) else ()
            case "response.output_item.done" if told.item is not None:
                return self._item(told.item)
            case "response.completed" | "response.incomplete" | "response.failed":
                return self.ended(told.response or _Response())
            case _:
                return ()

    def _thought(self, text: Any) -> Sequence[AnyPiece]:
        if not text or not isinstance(text, str):
            return ()
        self._has_thought = True
        return (ThinkingPiece(text=text),)

    def _item(self, item: _Item) -> Sequence[AnyPiece]:
        """What only an item as a whole tells: a call, and the seal on reasoning."""
        if item.type == "function_call":
            return (self._call(item),)
        if item.type == "reasoning" and item.encrypted_content:
            is_seal_only, self._has_thought = not self._has_thought, False
            seal = item.encrypted_content
            self._told.add(seal)
            return (ThinkingPiece(text="", signature=seal, redacted=is_seal_only),)
        return ()

    def _call(self, item: _Item) -> ToolCallPiece:
        if not item.name or not item.call_id:
            raise Broken("a call has no name or no id")
        self._has_called = True
        self._told.add(item.call_id)
        given = arguments_of(item.arguments or "", is_cut=item.status == "incomplete")
        return ToolCallPiece.trusted(id=item.call_id, name=item.name, input=given)

    def _untold(self, item: _Item) -> Sequence[AnyPiece]:
        """The pieces of an item, but for those that were told as it grew."""
        match item.type:
            case "function_call" if item.call_id not in self._told:
                return (self._call(item),)
            case "message" if not self._has_spoken:
                return [piece for content in item.content or () for piece in self._said(content)]
            case "reasoning" if item.encrypted_content not in self._told and not self._has_thought:
                texts = [content.text for content in (*(item.summary or ()), *(item.content or ())) if content.text]
                thoughts = self._thought("\n\n".join(texts))
                sealed = self._item(item)
                self._has_thought = False
                return [*thoughts, *sealed]
            case _:
                return ()

    def _said(self, content: _Content) -> Sequence[AnyPiece]:
        if content.refusal:
            self._has_refused = True
        text = content.text or content.refusal
        return (TextPiece(text=text),) if text else ()

    def _reason(self, response: _Response) -> EndReason:
        if self._has_refused:
            return "refusal"
        why = response.incomplete_details.reason if response.incomplete_details else None
        if response.status == "incomplete":
            return INCOMPLETE.get(why or "", "max_tokens")
        return "tool_use" if self._has_called else "end_turn"


def read_whole(body: bytes) -> Sequence[AnyPiece]:
    """The pieces of an answer that came at once."""
    try:
        response = _decode_whole(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Broken("it is not what the API says") from None
    return ResponsesReading().ended(response)


def _neutral(usage: _Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    told = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.input_tokens_details and usage.input_tokens_details.cached_tokens,
        "reasoning_tokens": usage.output_tokens_details and usage.output_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in told.items() if count is not None}
