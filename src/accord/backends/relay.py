"""Pass requests of an API on to an endpoint that speaks the same API, and its answers back, as they are.

A request keeps every member, known or not; an answer is bytes, of which only its id, the model and the usage are read.
Pure but for `RelayedReply`, which reads one open reply of the endpoint.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from accord.backends.failure import EndpointError, Failure, FailureReport
from accord.backends.upstream import UpstreamError, UpstreamReply
from accord.core.sse import EventBlocks
from accord.wire.conversation import ConversationMessage, TextPart
from accord.wire.disposition import BackendApi

PATHS: Final[Mapping[BackendApi, str]] = {
    BackendApi.CHAT: "/chat/completions",
    BackendApi.RESPONSES: "/responses",
    BackendApi.MESSAGES: "/v1/messages",
}
MAX_ID_CHARS: Final = 200
"""How much of an answer's id is kept."""
MAX_REASON_CHARS: Final = 40
UNFINISHED: Final = frozenset({"in_progress", "queued"})
"""The states of a response that has not ended."""
COUNT_TOKENS_PATH: Final = "/v1/messages/count_tokens"
API_OF: Final[Mapping[str, BackendApi]] = {
    "openai chat API": BackendApi.CHAT,
    "openai responses API": BackendApi.RESPONSES,
    "anthropic messages API": BackendApi.MESSAGES,
    "gemini API": BackendApi.GEMINI,
}
"""The column of the field table for each model API, by its name."""

_FINISHED: Final = re.compile(rb'"finish_reason"\s*:\s*"(\w{1,40})"')
_USAGE: Final = re.compile(rb'"usage"\s*:\s*\{')
_COMPLETE: Final[Mapping[BackendApi, re.Pattern[bytes]]] = {
    BackendApi.CHAT: re.compile(rb'\[DONE\]|"finish_reason"\s*:\s*"'),
    BackendApi.RESPONSES: re.compile(rb"response\.(?:completed|incomplete|failed)"),
    BackendApi.MESSAGES: re.compile(rb"message_stop"),
}
_REPORTS_ERROR: Final = re.compile(rb'^(?:event:\s*error\b|data:\s*\{\s*"error"\s*:|data:\s*\{\s*"type"\s*:\s*"error")')


class _AnswerHead(msgspec.Struct):
    """What is read of an answer or of one of its events; the APIs put it at the top or one level below."""

    id: Any = None
    stop_reason: Any = None
    status: Any = None
    delta: Any = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    choices: list[dict[str, Any]] | None = None
    response: "_AnswerHead | None" = None
    message: "_AnswerHead | None" = None


def _finish_reasons(part: _AnswerHead) -> tuple[str, ...]:
    """Why the answers in this part ended, in the API's own words; empty if they have not ended."""
    delta: Any = part.delta
    if part.choices:
        found = [each.get("finish_reason") for each in part.choices]
    else:
        inner = cast("dict[str, Any]", delta).get("stop_reason") if isinstance(delta, dict) else None
        found = [part.stop_reason or inner or part.status]
    return tuple(each[:MAX_REASON_CHARS] for each in found if isinstance(each, str) and each not in UNFINISHED)


_decode_head: Final = msgspec.json.Decoder(_AnswerHead).decode


@dataclass(slots=True)
class AnswerSummary:
    """What was read so far: the answer's id, why it ended, the model, its usage, and the number of answers."""

    id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    model: str | None = None
    counts: dict[str, int] = field(default_factory=dict[str, int])
    answers: int = 1

    @property
    def usage(self) -> dict[str, int] | None:
        """The usage as backends report it; all input counts as input, cached or not."""
        counts = dict(self.counts)
        uncached = counts.pop("uncached_input_tokens", None)
        if uncached is not None:
            counts["input_tokens"] = (
                uncached + counts.get("cached_input_tokens", 0) + counts.get("cache_write_tokens", 0)
            )
        return counts or None

    def read(self, data: bytes) -> None:
        """Read a whole answer, or the data of one event; anything else changes nothing."""
        try:
            head = _decode_head(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for part in (head, head.response, head.message):
            if part is not None:
                self.model = self.model or part.model
                if self.id is None and isinstance(part.id, str):
                    self.id = part.id[:MAX_ID_CHARS]
                self.finish_reasons = _finish_reasons(part) or self.finish_reasons
                if part.usage:
                    self.counts.update(usage_counts(part.usage))

    def count_choices(self, data: bytes) -> None:
        """Count the answers of a stream by the numbers in one of its events."""
        try:
            choices = _decode_head(data).choices or ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self.answers = max([self.answers, *(1 + each.get("index", 0) for each in choices)])


def count_answers(data: bytes) -> int:
    """How many answers a whole answer has."""
    try:
        return len(_decode_head(data).choices or ())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


USAGE_NAMES: Final[Mapping[str, str]] = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_input_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
DETAIL_NAMES: Final[Mapping[str, str]] = {
    "cached_tokens": "cached_input_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "thinking_tokens": "reasoning_tokens",
}


def usage_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    """The counts of any API's usage object, under the names that backends use."""
    counts = {ours: usage[name] for name, ours in USAGE_NAMES.items() if isinstance(usage.get(name), int)}
    if isinstance(usage.get("input_tokens"), int):
        # The messages API counts only what was not in the cache.
        is_messages = "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage
        counts["uncached_input_tokens" if is_messages else "input_tokens"] = usage["input_tokens"]
    for name in ("prompt_tokens_details", "completion_tokens_details", "input_tokens_details", "output_tokens_details"):
        details: Any = usage.get(name)
        if isinstance(details, dict):
            held = cast("dict[str, Any]", details)
            counts |= {ours: held[given] for given, ours in DETAIL_NAMES.items() if isinstance(held.get(given), int)}
    return counts


def relay_body(
    kind: BackendApi, body: dict[str, Any], model: str, *, usage_in_stream: bool, keeps_reasoning: bool
) -> tuple[dict[str, Any], bool]:
    """The body for the endpoint, and whether usage is requested that the client did not ask for.

    Streams are asked for their usage, so that they count. The endpoint stores no responses: Accord does, and then needs
    the reasoning in a form that can be sent back.
    """
    sent = {**body, "model": model}
    if kind is BackendApi.CHAT and sent.get("stream") and usage_in_stream:
        options: Any = sent.get("stream_options")
        held = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
        if not held.get("include_usage"):
            sent["stream_options"] = {**held, "include_usage": True}
            return sent, True
    if kind is BackendApi.RESPONSES:
        stores = sent.get("store") is not False
        sent["store"] = False
        sent.pop("previous_response_id", None)
        items: Any = sent.get("input")
        if isinstance(items, list):
            sent["input"] = [each for each in cast("list[dict[str, Any]]", items) if not _is_by_reference(each)]
        include: Any = sent.get("include") or []
        if stores and keeps_reasoning and ENCRYPTED_REASONING not in include:
            sent["include"] = [*include, ENCRYPTED_REASONING]
    return sent, False


def _is_by_reference(item: dict[str, Any]) -> bool:
    """Whether this is reasoning without its encrypted form, which only an endpoint that stored it could look up."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"


def with_messages(kind: BackendApi, body: dict[str, Any], added: Sequence[ConversationMessage]) -> dict[str, Any]:
    """The body with further messages of text at the end of its conversation."""
    texts = [
        {
            "role": message.role.value,
            "content": "".join(part.text for part in message.content if isinstance(part, TextPart)),
        }
        for message in added
    ]
    name = "input" if kind is BackendApi.RESPONSES else "messages"
    earlier: Any = body.get(name) or []
    if isinstance(earlier, str):
        earlier = [{"role": "user", "content": earlier}]
    return {**body, name: [*earlier, *texts]}


class RelayedReply:
    """One open reply of an endpoint. `fail` makes the error for a failure in it."""

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        reply: UpstreamReply,
        kind: BackendApi,
        fail: Callable[[FailureReport], EndpointError],
        read_error: Callable[[bytes], FailureReport],
        max_bytes: int,
        *,
        hides_usage: bool,
        several: bool = False,
    ) -> None:
        self.summary: Final = AnswerSummary()
        self.is_stream: Final = "event-stream" in reply.headers.get("content-type", "")
        self._reply: Final = reply
        self._kind: Final = kind
        self._fail: Final = fail
        self._read_error: Final = read_error
        self._max_bytes: Final = max_bytes
        self._hides_usage: Final = hides_usage
        self._is_complete = False
        self._several: Final = several
        self._completes: Final = _COMPLETE[kind].search

    async def whole(self) -> bytes:
        """The whole answer; raises `EndpointError` if it breaks off or is not an object."""
        length = self._reply.headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > self._max_bytes:
            raise self._not_understood(f"it is longer than {self._max_bytes} bytes")
        try:
            data = await self._reply.read_all(self._max_bytes)
        except UpstreamError as error:
            raise self._fail(FailureReport(error.failure, reason=error.reason)) from None
        if len(data) > self._max_bytes:
            raise self._not_understood(f"it is longer than {self._max_bytes} bytes")
        if not data.lstrip().startswith(b"{"):
            raise self._not_understood("it is not a JSON object")
        self.summary.read(data)
        return data

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The answer's events, as many at a time as have arrived.

        Raises `EndpointError` if the endpoint reports an error before anything else, or if the stream breaks off.
        """
        blocks, size, is_first = EventBlocks(), 0, True
        while data := await self._read():
            size += len(data)
            if size > self._max_bytes:
                raise self._not_understood(f"it is longer than {self._max_bytes} bytes")
            block = blocks.feed(data)
            if is_first and block:
                is_first = False
                if _REPORTS_ERROR.match(block):
                    raise self._fail(self._read_error(_event_data(block)))
                self.summary.read(_event_data(block))  # the first event names the model
            if block := self._inspect(block):
                yield block
        if rest := self._inspect(blocks.finish()):
            yield rest
        if not self._is_complete:
            raise self._not_understood("the stream ended before the answer did")

    def _inspect(self, block: bytes) -> bytes:
        """Read the usage in these events and note whether the answer is complete; returns the events to pass on."""
        if not self._is_complete:
            self._is_complete = self._completes(block) is not None
            # The APIs that have usage in their last event are read there.
            if self._is_complete and self._kind is BackendApi.CHAT:
                self.summary.finish_reasons = tuple(each.decode() for each in _FINISHED.findall(block))
        if self._several:
            for event in block.split(b"\n\n"):
                self.summary.count_choices(_event_data(event))
        return self._take_usage(block) if _USAGE.search(block) else block

    async def close(self) -> None:
        """Close the reply; its connection is used again if all was read."""
        await self._reply.close()

    def _take_usage(self, block: bytes) -> bytes:
        """Read the usage in these events; remove the event that only has the usage which the client did not ask for."""
        kept: list[bytes] = []
        for event in block.split(b"\n\n"):
            data = _event_data(event)
            if not data or not _USAGE.search(event):
                kept.append(event)
                continue
            self.summary.read(data)
            if not (self._hides_usage and _has_no_choices(data)):
                kept.append(event)
        return b"\n\n".join(kept)

    async def _read(self) -> bytes:
        try:
            return await self._reply.read()
        except UpstreamError as error:
            raise self._fail(FailureReport(error.failure, reason=error.reason)) from None

    def _not_understood(self, reason: str) -> EndpointError:
        return self._fail(FailureReport(Failure.NOT_UNDERSTOOD, reason=reason))


def _event_data(event: bytes) -> bytes:
    """The data of the first event in these lines."""
    lines = [line for line in event.splitlines() if line.startswith(b"data:")]
    return lines[0][5:].strip() if lines else b""


def _has_no_choices(data: bytes) -> bool:
    try:
        return not _decode_head(data).choices
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
