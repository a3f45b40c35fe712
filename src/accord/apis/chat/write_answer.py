"""Answers as chat completions, whole or streamed. Pure.

The API has no field for reasoning. Its text is `reasoning_content`, as many servers send it and clients read it; with
signatures, `thinking_blocks` has the same reasoning in blocks, which a client sends back unchanged. In a stream, each
block comes once, with the signature that ends it, and an index: OpenAI's SDK joins items of lists by their index. A
signed call has its signature in `extra_content`, as Gemini's own compatible endpoint sends it. Images are `images`, as
routers send them. A client that asked with the older `functions` gets its call as `function_call`.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, assert_never

import msgspec

from accord.apis.chat.read_parts import join_base64, objects
from accord.apis.codec import AnswerLabels, untyped_event
from accord.apis.openai.errors import error_body
from accord.apis.openai.parts import arguments_text, data_url, signature_member, write_logprob
from accord.apis.usage import sum_counts, tier_member
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError
from accord.wire.disposition import Api
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
    WorkPiece,
)

Json = dict[str, Any]

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


def write_answer(request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]) -> Json:
    """The body of a whole answer."""
    texts, is_older = text_tools(request), uses_functions(request)
    body: Json = {
        "id": f"chatcmpl-{labels.id}",
        "object": "chat.completion",
        "created": labels.created,
        "model": labels.model,
        "choices": [_choice(index, pieces, labels, texts, is_older=is_older) for index, pieces in enumerate(answers)],
    }
    ends = [piece for pieces in answers for piece in pieces if isinstance(piece, EndPiece)]
    body |= tier_member(Api.CHAT, ends)
    if (usage := usage_counts(ends)) is not None:
        body["usage"] = usage
    return {**body, "accord": dict(labels.accord)}


def write_error_event(error: AccordError, request_id: str) -> bytes:
    """The event that ends a stream with an error. No `[DONE]` follows: the answer is not complete."""
    return untyped_event(error_body(error, request_id))


class _OpenChatCall:
    """A call while it is written: its place in the list, and its arguments so far."""

    __slots__ = ("index", "is_older", "texts")

    def __init__(self, index: int, *, is_older: bool) -> None:
        self.index: Final = index
        self.is_older: Final = is_older
        self.texts: Final[list[str]] = []


class _ChoiceState:
    """What is written of one answer so far."""

    __slots__ = ("blocks", "calls", "citations", "has_refused", "images", "length", "sounds", "thoughts")

    def __init__(self) -> None:
        self.length = 0
        """Of the text, in characters."""
        self.has_refused = False
        self.calls: Final[dict[str, _OpenChatCall]] = {}
        self.thoughts: Final[list[ThinkingPiece]] = []
        """The reasoning since the last signature."""
        self.blocks = 0
        self.citations: Final[list[Json]] = []
        self.images = 0
        self.sounds: Final[list[MediaPiece]] = []


class ChatStreamWriter:
    """The state of one streamed answer, with as many choices as were requested."""

    __slots__ = (
        "_accord",
        "_ends",
        "_head",
        "_is_older",
        "_labels",
        "_states",
        "_tail",
        "_text_heads",
        "_texts",
        "_wants_usage",
    )

    def __init__(self, request: ModelRequest, labels: AnswerLabels) -> None:
        self._wants_usage: Final = "stream_options.include_usage" in request.fields
        self._is_older: Final = uses_functions(request)
        self._texts: Final = text_tools(request)
        self._labels: Final = labels
        self._accord: Final = dict(labels.accord)
        self._ends: Final[list[EndPiece]] = []
        self._states: Final = [_ChoiceState() for _ in range(request.answers)]
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
        chunks = [self._chunk(index, role) for index in range(len(self._states))]
        chunks[0] = self._chunk(0, role, accord=self._accord)
        return b"".join(chunks)

    def write(self, piece: AnyPiece, answer: int = 0, label: Mapping[str, Any] | None = None) -> bytes:
        """The chunks for one piece of this answer."""
        match piece:
            case TextPiece():
                self._states[answer].length += len(piece.text)
                if piece.refusal or not piece.text:
                    return self._refusal(piece, answer)
                tail = b'},"finish_reason":null}]' + self._tail
                return self._text_heads[answer] + _encode(piece.text) + tail
            case ThinkingPiece():
                return self._reasoning(piece, answer)
            case ToolCallDelta() | ToolCallPiece():
                return self._call(piece, answer)
            case CitationPiece() | MediaPiece() | WorkPiece():
                return self._other(piece, answer)
            case EndPiece():
                return self._end(piece, answer, label)
            case _:
                assert_never(piece)

    def finish(self) -> bytes:
        """The usage, if it was requested and is known, and the end of the stream."""
        usage = usage_counts(self._ends) if self._wants_usage else None
        if usage is None:
            return DONE
        return self._head + b',"choices":[],"usage":' + _encode(usage) + b"}\n\n" + DONE

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The event that ends the stream with an error."""
        return write_error_event(error, request_id)

    def _refusal(self, piece: TextPiece, answer: int) -> bytes:
        if not piece.text:
            return b""
        self._states[answer].has_refused = True
        return self._chunk(answer, {"refusal": piece.text})

    def _reasoning(self, piece: ThinkingPiece, answer: int) -> bytes:
        state, delta = self._states[answer], Json()
        if piece.text:
            delta["reasoning_content"] = piece.text
        state.thoughts.append(piece)
        if piece.signature is not None:
            # The signature ends a block, which a client can send back as it is: with the text that came before.
            blocks = [{**block, "index": state.blocks + place} for place, block in enumerate(_blocks(state.thoughts))]
            delta["thinking_blocks"] = blocks
            state.blocks += len(blocks)
            state.thoughts.clear()
        return self._chunk(answer, delta) if delta else b""

    def _call(self, piece: ToolCallDelta | ToolCallPiece, answer: int) -> bytes:
        if isinstance(piece, ToolCallPiece):
            return self._whole_call(as_custom(piece, self._texts), answer)
        # What its text is to the client is known of a whole call only.
        return b"" if piece.name in self._texts and not piece.custom else self._call_delta(piece, answer)

    def _call_delta(self, piece: ToolCallDelta, answer: int) -> bytes:
        """The start of a call, if it is not written yet, and this text of its arguments."""
        call, chunk = self._states[answer].calls.get(piece.id), b""
        if call is None:
            call = self._open(piece, answer)
            chunk = self._call_chunk(call, _start_of_call(piece), answer)
        return chunk + self._add_arguments(call, piece, piece.text, answer)

    def _open(self, piece: ToolCallDelta | ToolCallPiece, answer: int) -> _OpenChatCall:
        calls = self._states[answer].calls
        is_older = self._is_older and not calls and not piece.custom
        return calls.setdefault(piece.id, _OpenChatCall(len(calls), is_older=is_older))

    def _add_arguments(
        self, call: _OpenChatCall, piece: ToolCallDelta | ToolCallPiece, text: str, answer: int
    ) -> bytes:
        if not text:
            return b""
        call.texts.append(text)
        return self._call_chunk(call, _more_of_call(text, is_custom=piece.custom), answer)

    def _whole_call(self, piece: ToolCallPiece, answer: int) -> bytes:
        """What is not written yet of a complete call."""
        call, arguments = self._states[answer].calls.get(piece.id), arguments_of(piece)
        written = "" if call is None else "".join(call.texts)
        text = arguments
        if written.strip():  # the model writes JSON in its own way
            text = arguments[len(written) :] if arguments.startswith(written) else ""
        chunk, signature = b"", signature_member(piece.signature)
        if call is None:
            call = self._open(piece, answer)
            chunk, signature = self._call_chunk(call, {**_start_of_call(piece), **signature}, answer), {}
        chunk += self._add_arguments(call, piece, text, answer)
        return chunk + self._call_chunk(call, signature, answer) if signature and not call.is_older else chunk

    def _call_chunk(self, call: _OpenChatCall, members: Json, answer: int) -> bytes:
        if call.is_older:
            return self._chunk(answer, {"function_call": members["function"]})
        return self._chunk(answer, {"tool_calls": [{"index": call.index, **members}]})

    def _other(self, piece: CitationPiece | MediaPiece | WorkPiece, answer: int) -> bytes:
        state = self._states[answer]
        if isinstance(piece, CitationPiece):
            state.citations.extend(_annotations([piece], state.length))
            return b""
        return b"" if isinstance(piece, WorkPiece) else self._media(piece, state, answer)

    def _media(self, piece: MediaPiece, state: _ChoiceState, answer: int) -> bytes:
        if is_sound(piece):
            sound = _sound(piece, self._labels)
            if state.sounds:  # the first part has the id: the SDK would join a second one with it
                sound.pop("id", None)
            state.sounds.append(piece)
            return self._chunk(answer, {"audio": sound})
        if (image := _image(piece)) is None:
            return b""
        state.images += 1
        return self._chunk(answer, {"images": [{**image, "index": state.images - 1}]})

    def _end(self, piece: EndPiece, answer: int, label: Mapping[str, Any] | None) -> bytes:
        state = self._states[answer]
        self._ends.append(piece)
        chunks = b""
        if state.citations:  # OpenAI sends them at once, and its SDK cannot join several
            chunks += self._chunk(answer, {"annotations": state.citations})
        if state.sounds:
            chunks += self._chunk(answer, {"audio": {"expires_at": _expires_at(state.sounds, self._labels)}})
        is_older = len(state.calls) == 1 and all(call.is_older for call in state.calls.values())
        reason = finish_reason(piece, has_refused=state.has_refused, is_older=is_older)
        return chunks + self._chunk(answer, {}, label, tier=tier_member(Api.CHAT, [piece]), **_ending(piece, reason))

    def _chunk(
        self,
        answer: int,
        delta: Mapping[str, Any],
        accord: Mapping[str, Any] | None = None,
        tier: Mapping[str, Any] | None = None,
        **members: Any,
    ) -> bytes:
        choice = {"index": answer, "delta": delta, "finish_reason": None, **members}
        more = {**(tier or {}), **({} if accord is None else {"accord": accord})}
        rest = b"," + _encode(more)[1:-1] if more else b""
        return self._head + b',"choices":[' + _encode(choice) + b"]" + rest + self._tail


def uses_functions(request: ModelRequest) -> bool:
    """Whether the client speaks the older form, `functions`, and so reads only `function_call`."""
    return "functions" in request.fields and "tools" not in request.fields


def usage_counts(ends: Iterable[EndPiece]) -> Json | None:
    """The tokens of all answers together, in the API's shape; None if they are not known."""
    if not (counts := sum_counts(ends)):
        return None
    prompt, completion = counts.get("input_tokens", 0), counts.get("output_tokens", 0)
    usage: Json = {
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


def text_tools(request: ModelRequest) -> frozenset[str]:
    """The names of the client's tools that take text, which backends may have got as functions."""
    tools = [tool.get("custom") for tool in objects(request.body.get("tools")) if tool.get("type") == "custom"]
    return frozenset(str(tool.get("name")) for tool in objects(tools))


def as_custom(piece: ToolCallPiece, texts: frozenset[str]) -> ToolCallPiece:
    """A call of a tool that takes text as the client declared it, although the backend had it as a function."""
    match piece.input:
        case {"input": str(text)} if piece.name in texts and not piece.custom:
            return msgspec.structs.replace(piece, input=text, custom=True)
        case _:
            return piece


def arguments_of(piece: ToolCallPiece) -> str:
    """The arguments of a call as text, or the text that a custom tool takes."""
    is_text = (piece.custom or piece.cut) and isinstance(piece.input, str)
    return piece.input if is_text else arguments_text(piece.input)


def is_sound(piece: MediaPiece) -> bool:
    """Whether this can be the sound of an answer."""
    return piece.media_type.startswith("audio/") and (piece.data or piece.transcript) is not None


def finish_reason(end: EndPiece, *, has_refused: bool, is_older: bool) -> str:
    """The API's word for the end. Text that refuses is a normal end; a filter is one that says nothing of itself."""
    if end.reason == "refusal" and has_refused:
        return "stop"
    return "function_call" if is_older and end.reason == "tool_use" else FINISH_REASONS[end.reason]


def _choice(
    index: int, pieces: Sequence[AnyPiece], labels: AnswerLabels, texts: frozenset[str], *, is_older: bool
) -> Json:
    calls = [as_custom(piece, texts) for piece in pieces if isinstance(piece, ToolCallPiece)]
    thoughts = [piece for piece in pieces if isinstance(piece, ThinkingPiece)]
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece) and not piece.refusal)
    refusal = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.refusal)
    media = _media_members([piece for piece in pieces if isinstance(piece, MediaPiece)], labels)
    message: Json = {
        "role": "assistant",
        "content": text if text or not (calls or refusal or "audio" in media) else None,
        "refusal": refusal or None,
    }
    if reasoning := "".join(piece.text for piece in thoughts):
        message["reasoning_content"] = reasoning
    if any(piece.signature is not None for piece in thoughts):
        message["thinking_blocks"] = _blocks(thoughts)
    is_older = is_older and len(calls) == 1 and not calls[0].custom
    if is_older:
        message["function_call"] = {"name": calls[0].name, "arguments": arguments_of(calls[0])}
    elif calls:
        message["tool_calls"] = [_tool_call(call) for call in calls]
    message |= media
    if annotations := _all_annotations(pieces):
        message["annotations"] = annotations
    end = next((piece for piece in reversed(pieces) if isinstance(piece, EndPiece)), None) or EndPiece()
    reason = finish_reason(end, has_refused=bool(refusal), is_older=is_older)
    return {"index": index, "message": message, "logprobs": None, **_ending(end, reason)}


def _ending(end: EndPiece, reason: str) -> Json:
    """The members of a choice that only its end has."""
    members: Json = {"finish_reason": reason}
    if end.logprobs is not None:
        spoken = [write_logprob(token) for token in end.logprobs if not token.get("refusal")]
        refused = [write_logprob(token) for token in end.logprobs if token.get("refusal")]
        members["logprobs"] = {"content": None if refused and not spoken else spoken, "refusal": refused or None}
    if end.reason == "stop_sequence" and end.stop_sequence is not None:
        members["stop_reason"] = end.stop_sequence  # a member of some servers; the API says "stop" for both
    return members


def _start_of_call(piece: ToolCallDelta | ToolCallPiece) -> Json:
    if piece.custom:
        return {"id": piece.id, "type": "custom", "custom": {"name": piece.name, "input": ""}}
    return {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}


def _more_of_call(text: str, *, is_custom: bool) -> Json:
    return {"custom": {"input": text}} if is_custom else {"function": {"arguments": text}}


def _tool_call(piece: ToolCallPiece) -> Json:
    """A whole call: its start, with all that follows in a stream."""
    call = {**_start_of_call(piece), **signature_member(piece.signature)}
    for name, members in _more_of_call(arguments_of(piece), is_custom=piece.custom).items():
        call[name] |= members
    return call


def _all_annotations(pieces: Sequence[AnyPiece]) -> list[Json]:
    annotations: list[Json] = []
    length = 0
    for piece in pieces:
        if isinstance(piece, TextPiece):
            length += len(piece.text)
        elif isinstance(piece, CitationPiece):
            annotations += _annotations([piece], length)
    return annotations


def _annotations(citations: Iterable[CitationPiece], length: int) -> Iterable[Json]:
    """Citations with an address; one that does not say where its text is follows it, at this place."""
    for piece in citations:
        match piece.source:
            case {"type": "url_citation", "url_citation": dict()}:
                yield piece.source
            case _ if piece.url is not None:
                start, end = (length if place is None else place for place in (piece.start, piece.end))
                about: Json = {"url": piece.url, "title": piece.title or "", "start_index": start, "end_index": end}
                if piece.quote is not None:
                    about["content"] = piece.quote  # as OpenRouter has it
                yield {"type": "url_citation", "url_citation": about}
            case _:
                pass


def _media_members(media: Sequence[MediaPiece], labels: AnswerLabels) -> Json:
    members: Json = {}
    if sounds := [piece for piece in media if is_sound(piece)]:
        parts = [_sound(piece, labels) for piece in sounds]
        members["audio"] = {
            "id": parts[0]["id"],
            "data": join_base64([part["data"] for part in parts]),
            "transcript": "".join(part["transcript"] for part in parts),
            "expires_at": _expires_at(sounds, labels),
        }
    images = [image for piece in media if not is_sound(piece) and (image := _image(piece)) is not None]
    if images:
        members["images"] = [{**image, "index": index} for index, image in enumerate(images)]
    return members


def _sound(piece: MediaPiece, labels: AnswerLabels) -> Json:
    audio_id = piece.source.get("id")
    return {
        "id": audio_id if isinstance(audio_id, str) else f"audio_{labels.id}",
        "data": piece.data or "",
        "transcript": piece.transcript or "",
    }


def _expires_at(sounds: Sequence[MediaPiece], labels: AnswerLabels) -> int:
    """Until when a later request can refer to the sound: without a date of the endpoint's own, it cannot."""
    dates = (piece.source.get("expires_at") for piece in sounds)
    return next((date for date in dates if isinstance(date, int)), labels.created)


def _image(piece: MediaPiece) -> Json | None:
    if not piece.media_type.startswith("image/"):
        return None
    url = piece.uri if piece.data is None else data_url(piece.media_type, piece.data)
    return None if url is None else {"type": "image_url", "image_url": {"url": url}}


def _blocks(thoughts: Iterable[ThinkingPiece]) -> list[Json]:
    """Reasoning in blocks, each with its signature, which ends it; redacted reasoning is a block of its own."""
    blocks: list[Json] = []
    text = ""
    for piece in thoughts:
        if piece.redacted:
            blocks += [_block(text, "")] if text else []
            blocks.append({"type": "redacted_thinking", "data": piece.signature or ""})
            text = ""
            continue
        text += piece.text
        if piece.signature is not None:
            blocks.append(_block(text, piece.signature))
            text = ""
    return [*blocks, _block(text, "")] if text else blocks


def _block(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}
