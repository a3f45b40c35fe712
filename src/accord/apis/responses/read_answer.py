"""OpenAI's responses API: the answer, streamed or whole. Pure; it does no I/O.

A stream is a sequence of items. Deltas count as they come, and the complete response at the end fills in what a server
did not send before. Only that end completes an answer. A whole answer is such an end, before which nothing came.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from accord.apis.answers import add_part
from accord.apis.chat.read_answer import DONE
from accord.apis.codec import MalformedAnswerError, ReportedError, convert, parse_object
from accord.apis.openai.endpoint import failure_report
from accord.apis.openai.parts import LikelyToken, parse_arguments, read_logprob, read_signature
from accord.apis.responses.answer_rows import ANNOTATIONS, FINDER, ROWS
from accord.apis.responses.tools import joined_name
from accord.apis.usage import read_counts
from accord.core.sse import ServerEvent
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    EndReason,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
)

TEXT_DELTA: Final = "response.output_text.delta"
REFUSAL_DELTA: Final = "response.refusal.delta"
DELTAS: Final = frozenset(
    {
        TEXT_DELTA,
        REFUSAL_DELTA,
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
    }
)
"""The events that add text to something."""
PARTS_ADDED: Final = frozenset(
    {"response.content_part.added", "response.reasoning_part.added", "response.reasoning_summary_part.added"}
)
LAST_EVENTS: Final = frozenset({"response.completed", "response.incomplete"})
"""The events that end a stream, with the complete response."""
FAILED_EVENTS: Final = frozenset({"response.failed", "response.cancelled"})
_READ: Final = """
    created in_progress queued output_item.added output_item.done output_text.annotation.added audio.delta
    audio.transcript.delta image_generation_call.partial_image
"""
_REPEATED: Final = """
    output_text.done refusal.done content_part.done reasoning_part.done reasoning_summary_part.done
    reasoning_summary_text.done reasoning_text.done function_call_arguments.done custom_tool_call_input.done audio.done
    audio.transcript.done code_interpreter_call.completed code_interpreter_call.in_progress
    code_interpreter_call.interpreting code_interpreter_call_code.delta code_interpreter_call_code.done
    compaction.compacting file_search_call.completed file_search_call.in_progress file_search_call.searching
    image_generation_call.completed image_generation_call.generating image_generation_call.in_progress
    mcp_call.completed mcp_call.failed mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done
    mcp_list_tools.completed mcp_list_tools.failed mcp_list_tools.in_progress shell_call_command.added
    shell_call_command.delta shell_call_command.done shell_call_output_content.delta shell_call_output_content.done
    web_search_call.completed web_search_call.in_progress web_search_call.searching
"""
"""What these say, the complete items say, too."""
EVENTS: Final = (
    DELTAS | PARTS_ADDED | LAST_EVENTS | FAILED_EVENTS | {f"response.{name}" for name in (_READ + _REPEATED).split()}
)
"""The events that are known; some have rows."""
MEMBERS: Final = frozenset(
    "type sequence_number response item part annotation delta text refusal arguments input code command output item_id "
    "output_index content_index summary_index annotation_index command_index partial_image_b64 partial_image_index "
    "background output_format quality size status logprobs obfuscation error".split()
)
"""What these events have; another member is a part without a row."""

INCOMPLETE: Final[Mapping[str, EndReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "max_tokens": "max_tokens", "content_filter": "refusal"}
)
LABEL: Final = "accord"
REASON: Final = "incomplete_details.reason"
NO_IMAGE: Final = "output[].image_generation_call=none"
"""An item without its image, which has nothing that could be carried."""
ENDED: Final = frozenset({"completed", "incomplete"})
FAILED: Final = frozenset({"failed", "cancelled"})
CITATIONS: Final = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path"})
MEDIA_SUBTYPES: Final[Mapping[str, str]] = MappingProxyType({"svg": "svg+xml"})
"""Where a format of images is not the second part of its media type."""
SOUND: Final = "audio/*"
"""The API does not say which format its sound has."""


class _ResponsesDelta(Struct, forbid_unknown_fields=True):
    """A plain event: a text, and the place where it belongs. Nearly every event of a stream is one."""

    type: str
    delta: str
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    sequence_number: int | None = None
    logprobs: msgspec.Raw = msgspec.Raw()
    """The complete item has them, too."""
    obfuscation: str | None = None
    """Fills events up to the same length."""


class _ResponsesContent(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    logprobs: list[LikelyToken] | None = None
    annotations: list[dict[str, Any]] | None = None


class _ResponsesMessage(Struct):
    content: list[_ResponsesContent] | None = None


class _ResponsesReasoning(Struct):
    content: list[_ResponsesContent] | None = None
    summary: list[_ResponsesContent] | None = None
    encrypted_content: str | None = None


class _ResponsesCall(Struct):
    type: str
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    extra_content: Any = None

    @property
    def is_custom(self) -> bool:
        return self.type == "custom_tool_call"

    @property
    def text(self) -> str:
        return (self.input if self.is_custom else self.arguments) or ""

    @property
    def signature(self) -> str | None:
        return read_signature(self.extra_content)


class _ResponsesImage(Struct):
    result: str | None = None
    output_format: str | None = None


class _ResponsesIncomplete(Struct):
    reason: str | None = None


class _ResponsesResponse(Struct):
    status: str | None = None
    model: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: _ResponsesIncomplete | None = None
    service_tier: str | None = None
    error: Any = None


_decode_delta: Final = msgspec.json.Decoder(_ResponsesDelta).decode


class _ResponsesCallSoFar:
    """A call while its arguments arrive: its first piece, and the texts so far."""

    __slots__ = ("start", "texts")

    def __init__(self, start: ToolCallDelta) -> None:
        self.start: Final = start
        self.texts: Final[list[str]] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def add(self, text: str) -> ToolCallDelta:
        self.texts.append(text)
        return ToolCallDelta(id=self.start.id, name=self.start.name, text=text, custom=self.start.custom)

    def rest(self, text: str) -> Sequence[ToolCallDelta]:
        """What of the complete text did not come yet."""
        so_far = self.text
        if text.startswith(so_far):
            return (self.add(text[len(so_far) :]),) if text != so_far else ()
        if not self.start.custom and _is_same_json(text, so_far):
            return ()
        raise MalformedAnswerError("a call is not what its deltas said")

    def as_item(self) -> _ResponsesCall:
        """The call as far as it came."""
        start, text = self.start, self.text
        if start.custom:
            return _ResponsesCall("custom_tool_call", call_id=start.id, name=start.name, input=text)
        return _ResponsesCall("function_call", call_id=start.id, name=start.name, arguments=text)


class _StreamedText:
    """The text that came as deltas, compared with that of the complete response, of which `length` was read."""

    __slots__ = ("_rest", "length")

    def __init__(self, text: str) -> None:
        self._rest: str | None = text
        self.length = 0

    def take(self, text: str) -> str:
        """What of the next text did not come; nothing, if other text came in its place."""
        self.length += len(text)
        rest = self._rest
        if rest is None or rest.startswith(text):
            self._rest = rest and rest[len(text) :]
            return ""
        self._rest = "" if text.startswith(rest) else None
        return "" if self._rest is None else text[len(rest) :]


class ResponsesReader:
    """The state of one answer while its events arrive.

    `_texts` is the text so far, and `_offset` is where in it the current part begins. `_open` are the calls that have
    begun, by their ids, and `_places` the same by the number and by the id of their items. Of what was returned,
    `_complete` are the calls by their ids, `_signatures` those of reasoning, and `_citations` and `_images` numbers.
    `_items` are the complete items, which count if the last event has none.
    """

    __slots__ = (
        "_citations",
        "_complete",
        "_has_called",
        "_has_refused",
        "_has_thinking",
        "_images",
        "_is_cut",
        "_is_thinking",
        "_items",
        "_offset",
        "_open",
        "_parts",
        "_places",
        "_signatures",
        "_sound",
        "_texts",
        "_transcript",
        "model",
    )

    def __init__(self) -> None:
        self.model: str | None = None
        self._parts: dict[str, None] = {}
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, _ResponsesCallSoFar] = {}
        self._places: dict[int | str, _ResponsesCallSoFar] = {}
        self._complete: dict[str, ToolCallPiece] = {}
        self._signatures: set[str] = set()
        self._texts: list[str] = []
        self._offset = self._citations = self._images = 0
        self._sound: list[str] = []
        self._transcript: list[str] = []
        self._has_called = self._has_refused = self._has_thinking = self._is_thinking = self._is_cut = False

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        # Nearly every event is plain text, so that comes first, and nothing of it is looked up.
        try:
            delta = _decode_delta(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._feed_closely(event)
        if delta.type == TEXT_DELTA and delta.delta:
            self._texts.append(delta.delta)
            return (TextPiece(text=delta.delta),)
        if delta.type in DELTAS:
            return self._feed_delta(delta.type, delta.delta, delta.output_index, delta.item_id)
        return self._feed_closely(event)

    def finish(self) -> Sequence[AnyPiece]:
        """Raise `MalformedAnswerError`: a complete answer ends with an event of its own."""
        raise MalformedAnswerError("the stream ended before the answer did")

    def end(self, members: dict[str, Any]) -> Sequence[AnyPiece]:
        """Return the end of an answer, after all that was not sent before."""
        response = convert(members, _ResponsesResponse)
        if response.error or response.status in FAILED:
            raise ReportedError(failure_report(response.error))
        if response.status not in ENDED:
            raise MalformedAnswerError("the answer is not complete")
        FINDER.find(members, self._parts)
        is_cut, items = response.status == "incomplete", response.output or self._items
        pieces = [*self._missing_pieces(items, is_cut=is_cut), *self._media()]
        if is_cut:
            reason = self._incomplete_reason(response.incomplete_details)
        elif self._has_refused:
            reason = "refusal"
        elif self._is_cut:
            reason = "max_tokens"
        else:
            reason = "tool_use" if self._has_called else "end_turn"
        end = EndPiece(
            reason=reason,
            model=response.model or self.model,
            usage=None if response.usage is None else read_usage(response.usage),
            logprobs=[*map(read_logprob, _tokens(items))] or None,
            service_tier=response.service_tier,
            parts=[*self._parts],
        )
        return [*pieces, end]

    def _incomplete_reason(self, details: _ResponsesIncomplete | None) -> EndReason:
        reason = (details.reason if details is not None else None) or "none"
        if reason not in INCOMPLETE:
            add_part(self._parts, f"{REASON}={reason}")
        return INCOMPLETE.get(reason, "max_tokens")

    def _feed_closely(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Read an event that is more than a text and its place, and note what of it has no row."""
        if event.data.startswith(DONE):
            return ()
        members = parse_object(event.data)
        name = members.get("type")
        if name == "error" or members.get("error") or event.name == "error":
            raise ReportedError(failure_report(members))
        if not isinstance(name, str) or name not in EVENTS:
            if name != "keepalive":
                add_part(self._parts, f"event.{name}")
            return ()
        self._note_event(name, members)
        if name in DELTAS:
            return self._feed_delta(name, members.get("delta"), members.get("output_index"), members.get("item_id"))
        if name in FAILED_EVENTS:
            raise ReportedError(failure_report(members))
        if name in LAST_EVENTS:
            response = members.get("response")
            return self.end(cast("dict[str, Any]", response) if isinstance(response, dict) else {})
        return self._feed_other(name, members)

    def _note_event(self, name: str, members: dict[str, Any]) -> None:
        """Note what of an event of a known type has a row, or has none."""
        if (part := f"event.{name}") in ROWS:
            self._parts[part] = None
        for member, value in members.items():
            if member not in MEMBERS and value not in (None, "", [], {}):
                add_part(self._parts, LABEL if member == LABEL else f"{part}.{member}")

    def _feed_delta(self, name: str, text: Any, index: Any, item_id: Any) -> Sequence[AnyPiece]:
        if text is None or text == "":
            return ()
        if not isinstance(text, str):
            raise MalformedAnswerError("a delta is no text")
        match name:
            case "response.output_text.delta" | "response.refusal.delta":
                is_refusal = name == REFUSAL_DELTA
                self._has_refused |= is_refusal
                self._texts.append(text)
                return (TextPiece(text=text, refusal=is_refusal),)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                call = self._places.get(item_id) if isinstance(item_id, str) else None
                call = call or (self._places.get(index) if isinstance(index, int) else None)
                return (call.add(text),) if call is not None and call.start.id not in self._complete else ()
            case _:
                self._has_thinking = self._is_thinking = True
                return (ThinkingPiece(text=text),)

    def _feed_other(self, name: str, members: dict[str, Any]) -> Sequence[AnyPiece]:
        match name, members:
            case "response.created" | "response.in_progress" | "response.queued", {"response": {"model": str(model)}}:
                self.model = self.model or model
            case "response.output_item.added", {"item": {"type": "function_call" | "custom_tool_call"}}:
                return self._begin_call(convert(members["item"], _ResponsesCall), members.get("output_index"))
            case "response.output_item.done", {"item": {}}:
                return self._end_item(members["item"])
            case "response.output_text.annotation.added", {"annotation": {}}:
                return self._cite(members["annotation"])
            case "response.audio.delta", {"delta": str(sound)}:
                self._sound.append(sound)
            case "response.audio.transcript.delta", {"delta": str(text)}:
                self._transcript.append(text)
            case _ if name in PARTS_ADDED:
                return self._begin_part(members.get("part"))
            case _:
                pass
        return ()

    def _begin_part(self, part: Any) -> Sequence[AnyPiece]:
        self._offset = sum(map(len, self._texts))
        is_text = isinstance(part, dict) and cast("dict[str, Any]", part).get("type") in ("output_text", "refusal")
        return (ThinkingPiece(text="\n\n"),) if self._is_thinking and not is_text else ()

    def _cite(self, annotation: dict[str, Any]) -> Sequence[AnyPiece]:
        FINDER.find_item(annotation, ANNOTATIONS, self._parts)
        pieces = _citations([annotation], self._offset)
        self._citations += len(pieces)
        return pieces

    def _begin_call(self, call: _ResponsesCall, index: Any) -> Sequence[AnyPiece]:
        # Some APIs have a signature only in the start of a call, so a signed call is not begun before it is complete.
        if not call.name or not call.call_id or call.signature is not None or call.call_id in self._open:
            return ()
        name = joined_name(call.namespace, call.name)
        start = ToolCallDelta(id=call.call_id, name=name, custom=call.is_custom)
        opened = self._open[call.call_id] = _ResponsesCallSoFar(start)
        if isinstance(index, int):
            self._places[index] = opened
        if call.id:
            self._places[call.id] = opened
        return (start,)

    def _end_item(self, item: dict[str, Any]) -> Sequence[AnyPiece]:
        """Return what only a complete item has: a call, an image, or the signature on reasoning."""
        self._items.append(item)
        FINDER.find_item(item, "output[]", self._parts)
        match item.get("type"):
            case "function_call" | "custom_tool_call":
                return self._complete_call(convert(item, _ResponsesCall))
            case "reasoning":
                return self._complete_reasoning(convert(item, _ResponsesReasoning))
            case "image_generation_call":
                images = self._read_images(item)
                self._images += len(images)
                return images
            case _:
                return ()

    def _missing_pieces(self, items: Sequence[dict[str, Any]], *, is_cut: bool) -> list[AnyPiece]:
        """Return the pieces of the complete items that did not come as events."""
        pieces: list[AnyPiece] = []
        text, complete = _StreamedText("".join(self._texts)), {*self._complete}
        for item in items:
            match item.get("type"):
                case "message":
                    pieces += self._missing_message(convert(item, _ResponsesMessage), text)
                case "function_call" | "custom_tool_call":
                    call = convert(item, _ResponsesCall)
                    if call.call_id not in complete:
                        pieces += self._complete_call(call, is_cut=is_cut, is_last=item is items[-1])
                case "reasoning":
                    pieces += self._missing_reasoning(convert(item, _ResponsesReasoning))
                case "image_generation_call":
                    images = self._read_images(item)
                    pieces += images[self._images :]
                    self._images = max(self._images - len(images), 0)
                case _:
                    pass
        for call in [call for call_id, call in self._open.items() if call_id not in self._complete]:
            pieces += self._complete_call(call.as_item(), is_cut=is_cut, is_last=True)
        return pieces

    def _missing_message(self, message: _ResponsesMessage, text: _StreamedText) -> list[AnyPiece]:
        pieces: list[AnyPiece] = []
        for part in message.content or ():
            is_refusal = not part.text and bool(part.refusal)
            self._has_refused |= is_refusal
            offset = text.length
            if rest := text.take(part.text or part.refusal or ""):
                pieces.append(TextPiece(text=rest, refusal=is_refusal))
            citations = _citations(part.annotations or (), offset)
            pieces += citations[self._citations :]
            self._citations = max(self._citations - len(citations), 0)
        return pieces

    def _missing_reasoning(self, item: _ResponsesReasoning) -> Sequence[AnyPiece]:
        # Without a signature, its text came as events if any did.
        has_come = item.encrypted_content in self._signatures if item.encrypted_content else self._has_thinking
        return () if has_come else self._complete_reasoning(item, is_end=True)

    def _complete_reasoning(self, item: _ResponsesReasoning, *, is_end: bool = False) -> Sequence[AnyPiece]:
        pieces: list[AnyPiece] = []
        text = "\n\n".join(part.text for part in (*(item.summary or ()), *(item.content or ())) if part.text)
        if text and not self._is_thinking:
            pieces.append(ThinkingPiece(text=text))
            self._has_thinking |= not is_end
        if (signature := item.encrypted_content) and signature not in self._signatures:
            self._signatures.add(signature)
            pieces.append(ThinkingPiece(text="", signature=signature, redacted=not text and not self._is_thinking))
        self._is_thinking = False
        return pieces

    def _complete_call(
        self, call: _ResponsesCall, *, is_cut: bool | None = None, is_last: bool = False
    ) -> Sequence[AnyPiece]:
        """Return a call after what of its text did not come as deltas; nothing while only the end can say if it is cut.

        `is_cut` says whether the answer was cut off, and is None before its end.
        """
        if not call.name or not call.call_id:
            raise MalformedAnswerError("a call has no name or no id")
        opened = self._open.get(call.call_id)
        text = call.text or (opened.text if opened is not None else "")
        if (value := _input(call, text, is_cut=is_cut, is_last=is_last)) is None:
            return ()
        self._has_called = True
        self._is_cut |= value[1]
        piece = ToolCallPiece(
            id=call.call_id,
            name=joined_name(call.namespace, call.name),
            input=value[0],
            signature=call.signature,
            custom=call.is_custom,
            cut=value[1],
        )
        if (same := self._complete.setdefault(call.call_id, piece)) is not piece:
            if same != piece:
                raise MalformedAnswerError("two calls have the same id")
            return ()
        return (*opened.rest(text), piece) if opened is not None else (piece,)

    def _read_images(self, item: dict[str, Any]) -> list[MediaPiece]:
        """Return the image of an item; none if it failed."""
        image = convert(item, _ResponsesImage)
        if not image.result:
            add_part(self._parts, NO_IMAGE)
            return []
        image_format = image.output_format or "png"
        media_type = f"image/{MEDIA_SUBTYPES.get(image_format, image_format)}"
        source = {name: value for name, value in item.items() if name != "result"}
        return [MediaPiece(media_type=media_type, data=image.result, source=source)]

    def _media(self) -> Sequence[AnyPiece]:
        """The sound of the answer, of which the complete response has nothing."""
        if not self._sound:
            return ()
        try:
            sound = b"".join(a2b_base64(part) for part in self._sound)
        except (Base64Error, ValueError):
            raise MalformedAnswerError("its sound is not in base64") from None
        data, transcript = b2a_base64(sound, newline=False).decode(), "".join(self._transcript) or None
        return (MediaPiece(media_type=SOUND, data=data, transcript=transcript),)


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    return ResponsesReader().end(parse_object(body))


def _is_same_json(text: str, other: str) -> bool:
    try:
        return parse_arguments(text) == parse_arguments(other)
    except MalformedAnswerError:
        return False


def _input(call: _ResponsesCall, text: str, *, is_cut: bool | None, is_last: bool) -> tuple[Any, bool] | None:
    """The input of a call, and whether it was cut off; None if only the end of the answer can say that."""
    if not call.is_custom and text.strip():
        try:
            return parse_arguments(text), False
        except MalformedAnswerError:
            if call.status == "incomplete" or is_cut:
                return text, True
            if is_cut is None:
                return None
            raise
    # The input of a custom tool does not show whether it is complete, nor do arguments that have not begun.
    if call.status == "incomplete" or (is_cut and is_last and call.status != "completed"):
        return text, True
    if is_cut is None and call.status != "completed":
        return None
    return (text if call.is_custom else {}), False


def _citations(annotations: Sequence[dict[str, Any]], offset: int) -> list[CitationPiece]:
    """The citations of a part of the text that begins here in the whole text."""
    return [
        CitationPiece(
            url=_text(each.get("url")),
            title=_text(each.get("title")) or _text(each.get("filename")),
            start=_place(each.get("start_index"), offset),
            end=_place(each.get("end_index"), offset),
            source=each,
        )
        for each in annotations
        if _text(each.get("type")) in CITATIONS
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _place(value: Any, offset: int) -> int | None:
    return offset + value if isinstance(value, int) else None


def _tokens(items: Sequence[dict[str, Any]]) -> list[LikelyToken]:
    messages = [convert(item, _ResponsesMessage) for item in items if item.get("type") == "message"]
    return [token for message in messages for part in message.content or () for token in part.logprobs or ()]


USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "input_tokens_details.cached_tokens": "cached_input_tokens",
        "input_tokens_details.cache_write_tokens": "cache_write_tokens",
        "output_tokens_details.reasoning_tokens": "reasoning_tokens",
    }
)


def read_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """The usage under the names that backends use."""
    return read_counts(usage, USAGE)
