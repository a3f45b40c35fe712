"""The interface of a model API: what `ModelBackend` needs to send work orders to it. Pure: no I/O and no clock.

An implementation turns a work order into a request and an answer into pieces, or raises one of the three errors below.
`document_text` and `link_text` are the one form in which documents become text for APIs that have no field for them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from accord.backends.evidence import Evidence, Layer
from accord.backends.failure import FailureReport
from accord.core.sse import ServerEvent
from accord.wire.conversation import ResourceLinkPart, ResourcePart
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, WorkOrder


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request: a path relative to the base URL (or to the server's root), and a JSON body or none."""

    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    method: str = "POST"
    at_root: bool = False


class AnswerReader(Protocol):
    """The state of one streamed answer while its events arrive."""

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes; raise `MalformedAnswerError` or `ReportedError`."""
        ...

    def finish(self) -> Sequence[AnyPiece]:
        """Return the last pieces when the stream ends; raise `MalformedAnswerError` if the answer is not complete.

        The last piece is an `EndPiece`, unless `feed` has returned it.
        """
        ...


class ModelApi(Protocol):
    """One API of model providers. See `docs/backends.md` for a complete example."""

    @property
    def name(self) -> str:
        """The name that evidence gives as its source, such as `openai chat API`."""
        ...

    @property
    def base_url(self) -> str | None:
        """The address that is used when the configuration has none."""
        ...

    @property
    def supported(self) -> Mapping[str, str | SupportLevel]:
        """Levels of what every model has through this API; every other evidence counts before these."""
        ...

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Capabilities that no request of this API can carry, and why; facts about a model do not change that."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request."""
        ...

    def request(self, order: WorkOrder, model: str) -> ApiRequest:
        """Return the request for this work order.

        Raises `UnsupportedByApiError` for what the API cannot carry: nothing is left out silently.
        """
        ...

    def answer_reader(self) -> AnswerReader:
        """Return a new reader for one streamed answer."""
        ...

    def read_answer(self, body: bytes) -> Sequence[AnyPiece]:
        """Return the pieces of an answer that was not streamed, an `EndPiece` last; raises as `AnswerReader.feed`."""
        ...

    def read_error(self, status: int, body: bytes) -> FailureReport:
        """Return what a reply with another status than 200 says went wrong."""
        ...

    def discovery_request(self, model: str) -> ApiRequest:
        """Return a request without cost that shows whether the endpoint answers, and may describe the model."""
        ...

    def read_discovery(self, body: bytes, model: str) -> Layer:
        """Return what the reply to `discovery_request` says about the model; empty if it says nothing."""
        ...


class MalformedAnswerError(Exception):
    """The answer does not have the API's shape. The text is ours and repeats nothing that came."""


class ReportedError(Exception):
    """The endpoint reports an error inside its answer."""

    def __init__(self, report: FailureReport) -> None:
        super().__init__(str(report.failure))
        self.report = report


class UnsupportedByApiError(Exception):
    """The API cannot carry a part of the work order; `capability` is what it would take.

    `always` is false where only this one request is affected, such as sound in a format that the API does not take:
    the capability is then not recorded as missing.
    """

    def __init__(self, capability: str, reason: str, *, always: bool = True) -> None:
        super().__init__(reason)
        self.capability = capability
        self.reason = reason
        self.always = always


def layers(api: ModelApi, declared: Layer, discovered: Layer, facts: Layer) -> tuple[Layer, ...]:
    """Return all evidence about a model behind an API, in order of precedence."""
    unsupported = {name: Evidence(SupportLevel.UNSUPPORTED, api.name) for name in api.unsupported}
    supported = {name: Evidence(SupportLevel.model_validate(level), api.name) for name, level in api.supported.items()}
    # The operator first. What the API cannot carry comes before anything that is known of the model.
    return declared, unsupported, discovered, facts, supported


def document_text(part: ResourcePart) -> str:
    """Return a text document with its address as text."""
    return f"<document {_attributes(uri=part.uri, media_type=part.media_type)}>\n{part.text or ''}\n</document>"


def link_text(part: ResourceLinkPart) -> str:
    """Return a link as text: no API fetches it, but a model with tools may."""
    given = _attributes(uri=part.uri, name=part.name, media_type=part.media_type, description=part.description)
    return f"<link {given}/>"


def _attributes(**given: str | None) -> str:
    return json.dumps({name: value for name, value in given.items() if value is not None}, ensure_ascii=False)
