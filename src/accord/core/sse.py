"""Parse server-sent events: bytes in, events out, wherever the bytes were cut. It is not aware of packets.

It follows the WHATWG's rules for event streams, with two differences. An event has an id only if its own lines have
one, so that a reader who counts packets sees one without a number. And data stays bytes: replacing invalid UTF-8 here
would change a message silently; the parser of the message rejects it.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from accord.errors import InvalidMessageError, Problem

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n?|\n")
_EVENT_END: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_NAMED_START: Final = re.compile(rb"\n\nevent: [^\n]*\ndata: (?=\{)")
_COMMENTS: Final = re.compile(rb"(?::[^\n]*\n|\n)+")
_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 0x0A
_DATA: Final = b"data: "


class ServerEvent(Struct, frozen=True):
    """One event as received."""

    data: bytes
    id: str | None = None
    name: str | None = None


class EventDecoder:
    """Parses the events of one connection. After it has raised, the rest of the connection cannot be parsed."""

    __slots__ = (
        "_data",
        "_data_bytes",
        "_ended_in_cr",
        "_id",
        "_is_first_line",
        "_line",
        "_max_bytes",
        "_name",
        "comments",
    )

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        # The number of comments so far: servers send them as heartbeats.
        self.comments = 0
        self._max_bytes: Final = max_event_bytes
        self._line: Final = bytearray()
        self._ended_in_cr = False
        self._is_first_line = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._id: str | None = None
        self._name: str | None = None

    @property
    def pending_bytes(self) -> int:
        """How much has arrived of an event that is not complete yet."""
        return len(self._line) + self._data_bytes

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:  # noqa: C901 - a call for each event costs more
        """Yield the events that these bytes complete; iterate to the end. Raises `InvalidMessageError` at the limit."""
        start = 0
        if chunk:
            # A line that ended in CR at the last cut may have ended in CR LF.
            start = int(self._ended_in_cr and chunk[0] == _LF)
            self._ended_in_cr = chunk.endswith(b"\r")
        is_plain = b"\r" not in chunk
        while True:
            if is_plain and self._is_between_events():
                # Fast path: comments between events, of which an endpoint may send as many as it likes.
                if (comments := _COMMENTS.match(chunk, start)) and comments.end() - start <= self._max_bytes:
                    self.comments += chunk.count(b"\n:", start, comments.end()) + chunk.startswith(b":", start)
                    start = comments.end()
                # Fast path: nearly every stream consists of blocks with one line of data.
                while chunk.startswith(_DATA, start) and (end_at := chunk.find(b"\n", start)) >= 0:
                    if not chunk.startswith(b"\n", end_at + 1):
                        break
                    self._check_size(end_at - start)
                    event = ServerEvent(chunk[start + len(_DATA) : end_at])
                    start = end_at + 2
                    yield event
            end = _LINE_END.search(chunk, start)
            if end is None:
                break
            line = chunk[start : end.start()]
            start = end.end()
            if self._line:
                line = bytes(self._line + line)
                self._line.clear()
            if event := self._take_line(line):
                yield event
        self._line.extend(chunk[start:])
        self._check_size(len(self._line))

    def _is_between_events(self) -> bool:
        return not (self._line or self._data or self._is_first_line) and self._id is None and self._name is None

    def _take_line(self, line: bytes) -> ServerEvent | None:
        self._check_size(len(line))
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._event()
        name, _, value = line.partition(b":")
        self._take_field(name, value.removeprefix(b" "))
        return None

    def _take_field(self, name: bytes, value: bytes) -> None:
        match name:
            case b"":
                self.comments += 1
            case b"data":
                # The line end between two pieces of data counts too, or a million empty ones would be free.
                self._data_bytes += len(value) + 1
                self._check_size(self._data_bytes - 1)
                self._data.append(value)
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"event":
                self._name = value.decode(errors="replace")
            case _:
                # Unknown fields are skipped, so that the format can grow; `retry` too: the client has its own backoff.
                pass

    def _event(self) -> ServerEvent | None:
        """Return the event of the lines before this blank one; None without data."""
        event = ServerEvent(b"\n".join(self._data), self._id, self._name) if self._data else None
        self._data, self._data_bytes, self._id, self._name = [], 0, None, None
        return event

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise InvalidMessageError("event stream", [Problem("event", f"at most {self._max_bytes} bytes")])


class EventBlocks:
    """Holds a stream of bytes back to the ends of events, without parsing them: for events that are passed on."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete, with the blank line that ends the last of them."""
        if self._rest:
            data = self._rest + data
        if b"\r" not in data:
            end = data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
        else:
            # A line end that is cut after its CR is not one yet.
            ends = [found.end() for found in _EVENT_END.finditer(data, 0, len(data) - data.endswith(b"\r"))]
            end = ends[-1] if ends else 0
        self._rest = data[end:]
        if len(self._rest) > MAX_EVENT_BYTES:
            raise InvalidMessageError("event", [Problem("(the event)", f"at most {MAX_EVENT_BYTES} bytes")])
        return data[:end]

    def finish(self) -> bytes:
        """Return what follows the last complete event."""
        rest, self._rest = self._rest, b""
        return rest


def split_events(text: bytes) -> list[bytes]:
    """Return each event of this text with the blank line that ends it, and what follows the last one, if anything."""
    if b"\r" not in text:
        *blocks, rest = text.split(b"\n\n")
        blocks = [block + b"\n\n" for block in blocks]
    else:
        blocks, start = list[bytes](), 0
        for end in _EVENT_END.finditer(text):
            blocks.append(text[start : end.end()])
            start = end.end()
        rest = text[start:]
    return [*blocks, rest] if rest else blocks


def plain_data(text: bytes) -> tuple[bytes, int] | None:
    """Return the objects of these events, one after the other, and their number; None if any event needs a closer look.

    Nearly every event is one line with an object, perhaps after a line with its name, which must not be `error`. Each
    begins and ends with a brace, so that no object can begin in one event and end in another: `}{` is no JSON. A caller
    compares the number with that of the objects, since one event may have several.
    """
    count = text.count(b"\n\n")
    if not text.endswith(b"\n\n") or text.count(b"}\n\n") != count or b"\r" in text:
        return None
    if text.startswith(b"data: {"):
        starts, data = text.count(b"\n\ndata: {"), text[len(_DATA) : -2].replace(b"\n\ndata: ", b"\n")
    elif b"event: error\n" not in text:
        data, starts = _NAMED_START.subn(b"\n", b"\n\n" + text[:-2])
        starts -= 1
    else:
        return None
    return (data, count) if starts == count - 1 else None


def parse_block(block: bytes) -> ServerEvent | None:
    """Return the event of this block; None if it has no data, such as a comment."""
    if b"data" not in block:
        return None
    # Fast path: nearly every event has one line of data, and perhaps its name before that.
    name, start = None, 0
    if block.startswith(b"event: "):
        start = block.find(b"\n") + 1
        name = block[7 : start - 1].decode(errors="replace")
    if block.startswith(_DATA, start) and block.find(b"\n", start) == len(block) - 2 and b"\r" not in block:
        return ServerEvent(block[start + len(_DATA) : -2], name=name)
    return next(EventDecoder().feed(block + b"\n\n"), None)
