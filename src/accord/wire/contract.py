"""The service as OpenAPI 3.1 and as JSON Schemas, written from the models and the table of errors.

Nothing is described twice: shapes come from the messages, routes from `operation.py`, failures from `errors.FACTS`.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from accord.wire.acp.content import ContentBlock
from accord.wire.adaptation import AdaptationReport
from accord.wire.chat import ChatMessage
from accord.wire.client import ClientCapabilities
from accord.wire.conversation import Conversation
from accord.wire.emulation import EmulationConfig, EmulationReport
from accord.wire.event import PresentationEvent
from accord.wire.health import HealthCheckResponse
from accord.wire.inspection import InspectionReport
from accord.wire.manifest import CapabilityManifest
from accord.wire.negotiation import CompatibilityReport, NegotiationResult
from accord.wire.operation import OPTIONAL_BEARER, SECURITY_SCHEMES, Json, assist_path, paths
from accord.wire.packet import StreamPacket
from accord.wire.problem import ProblemBody
from accord.wire.receipt import Receipt
from accord.wire.request import AgentRequest, ServiceRequest
from accord.wire.requirement import CapabilityRequirements
from accord.wire.response import ServiceResponse
from accord.wire.service import ServiceCapabilities

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
