"""The service as OpenAPI 3.1 and as JSON Schemas, written from the models and the table of errors.

Nothing is described twice: shapes come from the messages, failures from `errors.FACTS`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accord.errors import FACTS, ErrorCode
from accord.wire.acp.content import ContentBlock
from accord.wire.adaptation import AdaptationReport
from accord.wire.chat import ChatMessage
from accord.wire.client import ClientCapabilities
from accord.wire.conversation import Conversation
from accord.wire.emulation import EmulationConfig, EmulationReport
from accord.wire.event import PresentationEvent
from accord.wire.health import HealthCheckResponse
from accord.wire.manifest import CapabilityManifest
from accord.wire.negotiation import CompatibilityReport, NegotiationResult
from accord.wire.packet import StreamPacket
from accord.wire.problem import PROBLEM_MEDIA_TYPE, ProblemBody
from accord.wire.request import AgentRequest, ServiceRequest
from accord.wire.requirement import CapabilityRequirements
from accord.wire.response import ServiceResponse

Json = dict[str, Any]

ASSIST_PATH: Final = "/v1/assist"
HEALTH_PATH: Final = "/health"

_COMPONENT_REF: Final = "#/components/schemas/{model}"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

SERVED: Final[tuple[type[BaseModel], ...]] = (
    ServiceRequest,
    ServiceResponse,
    StreamPacket,
    PresentationEvent,
    HealthCheckResponse,
    ProblemBody,
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
    AdaptationReport,
)
"""Every message that has a schema of its own."""


SchemaOf = Callable[[type[BaseModel]], Json]


class ServiceContract:
    """An agent as a standard REST service."""

    @staticmethod
    def generate_openapi() -> Json:
        """The Path Item of the POST operation, complete in itself: it can be placed in any document."""
        return _assist_path(_inlined)

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
            "paths": {ASSIST_PATH: _assist_path(_referred), HEALTH_PATH: _health_path(_referred)},
            "components": {"schemas": _components()},
        }


def schemas_of(messages: Iterable[type[BaseModel]]) -> dict[str, Json]:
    """The JSON Schema of each of these messages, by name."""
    return {
        message.__name__: {"$schema": _DIALECT, **message.model_json_schema(mode="validation")} for message in messages
    }


def _assist_path(schema_of: SchemaOf) -> Json:
    return {
        "post": {
            "operationId": "assist",
            "summary": "Ask the agent",
            "description": "The Accept header chooses between one answer and a stream of packets.",
            "requestBody": {"required": True, "content": _json_content(schema_of(ServiceRequest))},
            "responses": {
                "200": {
                    "description": "The answer: whole, or as server-sent events with one packet each",
                    "content": _json_content(schema_of(ServiceResponse)) | _stream_content(schema_of(StreamPacket)),
                },
                **_error_responses(schema_of(ProblemBody)),
            },
        }
    }


def _health_path(schema_of: SchemaOf) -> Json:
    answer = _json_content(schema_of(HealthCheckResponse))
    return {
        "get": {
            "operationId": "health",
            "summary": "Ask whether the service is well",
            "responses": {
                "200": {"description": "ok or degraded", "content": answer},
                "503": {"description": "maintenance", "content": answer},
            },
        }
    }


def _error_responses(problem: Json) -> Json:
    by_status: dict[int, list[ErrorCode]] = {}
    for code, facts in FACTS.items():
        by_status.setdefault(facts.http, []).append(code)
    return {
        str(status): {
            "description": "; ".join(f"{FACTS[code].title} (`{code}`)" for code in codes),
            "content": {PROBLEM_MEDIA_TYPE: {"schema": problem}},
        }
        for status, codes in sorted(by_status.items())
    }


def _json_content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _stream_content(packet: Json) -> Json:
    # OpenAPI 3.1 cannot type a stream's items; the packet of one `data:` line is named beside it.
    return {"text/event-stream": {"schema": {"type": "string"}, "x-event-data": packet}}


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
