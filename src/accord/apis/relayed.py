"""What the codecs share where an answer is passed on as bytes: its summary, and the class that keeps it. Pure.

An `AnswerWatcher` is told every event, or the whole answer, after it was decoded; it changes nothing. What an event
*is* (an end, an error, usage alone) follows from its type and its members, never from its text.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from msgspec import Struct

from accord.apis.failure import FailureReport

MAX_ID_CHARS: Final = 200
"""How much of an answer's id and model is kept."""
MAX_REASON_CHARS: Final = 40
SEVERAL_ANSWERS: Final = "several_answers"
"""What an endpoint that ignores `n` does not have; no manifest declares it."""


@dataclass(slots=True)
class AnswerSummary:
    """What was read so far: the answer's id, why it ended, the model, its usage, and the number of answers."""

    id: str | None = None
    model: str | None = None
    usage: dict[str, int] = field(default_factory=dict[str, int])
    """As backends report it; all input counts as input, cached or not."""
    answers: int = 1
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    """Why each answer ended, in the API's own words."""
    label: dict[str, Any] | None = None
    """The label of an endpoint that is another Accord, which is taken out of its answer."""
    has_final_usage: bool = False
    """Whether the usage is that of the whole answer, and not of its part so far."""
    failure: FailureReport | None = None
    """What went wrong, if an answer ended with an error although no event was one; its bytes are passed on."""
    is_complete: bool = False
    """Whether the answer's own end has been read."""

    @property
    def finish_reasons(self) -> tuple[str, ...]:
        """Why each answer ended, as far as that is known."""
        return tuple(self.reasons.values())

    def name(self, given_id: Any, model: Any) -> None:
        """Note the answer's id and model: the first that are text count."""
        if self.id is None and isinstance(given_id, str):
            self.id = given_id[:MAX_ID_CHARS]
        if not self.model and isinstance(model, str):
            self.model = model[:MAX_ID_CHARS]

    def end(self, reason: Any, answer: int = 0) -> None:
        """Note why an answer ended."""
        if isinstance(reason, str):
            self.reasons[answer] = reason[:MAX_REASON_CHARS]


class AnswerEvent(Struct):
    """What every API's events have in common: either member may mark an error."""

    type: Any = None
    error: Any = None


class AnswerWatcher(ABC):
    """Reads one answer that is passed on. `event_type` and `answer_type` have what clients cannot do without."""

    event_type: ClassVar[type[AnswerEvent]]
    answer_type: ClassVar[type[Struct]]

    __slots__ = ("has_begun", "summary")

    def __init__(self) -> None:
        self.summary: Final = AnswerSummary()
        self.has_begun = False

    def is_end_mark(self, data: bytes) -> bool:  # noqa: ARG002 - most APIs have none
        """Whether the data of an event is no JSON, but the mark that ends a stream."""
        return False

    def is_error(self, event: Any) -> bool:
        """Whether an event says that the answer failed."""
        return bool(event.error) or event.type == "error"

    @abstractmethod
    def note_event(self, event: Any) -> bool:
        """Note what an event says of the answer; return whether it has usage and nothing of the answer."""

    @abstractmethod
    def note_answer(self, answer: Any) -> None:
        """Note what a whole answer says of itself."""


def with_texts(body: dict[str, Any], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The body with further messages, each a role and its text, at the end of its conversation."""
    added = [{"role": role, "content": text} for role, text in texts]
    return {**body, "messages": [*body.get("messages", ()), *added]}
