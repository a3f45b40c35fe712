"""The interface of a codec: everything that Accord knows of one model API, in both directions. Pure.

| half | used by | what it does |
|---|---|---|
| `ModelApi` | a backend | writes requests; reads answers and errors |
| `RelayedApi` | the relay | changes a request that is passed on; says what each event of its answer is |
| `ServedApi` | a server, and the fake model | reads requests; writes answers and errors |

A backend for an API of its own needs the first half only. No I/O, no clock, no randomness: ids and times come in with
the labels. `document_text` and `link_text` are the one form in which documents become text for APIs that have no field
for them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from accord.apis.failure import FailureReport
from accord.apis.relayed import AnswerWatcher
from accord.core.sizes import find_excess
from accord.core.sse import ServerEvent
from accord.core.work.evidence import Evidence, Layer
from accord.core.work.fields import ModelRequest
from accord.errors import AccordError, ErrorCode, RefusedError
from accord.wire.conversation import ConversationMessage, MessagePart, ResourceLinkPart, ResourcePart, Role, TextPart
from accord.wire.disposition import Api
from accord.wire.manifest import SupportLevel
from accord.wire.message import MAX_DEPTH
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

    @property
    def model(self) -> str | None:
        """The model that answers, as soon as the endpoint has named it."""
        ...

    def feed(self, event: ServerEvent) -> Sequence[AnyPiece]:
        """Return the pieces that this event completes; raise `MalformedAnswerError` or `ReportedError`."""
        ...

    def finish(self) -> Sequence[AnyPiece]:
        """Return the last pieces when the stream ends; raise `MalformedAnswerError` if the answer is not complete.

        The last piece is an `EndPiece`, unless `feed` has returned it.
        """
        ...


class ModelApi(Protocol):
    """The half of a codec that a backend needs. See `docs/backends.md` for a complete example."""

    @property
    def api(self) -> Api:
        """Its name in the tables of fields and answers."""
        ...

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

    def write_request(self, order: WorkOrder, model: str) -> ApiRequest:
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


@dataclass(frozen=True, slots=True)
class AnswerLabels:
    """What an answer that Accord writes says of itself.

    `id` is 32 hexadecimal digits, to which each API adds its own prefix; `created` is in seconds since 1970; `model` is
    the model that answered; `accord` is the object that says which backend answered and what became of the fields.
    """

    id: str
    created: int
    model: str
    accord: Mapping[str, Any]


class AnswerWriter(Protocol):
    """The state of one streamed answer: pieces in, server-sent events out."""

    def start(self) -> bytes:
        """The first events, the very first with the labels' `accord` object as a member."""
        ...

    def write(self, piece: AnyPiece, answer: int = 0, label: Mapping[str, Any] | None = None) -> bytes:
        """The events for one piece of this answer; an `EndPiece` ends that answer.

        `label` comes with the last `EndPiece` and is the `accord` object of the last event that can hold one.
        """
        ...

    def finish(self) -> bytes:
        """The last events, after the `EndPiece` of every answer."""
        ...

    def fail(self, error: AccordError, request_id: str) -> bytes:
        """The events that end the stream with an error."""
        ...


class ServedApi(Protocol):
    """The half of a codec that a server needs."""

    @property
    def api(self) -> Api:
        """Its name in the tables of fields and answers."""
        ...

    def read_request(self, body: dict[str, Any]) -> ModelRequest:
        """Read a request, and note the fields that it uses.

        Raises `RefusedError` with `INVALID_MESSAGE`, and the path of the field as `field` in its details, for a body
        that is not a request of this API. What the table calls refused is not refused here.
        """
        ...

    def write_answer(
        self, request: ModelRequest, labels: AnswerLabels, answers: Sequence[Sequence[AnyPiece]]
    ) -> dict[str, Any]:
        """The body of a whole answer; each of `answers` ends with its `EndPiece`."""
        ...

    def answer_writer(self, request: ModelRequest, labels: AnswerLabels) -> AnswerWriter:
        """A writer for one streamed answer."""
        ...

    def write_error(self, error: AccordError, request_id: str) -> dict[str, Any]:
        """The body of an error, in the API's own shape."""
        ...

    def write_error_event(self, error: AccordError, request_id: str) -> bytes:
        """The events that end a stream which was passed on as it came."""
        ...

    def write_model(self, name: str, owner: str) -> dict[str, Any]:
        """The description of a model."""
        ...

    def write_models(self, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The list of all these models."""
        ...


def invalid_member(path: str, expected: str) -> RefusedError:
    """The error for a member of a request that is not what its API takes. It quotes nothing that was sent."""
    return RefusedError(f"{path}: expected {expected}", ErrorCode.INVALID_MESSAGE, {"field": path})


def _plain(value: Any) -> Any:
    """What msgspec cannot encode: the read-only mappings of errors become objects, anything else its text."""
    return dict(value) if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder(enc_hook=_plain).encode


def untyped_event(data: Mapping[str, Any]) -> bytes:
    """An event of an API whose events have no types."""
    return b"data: %b\n\n" % encode(data)


def typed_event(data: Mapping[str, Any]) -> bytes:
    """An event of an API that gives its type twice."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), encode(data))


FIRST_SERVER_STATUS: Final = 500
"""From this HTTP status on, an error is not the caller's fault."""


def api_status(error: AccordError) -> int:
    """The HTTP status of an error at a model API: that of the endpoint's own, where it is the caller's fault.

    A request that no backend can answer is for the caller to change, which these APIs say with a 400.
    """
    if error.code is ErrorCode.CAPABILITY_UNSUPPORTED:
        return 400
    return getattr(error, "caller_status", error.facts.http)


@runtime_checkable
class AssumingApi(Protocol):
    """A codec whose API requires what an order need not have."""

    def assumed(self, order: WorkOrder) -> Mapping[str, str]:
        """What `write_request` has to choose for this order, as sentences by their capability, or `CONVERSATION`."""
        ...


@runtime_checkable
class CountingApi(Protocol):
    """A codec whose endpoints may be able to count the tokens of a request."""

    def count_request(self, body: dict[str, Any], model: str, headers: Mapping[str, str]) -> ApiRequest:
        """The request that has the tokens of this one counted."""
        ...

    def read_count(self, body: bytes) -> int:
        """The number of input tokens; raises `MalformedAnswerError`."""
        ...


@runtime_checkable
class RelayedApi(ModelApi, Protocol):
    """The half of a codec that passes requests on to an endpoint of the same API, and its answers back."""

    @property
    def path(self) -> str:
        """The path of requests, relative to the base URL."""
        ...

    def relayed_body(self, body: dict[str, Any], model: str, *, keeps_reasoning: bool) -> tuple[dict[str, Any], bool]:
        """A client's body as it is sent to the endpoint, and whether its usage is requested for Accord alone.

        `keeps_reasoning`: the model reasons, so that a later request may need the reasoning in a form to send back.
        """
        ...

    def with_texts(self, body: dict[str, Any], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """A body with further messages, each a role and its text, at the end of its conversation."""
        ...

    def watcher(self) -> AnswerWatcher:
        """A new reader of one answer that is passed on."""
        ...


class MalformedAnswerError(Exception):
    """The answer does not have the API's shape. The text is ours and repeats nothing that came."""


ShapeT = TypeVar("ShapeT")
WRONG_SHAPE: Final = "it does not have the API's shape"
_decode: Final = msgspec.json.Decoder().decode


def parse_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that an endpoint sent; raise `MalformedAnswerError` if clients could not read it.

    They cannot read text that is not UTF-8, half a surrogate pair, NaN, numbers that fit no type, deep nesting, and
    bytes that follow the object.
    """
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedAnswerError("it is not JSON that every client can read") from None
    if not isinstance(value, dict):
        raise MalformedAnswerError("it is not a JSON object")
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and find_excess(
        data, max_values=len(data) + 1, max_depth=MAX_DEPTH
    ):
        raise MalformedAnswerError("it is nested too deeply")
    return cast("dict[str, Any]", value)


def convert(value: Any, shape: type[ShapeT]) -> ShapeT:
    """Return a decoded value as this type; raise `MalformedAnswerError` if it is not like that."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError:
        raise MalformedAnswerError(WRONG_SHAPE) from None


class ReportedError(Exception):
    """The endpoint reports an error inside its answer."""

    def __init__(self, report: FailureReport) -> None:
        super().__init__(str(report.failure))
        self.report = report


class UnsupportedByApiError(Exception):
    """The API cannot carry a part of the work order; `capability` is what it would take."""

    def __init__(self, capability: str, reason: str) -> None:
        super().__init__(reason)
        self.capability = capability
        self.reason = reason


def layers(api: ModelApi, declared: Layer, discovered: Layer, facts: Layer) -> tuple[Layer, ...]:
    """Return all evidence about a model behind an API, in order of precedence."""
    unsupported = {name: Evidence(SupportLevel.UNSUPPORTED, api.name) for name in api.unsupported}
    supported = {name: Evidence(SupportLevel.model_validate(level), api.name) for name, level in api.supported.items()}
    # The operator first. What the API cannot carry comes before anything that is known of the model.
    return declared, unsupported, discovered, facts, supported


def is_by_address(part: ResourcePart) -> bool:
    """Whether the endpoint itself has to fetch a document."""
    return part.data == "" and part.uri.startswith(("http://", "https://"))


def document_text(part: ResourcePart) -> str:
    """Return a text document with its address as text."""
    return f"<document {_attributes(uri=part.uri, media_type=part.media_type)}>\n{part.text or ''}\n</document>"


def link_text(part: ResourceLinkPart) -> str:
    """Return a link as text: no API fetches it, but a model with tools may."""
    attributes = _attributes(uri=part.uri, name=part.name, media_type=part.media_type, description=part.description)
    return f"<link {attributes}/>"


def lead_and_rest(
    messages: Sequence[ConversationMessage],
) -> tuple[list[ConversationMessage], list[ConversationMessage]]:
    """The system messages at the beginning, and what follows, for APIs that have a place for the former only.

    A later system message stays where it is, as a message of the user that is marked.
    """
    start = next((place for place, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))
    rest = [_marked_as_system(each) if each.role is Role.SYSTEM else each for each in messages[start:]]
    return [*messages[:start]], rest


def _marked_as_system(message: ConversationMessage) -> ConversationMessage:
    parts: list[MessagePart] = [
        part.model_copy(update={"text": f"<system>\n{part.text}\n</system>"}) if isinstance(part, TextPart) else part
        for part in message.content
    ]
    return message.model_copy(update={"role": Role.USER, "content": parts})


def _attributes(**values: str | None) -> str:
    return json.dumps({name: value for name, value in values.items() if value is not None}, ensure_ascii=False)
