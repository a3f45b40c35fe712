"""The messages API where requests and answers are passed on: what is read of an answer. Pure."""

from typing import Any

from msgspec import Struct

from accord.apis.failure import failure_of_end
from accord.apis.messages.read_answer import count_input, read_usage
from accord.apis.relayed import AnswerEvent, AnswerWatcher


class WholeMessagesAnswer(Struct):
    """A message, complete or not."""

    content: list[dict[str, Any]]
    id: Any = None
    model: str | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None


class MessagesEvent(AnswerEvent):
    """An event of a stream."""

    type: str = ""
    message: WholeMessagesAnswer | None = None
    delta: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None


class MessagesWatcher(AnswerWatcher):
    """A stream is complete with `message_stop`, if it has a message. Counts of its events complete one another."""

    event_type = MessagesEvent
    answer_type = WholeMessagesAnswer

    __slots__ = ("_counts", "_has_message")

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._has_message = False

    def note_event(self, event: MessagesEvent) -> bool:
        """Note what an event says of the answer; no event has usage alone."""
        if event.message is not None:
            self._has_message = True
            self.note_answer(event.message)
            # The first event counts the output that was written by then.
            self._counts.pop("output_tokens", None)
            self.summary.usage = count_input(self._counts)
        if event.type == "message_delta":
            self._note_end((event.delta or {}).get("stop_reason"))
            self._add_usage(event.usage)
            self.summary.has_final_usage = bool(event.usage)
        elif event.type == "message_stop":
            self.summary.is_complete = self._has_message
        return False

    def note_answer(self, answer: WholeMessagesAnswer) -> None:
        """Note what a whole answer says of itself."""
        self.summary.name(answer.id, answer.model)
        self._note_end(answer.stop_reason)
        self._add_usage(answer.usage)

    def _note_end(self, reason: Any) -> None:
        self.summary.end(reason)
        if isinstance(reason, str):
            self.summary.failure = self.summary.failure or failure_of_end(reason)

    def _add_usage(self, usage: dict[str, Any] | None) -> None:
        if usage:
            self._counts |= read_usage(usage)
            self.summary.usage = count_input(self._counts)
