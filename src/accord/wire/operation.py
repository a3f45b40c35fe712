"""Every route of the service as an OpenAPI operation: what it takes, what it gives, how it fails.

Failures come from `errors.FACTS`, shapes from the messages; how a message is referred to is handed in.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from accord.errors import FACTS, ErrorCode
from accord.wire.adaptation import AdaptationReport
from accord.wire.health import HealthCheckResponse
from accord.wire.packet import StreamPacket
from accord.wire.problem import PROBLEM_MEDIA_TYPE, ProblemBody
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceRequest
from accord.wire.response import ServiceResponse
from accord.wire.service import ServiceCapabilities

Json = dict[str, Any]
SchemaOf = Callable[[type[BaseModel]], Json]

ASSIST_PATH: Final = "/v1/assist"
REQUEST_PATH: Final = "/v1/requests/{request_id}"
RECEIPT_PATH: Final = f"{REQUEST_PATH}/receipt"
ADAPTATION_PATH: Final = f"{REQUEST_PATH}/adaptation"
ITEM_PATH: Final = f"{REQUEST_PATH}/items/{{item_id}}"
CAPABILITIES_PATH: Final = "/v1/capabilities"
HEALTH_PATH: Final = "/health"
LIVE_PATH: Final = f"{HEALTH_PATH}/live"
READY_PATH: Final = f"{HEALTH_PATH}/ready"
METRICS_PATH: Final = "/metrics"
OPENAPI_PATH: Final = "/openapi.json"
DOCS_PATH: Final = "/docs"

BEARER: Final = "bearer"
SECURITY_SCHEMES: Final[Mapping[str, Json]] = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the operator's, or of the identity provider that the operator trusts.",
    }
}
OPTIONAL_BEARER: Final[list[Json]] = [{}, {BEARER: []}]
"""A service on loopback asks nobody who they are."""

RETRY_STATUSES: Final = frozenset({"429", "503"})
_RETRY_AFTER: Final[Json] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}

_ANY_DOOR: Final = (
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.METHOD_NOT_FOUND,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.INTERNAL,
    ErrorCode.UNAVAILABLE,
)
"""How every route behind the gate can fail."""
_ONE_TURN: Final = (*_ANY_DOOR, ErrorCode.INVALID_MESSAGE, ErrorCode.FORBIDDEN, ErrorCode.NOT_FOUND)
_OPEN: Final = (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INTERNAL)

_REQUEST_ID: Final[Json] = {
    "name": "request_id",
    "in": "path",
    "required": True,
    "description": "The id under which the turn was asked for.",
    "schema": {"type": "string", "format": "uuid"},
}
_ITEM_ID: Final[Json] = {
    "name": "item_id",
    "in": "path",
    "required": True,
    "description": "The id that the stream gave for what it kept.",
    "schema": {"type": "string", "minLength": 1},
}
_LAST_EVENT_ID: Final[Json] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last packet that was received: the stream goes on after it.",
    "schema": {"type": "string"},
}


def paths(schema_of: SchemaOf) -> Json:
    """Every path of the service."""
    return {
        ASSIST_PATH: _assist(schema_of),
        REQUEST_PATH: _request(schema_of),
        RECEIPT_PATH: _part_of_turn(
            "receipt", "Read the receipt of a turn that is over", schema_of, schema_of(Receipt)
        ),
        ADAPTATION_PATH: _part_of_turn(
            "adaptation",
            "Read what a client got instead of what was sent",
            schema_of,
            schema_of(AdaptationReport),
        ),
        ITEM_PATH: _part_of_turn(
            "item", "Read what the stream kept for later", schema_of, {"type": "object"}, _ITEM_ID
        ),
        CAPABILITIES_PATH: _capabilities(schema_of),
        HEALTH_PATH: _health(
            "health",
            "Read whether the service, its store and its backends are well",
            schema_of,
            "`ok`, or `degraded`: turns are taken, but a backend fails",
        ),
        LIVE_PATH: _health("live", "Read whether the process answers", schema_of, "`ok`"),
        READY_PATH: _health("ready", "Read whether the process can take turns", schema_of, "`ok`"),
        METRICS_PATH: _metrics(schema_of),
        OPENAPI_PATH: _open("openapi", "Read this document", schema_of, "application/json", {"type": "object"}),
        DOCS_PATH: _open("docs", "Read this document as a page", schema_of, "text/html", {"type": "string"}),
    }


def assist_path(schema_of: SchemaOf) -> Json:
    """The path item of the one operation that asks the agent, as it stands alone."""
    return {
        "post": {
            "operationId": "assist",
            "summary": "Ask the agent",
            "description": "The Accept header chooses between one answer and a stream of packets.",
            "requestBody": {"required": True, "content": json_content(schema_of(ServiceRequest))},
            "responses": {"200": _answer(schema_of), **problems(FACTS, schema_of(ProblemBody))},
        }
    }


def problems(codes: Iterable[ErrorCode], problem: Json) -> Json:
    """The answers that say no, one a status."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in codes:
        by_status.setdefault(FACTS[code].http, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"{FACTS[code].title} (`{code}`)" for code in listed),
            "content": {PROBLEM_MEDIA_TYPE: {"schema": problem}},
        }
        for status, listed in sorted(by_status.items())
    }


def json_content(schema: Json) -> Json:
    """Content that is JSON of this shape."""
    return {"application/json": {"schema": schema}}


def _assist(schema_of: SchemaOf) -> Json:
    operation = assist_path(schema_of)["post"]
    return {"post": {**operation, "parameters": [_LAST_EVENT_ID], "responses": _with_headers(operation["responses"])}}


def _request(schema_of: SchemaOf) -> Json:
    problem = schema_of(ProblemBody)
    over = {**problems([ErrorCode.REQUEST_CONFLICT], problem)["409"], "description": "The turn is over"}
    return {
        "parameters": [_REQUEST_ID],
        "get": {
            "operationId": "read",
            "summary": "Read a turn again, or go on reading it",
            "description": "A running turn is read along. The Accept header chooses, as it does when asking.",
            "parameters": [_LAST_EVENT_ID],
            "responses": _with_headers({"200": _answer(schema_of), **problems(FACTS, problem)}),
        },
        "delete": {
            "operationId": "cancel",
            "summary": "Cancel a running turn",
            "responses": _with_headers(
                {
                    "202": {"description": "It is being cancelled; its stream will say so, and close"},
                    **problems(_ONE_TURN, problem),
                    "409": over,
                }
            ),
        },
    }


def _part_of_turn(name: str, summary: str, schema_of: SchemaOf, schema: Json, *parameters: Json) -> Json:
    given = {"200": {"description": "Found", "content": json_content(schema)}}
    responses = _with_headers({**given, **problems(_ONE_TURN, schema_of(ProblemBody))})
    return {
        "parameters": [_REQUEST_ID, *parameters],
        "get": {"operationId": name, "summary": summary, "responses": responses},
    }


def _capabilities(schema_of: SchemaOf) -> Json:
    given = {"200": {"description": "As of now", "content": json_content(schema_of(ServiceCapabilities))}}
    return {
        "get": {
            "operationId": "capabilities",
            "summary": "Ask what the agent takes and which backends can do what",
            "responses": _with_headers({**given, **problems(_ANY_DOOR, schema_of(ProblemBody))}),
        }
    }


def _metrics(schema_of: SchemaOf) -> Json:
    given = {"200": {"description": "Here they are", "content": {"text/plain": {"schema": {"type": "string"}}}}}
    return {
        "get": {
            "operationId": "metrics",
            "summary": "Read the numbers for Prometheus",
            "responses": _with_headers({**given, **problems(_ANY_DOOR, schema_of(ProblemBody))}),
        }
    }


def _health(name: str, summary: str, schema_of: SchemaOf, well: str) -> Json:
    answer = json_content(schema_of(HealthCheckResponse))
    unready = "`maintenance`: it is being stopped; `degraded`: its store cannot be written"
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": _with_headers(
                {
                    "200": {"description": well, "content": answer},
                    **problems(_OPEN, schema_of(ProblemBody)),
                    **({} if name == "live" else {"503": {"description": unready, "content": answer}}),
                }
            ),
        }
    }


def _open(name: str, summary: str, schema_of: SchemaOf, media_type: str, schema: Json) -> Json:
    given = {"200": {"description": "Here it is", "content": {media_type: {"schema": schema}}}}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": {**given, **problems(_OPEN, schema_of(ProblemBody))},
        }
    }


def _answer(schema_of: SchemaOf) -> Json:
    # OpenAPI 3.1 cannot type a stream's items; the packet of one `data:` line is named beside it.
    stream = {"text/event-stream": {"schema": {"type": "string"}, "x-event-data": schema_of(StreamPacket)}}
    return {
        "description": "The answer: whole, or as server-sent events with one packet each",
        "content": json_content(schema_of(ServiceResponse)) | stream,
    }


def _with_headers(responses: Json) -> Json:
    """The same answers; those that say "later" say when."""
    return {
        status: {**answer, "headers": _RETRY_AFTER} if status in RETRY_STATUSES else answer
        for status, answer in responses.items()
    }
