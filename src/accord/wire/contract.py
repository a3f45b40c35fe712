"""The service as OpenAPI 3.1 and as JSON Schemas, generated from the models, the routes and the error table."""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accord.errors import ERROR_FACTS, ErrorCode
from accord.wire.acp.content import ContentBlock
from accord.wire.adaptation import AdaptationReport
from accord.wire.conversation import ChatMessage, Conversation
from accord.wire.emulation import EmulationConfig, EmulationReport
from accord.wire.event import PresentationEvent
from accord.wire.inspection import InspectionReport
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, CompatibilityReport, NegotiationResult
from accord.wire.packet import StreamPacket
from accord.wire.problem import PROBLEM_MEDIA_TYPE, ProblemBody
from accord.wire.receipt import Receipt
from accord.wire.request import AgentRequest, ClientCapabilities, ServiceRequest, ServiceResponse
from accord.wire.routes import (
    ADAPTATION_PATH,
    ASSIST_PATH,
    CAPABILITIES_PATH,
    DOCS_PATH,
    HEALTH_PATH,
    ITEM_PATH,
    LIVE_PATH,
    METRICS_PATH,
    OPENAPI_PATH,
    READY_PATH,
    RECEIPT_PATH,
    REQUEST_PATH,
)
from accord.wire.service import HealthCheckResponse, ServiceCapabilities

# Every route of the service as an OpenAPI operation: what it takes, what it gives, how it fails.
#
# Failures come from `errors.ERROR_FACTS`, shapes from the messages; how a message is referred to is handed in.

Json = dict[str, Any]
SchemaOf = Callable[[type[BaseModel]], Json]

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
            "responses": {"200": _answer(schema_of), **problems(ERROR_FACTS, schema_of(ProblemBody))},
        }
    }


def problems(codes: Iterable[ErrorCode], problem: Json) -> Json:
    """The answers that say no, one a status."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in codes:
        by_status.setdefault(ERROR_FACTS[code].http, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"{ERROR_FACTS[code].title} (`{code}`)" for code in listed),
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
            "responses": _with_headers({"200": _answer(schema_of), **problems(ERROR_FACTS, problem)}),
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


# The service as OpenAPI 3.1 and as JSON Schemas, written from the models and the table of errors.
#
# Nothing is described twice: shapes come from the messages, errors from `errors.ERROR_FACTS`.

_COMPONENT_REF: Final = "#/components/schemas/{model}"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

SERVED: Final[tuple[type[BaseModel], ...]] = (
    ServiceRequest,
    ServiceResponse,
    StreamPacket,
    PresentationEvent,
    HealthCheckResponse,
    ProblemBody,
    ServiceCapabilities,
    Receipt,
    AdaptationReport,
)
"""The messages that the HTTP contract speaks of."""

MESSAGES: Final[tuple[type[BaseModel], ...]] = (
    *SERVED,
    AgentRequest,
    ChatMessage,
    ClientCapabilities,
    CapabilityManifest,
    CapabilityRequirements,
    NegotiationResult,
    CompatibilityReport,
    EmulationConfig,
    EmulationReport,
    Conversation,
    ContentBlock,
    InspectionReport,
)
"""Every message that has a schema of its own."""


class ServiceContract:
    """An agent as a standard REST service."""

    @staticmethod
    def generate_openapi() -> Json:
        """The Path Item of the POST operation, complete in itself: it can be placed in any document."""
        return assist_path(_inlined)

    @staticmethod
    def document(*, title: str = "Accord", version: str = "1.0.0") -> Json:
        """The whole OpenAPI 3.1 document, its schemas named once under `components`."""
        return {
            "openapi": "3.1.0",
            "jsonSchemaDialect": _DIALECT,
            "info": {
                "title": title,
                "version": version,
                "description": "Ask an agent; what it shows is adapted to what the client declares.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": deepcopy(OPTIONAL_BEARER),
            "paths": deepcopy(paths(_referred)),  # what is shared among routes stays ours
            "components": {"schemas": _components(), "securitySchemes": deepcopy(dict(SECURITY_SCHEMES))},
        }


def schemas_of(messages: Iterable[type[BaseModel]]) -> dict[str, Json]:
    """The JSON Schema of each of these messages, by name."""
    return {
        message.__name__: {"$schema": _DIALECT, **message.model_json_schema(mode="validation")} for message in messages
    }


def _components() -> Json:
    found, definitions = models_json_schema([(model, "validation") for model in SERVED], ref_template=_COMPONENT_REF)
    schemas: Json = dict(definitions["$defs"])
    for (model, _), schema in found.items():
        schemas.setdefault(model.__name__, schema)
    return dict(sorted(schemas.items()))


def _referred(model: type[BaseModel]) -> Json:
    return {"$ref": _COMPONENT_REF.format(model=model.__name__)}


def _inlined(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema(mode="validation")
    return _resolve(schema, schema.pop("$defs", {}))


def _resolve(node: Any, definitions: Json) -> Any:
    """The schema with every reference replaced by what it refers to; none of the served messages is recursive."""
    if isinstance(node, list):
        return [_resolve(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Json", node)
    if "$ref" in schema:
        return _resolve(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    # A discriminator's mapping speaks of references; without them the constants of each kind tell as much.
    return {key: _resolve(value, definitions) for key, value in schema.items() if key != "discriminator"}
