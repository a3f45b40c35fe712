"""OpenAI's responses API: the answer, streamed or whole. Pure; it does no I/O.

A stream is a sequence of items. Deltas count as they come, and the whole response at the end fills in what a server did
not send before. Only that end completes an answer.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.openai.chat_answer import DONE
from accord.backends.openai.endpoint import failure_report
from accord.backends.openai.parts import parse_arguments
from accord.core.sse import ServerEvent
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

TEXT_DELTA: Final = "response.output_text.delta"
INCOMPLETE: Final[Mapping[str, EndReason]] = MappingProxyType(
    {"max_output_tokens": "max_tokens", "max_tokens": "max_tokens", "content_filter": "refusal"}
)
ENDED: Final = frozenset({"completed", "incomplete"})


class _ResponsesToken(Struct):
    token: str
    logprob: float
    top_logprobs: "list[_ResponsesToken] | None" = None


class _ResponsesContent(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    logprobs: list[_ResponsesToken] | None = None


class _ResponsesItem(Struct):
    type: str = ""
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_ResponsesContent] | None = None
    summary: list[_ResponsesContent] | None = None
    encrypted_content: str | None = None


class _ResponsesInputDetails(Struct):
    cached_tokens: int | None = None


class _ResponsesOutputDetails(Struct):
    reasoning_tokens: int | None = None


class _ResponsesUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _ResponsesInputDetails | None = None
    output_tokens_details: _ResponsesOutputDetails | None = None


class _ResponsesIncomplete(Struct):
    reason: str | None = None


class _ResponsesResponse(Struct):
    status: str | None = None
    model: str | None = None
    output: list[_ResponsesItem] | None = None
    usage: _ResponsesUsage | None = None
    incomplete_details: _ResponsesIncomplete | None = None
    error: Any = None


class _ResponsesEvent(Struct):
    type: str = ""
    delta: Any = None
    item: _ResponsesItem | None = None
    response: _ResponsesResponse | None = None
    summary_index: int | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_ResponsesEvent).decode
_decode_response: Final = msgspec.json.Decoder(_ResponsesResponse).decode


class ResponsesReader:
    """The state of one answer while its events arrive. `_sent` are the call ids and signatures that were given."""

    __slots__ = ("_has_called", "_has_refused", "_has_text", "_has_thinking", "_is_thinking", "_sent", "_tokens")

    def __init__(self) -> None:
        self._sent: set[str] = set()
        self._has_called = False
        self._has_refused = False
        self._has_text = False
        self._has_thinking = False
        self._is_thinking = False
        self._tokens: list[_ResponsesToken] = []

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        data = event.data
        if data.startswith(DONE):
            return ()
        try:
            decoded = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("an event does not have the API's shape") from None
        if decoded.type == TEXT_DELTA:
            self._has_text = True
            return (TextPiece(text=decoded.delta),) if decoded.delta and isinstance(decoded.delta, str) else ()
        if decoded.type == "error" or decoded.error or event.name == "error":
            raise ReportedError(failure_report(msgspec.json.decode(data)))
        return self._feed_other(decoded)

    def finish(self) -> Sequence[AnyPiece]:
        """Raise `MalformedAnswerError`: a complete answer ends with an event of its own."""
        raise MalformedAnswerError("the stream ended before the answer did")

    def end(self, response: _ResponsesResponse) -> Sequence[AnyPiece]:
        """Return the end of an answer, after all that was not sent before."""
        if response.error or response.status in ("failed", "cancelled"):
            raise ReportedError(failure_report(response.error))
        if response.status not in ENDED:
            raise MalformedAnswerError("the answer is not complete")
        pieces = [piece for item in response.output or () for piece in self._unsent(item)]
        reason: EndReason = "tool_use" if self._has_called else "end_turn"
        if response.status == "incomplete":
            details = response.incomplete_details
            reason = INCOMPLETE.get((details.reason if details else None) or "", "max_tokens")
        if self._has_refused:
            reason = "refusal"
        tokens = self._tokens or [token for item in response.output or () for token in _tokens(item)]
        logprobs = [_logprob(token) for token in tokens] or None
        usage = _usage_counts(response.usage)
        return [*pieces, EndPiece.trusted(reason=reason, model=response.model, usage=usage, logprobs=logprobs)]

    def _feed_other(self, event: _ResponsesEvent) -> Sequence[AnyPiece]:
        match event.type:
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._thinking(event.delta)
            case "response.reasoning_summary_part.added" if event.summary_index and self._has_thinking:
                return self._thinking("\n\n")
            case "response.refusal.delta":
                self._has_refused = self._has_text = True
                return (TextPiece(text=event.delta),) if event.delta and isinstance(event.delta, str) else ()
            case "response.output_item.done" if event.item is not None:
                return self._complete_item(event.item)
            case "response.completed" | "response.incomplete" | "response.failed":
                return self.end(event.response or _ResponsesResponse())
            case _:
                return ()

    def _thinking(self, text: Any) -> Sequence[AnyPiece]:
        if not text or not isinstance(text, str):
            return ()
        self._has_thinking = self._is_thinking = True
        return (ThinkingPiece(text=text),)

    def _complete_item(self, item: _ResponsesItem) -> Sequence[AnyPiece]:
        """Return what only a complete item has: a call, or the signature on reasoning; note the log probabilities."""
        if item.type == "function_call":
            return (self._tool_call(item),)
        if item.type == "message":
            self._tokens += _tokens(item)
        if item.type != "reasoning":
            return ()
        is_redacted, self._is_thinking = not self._is_thinking, False
        if item.encrypted_content:
            self._sent.add(item.encrypted_content)
            return (ThinkingPiece(text="", signature=item.encrypted_content, redacted=is_redacted),)
        return ()

    def _tool_call(self, item: _ResponsesItem) -> ToolCallPiece:
        if not item.name or not item.call_id:
            raise MalformedAnswerError("a call has no name or no id")
        self._has_called = True
        self._sent.add(item.call_id)
        arguments = parse_arguments(item.arguments or "", is_cut=item.status == "incomplete")
        return ToolCallPiece.trusted(id=item.call_id, name=item.name, input=arguments)

    def _unsent(self, item: _ResponsesItem) -> Sequence[AnyPiece]:
        """Return the pieces of an item of the whole response that did not come as events."""
        match item.type:
            case "function_call" if item.call_id not in self._sent:
                return (self._tool_call(item),)
            case "message" if not self._has_text:
                content = item.content or ()
                self._has_refused |= any(part.refusal for part in content)
                return [TextPiece(text=text) for part in content if (text := part.text or part.refusal)]
            case "reasoning" if item.encrypted_content not in self._sent:
                return self._unsent_reasoning(item)
            case _:
                return ()

    def _unsent_reasoning(self, item: _ResponsesItem) -> Sequence[AnyPiece]:
        if not item.encrypted_content and self._has_thinking:
            return ()  # its text came as events, and there is nothing else
        text = "\n\n".join(part.text for part in (*(item.summary or ()), *(item.content or ())) if part.text)
        if self._is_thinking or not text:  # the text came, and the item's own end did not
            return self._complete_item(item)
        self._is_thinking = True
        return [ThinkingPiece(text=text), *self._complete_item(item)]


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    try:
        response = _decode_response(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedAnswerError("it does not have the API's shape") from None
    return ResponsesReader().end(response)


def _tokens(item: _ResponsesItem) -> list[_ResponsesToken]:
    return [token for part in item.content or () for token in part.logprobs or ()]


def _logprob(token: _ResponsesToken) -> dict[str, Any]:
    logprob: dict[str, Any] = {"token": token.token, "logprob": token.logprob}
    if token.top_logprobs:
        logprob["top"] = [{"token": each.token, "logprob": each.logprob} for each in token.top_logprobs]
    return logprob


def _usage_counts(usage: _ResponsesUsage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.input_tokens_details and usage.input_tokens_details.cached_tokens,
        "reasoning_tokens": usage.output_tokens_details and usage.output_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
