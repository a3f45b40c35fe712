"""The responses API: pieces of an answer become a response, or the events of a stream. Pure.

Both are one state machine: `ResponseWriter` collects the items of the output and makes the events on the way; for a
whole answer the events are not encoded. Reasoning is written as its summary, its signature as encrypted content. Text
in which the model refuses is a refusal; an answer that ends as one without such text was ended by a content filter.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.apis.codec import FIRST_SERVER_STATUS, AnswerLabels, typed_event
from accord.apis.openai.errors import error_body
from accord.apis.openai.parts import arguments_text, custom_input, signature_member, write_logprob
from accord.apis.responses.read_answer import CITATIONS, MEDIA_SUBTYPES
from accord.apis.responses.tools import PartialText, SpecialTool, special_tools
from accord.apis.usage import tier_member
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError
from accord.wire.disposition import Api
from accord.wire.work import (
    AnyPiece,
    CitationPiece,
    EndPiece,
    MediaPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallDelta,
    ToolCallPiece,
    WorkPiece,
)

INCOMPLETE: Final[Mapping[str, str]] = MappingProxyType(
    {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
)
"""The ends that leave a response incomplete, and what the API calls them."""

FAILURE_CODES: Final = frozenset(
    {"context_length_exceeded", "insufficient_quota", "rate_limit_exceeded", "server_is_overloaded"}
)
"""Codes that programs look for in a failed response; all others are `invalid_prompt` or `server_error`."""

DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "background": False,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "user": None,
    }
)
"""What a response repeats of its request, and what it says where the request says nothing."""

FORMATS: Final[Mapping[str, str]] = MappingProxyType({subtype: name for name, subtype in MEDIA_SUBTYPES.items()})

_MESSAGE: Final[Mapping[str, Any]] = MappingProxyType({"type": "message", "role": "assistant"})
_PARTS: Final = ("output_text", "refusal")
"""The parts of a message."""
_encode: Final = msgspec.json.Encoder().encode


def write_answer(request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]) -> dict[str, Any]:
    """The body of a whole answer; this API has one answer only."""
    writer = ResponseWriter(request, labels, streamed=False)
    for piece in answers[0]:
        writer.write(piece)
    return {**writer.response(), "accord": labels.accord}


def write_error_event(error: AccordError, request_id: str) -> bytes:
    """The events that end a stream whose writer is not at hand; `ResponseWriter.fail` knows more."""
    response = {
        "id": f"resp_{request_id.replace('-', '')}",
        "object": "response",
        "created_at": 0,
        "model": "",
        **DEFAULTS,
    }
    return _failed_events(response, [], 0, error, request_id)


class _WrittenResponsesCall:
    """A call while its input is written: its item without what the end adds, and the texts of its input so far.

    `member` has the input, and `events` begins the names of its events. A custom tool gets the `inner` text of the
    arguments of the function that stands for it.
    """

    __slots__ = ("events", "index", "inner", "item", "member", "texts")

    def __init__(self, index: int, item: dict[str, Any], inner: PartialText | None) -> None:
        is_custom = item["type"] == "custom_tool_call"
        self.index: Final = index
        self.item: Final = item
        self.member: Final = "input" if is_custom else "arguments"
        self.events: Final = f"response.{'custom_tool_call_input' if is_custom else 'function_call_arguments'}"
        self.texts: Final[list[str]] = []
        self.inner: Final = inner

    @property
    def place(self) -> dict[str, Any]:
        """Where the item is, as its events say it."""
        return {"item_id": self.item["id"], "output_index": self.index}


class ResponseWriter:
    """The state of one answer: the items of its output, complete or None, and those that are open.

    One message or reasoning is open at a time, and any number of calls, `_calls` by their ids. Of the open message,
    `_content` are the complete parts and `_texts` the texts of the open part, which begins at `_offset` of the whole
    text; `_delta` is the unchanging start of the events that add to it.
    """

    __slots__ = (
        "_annotations",
        "_base",
        "_calls",
        "_content",
        "_delta",
        "_end",
        "_end_label",
        "_has_refused",
        "_head",
        "_id",
        "_index",
        "_items",
        "_labels",
        "_offset",
        "_open",
        "_request",
        "_sequence",
        "_special",
        "_streamed",
        "_texts",
    )

    def __init__(self, request: ModelRequest, labels: AnswerLabels, *, streamed: bool = True) -> None:
        self._request: Final = request
        self._labels: Final = labels
        self._streamed: Final = streamed
        self._base: Final = _unchanging_members(request.body, labels)
        self._head = b""
        self._items: Final[list[dict[str, Any] | None]] = []
        self._calls: Final[dict[str, _WrittenResponsesCall]] = {}
        self._open = ""
        self._id = ""
        self._index = self._offset = 0
        self._content: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self._annotations: list[dict[str, Any]] = []
        self._delta = b""
        self._sequence = 0
        self._special: dict[str, SpecialTool] | None = None
        self._has_refused = False
        self._end: EndPiece | None = None
        self._end_label: Mapping[str, Any] | None = None

    def start(self) -> bytes:
        """Return the first events."""
        # What a response repeats of its request, tools above all, may be long: it is encoded once for three events.
        self._head = _encode(self._base)[:-1]
        response = self._encoded_response("in_progress")
        created = self._emit("response.created", response=response, accord=self._labels.accord)
        return created + self._emit("response.in_progress", response=response)

    def write(self, piece: AnyPiece, answer: int = 0, label: Mapping[str, Any] | None = None) -> bytes:  # noqa: ARG002, C901 - this API has one answer only; one case for each type of piece
        """Return the events for one piece."""
        match piece:
            case TextPiece():
                return self._write_text(piece.text, "refusal" if piece.refusal else "output_text")
            case ThinkingPiece():
                return self._write_thinking(piece)
            case ToolCallDelta():
                return self._continue_call(piece)
            case ToolCallPiece():
                return self._complete_call(piece)
            case CitationPiece():
                return self._write_citation(piece)
            case MediaPiece():
                return self._write_media(piece)
            case EndPiece():
                self._end_label = label
                return self._write_end(piece)
            case WorkPiece():
                return b""
            case _:
                assert_never(piece)

    def finish(self) -> bytes:
        """Return the event with the complete response."""
        status = self._status()
        label = {} if self._end_label is None else {"accord": self._end_label}
        return self._emit(f"response.{status}", response=self._encoded_response(status), **label)

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """Return the events that end the stream with an error."""
        return _failed_events(self._base, self._output(), self._sequence, error, request_id)

    def response(self) -> dict[str, Any]:
        """Return the response, complete after the `EndPiece`."""
        return {**self._base, **self._outcome(self._status() if self._end is not None else "in_progress")}

    def _status(self) -> str:
        reason = self._end.reason if self._end is not None else "end_turn"
        if reason == "refusal" and self._has_refused:
            return "completed"
        return "incomplete" if reason in INCOMPLETE else "completed"

    def _output(self) -> list[dict[str, Any]]:
        return [item for item in self._items if item is not None]

    def _outcome(self, status: str) -> dict[str, Any]:
        end = self._end
        details = {"reason": INCOMPLETE[end.reason]} if end is not None and status == "incomplete" else None
        return {
            "service_tier": None,
            **(tier_member(Api.RESPONSES, [end]) if end is not None else {}),
            "status": status,
            "error": None,
            "incomplete_details": details,
            "output": self._output(),
            "usage": _usage(end.usage) if end is not None else None,
        }

    def _encoded_response(self, status: str) -> msgspec.Raw:
        return msgspec.Raw(self._head + b"," + _encode(self._outcome(status))[1:])

    def _emit(self, event_type: str, **members: Any) -> bytes:
        if not self._streamed:
            return b""
        event = typed_event({"type": event_type, "sequence_number": self._sequence, **members})
        self._sequence += 1
        return event

    def _write_text(self, text: str, part: str) -> bytes:
        if not text:
            return b""
        opened = b"" if self._open == part else self._open_part(part)
        self._texts.append(text)
        return opened + self._text_delta(text)

    def _text_delta(self, text: str) -> bytes:
        # Nearly every event of a stream is one of these, so only the text and the number are encoded anew.
        if not self._streamed:
            return b""
        delta = b'%b%b,"sequence_number":%d}\n\n' % (self._delta, _encode(text), self._sequence)
        self._sequence += 1
        return delta

    def _add_item(self, prefix: str) -> tuple[str, int]:
        """Return the id and the number of the next item."""
        index = len(self._items)
        self._items.append(None)
        return f"{prefix}_{self._labels.id}{index}", index

    def _begin(self, prefix: str) -> None:
        self._id, self._index = self._add_item(prefix)
        self._texts = []

    def _prepare_delta(self, event_type: str, **members: Any) -> None:
        place = {"item_id": self._id, "output_index": self._index, **members}
        self._delta = typed_event({"type": event_type, **place}).removesuffix(b"}\n\n") + b',"delta":'

    def _open_part(self, part: str) -> bytes:
        """Open a part of a message, text or a refusal, after what else is open."""
        events = self._close_part() if self._open in _PARTS else self._close() + self._open_message()
        self._has_refused |= part == "refusal"
        self._open, self._texts, self._annotations = part, [], []
        if not self._streamed:
            return b""
        index = len(self._content)
        if part == "refusal":
            self._prepare_delta("response.refusal.delta", content_index=index)
            empty: dict[str, Any] = {"type": "refusal", "refusal": ""}
        else:
            self._prepare_delta("response.output_text.delta", content_index=index, logprobs=[])
            empty = _text_part("", [], [])
        return events + self._emit("response.content_part.added", **self._part_place(), part=empty)

    def _part_place(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self._index, "content_index": len(self._content)}

    def _open_message(self) -> bytes:
        self._begin("msg")
        self._content = []
        item: dict[str, Any] = {"id": self._id, **_MESSAGE, "status": "in_progress", "content": []}
        return self._emit("response.output_item.added", output_index=self._index, item=item)

    def _write_thinking(self, piece: ThinkingPiece) -> bytes:
        events = b""
        # Redacted reasoning is no signature of the text before it.
        if (self._open != "reasoning" and (piece.text or piece.signature)) or piece.redacted:
            events = self._close() + self._open_reasoning()
        if piece.text:
            if not self._texts:
                events += self._emit_summary("response.reasoning_summary_part.added", part=_summary(""))
            self._texts.append(piece.text)
            events += self._text_delta(piece.text)
        # A signature is the last piece of its reasoning.
        return events + self._close_reasoning(piece.signature) if piece.signature else events

    def _open_reasoning(self) -> bytes:
        self._begin("rs")
        self._open = "reasoning"
        if not self._streamed:
            return b""
        self._prepare_delta("response.reasoning_summary_text.delta", summary_index=0)
        item: dict[str, Any] = {"id": self._id, "type": "reasoning", "status": "in_progress", "summary": []}
        return self._emit("response.output_item.added", output_index=self._index, item=item)

    def _emit_summary(self, event_type: str, **members: Any) -> bytes:
        return self._emit(event_type, item_id=self._id, output_index=self._index, summary_index=0, **members)

    def _close(self) -> bytes:
        """Return the events that complete the open message or reasoning, if there is one."""
        if self._open in _PARTS:
            return self._close_part() + self._close_message()
        return self._close_reasoning(None) if self._open else b""

    def _close_reasoning(self, signature: str | None) -> bytes:
        text, events = "".join(self._texts), b""
        if text:
            events = self._emit_summary("response.reasoning_summary_text.done", text=text)
            events += self._emit_summary("response.reasoning_summary_part.done", part=_summary(text))
        item: dict[str, Any] = {"id": self._id, "type": "reasoning", "status": self._status()}
        item["summary"] = [_summary(text)] if text else []
        item["encrypted_content"] = signature
        self._open = ""
        return events + self._complete(self._index, item)

    def _close_part(self) -> bytes:
        text, place = "".join(self._texts), self._part_place()
        self._offset += len(text)
        if self._open == "refusal":
            part: dict[str, Any] = {"type": "refusal", "refusal": text}
            events = self._emit("response.refusal.done", **place, refusal=text)
        else:
            part = _text_part(text, self._annotations, _logprobs(self._end))
            events = self._emit("response.output_text.done", **place, text=text, logprobs=part["logprobs"])
        self._content.append(part)
        return events + self._emit("response.content_part.done", **place, part=part)

    def _close_message(self) -> bytes:
        self._open = ""
        item = {"id": self._id, **_MESSAGE, "status": self._status(), "content": self._content}
        return self._complete(self._index, item)

    def _complete(self, index: int, item: dict[str, Any]) -> bytes:
        self._items[index] = item
        return self._emit("response.output_item.done", output_index=index, item=item)

    def _write_end(self, piece: EndPiece) -> bytes:
        self._end, ends_in_text = piece, self._open == "output_text"
        events = self._close()
        if piece.logprobs and not ends_in_text:  # they belong to text that is complete
            parts = [part for item in self._output() if item["type"] == "message" for part in item["content"]]
            for part in [each for each in parts if each["type"] == "output_text"][-1:]:
                part["logprobs"] = _logprobs(piece)
        return events

    def _open_call(self, piece: ToolCallDelta | ToolCallPiece) -> tuple[_WrittenResponsesCall, bytes]:
        tool = self._special_tool(piece.name)
        is_custom = piece.custom or (tool is not None and tool.is_custom)
        events = self._close()
        item_id, index = self._add_item("ctc" if is_custom else "fc")
        item_type = "custom_tool_call" if is_custom else "function_call"
        item: dict[str, Any] = {"id": item_id, "type": item_type, "call_id": piece.id, "name": piece.name}
        if tool is not None:
            item["name"] = tool.name
            if tool.namespace is not None:
                item["namespace"] = tool.namespace
        if isinstance(piece, ToolCallPiece):
            item |= signature_member(piece.signature)
        call = _WrittenResponsesCall(index, item, PartialText() if is_custom and not piece.custom else None)
        opened = {**item, "status": "in_progress", call.member: ""}
        return call, events + self._emit("response.output_item.added", output_index=index, item=opened)

    def _special_tool(self, name: str) -> SpecialTool | None:
        if self._special is None:
            self._special = special_tools(self._request.body)
        return self._special.get(name)

    def _continue_call(self, piece: ToolCallDelta) -> bytes:
        call, events = self._calls.get(piece.id), b""
        if call is None:
            if (tool := self._special_tool(piece.name)) is not None and tool.is_shell:
                return b""  # its call has an action instead of arguments, and is written when it is complete
            call, events = self._open_call(piece)
            self._calls[piece.id] = call
        return events + self._add_input(call, piece.text if call.inner is None else call.inner.feed(piece.text))

    def _add_input(self, call: _WrittenResponsesCall, text: str) -> bytes:
        if not text:
            return b""
        call.texts.append(text)
        return self._emit(f"{call.events}.delta", **call.place, delta=text)

    def _complete_call(self, piece: ToolCallPiece) -> bytes:
        call, events = self._calls.pop(piece.id, None), b""
        if call is None:
            tool = self._special_tool(piece.name)
            if tool is not None and tool.is_shell and isinstance(piece.input, dict):
                return self._write_shell_call(piece)
            call, events = self._open_call(piece)
        written, text = "".join(call.texts), _input_text(piece, call)
        if not text.startswith(written):  # the same value in another form
            text = written
        events += self._add_input(call, text[len(written) :])
        events += self._emit(f"{call.events}.done", **call.place, **{call.member: text})
        status = "incomplete" if piece.cut else "completed"
        item = {**call.item, "status": status, call.member: text, **signature_member(piece.signature)}
        return events + self._complete(call.index, item)

    def _write_citation(self, piece: CitationPiece) -> bytes:
        name = piece.source.get("type")
        is_own = isinstance(name, str) and name in CITATIONS and (name != "url_citation" or "url" in piece.source)
        if not is_own and piece.url is None:
            return b""
        events = b"" if self._open == "output_text" else self._open_part("output_text")
        place = {**self._part_place(), "annotation_index": len(self._annotations)}
        own = piece.source if is_own else {"type": "url_citation", "url": piece.url, "title": piece.title or ""}
        annotation = {**own, **self._bounds(piece, is_own=is_own)}
        self._annotations.append(annotation)
        return events + self._emit("response.output_text.annotation.added", **place, annotation=annotation)

    def _bounds(self, piece: CitationPiece, *, is_own: bool) -> dict[str, int]:
        """Where the text that a citation is about begins and ends in the open part."""
        bounds = {"start_index": piece.start, "end_index": piece.end}
        if not is_own:  # the API requires both
            whole = {"start_index": 0, "end_index": self._offset + sum(map(len, self._texts))}
            bounds = {name: whole[name] if value is None else value for name, value in bounds.items()}
        return {name: max(value - self._offset, 0) for name, value in bounds.items() if value is not None}

    def _write_media(self, piece: MediaPiece) -> bytes:
        """Return the events of an image; the API has no place for other media, nor for the address of an image."""
        if piece.data is None or not piece.media_type.startswith("image/"):
            return b""
        events = self._close()
        item_id, index = self._add_item("ig")
        name = piece.media_type.removeprefix("image/")
        own = piece.source if piece.source.get("type") == "image_generation_call" else {}
        item = {"output_format": FORMATS.get(name, name), **own, "id": item_id, "type": "image_generation_call"}
        opened = {**item, "status": "in_progress", "result": None}
        events += self._emit("response.output_item.added", output_index=index, item=opened)
        events += self._emit("response.image_generation_call.completed", item_id=item_id, output_index=index)
        return events + self._complete(index, {**item, "status": "completed", "result": piece.data})

    def _write_shell_call(self, piece: ToolCallPiece) -> bytes:
        events = self._close()
        item_id, index = self._add_item("lsh")
        action: dict[str, Any] = {"type": "exec", "env": {}, **piece.input}
        item: dict[str, Any] = {"id": item_id, "type": "local_shell_call", "call_id": piece.id, "action": action}
        opened = {**item, "status": "in_progress"}
        events += self._emit("response.output_item.added", output_index=index, item=opened)
        return events + self._complete(index, {**item, "status": "completed"})


def _unchanging_members(body: Mapping[str, Any], labels: AnswerLabels) -> dict[str, Any]:
    """Return the members of a response that are the same from its first event to its last."""
    repeated = {name: default if (value := body.get(name)) is None else value for name, default in DEFAULTS.items()}
    for name in ("reasoning", "text"):
        repeated[name] = {**DEFAULTS[name], **repeated[name]}
    identity = {"id": f"resp_{labels.id}", "object": "response", "created_at": labels.created, "model": labels.model}
    return {**identity, **repeated}


def _failed_events(
    base: Mapping[str, Any], items: list[dict[str, Any]], sequence: int, error: AccordError, request_id: str
) -> bytes:
    """Return a failed response, which is what programs such as Codex read, and an error, which SDKs raise."""
    body = error_body(error, request_id)
    reported = body["error"]
    general = "invalid_prompt" if error.facts.http < FIRST_SERVER_STATUS else "server_error"
    code = reported["code"] if reported["code"] in FAILURE_CODES else general
    response = {
        **base,
        "service_tier": None,
        "status": "failed",
        "error": {"code": code, "message": error.message},
        "incomplete_details": None,
        "output": items,
        "usage": None,
    }
    failed = {"type": "response.failed", "sequence_number": sequence, "response": response}
    flat = {"code": reported["code"], "message": error.message, "param": reported["param"]}
    return typed_event(failed) + typed_event({"type": "error", "sequence_number": sequence + 1, **flat, **body})


def _summary(text: str) -> dict[str, str]:
    return {"type": "summary_text", "text": text}


def _text_part(text: str, annotations: list[dict[str, Any]], logprobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def _input_text(piece: ToolCallPiece, call: _WrittenResponsesCall) -> str:
    """The whole input of a call as its item has it; of one that was cut off, the text so far."""
    if piece.cut and call.inner is not None:
        return PartialText().feed(piece.input)
    if call.member == "input":
        return custom_input(piece.input)
    return piece.input if piece.cut else arguments_text(piece.input)


def _logprobs(end: EndPiece | None) -> list[dict[str, Any]]:
    return [*map(write_logprob, end.logprobs or ())] if end is not None else []


def _usage(counts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    input_tokens, output_tokens = counts.get("input_tokens") or 0, counts.get("output_tokens") or 0
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": counts.get("cached_input_tokens") or 0,
            "cache_write_tokens": counts.get("cache_write_tokens") or 0,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.get("reasoning_tokens") or 0},
        "total_tokens": input_tokens + output_tokens,
    }
