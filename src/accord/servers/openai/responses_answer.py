"""The responses API: pieces of an answer become a response, or the events of a stream. Pure.

Both are one state machine: `ResponseWriter` collects the items of the output and makes the events on the way; for a
whole answer the events are not encoded. Reasoning is written as its summary, its signature as encrypted content.

A stream learns only at its end that the model refused, so there a refusal is an answer that a content filter ended; a
whole answer has a refusal in place of its text.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.core.work.fields import Api, ModelRequest
from accord.errors import AccordError
from accord.servers.openai.errors import error_body
from accord.servers.openai.responses_request import parse
from accord.servers.openai.responses_tools import SpecialTool, special_tools
from accord.servers.translation import AnswerLabels
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece

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

_FIRST_SERVER_STATUS: Final = 500
_FUNCTION: Final = ("function_call", "arguments", "function_call_arguments")
_CUSTOM: Final = ("custom_tool_call", "input", "custom_tool_call_input")
"""The type of a call, the member with its input, and the name of its events."""
_encode: Final = msgspec.json.Encoder().encode


class ResponsesTranslation:
    """OpenAI's responses API."""

    @property
    def api(self) -> Api:
        """Its name in the table of fields."""
        return Api.RESPONSES

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        """Translate a request."""
        return parse(body)

    def whole(
        self, request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]
    ) -> dict[str, Any]:
        """Return the body of a whole answer; this API has one answer only."""
        pieces = answers[0]
        end = pieces[-1]
        refused = isinstance(end, EndPiece) and end.reason == "refusal"
        writer = ResponseWriter(request, labels, streamed=False, refused=refused)
        for piece in pieces:
            writer.write(piece)
        return {**writer.response(), "accord": labels.accord}

    def stream(self, request: ModelRequest, labels: AnswerLabels) -> "ResponseWriter":
        """Return a writer for one streamed answer."""
        return ResponseWriter(request, labels)

    def error_body(self, error: AccordError, request_id: str) -> dict[str, Any]:
        """Return the body of an error."""
        return error_body(error, request_id)

    def error_event(self, error: AccordError, request_id: str) -> bytes:
        """Return the events that end a stream whose writer is not at hand; `ResponseWriter.fail` knows more."""
        response = {
            "id": f"resp_{request_id.replace('-', '')}",
            "object": "response",
            "created_at": 0,
            "model": "",
            **DEFAULTS,
        }
        return _failed_events(response, [], 0, error, request_id)


class ResponseWriter:
    """The state of one answer: the complete items of its output, and the open one, a message or reasoning.

    `_texts` are the texts of the open item, and `_delta` is the unchanging start of the events that add to them.
    """

    __slots__ = (
        "_base",
        "_delta",
        "_end",
        "_head",
        "_id",
        "_items",
        "_labels",
        "_open",
        "_refused",
        "_request",
        "_sequence",
        "_special",
        "_streamed",
        "_texts",
    )

    def __init__(
        self, request: ModelRequest, labels: AnswerLabels, *, streamed: bool = True, refused: bool = False
    ) -> None:
        self._request: Final = request
        self._labels: Final = labels
        self._streamed: Final = streamed
        self._refused: Final = refused
        self._base: Final = _unchanging_members(request.body, labels)
        self._head = b""
        self._items: Final[list[dict[str, Any]]] = []
        self._open = ""
        self._id = ""
        self._texts: list[str] = []
        self._delta = b""
        self._sequence = 0
        self._special: dict[str, SpecialTool] | None = None
        self._end: EndPiece | None = None

    def start(self) -> bytes:
        """Return the first events."""
        # What a response repeats of its request, tools above all, may be long: it is encoded once for three events.
        self._head = _encode(self._base)[:-1]
        response = self._encoded_response("in_progress")
        created = self._emit("response.created", response=response, accord=self._labels.accord)
        return created + self._emit("response.in_progress", response=response)

    def write(self, piece: AnyPiece, answer: int = 0) -> bytes:  # noqa: ARG002 - this API has one answer only
        """Return the events for one piece."""
        match piece:
            case TextPiece():
                return self._write_text(piece.text)
            case ThinkingPiece():
                return self._write_thinking(piece)
            case ToolCallPiece():
                return self._close() + self._write_call(piece)
            case EndPiece():
                self._end = piece
                return self._close()
            case WorkPiece():
                return b""
            case _:
                assert_never(piece)

    def finish(self) -> bytes:
        """Return the event with the complete response."""
        status = self._status()
        return self._emit(f"response.{status}", response=self._encoded_response(status))

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """Return the events that end the stream with an error."""
        return _failed_events(self._base, self._items, self._sequence, error, request_id)

    def response(self) -> dict[str, Any]:
        """Return the response, complete after the `EndPiece`."""
        return {**self._base, **self._outcome(self._status() if self._end is not None else "in_progress")}

    def _status(self) -> str:
        if self._end is None or self._end.reason not in INCOMPLETE:
            return "completed"
        is_written = self._refused and any(item["type"] == "message" for item in self._items)
        return "completed" if is_written else "incomplete"

    def _outcome(self, status: str) -> dict[str, Any]:
        end = self._end
        details = {"reason": INCOMPLETE[end.reason]} if end is not None and status == "incomplete" else None
        return {
            "status": status,
            "error": None,
            "incomplete_details": details,
            "output": self._items,
            "usage": _usage(end.usage) if end is not None else None,
        }

    def _encoded_response(self, status: str) -> msgspec.Raw:
        return msgspec.Raw(self._head + b"," + _encode(self._outcome(status))[1:])

    def _emit(self, kind: str, **members: Any) -> bytes:
        if not self._streamed:
            return b""
        event = _event({"type": kind, "sequence_number": self._sequence, **members})
        self._sequence += 1
        return event

    def _write_text(self, text: str) -> bytes:
        if not text:
            return b""
        opened = b"" if self._open == "message" else self._close() + self._open_message()
        self._texts.append(text)
        return opened + self._text_delta(text)

    def _text_delta(self, text: str) -> bytes:
        # Nearly every event of a stream is one of these, so only the text and the number are encoded anew.
        if not self._streamed:
            return b""
        delta = b'%b%b,"sequence_number":%d}\n\n' % (self._delta, _encode(text), self._sequence)
        self._sequence += 1
        return delta

    def _begin(self, prefix: str) -> None:
        self._id = f"{prefix}_{self._labels.id}{len(self._items)}"
        self._texts = []

    def _prepare_delta(self, kind: str, **members: Any) -> None:
        place = {"item_id": self._id, "output_index": len(self._items), **members}
        self._delta = b"event: %b\ndata: %b" % (kind.encode(), _encode({"type": kind, **place})[:-1] + b',"delta":')

    def _open_message(self) -> bytes:
        self._begin("msg")
        self._open = "message"
        if not self._streamed:
            return b""
        self._prepare_delta("response.output_text.delta", content_index=0, logprobs=[])
        item: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        return self._emit("response.output_item.added", output_index=len(self._items), item=item) + self._emit(
            "response.content_part.added",
            item_id=self._id,
            output_index=len(self._items),
            content_index=0,
            part={"type": "output_text", "text": "", "annotations": [], "logprobs": []},
        )

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
        return self._emit("response.output_item.added", output_index=len(self._items), item=item)

    def _emit_summary(self, kind: str, **members: Any) -> bytes:
        return self._emit(kind, item_id=self._id, output_index=len(self._items), summary_index=0, **members)

    def _close(self) -> bytes:
        """Return the events that complete the open item, if there is one."""
        match self._open:
            case "message":
                return self._close_message()
            case "reasoning":
                return self._close_reasoning(None)
            case _:
                return b""

    def _close_reasoning(self, signature: str | None) -> bytes:
        text, events = "".join(self._texts), b""
        if text:
            events = self._emit_summary("response.reasoning_summary_text.done", text=text)
            events += self._emit_summary("response.reasoning_summary_part.done", part=_summary(text))
        item: dict[str, Any] = {"id": self._id, "type": "reasoning", "status": "completed"}
        item["summary"] = [_summary(text)] if text else []
        item["encrypted_content"] = signature
        return events + self._complete(item)

    def _close_message(self) -> bytes:
        text, end = "".join(self._texts), self._end
        is_cut = end is not None and end.reason in INCOMPLETE and not self._refused
        status = "incomplete" if is_cut else "completed"
        item: dict[str, Any] = {"id": self._id, "type": "message", "role": "assistant", "status": status}
        if self._refused:  # known beforehand of whole answers only, which have no events
            return self._complete({**item, "content": [{"type": "refusal", "refusal": text}]})
        logprobs = [_logprob(token) for token in (end.logprobs or ())] if end is not None else []
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
        place = {"item_id": self._id, "output_index": len(self._items), "content_index": 0}
        events = self._emit("response.output_text.done", **place, text=text, logprobs=logprobs)
        events += self._emit("response.content_part.done", **place, part=part)
        return events + self._complete({**item, "content": [part]})

    def _complete(self, item: dict[str, Any]) -> bytes:
        self._open = ""
        done = self._emit("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)
        return done

    def _write_call(self, piece: ToolCallPiece) -> bytes:
        if self._special is None:
            self._special = special_tools(self._request.body)
        tool = self._special.get(piece.name)
        is_custom = tool is not None and tool.is_custom
        self._begin("ctc" if is_custom else "fc")
        kind, member, events = _CUSTOM if is_custom else _FUNCTION
        text = _custom_input(piece.input) if is_custom else _encode(piece.input).decode()
        item: dict[str, Any] = {"id": self._id, "type": kind, "call_id": piece.id, "name": piece.name}
        if tool is not None:
            item["name"] = tool.name
            if tool.namespace is not None:
                item["namespace"] = tool.namespace
        if piece.signature is not None:  # where Gemini's own compatible endpoint has it
            item["extra_content"] = {"google": {"thought_signature": piece.signature}}
        place = {"item_id": self._id, "output_index": len(self._items)}
        opened = {**item, "status": "in_progress", member: ""}
        return b"".join(
            (
                self._emit("response.output_item.added", output_index=len(self._items), item=opened),
                self._emit(f"response.{events}.delta", **place, delta=text),
                self._emit(f"response.{events}.done", **place, **{member: text}),
                self._complete({**item, "status": "completed", member: text}),
            )
        )


def _event(event: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _encode(event))


def _unchanging_members(body: Mapping[str, Any], labels: AnswerLabels) -> dict[str, Any]:
    """Return the members of a response that are the same from its first event to its last."""
    repeated = {name: default if (value := body.get(name)) is None else value for name, default in DEFAULTS.items()}
    for name in ("reasoning", "text"):
        repeated[name] = {**DEFAULTS[name], **repeated[name]}
    identity = {"id": f"resp_{labels.id}", "object": "response", "created_at": labels.created, "model": labels.model}
    return {**identity, **repeated, "service_tier": "default"}


def _failed_events(
    base: Mapping[str, Any], items: list[dict[str, Any]], sequence: int, error: AccordError, request_id: str
) -> bytes:
    """Return a failed response, which is what programs such as Codex read, and an error, which SDKs raise."""
    body = error_body(error, request_id)
    reported = body["error"]
    general = "invalid_prompt" if error.facts.http < _FIRST_SERVER_STATUS else "server_error"
    code = reported["code"] if reported["code"] in FAILURE_CODES else general
    response = {
        **base,
        "status": "failed",
        "error": {"code": code, "message": error.message},
        "incomplete_details": None,
        "output": items,
        "usage": None,
    }
    failed = {"type": "response.failed", "sequence_number": sequence, "response": response}
    flat = {"code": reported["code"], "message": error.message, "param": reported["param"]}
    return _event(failed) + _event({"type": "error", "sequence_number": sequence + 1, **flat, **body})


def _summary(text: str) -> dict[str, str]:
    return {"type": "summary_text", "text": text}


def _custom_input(value: Any) -> str:
    """Return the text of a call of a custom tool; a model that ignored the schema is passed on as it is."""
    match value:
        case {"input": str(text)} | str(text):
            return text
        case _:
            return _encode(value).decode()


def _logprob(token: Mapping[str, Any]) -> dict[str, Any]:
    likeliest = [_token(each) for each in token.get("top") or ()]
    return {**_token(token), "top_logprobs": likeliest}


def _token(token: Mapping[str, Any]) -> dict[str, Any]:
    return {"token": token["token"], "bytes": list(token["token"].encode()), "logprob": token["logprob"]}


def _usage(counts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    given, written = counts.get("input_tokens") or 0, counts.get("output_tokens") or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": counts.get("cached_input_tokens") or 0,
            "cache_write_tokens": counts.get("cache_write_tokens") or 0,
        },
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": counts.get("reasoning_tokens") or 0},
        "total_tokens": given + written,
    }
