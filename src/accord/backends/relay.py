"""Pass a request on to an endpoint that speaks the same API, and its answer back, as bytes.

An answer is checked and watched, not changed, but for labels of another Accord and usage that its client did not ask
for. What an event is, says the codec (`apis/relayed.py`).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from accord.apis.arrived import ArrivedAnswer
from accord.apis.codec import WRONG_SHAPE, MalformedAnswerError, RelayedApi, parse_object
from accord.apis.failure import EndpointError, Failure, FailureReport
from accord.apis.relayed import SEVERAL_ANSWERS, AnswerEvent, AnswerSummary
from accord.backends.upstream import UpstreamError, UpstreamReply
from accord.core.sse import EventBlocks, ServerEvent, parse_block, plain_data, split_events
from accord.core.work.backend_call import BackendCall
from accord.errors import BackendError, InvalidMessageError
from accord.wire.message import MAX_DEPTH

MAX_PREAMBLE_BYTES: Final = 64 << 10
"""Of comments before the first event of a stream, which some endpoints send while a request waits."""
MAX_STREAM_BYTES: Final = 256 << 20
"""Of a whole answer, most of which is framing in a stream. It also bounds what a reader holds back, such as a call."""
TOO_LONG: Final = "it is longer than {} bytes"
LONG_PREAMBLE: Final = "too many comments came before it"
LABEL: Final = "accord"
"""The member with which an endpoint that is another Accord labels its answers."""
_ENVELOPES: Final = ("response", "message")
"""The members of an event that may hold the answer."""
SHALLOW_BYTES: Final = 2 * MAX_DEPTH
"""A shorter event is not nested too deep."""
PLAIN_BYTES: Final = 4_000
"""A shorter event has no number that clients could not read."""
_encode: Final = msgspec.json.Encoder().encode


def _is_plain(event: bytes) -> bool:
    return len(event) <= PLAIN_BYTES and event.count(b"[") + event.count(b"{") <= MAX_DEPTH


@lru_cache
def _lines_decoder(event_type: type[AnswerEvent]) -> Callable[[bytes], Sequence[AnswerEvent]]:
    return msgspec.json.Decoder(event_type).decode_lines


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """A request that is passed on: the members of its body, some of them as JSON text (`msgspec.Raw`)."""

    members: Mapping[str, Any]
    is_streamed: bool
    answers: int
    """How many answers are wanted."""
    hides_usage: bool
    """Whether the usage in its stream is requested for Accord alone."""


class RelayedReply:
    """One open reply of an endpoint. `fail` makes the error for a failure in it."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that are handed in
        self,
        reply: UpstreamReply,
        api: RelayedApi,
        fail: Callable[[FailureReport], EndpointError],
        read_error: Callable[[bytes], FailureReport],
        call: BackendCall,
        request: RelayedRequest,
    ) -> None:
        self._watcher: Final = api.watcher()
        self.summary: Final[AnswerSummary] = self._watcher.summary
        self._reply: Final = reply
        self._make_error: Final = fail
        self._call: Final = call
        self._arrived: Final = ArrivedAnswer()
        call.arrived = self._arrived
        self._read_error: Final = read_error
        self._request: Final = request
        self._skipped_bytes = 0
        self._decode_events: Final = _lines_decoder(self._watcher.event_type)

    async def whole(self) -> bytes:
        """The whole answer; raises `EndpointError` if it breaks off or is not an answer of the API."""
        try:
            length = self._reply.headers.get("content-length", "")
            if length.isdigit() and int(length[:20]) > MAX_STREAM_BYTES:
                raise self._not_understood(TOO_LONG.format(MAX_STREAM_BYTES))
            parts, size = list[bytes](), 0
            while part := await self._read():
                parts.append(part)
                size += len(part)
                self._arrived.add_body(part)
                if size > MAX_STREAM_BYTES:
                    raise self._not_understood(TOO_LONG.format(MAX_STREAM_BYTES))
        finally:
            await self._reply.close()
        data = b"".join(parts)
        members = self._parse(data)
        if members.get("error") or members.get("type") == "error":
            raise self._fail(self._read_error(data))
        if self._take_labels(members):
            data = _encode(members)
        self._watcher.note_answer(self._convert(members, self._watcher.answer_type))
        self._call.report(self.summary.usage or None, self.summary.model)
        self._end()
        return data

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The answer's events, the first one alone, then as many at a time as have arrived.

        Raises `EndpointError` if the endpoint reports an error, if an event is malformed, or if the stream breaks off.
        """
        blocks, size = EventBlocks(), 0
        try:
            while data := await self._read():
                size += len(data)
                self._arrived.add_events(data)
                if size > MAX_STREAM_BYTES:
                    raise self._not_understood(TOO_LONG.format(MAX_STREAM_BYTES))
                try:
                    arrived = blocks.feed(data)
                except InvalidMessageError:
                    raise self._not_understood("an event is too long") from None
                for passed in self._inspect_all(arrived):
                    yield passed
            for passed in self._inspect_all(blocks.finish()):
                # Its blank line never came: the error that follows has to be an event of its own.
                is_whole = self.summary.is_complete and self.summary.failure is None
                yield passed if is_whole else passed + b"\n\n"
            if not self.summary.is_complete:
                raise self._not_understood("the stream ended before the answer did")
            self._end()
        finally:
            await self._reply.close()

    def _end(self) -> None:
        """Note that all has arrived; raises `BackendError` for an error, or fewer answers than were requested.

        Of a stream, all bytes are passed on before that.
        """
        if (failure := self.summary.failure) is not None:
            raise self._fail(failure)
        self._call.complete()
        if self.summary.answers < self._request.answers:
            message = f"{self._call.backend}: the endpoint gave fewer answers than were requested"
            raise BackendError(message, is_outage=False, refused=SEVERAL_ANSWERS)

    def _inspect_all(self, text: bytes) -> Iterator[bytes]:
        """Yield what is passed on of these events: the first of the answer alone, and those before a fault."""
        if not self._watcher.has_begun:
            blocks = iter(split_events(text))
            while not self._watcher.has_begun and (block := next(blocks, None)) is not None:
                if passed := self._inspect(block):
                    yield passed
            text = b"".join(blocks)
        # The last one is often an end mark, and nearly always the only one that is not plain.
        for part in (text, text[: text.rfind(b"\n\n", 0, -2) + 2]):
            if part and (events := self._read_plain(part)) is not None:
                if passed := self._note_plain(part, events):
                    yield passed
                text = text[len(part) :]
                break
        yield from self._inspect_each(split_events(text))

    def _inspect_each(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what is passed on of these events, those before a fault included, together."""
        passed: list[bytes] = []
        try:
            passed.extend(map(self._inspect, blocks))
        except EndpointError:
            if rest := b"".join(passed):
                yield rest
            raise
        if rest := b"".join(passed):
            yield rest

    def _inspect(self, block: bytes) -> bytes:
        """Read one event; return it as it is passed on, or nothing if it is not for the client."""
        event = parse_block(block)
        if event is None or not (data := event.data.strip()):
            return block if self._watcher.has_begun else self._skip(block)
        watcher = self._watcher
        if watcher.is_end_mark(data):
            if not watcher.has_begun:
                raise self._not_understood("there is no answer in it")
            return block
        read, block = self._read_closely(event, data, block)
        had_usage = self.summary.usage
        has_only_usage, watcher.has_begun = watcher.note_event(read), True
        if self.summary.usage is not had_usage or self._call.model is None:
            self._report()
        # Usage that the client did not ask for comes in an event of its own.
        return b"" if has_only_usage and self._request.hides_usage else block

    def _read_closely(self, event: ServerEvent, data: bytes, block: bytes) -> tuple[AnswerEvent, bytes]:
        """The event and its bytes without an endpoint's label; raises `EndpointError` if it is none."""
        members = self._parse(data)
        if event.name == "error" or members.get("error") or members.get("type") == "error":
            raise self._fail(self._read_error(data))
        read = self._convert(members, self._watcher.event_type)
        if self._watcher.is_error(read):
            raise self._fail(self._read_error(data))
        if self._take_labels(members):
            lines = [f"{name}: {value}\n" for name, value in (("event", event.name), ("id", event.id)) if value]
            block = b"%bdata: %b\n\n" % ("".join(lines).encode(), _encode(members))
        return read, block

    def _report(self) -> None:
        self._call.report(self.summary.usage or None, self.summary.model)
        if self.summary.has_final_usage:  # the client may leave before the stream ends
            self._call.complete()

    def _skip(self, block: bytes) -> bytes:
        """Count what comes before the first event: nothing of it is passed on, and there may not be much."""
        self._skipped_bytes += len(block)
        if self._skipped_bytes > MAX_PREAMBLE_BYTES:
            raise self._not_understood(LONG_PREAMBLE)
        return b""

    def _read_plain(self, text: bytes) -> Sequence[AnswerEvent] | None:
        """Fast path: events without anything that needs a closer look, which takes four times as long; or None.

        Everything is asked of all events at once: a call for each would cost as much as reading it.
        """
        if b"accord" in text or b"\\u00" in text:  # a letter of that name, perhaps
            return None
        if (plain := plain_data(text)) is None:
            return None
        data, count = plain
        lines = data.split(b"\n")
        if max(map(len, lines)) > SHALLOW_BYTES and not all(map(_is_plain, lines)):
            return None
        try:
            text.decode()  # the decoder does not look at members that it skips
            events = self._decode_events(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return events if len(events) == count and not any(map(self._watcher.is_error, events)) else None

    def _note_plain(self, text: bytes, events: Sequence[AnswerEvent]) -> bytes:
        """Note what these events say of the answer; return what is passed on of them."""
        summary, note = self.summary, self._watcher.note_event
        had_usage, hidden = summary.usage, list[int]()
        for number, event in enumerate(events):
            if note(event):
                hidden.append(number)
        if summary.usage is not had_usage or self._call.model is None:
            self._report()
        if not (hidden and self._request.hides_usage):
            return text
        return b"".join(block for number, block in enumerate(split_events(text)) if number not in hidden)

    def _parse(self, data: bytes) -> dict[str, Any]:
        """The object in this text; raises `EndpointError`."""
        try:
            return parse_object(data)
        except MalformedAnswerError as error:
            raise self._not_understood(str(error)) from None

    def _convert(self, members: dict[str, Any], shape: type[msgspec.Struct]) -> Any:
        """The same as this type; raises `EndpointError`."""
        try:
            return msgspec.convert(members, shape)
        except msgspec.ValidationError:
            raise self._not_understood(WRONG_SHAPE) from None

    def _take_labels(self, members: dict[str, Any]) -> bool:
        """Take the endpoint's labels out of an object: the client is to find ours only. Whether there were any."""
        inner: list[Any] = [members.get(name) for name in _ENVELOPES]
        envelopes = [members, *(cast("dict[str, Any]", each) for each in inner if isinstance(each, dict))]
        labelled = [each for each in envelopes if LABEL in each]
        for each in labelled:
            label = each.pop(LABEL)
            if self.summary.label is None and isinstance(label, dict):
                self.summary.label = cast("dict[str, Any]", label)
        return bool(labelled)

    async def _read(self) -> bytes:
        try:
            return await self._reply.read()
        except UpstreamError as error:
            raise self._fail(FailureReport(error.failure, reason=error.reason)) from None

    def _fail(self, report: FailureReport) -> EndpointError:
        self._call.has_failed = True
        return self._make_error(report)

    def _not_understood(self, reason: str) -> EndpointError:
        return self._fail(FailureReport(Failure.NOT_UNDERSTOOD, reason=reason))
