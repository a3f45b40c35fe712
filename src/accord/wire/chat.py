"""One message of a conversation's history (CAP), and a history that is read when somebody looks at it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import overload

from pydantic import Field, TypeAdapter

from accord.wire.message import Message


class Role(StrEnum):
    """Who is speaking."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ChatMessage(Message, frozen=True):
    """What one speaker said. The timestamp may be left out on the wire; then it is the time of reading."""

    role: Role
    content: str
    name: str | None = None
    tool_call_id: str | None = None
    timestamp: datetime = Field(default_factory=lambda: datetime.now(UTC))


class Transcript(Sequence[ChatMessage]):
    """Messages that are still the JSON texts they were kept as: most agents look at few of them, or at none."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[ChatMessage]:
        return iter(self._read)

    @overload
    def __getitem__(self, place: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ChatMessage]: ...
    def __getitem__(self, place: int | slice) -> ChatMessage | Sequence[ChatMessage]:
        return self._read[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - as of every list

    @cached_property
    def _read(self) -> list[ChatMessage]:
        # All at once: one call into the parser costs as much as reading several of them.
        return _MESSAGES.validate_json(f"[{','.join(self._texts)}]")


_MESSAGES = TypeAdapter(list[ChatMessage])
