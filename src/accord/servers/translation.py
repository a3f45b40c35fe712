"""The interface of a served model API: pure translation both ways. `openai/` and `anthropic/` implement it.

A request becomes a `ModelRequest`; the pieces of an answer become one body or a stream of events; an error becomes a
body or an event. No I/O, no clock, no randomness: ids and times come in with the labels. What sends and receives the
bytes is the same for every API (`http/model_calls.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from accord.core.work.fields import Api, ModelRequest
from accord.errors import AccordError, ErrorCode
from accord.wire.work import AnyPiece


@dataclass(frozen=True, slots=True)
class AnswerLabels:
    """What an answer says of itself.

    `id` is 32 hexadecimal digits, to which each API adds its own prefix; `created` is in seconds since 1970; `model` is
    the model that answered; `accord` is the object that says which backend answered and what became of the fields.
    """

    id: str
    created: int
    model: str
    accord: Mapping[str, Any]


class StreamWriter(Protocol):
    """The state of one streamed answer: pieces in, server-sent events out."""

    def start(self) -> bytes:
        """The first events, the very first with the labels' `accord` object as a member."""
        ...

    def write(self, piece: AnyPiece, answer: int = 0) -> bytes:
        """The events for one piece of this answer; an `EndPiece` ends that answer."""
        ...

    def finish(self) -> bytes:
        """The last events, after the `EndPiece` of every answer."""
        ...

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The events that end the stream with an error."""
        ...


class Translation(Protocol):
    """One served model API."""

    @property
    def api(self) -> Api:
        """Its name in the table of fields."""
        ...

    def parse(self, body: dict[str, Any]) -> ModelRequest:
        """Translate a request.

        Raises `RefusedError` with `INVALID_MESSAGE`, and the path of the field as `field` in its details, for a body
        that is not a request of this API. What the table calls refused is not refused here.
        """
        ...

    def whole(
        self, request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]
    ) -> dict[str, Any]:
        """The body of a whole answer; each of `answers` ends with its `EndPiece`."""
        ...

    def stream(self, request: ModelRequest, labels: AnswerLabels) -> StreamWriter:
        """A writer for one streamed answer."""
        ...

    def error_body(self, error: AccordError, request_id: str) -> dict[str, Any]:
        """The body of an error, in the API's own shape."""
        ...

    def error_event(self, error: AccordError, request_id: str) -> bytes:
        """The events that end a stream which was passed on as it came."""
        ...


def api_status(error: AccordError) -> int:
    """The HTTP status of an error at a model API: that of the endpoint's own, where it is the caller's fault.

    A request that no backend can answer is for the caller to change, which these APIs say with a 400.
    """
    if error.code is ErrorCode.CAPABILITY_UNSUPPORTED:
        return 400
    return getattr(error, "caller_status", error.facts.http)
