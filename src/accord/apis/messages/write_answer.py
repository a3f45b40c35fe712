"""Answers and errors of the Messages API, whole or streamed. Pure; requests are in `codec.py` and `read_request.py`.

A whole answer is a list of content blocks, a streamed one opens and closes the same blocks, one at a time: while the
arguments of a call arrive, whatever else arrives is held back. A citation is of the text of its block, so text after it
begins another one. A call that was cut off has no block in a whole answer, where its arguments could only be complete.
`input_tokens` of a work order's usage counts all input; this API counts cached input separately. `MessagesStream.write`
is hot: a piece of text is encoded between two constants.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.apis.codec import FIRST_SERVER_STATUS, AnswerLabels, api_status, encode, typed_event
from accord.apis.messages.answer_rows import CITATION_TYPES
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

Json = dict[str, Any]

ERROR_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        408: "timeout_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
"""The API's names of errors, by HTTP status; any other status below 500 is an invalid request."""
MAX_DETAILS_BYTES: Final = 8192
THREAD_REFUSED: Final = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""Makes Anthropic's SDK send the whole conversation instead of the number of a stored one."""
TEXT_BLOCKS: Final = ("text", "cited")
"""Open blocks of text that may get a citation; after the first, they get no more text."""
BLANK: Final = " \t\r\n"


def write_answer(request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]) -> Json:  # noqa: ARG001 - the interface
    """The body of a whole answer; the API has no more than one."""
    pieces = answers[0]
    end = pieces[-1]
    if not isinstance(end, EndPiece):
        raise TypeError("the last piece of an answer is its end")
    content = _Content()
    for piece in pieces:
        content.add(piece)
    refuses = any(isinstance(piece, TextPiece) and piece.refusal for piece in pieces)
    return {
        **_message(labels),
        "content": content.finish(),
        "stop_reason": _stop_reason(end, refuses=refuses),
        "stop_sequence": end.stop_sequence,
        "usage": usage_counts(end),
        "accord": labels.accord,
    }


def write_error_event(error: AccordError, request_id: str) -> bytes:
    """The event that ends a stream with an error."""
    return typed_event(error_body(error, request_id))


def error_body(error: AccordError, request_id: str) -> Json:
    """The body of an error in Anthropic's shape, with Accord's own code and details beside it."""
    status = api_status(error)
    error_type = ERROR_TYPES.get(status) or ("api_error" if status >= FIRST_SERVER_STATUS else "invalid_request_error")
    described: Json = {"type": error_type, "message": error.message}
    if "thread" in (error.details.get("field"), *error.details.get("fields", ())):
        described["details"] = THREAD_REFUSED
    details = encode(error.details)
    accord: Json = {"code": str(error.code)}
    if error.details and len(details) <= MAX_DETAILS_BYTES:
        accord["details"] = msgspec.json.decode(details)
    return {"type": "error", "error": described, "request_id": request_id, "accord": accord}


def usage_counts(end: EndPiece) -> Json:
    """The usage in this API's names. Both totals are required; a count that the backend does not report is 0."""
    usage = end.usage or {}
    cached, created = usage.get("cached_input_tokens"), usage.get("cache_write_tokens")
    counts: Json = {"input_tokens": max(0, (usage.get("input_tokens") or 0) - (cached or 0) - (created or 0))}
    if created is not None:
        counts["cache_creation_input_tokens"] = created
    if cached is not None:
        counts["cache_read_input_tokens"] = cached
    counts["output_tokens"] = usage.get("output_tokens") or 0
    if (reasoning := usage.get("reasoning_tokens")) is not None:
        counts["output_tokens_details"] = {"thinking_tokens": reasoning}
    return {**counts, **tier_member(Api.MESSAGES, [end])}


class _Content:
    """The blocks of a whole answer. The last one may grow; its texts are joined at the end."""

    def __init__(self) -> None:
        self._blocks: Final[list[Json]] = []
        self._growing = ""

    def add(self, piece: AnyPiece) -> None:
        match piece:
            case TextPiece():
                self._grow("text", piece.text)
            case ThinkingPiece(redacted=True):
                self._append({"type": "redacted_thinking", "data": piece.signature or ""})
            case ThinkingPiece():
                self._think(piece)
            case CitationPiece():
                self._cite(piece)
            case ToolCallPiece(cut=False):
                self._append({**_call(piece), "input": _arguments(piece)})
            case _:
                pass

    def finish(self) -> list[Json]:
        for block in self._blocks:
            for name in {"text", "thinking"} & block.keys():
                block[name] = "".join(block[name])
        return self._blocks

    def _append(self, block: Json, growing: str = "") -> None:
        self._blocks.append(block)
        self._growing = growing

    def _grow(self, name: str, text: str) -> None:
        if not text:
            return
        if self._growing != name:
            self._append({"type": name, name: [], **({"signature": ""} if name == "thinking" else {})}, name)
        self._blocks[-1][name].append(text)

    def _think(self, piece: ThinkingPiece) -> None:
        self._grow("thinking", piece.text)
        if piece.signature is None:
            return
        if self._growing != "thinking":
            self._append({"type": "thinking", "thinking": []})
        # A signature is of everything since the last one: what follows is another block.
        self._blocks[-1]["signature"] = piece.signature
        self._growing = ""

    def _cite(self, piece: CitationPiece) -> None:
        citation = _citation(piece)
        if citation is None:
            return
        if self._growing not in TEXT_BLOCKS:
            self._append({"type": "text", "text": []})
        self._blocks[-1].setdefault("citations", []).append(citation)
        self._growing = "cited"


def _message(labels: AnswerLabels) -> Json:
    return {"id": f"msg_{labels.id}", "type": "message", "role": "assistant", "model": labels.model}


def _stop_reason(end: EndPiece, *, refuses: bool) -> str:
    """The API's name of the end; a refusal that the model spoke ends an answer by itself."""
    return "refusal" if refuses and end.reason == "end_turn" else end.reason


def _citation(piece: CitationPiece) -> Json | None:
    """A citation as this API has it; None if it has neither its form nor a URL."""
    if piece.source.get("type") in CITATION_TYPES:
        return dict(piece.source)
    if piece.url is None:
        return None
    members = {"cited_text": piece.quote or "", "encrypted_index": "", "title": piece.title, "url": piece.url}
    return {"type": "web_search_result_location", **members}


def _call(call: ToolCallPiece | ToolCallDelta) -> Json:
    """The start of a call. The API has no signatures of calls; clients that repeat the whole block send it back."""
    signature = call.signature if isinstance(call, ToolCallPiece) else None
    signed = {} if signature is None else {"signature": signature}
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}, **signed}


def _arguments(piece: ToolCallPiece) -> Any:
    """The arguments of a complete call; a tool that takes text gets it as its `input`."""
    return {"input": piece.input} if piece.custom else piece.input


@dataclass(slots=True)
class _Call:
    """A call whose arguments arrive: how many characters of them did, and what is held back."""

    begin: ToolCallDelta | ToolCallPiece
    size: int = 0
    has_text: bool = False
    texts: list[str] = field(default_factory=list[str])
    complete: ToolCallPiece | None = None

    def write(self, text: str) -> str:
        """What is written for more of the arguments."""
        self.size += len(text)
        if self.begin.custom:
            text = encode(text).decode()[1:-1]
            prefix = "" if self.has_text or not text else '{"input":"'
        else:
            text = text if self.has_text else text.lstrip(BLANK)  # Anthropic's SDK fails at a delta without a value
            prefix = ""
        self.has_text = self.has_text or bool(text)
        return prefix + text

    def write_rest(self, piece: ToolCallPiece) -> str:
        """What is still to be written now that the call is complete, or was cut off."""
        if piece.cut:
            return self.write(str(piece.input)[self.size :])
        if piece.custom and self.has_text:
            return self.write(str(piece.input)[self.size :]) + '"}'
        return "" if self.has_text else encode(_arguments(piece)).decode()


class MessagesStream:
    """The state of one streamed answer. At most one block is open: of text, of thinking, or of a call."""

    __slots__ = (
        "_block",
        "_call",
        "_index",
        "_labels",
        "_refuses",
        "_text_start",
        "_thought_start",
        "_waiting",
        "_waiting_calls",
    )

    def __init__(self, labels: AnswerLabels) -> None:
        self._labels: Final = labels
        self._index = -1
        self._block: str | None = None
        self._text_start = self._thought_start = b""
        self._refuses = False
        self._call: _Call | None = None
        self._waiting: Final = deque[AnyPiece | _Call]()
        self._waiting_calls: Final[dict[str, _Call]] = {}

    def start(self) -> bytes:
        """The first event, with the labels. The usage is known at the end only, and then complete."""
        empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": 0, "output_tokens": 0}
        message: Json = {**_message(self._labels), **empty, "usage": usage}
        return typed_event({"type": "message_start", "message": message, "accord": self._labels.accord})

    def write(self, piece: AnyPiece, answer: int = 0, label: Mapping[str, Any] | None = None) -> bytes:  # noqa: ARG002 - the API has no further answers
        """The events for one piece."""
        match piece:
            case TextPiece() if self._block == "text":
                if piece.refusal:
                    self._refuses = True
                return self._text_start + encode(piece.text) + b"}}\n\n"
            case EndPiece():
                return self._end(piece, label)
            case _:
                return self._write(piece) if self._call is None else self._write_beside(self._call, piece)

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends the stream with an error."""
        return write_error_event(error, request_id)

    def finish(self) -> bytes:
        """The last event."""
        return b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def _write(self, piece: AnyPiece) -> bytes:
        """The events for a piece while no call is open."""
        match piece:
            case TextPiece():
                self._refuses = self._refuses or piece.refusal
                return self._open("text") + self._text_start + encode(piece.text) + b"}}\n\n" if piece.text else b""
            case ThinkingPiece(redacted=True):
                redacted: Json = {"type": "redacted_thinking", "data": piece.signature or ""}
                return self._close() + self._begin(redacted) + self._close()
            case ThinkingPiece():
                return self._think(piece)
            case ToolCallDelta():
                self._call = _Call(piece)
                return self._close() + self._begin(_call(piece)) + self._add(self._call.write(piece.text))
            case ToolCallPiece():
                call = _Call(piece)
                return self._close() + self._begin(_call(piece)) + self._add(call.write_rest(piece)) + self._close()
            case CitationPiece():
                return self._cite(piece)
            case MediaPiece() | WorkPiece() | EndPiece():
                return b""
            case _:
                assert_never(piece)

    def _write_beside(self, call: _Call, piece: AnyPiece) -> bytes:
        """The events for a piece while a call is open; what is not of this call is held back until it is complete."""
        match piece:
            case ToolCallDelta(id=call.begin.id):
                return self._add(call.write(piece.text))
            case ToolCallPiece(id=call.begin.id):
                return self._complete(call, piece) + self._release()
            case ToolCallDelta():
                waiting = self._waiting_calls.get(piece.id)
                if waiting is None:
                    waiting = self._waiting_calls[piece.id] = _Call(piece)
                    self._waiting.append(waiting)
                waiting.texts.append(piece.text)
            case ToolCallPiece() if (waiting := self._waiting_calls.pop(piece.id, None)) is not None:
                waiting.complete = piece
            case _:
                self._waiting.append(piece)
        return b""

    def _release(self) -> bytes:
        """The events for what was held back, up to the next call that is not complete."""
        events: list[bytes] = []
        while self._waiting and self._call is None:
            waiting = self._waiting.popleft()
            if not isinstance(waiting, _Call):
                events.append(self._write(waiting))
                continue
            self._call = waiting
            arguments = waiting.write("".join(waiting.texts))
            events += [self._close(), self._begin(_call(waiting.begin)), self._add(arguments)]
            if waiting.complete is not None:
                events.append(self._complete(waiting, waiting.complete))
            else:
                self._waiting_calls.pop(waiting.begin.id)
        return b"".join(events)

    def _complete(self, call: _Call, piece: ToolCallPiece) -> bytes:
        self._call = None
        return self._add(call.write_rest(piece)) + self._close()

    def _end(self, end: EndPiece, label: Mapping[str, Any] | None) -> bytes:
        events = [self._close()]
        while self._call is not None:  # its end never came
            self._call = None
            events += [self._release(), self._close()]
        delta = {"stop_reason": _stop_reason(end, refuses=self._refuses), "stop_sequence": end.stop_sequence}
        ended: Json = {"type": "message_delta", "delta": delta, "usage": usage_counts(end)}
        ended |= {} if label is None else {"accord": label}
        return b"".join([*events, typed_event(ended)])

    def _think(self, piece: ThinkingPiece) -> bytes:
        if not piece.text and piece.signature is None:
            return b""
        opened = b"" if self._block == "thinking" else self._open("thinking")
        text = self._thought_start + encode(piece.text) + b"}}\n\n" if piece.text else b""
        if piece.signature is None:
            return opened + text
        # A signature is of everything since the last one: what follows is another block.
        signed = self._delta({"type": "signature_delta", "signature": piece.signature})
        return opened + text + signed + self._close()

    def _cite(self, piece: CitationPiece) -> bytes:
        citation = _citation(piece)
        if citation is None:
            return b""
        opened = b"" if self._block in TEXT_BLOCKS else self._open("text")
        self._block = "cited"
        return opened + self._delta({"type": "citations_delta", "citation": citation})

    def _open(self, block_type: str) -> bytes:
        """Close the open block and begin one of this kind."""
        signature = {"signature": ""} if block_type == "thinking" else {}
        opened = self._close() + self._begin({"type": block_type, block_type: "", **signature})
        self._block = block_type
        start = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":' % self._index
        )
        self._text_start = start + b'"text_delta","text":'
        self._thought_start = start + b'"thinking_delta","thinking":'
        return opened

    def _begin(self, block: Json) -> bytes:
        self._index += 1
        self._block = str(block["type"])
        return typed_event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _add(self, arguments: str) -> bytes:
        return self._delta({"type": "input_json_delta", "partial_json": arguments}) if arguments else b""

    def _delta(self, delta: Json) -> bytes:
        return typed_event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if self._block is None:
            return b""
        self._block = None
        return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index
