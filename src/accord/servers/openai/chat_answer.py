"""Answers as chat completions, whole or streamed. The request is in `chat_request.py`. Pure.

The API has no field for reasoning. Its text is `reasoning_content`, as many servers send it and clients read it; with
signatures, `thinking_blocks` has the same reasoning in blocks, which a client sends back unchanged. A signed call has
its signature in `extra_content`, as Gemini's own compatible endpoint sends it. A client that asked with the older
`functions` gets its call as `function_call`.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.core.work.fields import Api, ModelRequest
from accord.errors import AccordError
from accord.servers.openai.chat_request import parse_chat
from accord.servers.openai.errors import error_body
from accord.servers.translation import AnswerLabels
from accord.wire.work import (
    AnyPiece,
    EndPiece,
    EndReason,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    WorkPiece,
)

FINISH_REASONS: Final[Mapping[EndReason, str]] = MappingProxyType(
    {
        "end_turn": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "stop_sequence": "stop",
        "refusal": "content_filter",
    }
)

DONE: Final = b"data: [DONE]\n\n"
_encode: Final = msgspec.json.Encoder().encode


class ChatTranslation:
    """The chat completions API."""

    @property
    def api(self) -> Api:
        """Its name in the table of fields."""
        return Api.CHAT

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        """Translate a request; raises `RefusedError` with the field for a body that is not one."""
        return parse_chat(body)

    def whole(
        self, request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]
    ) -> dict[str, Any]:
        """The body of a whole answer."""
        is_older = uses_functions(request)
        body: dict[str, Any] = {
            "id": f"chatcmpl-{labels.id}",
            "object": "chat.completion",
            "created": labels.created,
            "model": labels.model,
            "choices": [_choice(index, pieces, is_older) for index, pieces in enumerate(answers)],
        }
        ends = [piece for pieces in answers for piece in pieces if isinstance(piece, EndPiece)]
        if (usage := usage_counts(ends)) is not None:
            body["usage"] = usage
        return {**body, "accord": dict(labels.accord)}

    def stream(self, request: ModelRequest, labels: AnswerLabels) -> "ChatStreamWriter":
        """A writer for one streamed answer."""
        return ChatStreamWriter(request, labels)

    def error_body(self, error: AccordError, request_id: str) -> dict[str, Any]:
        """The body of an error."""
        return error_body(error, request_id)

    def error_event(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends a stream which has begun. No `[DONE]` follows: the answer is not complete."""
        return b"data: " + _encode(error_body(error, request_id)) + b"\n\n"


class ChatStreamWriter:
    """The state of one streamed answer: of each choice its calls so far and the reasoning not signed yet; the ends."""

    __slots__ = (
        "_accord",
        "_calls",
        "_ends",
        "_head",
        "_is_older",
        "_tail",
        "_text_heads",
        "_thoughts",
        "_wants_usage",
    )

    def __init__(self, request: ModelRequest, labels: AnswerLabels) -> None:
        self._wants_usage: Final = "stream_options.include_usage" in request.fields
        self._is_older: Final = uses_functions(request)
        self._accord: Final = dict(labels.accord)
        self._ends: Final[list[EndPiece]] = []
        self._calls: Final = [0] * request.answers
        self._thoughts: Final[list[list[ThinkingPiece]]] = [[] for _ in self._calls]
        head = {
            "id": f"chatcmpl-{labels.id}",
            "object": "chat.completion.chunk",
            "created": labels.created,
            "model": labels.model,
        }
        self._head: Final = b"data: " + _encode(head)[:-1]
        # A client that wants the usage gets a null in every chunk but the last.
        self._tail: Final = b',"usage":null}\n\n' if self._wants_usage else b"}\n\n"
        # Nearly every chunk is text: all but the text itself is encoded once.
        self._text_heads: Final = [
            self._head + b',"choices":[{"index":%d,"delta":{"content":' % index for index in range(request.answers)
        ]

    def start(self) -> bytes:
        """A chunk with the role for each answer, the first with the labels' `accord` object as well."""
        role = {"role": "assistant", "content": "", "refusal": None}
        chunks = [self._chunk(index, role) for index in range(len(self._calls))]
        chunks[0] = self._chunk(0, role, accord=self._accord)
        return b"".join(chunks)

    def write(self, piece: AnyPiece, answer: int = 0) -> bytes:
        """The chunks for one piece of this answer."""
        match piece:
            case TextPiece():
                tail = b'},"finish_reason":null}]' + self._tail
                return self._text_heads[answer] + _encode(piece.text) + tail if piece.text else b""
            case ThinkingPiece():
                return self._reasoning(piece, answer)
            case ToolCallPiece():
                return self._call(piece, answer)
            case WorkPiece():
                return b""
            case EndPiece():
                self._ends.append(piece)
                reason = _finish_reason(piece, is_older=self._is_older and self._calls[answer] == 1)
                return self._chunk(answer, {}, **_ending(piece, reason))
            case _:
                assert_never(piece)

    def finish(self) -> bytes:
        """The usage, if it was requested and is known, and the end of the stream."""
        usage = usage_counts(self._ends) if self._wants_usage else None
        if usage is None:
            return DONE
        return self._head + b',"choices":[],"usage":' + _encode(usage) + b"}\n\n" + DONE

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends the stream with an error. No `[DONE]` follows: the answer is not complete."""
        return b"data: " + _encode(error_body(error, request_id)) + b"\n\n"

    def _reasoning(self, piece: ThinkingPiece, answer: int) -> bytes:
        delta: dict[str, Any] = {"reasoning_content": piece.text} if piece.text else {}
        self._thoughts[answer].append(piece)
        if piece.signature is not None:
            # The signature ends a block, which a client can send back as it is: with the text that came before.
            delta["thinking_blocks"] = _thinking_blocks(self._thoughts[answer])
            self._thoughts[answer].clear()
        return self._chunk(answer, delta) if delta else b""

    def _call(self, piece: ToolCallPiece, answer: int) -> bytes:
        index = self._calls[answer]
        self._calls[answer] += 1
        arguments = _encode(piece.input).decode()
        if self._is_older and index == 0:
            return self._chunk(answer, {"function_call": {"name": piece.name, "arguments": arguments}})
        begun = {"index": index, **_call(piece, "")}
        rest = {"index": index, "function": {"arguments": arguments}}
        return self._chunk(answer, {"tool_calls": [begun]}) + self._chunk(answer, {"tool_calls": [rest]})

    def _chunk(
        self, answer: int, delta: Mapping[str, Any], accord: Mapping[str, Any] | None = None, **members: Any
    ) -> bytes:
        choice = {"index": answer, "delta": delta, "finish_reason": None, **members}
        label = b"" if accord is None else b',"accord":' + _encode(accord)
        return self._head + b',"choices":[' + _encode(choice) + b"]" + label + self._tail


def uses_functions(request: ModelRequest) -> bool:
    """Whether the client speaks the older form, `functions`, and so reads only `function_call`."""
    return "functions" in request.fields and "tools" not in request.fields


def usage_counts(ends: Iterable[EndPiece]) -> dict[str, Any] | None:
    """The tokens of all answers together, in the API's shape; None if they are not known."""
    counts: dict[str, int] = {}
    for end in ends:
        for name, count in (end.usage or {}).items():
            if isinstance(count, int):
                counts[name] = counts.get(name, 0) + count
    if not counts:
        return None
    prompt, completion = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    cached = {"cached_tokens": "cached_input_tokens", "cache_write_tokens": "cache_write_tokens"}
    if details := {name: counts[ours] for name, ours in cached.items() if ours in counts}:
        usage["prompt_tokens_details"] = details
    if "reasoning_tokens" in counts:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts["reasoning_tokens"]}
    return usage


def _choice(index: int, pieces: Sequence[AnyPiece], is_older: bool) -> dict[str, Any]:
    calls = [piece for piece in pieces if isinstance(piece, ToolCallPiece)]
    thoughts = [piece for piece in pieces if isinstance(piece, ThinkingPiece)]
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    if reasoning := "".join(piece.text for piece in thoughts):
        message["reasoning_content"] = reasoning
    if any(piece.signature is not None for piece in thoughts):
        message["thinking_blocks"] = _thinking_blocks(thoughts)
    is_older = is_older and len(calls) == 1
    if is_older:
        arguments = _encode(calls[0].input).decode()
        message["function_call"] = {"name": calls[0].name, "arguments": arguments}
    elif calls:
        message["tool_calls"] = [_call(call, _encode(call.input).decode()) for call in calls]
    end = next((piece for piece in reversed(pieces) if isinstance(piece, EndPiece)), None) or EndPiece()
    return {"index": index, "message": message, "logprobs": None, **_ending(end, _finish_reason(end, is_older))}


def _finish_reason(end: EndPiece, is_older: bool) -> str:
    return "function_call" if is_older and end.reason == "tool_use" else FINISH_REASONS[end.reason]


def _ending(end: EndPiece, reason: str) -> dict[str, Any]:
    """The members of a choice that only its end has."""
    members: dict[str, Any] = {"finish_reason": reason}
    if end.logprobs is not None:
        members["logprobs"] = {"content": [_logprob(token) for token in end.logprobs], "refusal": None}
    if end.reason == "stop_sequence" and end.stop_sequence is not None:
        members["stop_reason"] = end.stop_sequence  # a member of some servers; the API says "stop" for both
    return members


def _logprob(token: Mapping[str, Any]) -> dict[str, Any]:
    return {**_token(token), "top_logprobs": [_token(each) for each in token.get("top", ())]}


def _token(token: Mapping[str, Any]) -> dict[str, Any]:
    text = token["token"]
    return {"token": text, "logprob": token["logprob"], "bytes": list(text.encode(errors="replace"))}


def _call(piece: ToolCallPiece, arguments: str) -> dict[str, Any]:
    function = {"name": piece.name, "arguments": arguments}
    call: dict[str, Any] = {"id": piece.id, "type": "function", "function": function}
    if piece.signature is not None:
        call["extra_content"] = {"google": {"thought_signature": piece.signature}}
    return call


def _thinking_blocks(thoughts: Iterable[ThinkingPiece]) -> list[dict[str, Any]]:
    """Reasoning in blocks, each with its signature, which ends it."""
    blocks: list[dict[str, Any]] = []
    text = ""
    for piece in thoughts:
        if piece.redacted:
            blocks.append({"type": "redacted_thinking", "data": piece.signature or ""})
            continue
        text += piece.text
        if piece.signature is not None:
            blocks.append({"type": "thinking", "thinking": text, "signature": piece.signature})
            text = ""
    return [*blocks, {"type": "thinking", "thinking": text, "signature": ""}] if text else blocks
