"""The service as OpenAPI 3.1 and as JSON Schemas, generated from the models, the routes and the error table."""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accord.acp.schema_parts import ContentBlock
from accord.errors import ERROR_FACTS, ErrorCode
from accord.wire.adaptation import AdaptationReport
from accord.wire.conversation import ChatMessage, Conversation
from accord.wire.disposition import ForgottenRefusals
from accord.wire.emulation import EmulationConfig, EmulationReport
from accord.wire.event import PresentationEvent
from accord.wire.inspection import InspectionReport
from accord.wire.keys import KeyChange, KeyInfo, KeyList, KeyRequest, NewKey, UsageGroup, UsageReport
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, CompatibilityReport, NegotiationResult
from accord.wire.packet import StreamPacket
from accord.wire.plan import PlanRequest, PlanResponse
from accord.wire.problem import PROBLEM_MEDIA_TYPE, ProblemBody
from accord.wire.receipt import Receipt, ReceiptVerification
from accord.wire.request import AgentRequest, ClientCapabilities, ServiceRequest, ServiceResponse
from accord.wire.routes import (
    ADAPTATION_PATH,
    ASSIST_PATH,
    CAPABILITIES_HEADER,
    CAPABILITIES_PARAMETER,
    CAPABILITIES_PATH,
    DOCS_PATH,
    HEALTH_PATH,
    ITEM_PATH,
    KEY_PATH,
    KEYS_PATH,
    LIVE_PATH,
    METRICS_PATH,
    OPENAPI_PATH,
    PLAN_PATH,
    READY_PATH,
    RECEIPT_PATH,
    REFUSALS_PATH,
    REQUEST_PATH,
    USAGE_PATH,
    VERIFICATION_PATH,
)
from accord.wire.service import HealthCheckResponse, ServiceCapabilities

Json = dict[str, Any]
SchemaOf = Callable[[type[BaseModel]], Json]
"""Returns the schema of a model, inline or as a reference."""

BEARER: Final = "bearer"
API_KEY: Final = "api_key"
SECURITY_SCHEMES: Final[Mapping[str, Json]] = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token of the operator, or a token of the configured identity provider.",
    },
    API_KEY: {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The same, in the header that clients of Anthropic's API send.",
    },
}
REQUIRED_TOKEN: Final[list[Json]] = [{BEARER: []}, {API_KEY: []}]
OPTIONAL_TOKEN: Final[list[Json]] = [{}, *REQUIRED_TOKEN]
"""A service on loopback may run without authentication."""

RETRY_STATUSES: Final = frozenset({"429", "503"})
_RETRY_AFTER: Final[Json] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}

_COMMON_ERRORS: Final = (
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.METHOD_NOT_FOUND,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.INTERNAL,
    ErrorCode.UNAVAILABLE,
)
"""The errors of every route that authenticates."""
_TURN_ERRORS: Final = (*_COMMON_ERRORS, ErrorCode.INVALID_MESSAGE, ErrorCode.FORBIDDEN, ErrorCode.NOT_FOUND)
_ADMIN_ERRORS: Final = (*_COMMON_ERRORS, ErrorCode.FORBIDDEN)
_BODY_ERRORS: Final = (
    ErrorCode.INVALID_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
)
_PUBLIC_ERRORS: Final = (ErrorCode.METHOD_NOT_FOUND, ErrorCode.INTERNAL)

_REQUEST_ID: Final[Json] = {
    "name": "request_id",
    "in": "path",
    "required": True,
    "description": "The request id of the turn.",
    "schema": {"type": "string", "format": "uuid"},
}
_ITEM_ID: Final[Json] = {
    "name": "item_id",
    "in": "path",
    "required": True,
    "description": "The id of the event; the notice of a deferred one names it.",
    "schema": {"type": "string", "minLength": 1},
}
_LAST_EVENT_ID: Final[Json] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last packet that was received: the stream continues after it.",
    "schema": {"type": "string"},
}

_DECLARED_BY_READER: Final[Json] = {
    "required": False,
    "description": "What the reader can show: `ClientCapabilities` as JSON, or `web`, `cli` or `voice`. Without it, "
    "the turn is read as the client gets it that sent the request. Packets are numbered for each declaration.",
    "schema": {"type": "string"},
}
_READER: Final[tuple[Json, Json]] = (
    {"name": CAPABILITIES_HEADER, "in": "header", **_DECLARED_BY_READER},
    {"name": CAPABILITIES_PARAMETER, "in": "query", **_DECLARED_BY_READER},
)


def paths(schema_of: SchemaOf) -> Json:
    """Return every path of the service."""
    return {
        ASSIST_PATH: _assist(schema_of),
        REQUEST_PATH: _request(schema_of),
        RECEIPT_PATH: _part_of_turn(
            "receipt", "Read the receipt of a turn that has ended", schema_of, schema_of(Receipt)
        ),
        VERIFICATION_PATH: _part_of_turn(
            "verification",
            "Verify the receipts of the turn's session",
            schema_of,
            schema_of(ReceiptVerification),
            errors=(*_TURN_ERRORS, ErrorCode.TOO_LARGE),
        ),
        ADAPTATION_PATH: _part_of_turn(
            "adaptation",
            "Read how a turn was adapted for a client",
            schema_of,
            schema_of(AdaptationReport),
            *_READER,
        ),
        ITEM_PATH: _part_of_turn("item", "Read an event as the agent made it", schema_of, {"type": "object"}, _ITEM_ID),
        CAPABILITIES_PATH: _read(
            "capabilities",
            "Read what the agent accepts and what each backend supports",
            schema_of,
            "The current capabilities",
            json_content(schema_of(ServiceCapabilities)),
        ),
        PLAN_PATH: _plan(schema_of),
        **_admin(schema_of),
        HEALTH_PATH: _health(
            "health",
            "Check the service, its store and its backends",
            schema_of,
            "`ok`, or `degraded`: turns are accepted, but a backend fails",
        ),
        LIVE_PATH: _health("live", "Check that the process answers", schema_of, "`ok`"),
        READY_PATH: _health("ready", "Check that the process accepts turns", schema_of, "`ok`"),
        METRICS_PATH: _read(
            "metrics",
            "Read the metrics",
            schema_of,
            "Metrics in the text format of Prometheus",
            {"text/plain": {"schema": {"type": "string"}}},
            ErrorCode.FORBIDDEN,
        ),
        OPENAPI_PATH: _open("openapi", "Read the OpenAPI document", schema_of, "application/json", {"type": "object"}),
        DOCS_PATH: _open("docs", "Read the OpenAPI document as a page", schema_of, "text/html", {"type": "string"}),
    }


def assist_path(schema_of: SchemaOf) -> Json:
    """Return the path item of the operation that asks the agent, complete in itself."""
    return {
        "post": {
            "operationId": "assist",
            "summary": "Ask the agent",
            "description": "The Accept header selects one response or a stream of packets.",
            "requestBody": {"required": True, "content": json_content(schema_of(ServiceRequest))},
            "responses": {"200": _answer_response(schema_of), **problems(ERROR_FACTS, schema_of(ProblemBody))},
        }
    }


def problems(codes: Iterable[ErrorCode], problem: Json) -> Json:
    """Return the error responses of these codes, one per status."""
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
    """Return JSON content of this schema."""
    return {"application/json": {"schema": schema}}


def _assist(schema_of: SchemaOf) -> Json:
    operation = assist_path(schema_of)["post"]
    return {"post": {**operation, "parameters": [_LAST_EVENT_ID], "responses": _with_headers(operation["responses"])}}


def _request(schema_of: SchemaOf) -> Json:
    problem = schema_of(ProblemBody)
    over = {**problems([ErrorCode.REQUEST_CONFLICT], problem)["409"], "description": "The turn has ended"}
    return {
        "parameters": [_REQUEST_ID],
        "get": {
            "operationId": "read",
            "summary": "Read a turn from the start, or continue reading it",
            "description": "A running turn is read while it runs. The Accept header selects one response or a stream.",
            "parameters": [_LAST_EVENT_ID, *_READER],
            "responses": _with_headers({"200": _answer_response(schema_of), **problems(ERROR_FACTS, problem)}),
        },
        "delete": {
            "operationId": "cancel",
            "summary": "Cancel a running turn",
            "responses": _with_headers(
                {
                    "202": {"description": "The turn is being cancelled; its stream ends with an error"},
                    **problems(_TURN_ERRORS, problem),
                    "409": over,
                }
            ),
        },
    }


def _part_of_turn(
    name: str,
    summary: str,
    schema_of: SchemaOf,
    schema: Json,
    *parameters: Json,
    errors: Iterable[ErrorCode] = _TURN_ERRORS,
) -> Json:
    given = {"200": {"description": "Found", "content": json_content(schema)}}
    responses = _with_headers({**given, **problems(errors, schema_of(ProblemBody))})
    return {
        "parameters": [_REQUEST_ID, *parameters],
        "get": {"operationId": name, "summary": summary, "responses": responses},
    }


def _read(name: str, summary: str, schema_of: SchemaOf, description: str, content: Json, *errors: ErrorCode) -> Json:
    responses = {"200": {"description": description, "content": content}}
    responses |= problems((*_COMMON_ERRORS, *errors), schema_of(ProblemBody))
    return {"get": {"operationId": name, "summary": summary, "responses": _with_headers(responses)}}


def _plan(schema_of: SchemaOf) -> Json:
    answer = {"description": "The plan, or the refusal", "content": json_content(schema_of(PlanResponse))}
    errors = problems((*_COMMON_ERRORS, *_BODY_ERRORS), schema_of(ProblemBody))
    return {
        "post": {
            "operationId": "plan",
            "summary": "Ask which backend would do work with these requirements, and why the others would not",
            "requestBody": {"required": True, "content": json_content(schema_of(PlanRequest))},
            "responses": _with_headers({"200": answer, **errors}),
        }
    }


def _admin(schema_of: SchemaOf) -> Json:
    """Return the paths of the admin API, which needs a key with the rule `is_admin`."""

    def operation(name: str, summary: str, answer: type[BaseModel], *errors: ErrorCode, **more: Any) -> Json:
        status = "201" if answer is NewKey else "200"
        responses = {status: {"description": summary, "content": json_content(schema_of(answer))}}
        responses |= problems((*_ADMIN_ERRORS, *errors), schema_of(ProblemBody))
        described = {"operationId": name, "summary": summary, "security": REQUIRED_TOKEN}
        return {**described, **more, "responses": _with_headers(responses)}

    def body(model: type[BaseModel]) -> Json:
        return {"required": True, "content": json_content(schema_of(model))}

    def parameter(name: str, description: str, place: str = "query", **schema: Any) -> Json:
        is_path = place == "path"
        schema = {"type": "string", **schema}
        return {"name": name, "in": place, "required": is_path, "description": description, "schema": schema}

    found = ErrorCode.NOT_FOUND
    query = [
        parameter("by", "What to add up by.", enum=list(map(str, UsageGroup)), default=UsageGroup.KEY.value),
        parameter("key", "Only this key."),
        parameter("since", "The first day (UTC).", format="date"),
        parameter("until", "The last day (UTC).", format="date"),
    ]
    return {
        KEYS_PATH: {
            "get": operation("listKeys", "List the keys", KeyList),
            "post": operation("addKey", "Make a key", NewKey, *_BODY_ERRORS, requestBody=body(KeyRequest)),
        },
        KEY_PATH: {
            "parameters": [parameter("key_id", "The id of the key.", "path", minLength=1)],
            "get": operation("showKey", "Read a key", KeyInfo, found),
            "patch": operation(
                "changeKey", "Change the rules of a key", KeyInfo, found, *_BODY_ERRORS, requestBody=body(KeyChange)
            ),
            "delete": operation("revokeKey", "Revoke a key", KeyInfo, found),
        },
        USAGE_PATH: {
            "get": operation("usage", "Read usage and costs", UsageReport, ErrorCode.INVALID_MESSAGE, parameters=query)
        },
        REFUSALS_PATH: {
            "parameters": [parameter("backend", "The name of the backend.", "path", minLength=1)],
            "delete": operation("forgetRefusals", "Forget what an endpoint refused", ForgottenRefusals, found),
        },
    }


def _health(name: str, summary: str, schema_of: SchemaOf, description: str) -> Json:
    answer = json_content(schema_of(HealthCheckResponse))
    unready = "`maintenance`: the service is stopping; `degraded`: its store cannot be written"
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": _with_headers(
                {
                    "200": {"description": description, "content": answer},
                    **problems(_PUBLIC_ERRORS, schema_of(ProblemBody)),
                    **({} if name == "live" else {"503": {"description": unready, "content": answer}}),
                }
            ),
        }
    }


def _open(name: str, summary: str, schema_of: SchemaOf, media_type: str, schema: Json) -> Json:
    given = {"200": {"description": "The document", "content": {media_type: {"schema": schema}}}}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "security": [],
            "responses": {**given, **problems(_PUBLIC_ERRORS, schema_of(ProblemBody))},
        }
    }


def _answer_response(schema_of: SchemaOf) -> Json:
    # OpenAPI 3.1 cannot type a stream's items; the packet of one `data:` line is named beside it.
    stream = {"text/event-stream": {"schema": {"type": "string"}, "x-event-data": schema_of(StreamPacket)}}
    return {
        "description": "The answer: complete, or as server-sent events with one packet each",
        "content": json_content(schema_of(ServiceResponse)) | stream,
    }


def _with_headers(responses: Json) -> Json:
    """Add `Retry-After` to the responses that have it."""
    return {
        status: {**answer, "headers": _RETRY_AFTER} if status in RETRY_STATUSES else answer
        for status, answer in responses.items()
    }


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
    PlanRequest,
    PlanResponse,
    Receipt,
    ReceiptVerification,
    AdaptationReport,
    KeyRequest,
    KeyChange,
    KeyInfo,
    NewKey,
    KeyList,
    UsageReport,
    ForgottenRefusals,
)
"""The messages of the HTTP contract."""

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
"""Every message whose schema is published."""


class ServiceContract:
    """The OpenAPI description of an agent's HTTP service."""

    @staticmethod
    def generate_openapi() -> Json:
        """Return the path item of the POST operation, complete in itself: it can be placed in any document."""
        return assist_path(_inlined_schema)

    @staticmethod
    def document(*, title: str = "Accord", version: str = "1.0.0") -> Json:
        """Return the OpenAPI 3.1 document, with its schemas under `components`."""
        return {
            "openapi": "3.1.0",
            "jsonSchemaDialect": _DIALECT,
            "info": {
                "title": title,
                "version": version,
                "description": "Ask an agent. Its output is adapted to the capabilities that the client declares.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": deepcopy(OPTIONAL_TOKEN),
            "paths": deepcopy(paths(lambda model: {"$ref": _COMPONENT_REF.format(model=model.__name__)})),
            "components": {"schemas": _components(), "securitySchemes": deepcopy(dict(SECURITY_SCHEMES))},
        }


def schemas_of(messages: Iterable[type[BaseModel]]) -> dict[str, Json]:
    """Return the JSON Schema of each of these messages, by name."""
    return {
        message.__name__: {"$schema": _DIALECT, **message.model_json_schema(mode="validation")} for message in messages
    }


def _components() -> Json:
    found, definitions = models_json_schema([(model, "validation") for model in SERVED], ref_template=_COMPONENT_REF)
    schemas: Json = dict(definitions["$defs"])
    for (model, _), schema in found.items():
        schemas.setdefault(model.__name__, schema)
    return dict(sorted(schemas.items()))


def _inlined_schema(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema(mode="validation")
    return _resolve(schema, schema.pop("$defs", {}))


def _resolve(node: Any, definitions: Json) -> Any:
    """Replace every reference by what it refers to; no message of `SERVED` is recursive."""
    if isinstance(node, list):
        return [_resolve(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Json", node)
    if "$ref" in schema:
        return _resolve(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    # A discriminator maps to references; without references the constants of each kind are enough.
    return {key: _resolve(value, definitions) for key, value in schema.items() if key != "discriminator"}
