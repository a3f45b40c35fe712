"""The chat completions API where requests and answers are passed on: what is changed, and what is read. Pure."""

from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Struct

from accord.apis.chat.dialect import CHAT, ChatDialect, UsageHolder, find_usage
from accord.apis.openai.endpoint import failure_report
from accord.apis.relayed import AnswerEvent, AnswerWatcher

NO_REASON: Final = "null"
"""The finish reason of an answer that is complete and gives none."""


class _Text(Struct):
    """A message, or what one event adds to it."""

    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class _Choice(UsageHolder):
    index: int | None = None
    finish_reason: str | None = None
    delta: _Text | None = None


class _WholeChoice(UsageHolder, kw_only=True):
    message: _Text
    index: int | None = None
    finish_reason: str | None = None
    error: Any = None


class ChatEvent(AnswerEvent):
    """An event of a stream."""

    id: Any = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    x_groq: UsageHolder | None = None


class WholeChatAnswer(UsageHolder, kw_only=True):
    """An answer that is not streamed."""

    choices: Annotated[list[_WholeChoice], msgspec.Meta(min_length=1)]
    id: Any = None
    model: str | None = None


class ChatWatcher(AnswerWatcher):
    """A stream is complete with its end mark, which some servers leave out, or once all its answers have an end.

    Other servers end streams with the mark alone: such an answer gives no reason for its end, and that is noted.
    """

    event_type = ChatEvent
    answer_type = WholeChatAnswer

    __slots__ = ("_dialect",)

    def __init__(self, dialect: ChatDialect = CHAT) -> None:
        super().__init__()
        self._dialect: Final = dialect

    def is_end_mark(self, data: bytes) -> bool:
        """Whether this is the end mark, which ends a stream that has begun."""
        if data != self._dialect.end_mark:
            return False
        self.summary.is_complete = self.has_begun
        for answer in range(self.summary.answers) if self.has_begun else ():
            self.summary.reasons.setdefault(answer, NO_REASON)
        return True

    def note_event(self, event: ChatEvent) -> bool:
        """Note what an event says of the answer; return whether it has usage and nothing of the answer."""
        summary, choices, usage = self.summary, event.choices, event.usage
        if summary.id is None:
            summary.name(event.id, event.model)
        if choices:
            for each in choices:
                index = each.index or 0
                if index >= summary.answers:
                    summary.answers, summary.is_complete = 1 + index, False
                if each.finish_reason:
                    self._note_end(each.finish_reason, index)
                    summary.is_complete = len(summary.reasons) >= summary.answers
            if usage is None and (event.x_groq is not None or choices[0].usage is not None):
                usage = find_usage(event.x_groq, choices[0])
        if usage is None:
            return False
        summary.usage = self._dialect.read_usage(usage)
        summary.has_final_usage = not choices or summary.is_complete
        return not choices

    def note_answer(self, answer: WholeChatAnswer) -> None:
        """Note what a whole answer says of itself."""
        summary = self.summary
        summary.name(answer.id, answer.model)
        summary.answers = len(answer.choices)
        for place, each in enumerate(answer.choices):
            self._note_end(each.finish_reason or NO_REASON, place)
            if each.error:
                summary.failure = failure_report(each.error)
        summary.usage = self._dialect.read_usage(find_usage(answer, *answer.choices) or {})

    def _note_end(self, reason: str | None, answer: int) -> None:
        self.summary.end(reason, answer)
        self.summary.failure = self.summary.failure or self._dialect.failure_of(reason)


def relayed_body(body: dict[str, Any], model: str, *, usage_in_stream: bool) -> tuple[dict[str, Any], bool]:
    """The body for the endpoint, and whether usage is requested that the client did not ask for.

    Streams are asked for their usage, so that they count, unless the endpoint refuses to be asked.
    """
    request = {**body, "model": model}
    if request.get("stream") and usage_in_stream:
        options: Any = request.get("stream_options")
        own_options = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
        if not own_options.get("include_usage"):
            request["stream_options"] = {**own_options, "include_usage": True}
            return request, True
    return request, False
