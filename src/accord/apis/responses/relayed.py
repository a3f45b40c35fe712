"""The responses API where requests and answers are passed on: what is changed, and what is read. Pure."""

from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct

from accord.apis.chat.read_answer import DONE
from accord.apis.openai.endpoint import failure_report
from accord.apis.relayed import AnswerEvent, AnswerWatcher
from accord.apis.responses.read_answer import ENDED, FAILED, FAILED_EVENTS, LAST_EVENTS, read_usage
from accord.apis.responses.read_request import ENCRYPTED_REASONING

UNFINISHED: Final = frozenset({"in_progress", "queued"})
"""The states of a response that has not ended."""


class IncompleteDetails(Struct):
    """Why a response is incomplete."""

    reason: Any = None


class WholeResponsesAnswer(Struct):
    """A response, complete or not."""

    output: list[dict[str, Any]]
    id: Any = None
    model: str | None = None
    status: str | None = None
    usage: dict[str, Any] | None = None
    incomplete_details: IncompleteDetails | None = None
    error: Any = None


class ResponsesEvent(AnswerEvent):
    """An event of a stream."""

    type: str = ""
    response: WholeResponsesAnswer | None = None
    item: dict[str, Any] | None = None


class ResponsesWatcher(AnswerWatcher):
    """A stream is complete with the event that has the complete response."""

    event_type = ResponsesEvent
    answer_type = WholeResponsesAnswer

    __slots__ = ()

    def is_end_mark(self, data: bytes) -> bool:
        """Whether this is `[DONE]`, which some servers send after the end; it completes nothing."""
        return data == DONE

    def is_error(self, event: ResponsesEvent) -> bool:
        """Whether an event says that the answer failed."""
        response = event.response
        has_failed = response is not None and (bool(response.error) or response.status in FAILED)
        return super().is_error(event) or has_failed or event.type in FAILED_EVENTS

    def note_event(self, event: ResponsesEvent) -> bool:
        """Note what an event says of the answer; usage comes with the complete response."""
        response = event.response
        if response is not None:
            self.note_answer(response)
            if event.type in LAST_EVENTS and response.status in ENDED:
                self.summary.is_complete = self.summary.has_final_usage = True
        return False

    def note_answer(self, answer: WholeResponsesAnswer) -> None:
        """Note what a whole answer says of itself."""
        summary = self.summary
        summary.name(answer.id, answer.model)
        details = answer.incomplete_details
        if answer.status in FAILED:
            summary.failure = failure_report(answer.error)
        elif answer.status not in UNFINISHED:
            summary.end((details.reason if details is not None else None) or answer.status)
        if answer.usage:
            summary.usage = read_usage(answer.usage)


def relayed_body(body: dict[str, Any], model: str, *, keeps_reasoning: bool) -> dict[str, Any]:
    """The body for the endpoint, which stores no responses: Accord does.

    It then needs the reasoning in a form that can be sent back.
    """
    request = {**body, "model": model, "store": False}
    request.pop("previous_response_id", None)
    items: Any = request.get("input")
    if isinstance(items, list):
        request["input"] = [each for each in cast("list[dict[str, Any]]", items) if not _is_by_reference(each)]
    include: Any = request.get("include") or []
    if body.get("store") is not False and keeps_reasoning and ENCRYPTED_REASONING not in include:
        request["include"] = [*include, ENCRYPTED_REASONING]
    return request


def _is_by_reference(item: dict[str, Any]) -> bool:
    """Whether this is reasoning that only an endpoint which stored it could look up: at most its summary is there."""
    return item.get("type") == "reasoning" and not (item.get("encrypted_content") or item.get("content"))


def with_texts(body: dict[str, Any], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The body with further messages, each a role and its text, at the end of its conversation."""
    earlier: Any = body.get("input") or []
    if isinstance(earlier, str):
        earlier = [{"role": "user", "content": earlier}]
    return {**body, "input": [*earlier, *({"role": role, "content": text} for role, text in texts)]}
