"""Answers and errors of the Messages API: the class that serves it. Pure; requests are in `request.py`.

A whole answer is a list of content blocks, a streamed one opens and closes the same blocks. `input_tokens` of a work
order's usage counts all input; this API counts cached input separately. `MessagesStream.write` is hot: a piece of text
is encoded between two constants.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.core.work.conversation import assistant_message
from accord.core.work.fields import Api, ModelRequest
from accord.errors import AccordError
from accord.servers.anthropic.request import count_request, parse_request
from accord.servers.translation import AnswerLabels, api_status
from accord.wire.conversation import MessagePart, TextPart, ThinkingPart, ToolUsePart
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece

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
FIRST_SERVER_ERROR: Final = 500
MAX_DETAILS_BYTES: Final = 8192
THREAD_REFUSED: Final = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""Makes Anthropic's SDK send the whole conversation instead of the number of a stored one."""


def _plain(value: Any) -> Any:
    """What msgspec cannot encode: the read-only mappings of errors become objects, anything else its text."""
    return dict(value) if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


_encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder(enc_hook=_plain).encode


class MessagesTranslation:
    """`POST /v1/messages` and `POST /v1/messages/count_tokens`."""

    @property
    def api(self) -> Api:
        """Its name in the table of fields."""
        return Api.MESSAGES

    def parse(self, body: Json) -> ModelRequest:
        """Translate a request."""
        return parse_request(body)

    def parse_count(self, body: Json) -> ModelRequest:
        """Translate a request to count tokens."""
        return count_request(body)

    def whole(self, request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]) -> Json:  # noqa: ARG002 - the interface
        """The body of a whole answer; the API has no more than one."""
        pieces = answers[0]
        end = pieces[-1]
        if not isinstance(end, EndPiece):
            raise TypeError("the last piece of an answer is its end")
        return {
            **_message(labels),
            "content": [_block(part) for part in assistant_message(pieces).content],
            "stop_reason": end.reason,
            "stop_sequence": end.stop_sequence,
            "usage": usage_counts(end),
            "accord": labels.accord,
        }

    def stream(self, request: ModelRequest, labels: AnswerLabels) -> "MessagesStream":  # noqa: ARG002 - the interface
        """A writer for one streamed answer."""
        return MessagesStream(labels)

    def error_body(self, error: AccordError, request_id: str) -> Json:
        """The body of an error."""
        return error_body(error, request_id)

    def error_event(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends a stream which was passed on as it came."""
        return _event("error", error_body(error, request_id))


def error_body(error: AccordError, request_id: str) -> Json:
    """The body of an error in Anthropic's shape, with Accord's own code and details beside it."""
    status = api_status(error)
    kind = ERROR_TYPES.get(status) or ("api_error" if status >= FIRST_SERVER_ERROR else "invalid_request_error")
    described: Json = {"type": kind, "message": error.message}
    if "thread" in (error.details.get("field"), *error.details.get("fields", ())):
        described["details"] = THREAD_REFUSED
    details = _encode(error.details)
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
    return counts


def _message(labels: AnswerLabels) -> Json:
    return {"id": f"msg_{labels.id}", "type": "message", "role": "assistant", "model": labels.model}


def _block(part: MessagePart) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart(redacted=True):
            return {"type": "redacted_thinking", "data": part.signature or ""}
        case ThinkingPart():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case ToolUsePart():
            return {**_call(part), "input": part.input}
        case _:
            raise TypeError(f"an answer has no part of the type {part.type}")


def _call(call: ToolUsePart | ToolCallPiece) -> Json:
    """The start of a call. The API has no signatures of calls; clients that repeat the whole block send it back."""
    signature = {} if call.signature is None else {"signature": call.signature}
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}, **signature}


def _event(name: str, data: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode(data))


class MessagesStream:
    """The state of one streamed answer. At most one block is open: of text, or of thinking."""

    __slots__ = ("_block", "_index", "_labels", "_text_start", "_thought_start")

    def __init__(self, labels: AnswerLabels) -> None:
        self._labels: Final = labels
        self._index = -1
        self._block: str | None = None
        self._text_start = self._thought_start = b""

    def start(self) -> bytes:
        """The first event, with the labels. The usage is known at the end only, and then complete."""
        empty: Json = {"content": [], "stop_reason": None, "stop_sequence": None}
        usage = {"input_tokens": 0, "output_tokens": 0}
        message: Json = {**_message(self._labels), **empty, "usage": usage}
        return _event("message_start", {"type": "message_start", "message": message, "accord": self._labels.accord})

    def write(self, piece: AnyPiece, answer: int = 0) -> bytes:  # noqa: ARG002 - the API has no further answers
        """The events for one piece."""
        match piece:
            case TextPiece():
                if self._block == "text":
                    return self._text_start + _encode(piece.text) + b"}}\n\n"
                return self._open("text") + self._text_start + _encode(piece.text) + b"}}\n\n" if piece.text else b""
            case ThinkingPiece(redacted=True):
                return self._whole_block({"type": "redacted_thinking", "data": piece.signature or ""})
            case ThinkingPiece():
                return self._think(piece)
            case ToolCallPiece():
                arguments = {"type": "input_json_delta", "partial_json": _encode(piece.input).decode()}
                return self._whole_block(_call(piece), arguments)
            case WorkPiece():
                return b""
            case EndPiece():
                delta = {"stop_reason": piece.reason, "stop_sequence": piece.stop_sequence}
                ended = {"type": "message_delta", "delta": delta, "usage": usage_counts(piece)}
                return self._close() + _event("message_delta", ended)
            case _:
                assert_never(piece)

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends the stream with an error."""
        return _event("error", error_body(error, request_id))

    def finish(self) -> bytes:
        """The last event."""
        return b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def _think(self, piece: ThinkingPiece) -> bytes:
        if not piece.text and piece.signature is None:
            return b""
        opened = b"" if self._block == "thinking" else self._open("thinking")
        text = self._thought_start + _encode(piece.text) + b"}}\n\n" if piece.text else b""
        if piece.signature is None:
            return opened + text
        # A signature is of everything since the last one: what follows is another block.
        signed = self._delta({"type": "signature_delta", "signature": piece.signature})
        return opened + text + signed + self._close()

    def _open(self, kind: str) -> bytes:
        """Close the open block and begin one of this kind."""
        blank = (
            {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}
        )
        closed = self._close()
        begun = self._begin(blank)
        self._block = kind
        start = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":' % self._index
        )
        self._text_start = start + b'"text_delta","text":'
        self._thought_start = start + b'"thinking_delta","thinking":'
        return closed + begun

    def _whole_block(self, block: Json, *deltas: Json) -> bytes:
        events = [self._close(), self._begin(block), *map(self._delta, deltas)]
        self._block = str(block["type"])
        return b"".join([*events, self._close()])

    def _begin(self, block: Json) -> bytes:
        self._index += 1
        return _event(
            "content_block_start", {"type": "content_block_start", "index": self._index, "content_block": block}
        )

    def _delta(self, delta: Json) -> bytes:
        return _event("content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> bytes:
        if self._block is None:
            return b""
        self._block = None
        return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index
