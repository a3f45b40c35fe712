"""Reads answers of the chat completions API, streamed or whole, from OpenAI and from those who only resemble it.

A call of a tool comes in pieces, told apart by index; servers leave out the index or the id, send all at once, give
every call index 0 or repeat the name. A stream is complete with `[DONE]` or with a reason to finish: either will do.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast
from uuid import uuid4

import msgspec
from msgspec import Struct

from accord.backends.model_api import MalformedAnswerError, ReportedError
from accord.backends.openai.endpoint import explained_by
from accord.backends.openai.parts import arguments_of
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


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(Struct):
    content: str | list[Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Token(Struct):
    token: str
    logprob: float
    top_logprobs: "list[_Token] | None" = None


class _Logprobs(Struct):
    content: list[_Token] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: "_Logprobs | None" = None


class _InputDetails(Struct):
    cached_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Chunk).decode


class _Calling:
    """A call of a tool while its pieces come."""

    __slots__ = ("arguments", "id", "name", "signature")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.arguments: list[str] = []
        self.signature: str | None = None

    def take(self, piece: _Call) -> None:
        self.id = self.id or piece.id
        self.signature = self.signature or _seal(piece.extra_content)
        if piece.function is not None:
            self.name = self.name or piece.function.name or ""
            self.arguments.append(_arguments(piece.function.arguments))

    def is_whole(self) -> bool:
        try:
            msgspec.json.decode("".join(self.arguments))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return True

    def piece(self, *, is_cut: bool) -> ToolCallPiece:
        if not self.name:
            raise MalformedAnswerError("a call names no tool")
        given = arguments_of("".join(self.arguments), is_cut=is_cut)
        named = self.id or f"call_{uuid4().hex}"
        return ToolCallPiece.trusted(id=named, name=self.name, input=given, signature=self.signature)


class ChatReader:
    """One answer while it is read."""

    __slots__ = ("_by_index", "_calls", "_finished", "_has_refused", "_stopped_at_text", "_tokens", "_usage")

    def __init__(self) -> None:
        self._calls: list[_Calling] = []
        self._by_index: dict[int, _Calling] = {}
        self._finished: str | None = None
        self._stopped_at_text = False
        self._has_refused = False
        self._tokens: list[_Token] = []
        self._usage: _Usage | None = None

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """The pieces that this event completes."""
        data = event.data
        if data.startswith(DONE):
            return self._end()
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedAnswerError("an event is not what the API says") from None
        if chunk.error or event.name == "error":
            raise ReportedError(explained_by(chunk.error or _untyped(data)))
        if chunk.usage is not None:
            self._usage = chunk.usage
        return self._taken(chunk.choices) if chunk.choices else ()

    def finish(self) -> Sequence[AnyPiece]:
        """The end, if the answer said that it is complete."""
        if self._finished is None:
            raise MalformedAnswerError("the stream ended before the answer did")
        return self._end()

    def whole(self, body: bytes) -> Sequence[AnyPiece]:
        """The pieces of an answer that came at once."""
        pieces = self.feed(ServerEvent(body))
        if self._finished is None and not pieces and not self._calls:
            raise MalformedAnswerError("there is no answer in it")
        return [*pieces, *self._end()]

    def _taken(self, choices: Sequence[_Choice]) -> Sequence[AnyPiece]:
        choice = choices[0]
        if choice.index:  # another answer to the same question; one was asked for
            return ()
        if choice.finish_reason:
            self._finished = choice.finish_reason
            self._stopped_at_text = isinstance(choice.stop_reason, str)
        if choice.logprobs is not None:
            self._tokens += choice.logprobs.content or ()
        delta = choice.delta or choice.message
        if delta is None:
            return ()
        content = delta.content
        if delta.tool_calls is None and delta.refusal is None and isinstance(content, str) and content:
            # Nearly every chunk is this and nothing else, but reasoning may come in the same one.
            said = TextPiece(text=content)
            thought = delta.reasoning_content or delta.reasoning
            return (said,) if not thought else (*_thoughts(thought), said)
        return self._rarer(delta)

    def _rarer(self, delta: _Delta) -> Sequence[AnyPiece]:
        pieces: list[AnyPiece] = [*_thoughts(delta.reasoning_content or delta.reasoning)]
        if isinstance(delta.content, list):
            pieces += _listed(delta.content)
            self._has_refused |= any(isinstance(part, dict) and "refusal" in part for part in delta.content)
        elif delta.content:
            pieces.append(TextPiece(text=delta.content))
        if delta.refusal:
            self._has_refused = True
            pieces.append(TextPiece(text=delta.refusal))
        for call in delta.tool_calls or ():
            self._call(call).take(call)
        return pieces

    def _call(self, piece: _Call) -> _Calling:
        """The call that this is a piece of."""
        last = self._calls[-1] if self._calls else None
        current = last if piece.index is None else self._by_index.get(piece.index)
        if current is None or _is_another(current, piece):
            current = _Calling()
            self._calls.append(current)
            if piece.index is not None:
                self._by_index[piece.index] = current
        return current

    def _end(self) -> Sequence[AnyPiece]:
        reason = self._reason()
        calls = [call.piece(is_cut=reason == "max_tokens") for call in self._calls]
        told = [_told(token) for token in self._tokens] or None
        return [*calls, EndPiece.trusted(reason=reason, usage=_neutral(self._usage), logprobs=told)]

    def _reason(self) -> EndReason:
        if self._has_refused:
            return "refusal"
        reason = REASONS.get(self._finished or "", "end_turn")
        if reason == "end_turn" and self._calls:
            return "tool_use"
        if reason == "tool_use" and not self._calls:
            return "end_turn"
        return "stop_sequence" if reason == "end_turn" and self._stopped_at_text else reason


def read_answer(body: bytes) -> Sequence[AnyPiece]:
    """The pieces of an answer that came at once."""
    return ChatReader().whole(body)


def _is_another(current: _Calling, piece: _Call) -> bool:
    """Whether this piece begins another call, although it is not told apart by its index."""
    name = piece.function.name if piece.function is not None else None
    if not name:
        return False
    if piece.id and current.id:
        return piece.id != current.id
    says_more = name != current.name or bool(piece.function and piece.function.arguments)
    return piece.index is None and says_more and current.is_whole()


def _thoughts(thought: Any) -> tuple[ThinkingPiece, ...]:
    return (ThinkingPiece(text=thought),) if thought and isinstance(thought, str) else ()


def _listed(content: list[Any]) -> list[AnyPiece]:
    """Content in parts, as some servers send it; those of reasoning hold parts themselves."""
    pieces: list[AnyPiece] = []
    for part in content:
        match part:
            case {"type": "thinking", "thinking": [*inner]}:
                pieces += [ThinkingPiece(text=text) for text in _texts(inner)]
            case {"text": str(text)} | {"refusal": str(text)} if text:
                pieces.append(TextPiece(text=text))
            case _:
                pass
    return pieces


def _texts(parts: list[Any]) -> list[str]:
    return [text for part in parts if isinstance(part, dict) and isinstance(text := cast("Any", part).get("text"), str)]


def _arguments(given: Any) -> str:
    """Arguments as text, also those of servers that send the value itself."""
    if given is None:
        return ""
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _seal(extra: Any) -> str | None:
    match extra:
        case {"google": {"thought_signature": str(signature)}}:
            return signature
        case _:
            return None


def _untyped(data: bytes) -> Any:
    return msgspec.json.decode(data)


def _told(token: _Token) -> dict[str, Any]:
    told: dict[str, Any] = {"token": token.token, "logprob": token.logprob}
    if token.top_logprobs:
        told["top"] = [{"token": each.token, "logprob": each.logprob} for each in token.top_logprobs]
    return told


def _neutral(usage: _Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    told = {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cached_input_tokens": usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens,
        "reasoning_tokens": usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in told.items() if count is not None}
