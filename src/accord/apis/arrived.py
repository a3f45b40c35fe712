"""What has arrived of an answer, counted in tokens where its endpoint did not say how many it was. Pure.

It reads the events and answers of every API here alike, broken ones included, by the members in which they have what a
model wrote.
"""

from math import ceil
from typing import Any, Final, cast

import msgspec

from accord.core.work.estimate_tokens import bytes_tokens, text_tokens

ANSWER_MEMBERS: Final = ("choices", "delta", "content_block", "candidates", "output", "content")
"""Where the model APIs have what a model wrote, in an event or in a whole answer."""
OTHER_MEMBERS: Final = frozenset(
    {"call_id", "finishReason", "finish_reason", "id", "logprobs", "object", "role", "status", "stop_reason", "type"}
)
"""Members inside of these that no model wrote."""
ARGUMENTS: Final = ("input", "args")
"""Where they have the arguments of a call as an object."""
FOLD_BYTES: Final = 64 << 10
"""How much of a stream is kept before it is counted. Most streams report their usage, and are never counted."""
MAX_LINE_BYTES: Final = 1 << 20
"""Of a longer line, all bytes are counted as if they were text."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class ArrivedAnswer:
    """What has arrived of an answer, counted in tokens only if that is needed."""

    __slots__ = ("_body", "_fold_at", "_is_stream", "_items", "_size", "_text")

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self._size = 0
        self._fold_at = FOLD_BYTES
        self._is_stream = False
        self._text = 0.0
        self._items = 0.0
        """The tokens of items that are sent whole at their end, after their deltas or instead of them."""

    def add_body(self, data: bytes) -> None:
        """Add bytes of an answer that is not streamed."""
        self._body.append(data)

    def add_events(self, data: bytes) -> None:
        """Add bytes of a stream of events."""
        self._is_stream = True
        self._body.append(data)
        self._size += len(data)
        if self._size >= self._fold_at:
            self._fold()

    def clear(self) -> None:
        """Drop what is kept to be counted: the usage is known."""
        self._body.clear()

    def tokens(self) -> int:
        """How many tokens have arrived; 0 only if nothing has that a model wrote."""
        if self._is_stream:
            self._fold()
        left = _Written()
        left.read(b"".join(self._body).removeprefix(b"data:"))  # a body, or a line within which a stream broke off
        return ceil(max(self._text, self._items) + left.tokens())

    def _fold(self) -> None:
        """Count the complete lines, and keep the rest."""
        data, written = b"".join(self._body), _Written()
        end = data.rfind(b"\n") + 1
        if len(data) - end > MAX_LINE_BYTES:
            end = len(data)
        for line in data[:end].splitlines():
            if line.startswith(b"data:"):
                written.read(line[5:])
            elif not line.startswith((b"event:", b"id:", b"retry:", b":")):  # the rest of a line that was too long
                written.unread.append(line)
        # All at once: counting each event alone would cost several times as much.
        self._text += written.tokens()
        self._items += text_tokens("".join(written.items))
        self._body, self._size = [data[end:]], len(data) - end
        self._fold_at = max(FOLD_BYTES, 2 * self._size)


class _Written:
    """What a model wrote in events or an answer: texts, items that repeat them, and what could not be read."""

    __slots__ = ("items", "texts", "unread")

    def __init__(self) -> None:
        self.texts: Final[list[str]] = []
        self.items: Final[list[str]] = []
        self.unread: Final[list[bytes]] = []

    def tokens(self) -> float:
        """The tokens of the texts, and of all bytes that could not be read."""
        return text_tokens("".join(self.texts)) + bytes_tokens(b"".join(self.unread))

    def read(self, data: bytes) -> None:
        """Read an event or an answer in JSON."""
        try:
            members = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            members = None
        if isinstance(members, dict):
            event = cast("dict[str, Any]", members)
            self._add([event[name] for name in ANSWER_MEMBERS if name in event], self.texts)
            if "item" in event and str(event.get("type")).endswith(".done"):
                self._add([event["item"]], self.items)
        elif (unread := data.strip()) != b"[DONE]":
            self.unread.append(unread)

    def _add(self, left: list[Any], texts: list[str]) -> None:
        """Add every text inside of these; an endpoint may nest them deeper than Python recurses."""
        while left:
            each = left.pop()
            if isinstance(each, str):
                texts.append(each)
            elif isinstance(each, list):
                left += cast("list[Any]", each)
            elif isinstance(each, dict):
                for name, member in cast("dict[str, Any]", each).items():
                    if name not in OTHER_MEMBERS:
                        left.append(_encode(member).decode() if name in ARGUMENTS else member)
