"""OpenAI's chat completions API: the answer, streamed or whole, of OpenAI and compatible servers. Pure; no I/O.

A tool call comes in pieces with an index; servers omit the index or the id, send all at once, give every call index 0
or repeat the name. A stream is complete with `[DONE]` or with a finish reason: either is enough.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast
from uuid import uuid4

import msgspec
from msgspec import Struct

from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.openai.endpoint import failure_report
from accord.backends.openai.parts import parse_arguments
from accord.core.sse import ServerEvent
from accord.wire.work import AnyPiece, EndPiece, EndReason, TextPiece, ThinkingPiece, ToolCallPiece

DONE: Final = b"[DONE]"

REASONS: Final[Mapping[str, EndReason]] = MappingProxyType(
    {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "content_filter": "refusal",
    }
)


class _ChatFunction(Struct):
    name: str | None = None
    arguments: Any = None


class _ChatCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: _ChatFunction | None = None
    extra_content: Any = None


class _ChatDelta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_ChatCallDelta] | None = None


class _ChatToken(Struct):
    token: str
    logprob: float
    top_logprobs: "list[_ChatToken] | None" = None


class _ChatLogprobs(Struct):
    content: list[_ChatToken] | None = None


class _ChatChoice(Struct):
    index: int | None = None
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: "_ChatLogprobs | None" = None


class _ChatInputDetails(Struct):
    cached_tokens: int | None = None


class _ChatOutputDetails(Struct):
    reasoning_tokens: int | None = None


class _ChatUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _ChatInputDetails | None = None
    completion_tokens_details: _ChatOutputDetails | None = None


class _ChatChunk(Struct):
    choices: list[_ChatChoice] | None = None
    model: Any = None
    usage: _ChatUsage | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_ChatChunk).decode


class _PartialCall:
    """A tool call while its pieces arrive."""

    __slots__ = ("arguments", "id", "name", "signature")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.signature: str | None = None

    def add(self, delta: _ChatCallDelta) -> None:
        self.id = self.id or delta.id
        match delta.extra_content:
            case {"google": {"thought_signature": str(signature)}}:
                self.signature = self.signature or signature
            case _:
                pass
        if delta.function is None:
            return
        self.name = self.name or delta.function.name or ""
        arguments = delta.function.arguments
        if arguments is not None:  # some servers send the value itself, not JSON text
            self.arguments.append(arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode())

    def is_whole(self) -> bool:
        try:
            msgspec.json.decode("".join(self.arguments))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return True

    def is_other_than(self, delta: _ChatCallDelta) -> bool:
        """Whether the delta begins another call, although its index does not say so."""
        name = delta.function.name if delta.function is not None else None
        if not name:
            return False
        if delta.id and self.id:
            return delta.id != self.id
        has_more = name != self.name or bool(delta.function and delta.function.arguments)
        return delta.index is None and has_more and self.is_whole()

    def piece(self, *, is_cut: bool) -> ToolCallPiece:
        if not self.name:
            raise MalformedAnswerError("a call names no tool")
        arguments = parse_arguments("".join(self.arguments), is_cut=is_cut)
        call_id = self.id or f"call_{uuid4().hex}"
        return ToolCallPiece.trusted(id=call_id, name=self.name, input=arguments, signature=self.signature)


class ChatReader:
    """The state of one answer while its chunks arrive."""

    __slots__ = (
        "_by_index",
        "_calls",
        "_finish_reason",
        "_has_refused",
        "_model",
        "_stop_sequence",
        "_tokens",
        "_usage",
    )

    def __init__(self) -> None:
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}
        self._finish_reason: str | None = None
        self._stop_sequence: str | None = None
        self._model: Any = None
        self._has_refused = False
        self._tokens: list[_ChatToken] = []
        self._usage: _ChatUsage | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes."""
        data = event.data
        if data.startswith(DONE):
            return self._end()
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("an event does not have the API's shape") from None
        if chunk.error or event.name == "error":
            raise ReportedError(failure_report(chunk.error or msgspec.json.decode(data)))
        if chunk.usage is not None:
            self._usage = chunk.usage
        if self._model is None:
            self._model = chunk.model
        return self._feed_choices(chunk.choices) if chunk.choices else ()

    def finish(self) -> Sequence[AnyPiece]:
        """Return the end, if there was a finish reason."""
        if self._finish_reason is None:
            raise MalformedAnswerError("the stream ended before the answer did")
        return self._end()

    def read_all(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed."""
        pieces = self.feed(ServerEvent(body))
        if self._finish_reason is None and not pieces and not self._calls:
            raise MalformedAnswerError("there is no answer in it")
        return [*pieces, *self._end()]

    def _feed_choices(self, choices: Sequence[_ChatChoice]) -> Sequence[AnyPiece]:
        choice = choices[0]
        if choice.index:  # an alternative answer; one was requested
            return ()
        if choice.finish_reason:
            self._finish_reason = choice.finish_reason
            self._stop_sequence = choice.stop_reason if isinstance(choice.stop_reason, str) else None
        if choice.logprobs is not None:
            self._tokens += choice.logprobs.content or ()
        delta = choice.delta or choice.message
        if delta is None:
            return ()
        content = delta.content
        if delta.tool_calls is None and delta.refusal is None and isinstance(content, str) and content:
            # Nearly every chunk is text and nothing else, but reasoning may come in the same one.
            text = TextPiece(text=content)
            reasoning = delta.reasoning_content or delta.reasoning
            return (text,) if not reasoning else (*_thinking(reasoning), text)
        return self._feed_delta(delta)

    def _feed_delta(self, delta: _ChatDelta) -> Sequence[AnyPiece]:
        pieces: list[AnyPiece] = [*_thinking(delta.reasoning_content or delta.reasoning)]
        if isinstance(delta.content, list):
            pieces += _content_pieces(delta.content)
            self._has_refused |= any(isinstance(part, dict) and "refusal" in part for part in delta.content)
        elif delta.content:
            pieces.append(TextPiece(text=delta.content))
        if delta.refusal:
            self._has_refused = True
            pieces.append(TextPiece(text=delta.refusal))
        for call in delta.tool_calls or ():
            self._call_of(call).add(call)
        return pieces

    def _call_of(self, delta: _ChatCallDelta) -> _PartialCall:
        """Return the call that this is a piece of, a new one if it begins one."""
        last = self._calls[-1] if self._calls else None
        current = last if delta.index is None else self._by_index.get(delta.index)
        if current is None or current.is_other_than(delta):
            current = _PartialCall()
            self._calls.append(current)
            if delta.index is not None:
                self._by_index[delta.index] = current
        return current

    def _end(self) -> Sequence[AnyPiece]:
        reason = self._end_reason()
        calls = [call.piece(is_cut=reason == "max_tokens") for call in self._calls]
        logprobs = [_logprob(token) for token in self._tokens] or None
        end = EndPiece.trusted(
            reason=reason,
            stop_sequence=self._stop_sequence if reason == "stop_sequence" else None,
            model=self._model if isinstance(self._model, str) else None,
            usage=_usage_counts(self._usage),
            logprobs=logprobs,
        )
        return [*calls, end]

    def _end_reason(self) -> EndReason:
        if self._has_refused:
            return "refusal"
        reason = REASONS.get(self._finish_reason or "", "end_turn")
        if reason == "end_turn" and self._calls:
            return "tool_use"
        if reason == "tool_use" and not self._calls:
            return "end_turn"
        return "stop_sequence" if reason == "end_turn" and self._stop_sequence is not None else reason


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """Return the pieces of an answer that was not streamed."""
    return ChatReader().read_all(body)


def _thinking(reasoning: Any) -> tuple[ThinkingPiece, ...]:
    return (ThinkingPiece(text=reasoning),) if reasoning and isinstance(reasoning, str) else ()


def _content_pieces(content: list[Any]) -> list[AnyPiece]:
    """Return the pieces of content in parts, as some servers send it; parts of reasoning hold parts themselves."""
    pieces: list[AnyPiece] = []
    for part in content:
        match part:
            case {"type": "thinking", "thinking": [*inner]}:
                texts = (cast("Any", each).get("text") for each in inner if isinstance(each, dict))
                pieces += [ThinkingPiece(text=text) for text in texts if isinstance(text, str)]
            case {"text": str(text)} | {"refusal": str(text)} if text:
                pieces.append(TextPiece(text=text))
            case _:
                pass
    return pieces


def _logprob(token: _ChatToken) -> dict[str, Any]:
    logprob: dict[str, Any] = {"token": token.token, "logprob": token.logprob}
    if token.top_logprobs:
        logprob["top"] = [{"token": each.token, "logprob": each.logprob} for each in token.top_logprobs]
    return logprob


def _usage_counts(usage: _ChatUsage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    counts = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cached_input_tokens": usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens,
        "reasoning_tokens": usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
