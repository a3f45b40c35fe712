"""The contract: a real OpenAPI validator and a real JSON Schema validator accept it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from jsonschema import ValidationError as SchemaError
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import ValidationError as PydanticError

import accord
from accord.acp import schema_v1, schema_v2
from accord.errors import ERROR_FACTS
from accord.wire.contract import MESSAGES, ServiceContract, schemas_of
from tests.wire.test_golden import GOLDEN, GOLDEN_CASES

VERSIONS = (schema_v1, schema_v2)
ACP_SCHEMAS = [schemas_of((*each.PARAMETERS.values(), *each.RESULTS.values())) for each in VERSIONS]
SCHEMAS = {name: schema for found in (schemas_of(MESSAGES), *ACP_SCHEMAS) for name, schema in found.items()}


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = cast("dict[str, Any]", node)
        own = {found["$ref"]} if "$ref" in found else set[str]()
        return own.union(*(references(value) for value in found.values()))
    if isinstance(node, list):
        return set[str]().union(*(references(value) for value in cast("list[Any]", node)))
    return set()


def check(name: str, message: Any) -> None:
    Draft202012Validator(SCHEMAS[name]).validate(message)  # pyright: ignore[reportUnknownMemberType]


def test_the_document_is_valid_openapi():
    OpenAPIV31SpecValidator(ServiceContract.document()).validate()


def test_every_reference_of_the_document_resolves():
    document = ServiceContract.document()
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def test_the_path_item_can_be_placed_in_any_document():
    item = ServiceContract.generate_openapi()
    assert not references(item)
    OpenAPIV31SpecValidator(
        {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/ask": item}}
    ).validate()


def test_the_operation_offers_json_and_a_stream_and_every_error():
    operation = ServiceContract.document()["paths"]["/v1/assist"]["post"]
    assert set(operation["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert set(operation["responses"]) == {"200", *(str(facts.http) for facts in ERROR_FACTS.values())}


ROUTES = {
    ("/v1/assist", "post"): {"200", *(str(facts.http) for facts in ERROR_FACTS.values())},
    ("/v1/requests/{request_id}", "get"): {"200", *(str(facts.http) for facts in ERROR_FACTS.values())},
    ("/v1/requests/{request_id}", "delete"): set("202 400 401 403 404 405 409 429 500 503".split()),
    ("/v1/requests/{request_id}/receipt", "get"): set("200 400 401 403 404 405 429 500 503".split()),
    ("/v1/requests/{request_id}/adaptation", "get"): set("200 400 401 403 404 405 429 500 503".split()),
    ("/v1/requests/{request_id}/items/{item_id}", "get"): set("200 400 401 403 404 405 429 500 503".split()),
    ("/v1/capabilities", "get"): set("200 401 405 429 500 503".split()),
    ("/v1/admin/keys", "get"): set("200 401 403 405 429 500 503".split()),
    ("/v1/admin/keys", "post"): set("201 400 401 403 405 408 413 415 429 500 503".split()),
    ("/v1/admin/keys/{key_id}", "get"): set("200 401 403 404 405 429 500 503".split()),
    ("/v1/admin/keys/{key_id}", "patch"): set("200 400 401 403 404 405 408 413 415 429 500 503".split()),
    ("/v1/admin/keys/{key_id}", "delete"): set("200 401 403 404 405 429 500 503".split()),
    ("/v1/requests/{request_id}/receipt/verification", "get"): set("200 400 401 403 404 405 413 429 500 503".split()),
    ("/v1/plan", "post"): set("200 400 401 405 408 413 415 429 500 503".split()),
    ("/v1/admin/backends/{backend}/refusals", "delete"): set("200 401 403 404 405 429 500 503".split()),
    ("/v1/admin/usage", "get"): set("200 400 401 403 405 429 500 503".split()),
    ("/health", "get"): set("200 405 500 503".split()),
    ("/health/ready", "get"): set("200 405 500 503".split()),
    ("/health/live", "get"): set("200 405 500".split()),
    ("/metrics", "get"): set("200 401 403 405 429 500 503".split()),
    ("/openapi.json", "get"): set("200 405 500".split()),
    ("/docs", "get"): set("200 405 500".split()),
}


def operations(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {
        (path, method): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


def test_every_route_is_described_with_every_status_it_can_have():
    found = {route: set(operation["responses"]) for route, operation in operations(ServiceContract.document()).items()}
    assert found == ROUTES


def test_retryable_responses_have_retry_after():
    for route, operation in operations(ServiceContract.document()).items():
        for status, answer in operation["responses"].items():
            assert ("Retry-After" in answer.get("headers", {})) is (status in {"429", "503"}), (route, status)


def test_operation_ids_are_unique():
    names = [operation["operationId"] for operation in operations(ServiceContract.document()).values()]
    assert len(names) == len(set(names))


def test_a_token_is_optional_and_public_routes_need_none():
    document = ServiceContract.document()
    assert document["security"] == [{}, {"bearer": []}, {"api_key": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    is_open = {path for (path, _), operation in operations(document).items() if operation.get("security") == []}
    assert is_open == {"/health", "/health/live", "/health/ready", "/openapi.json", "/docs"}


@pytest.mark.parametrize("route", [("/v1/assist", "post"), ("/v1/requests/{request_id}", "get")])
def test_a_stream_can_be_resumed_where_it_is_offered(route: tuple[str, str]):
    operation = operations(ServiceContract.document())[route]
    assert operation["parameters"][0]["name"] == "Last-Event-ID"
    assert not operation["parameters"][0]["required"]
    assert "text/event-stream" in operation["responses"]["200"]["content"]


REQUEST_ID = ("request_id", "path", True, {"type": "string", "format": "uuid"})
ITEM_ID = ("item_id", "path", True, {"type": "string", "minLength": 1})
LAST_EVENT_ID = ("Last-Event-ID", "header", False, {"type": "string"})
READER = [
    ("Accord-Capabilities", "header", False, {"type": "string"}),
    ("capabilities", "query", False, {"type": "string"}),
]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/assist", [LAST_EVENT_ID]),
        ("/v1/requests/{request_id}", [REQUEST_ID, LAST_EVENT_ID, *READER]),
        ("/v1/requests/{request_id}/receipt", [REQUEST_ID]),
        ("/v1/requests/{request_id}/adaptation", [REQUEST_ID, *READER]),
        ("/v1/requests/{request_id}/items/{item_id}", [REQUEST_ID, ITEM_ID]),
    ],
)
def test_every_parameter_has_a_place_and_a_schema(path: str, parameters: list[Any]):
    item = ServiceContract.document()["paths"][path]
    listed = [*item.get("parameters", []), *(item.get("get") or item["post"]).get("parameters", [])]
    assert [(each["name"], each["in"], each["required"], each["schema"]) for each in listed] == parameters


def test_the_standalone_path_item_takes_only_a_body():
    operation = ServiceContract.generate_openapi()["post"]
    assert set(operation) == {"operationId", "summary", "description", "requestBody", "responses"}
    assert not any("headers" in answer for answer in operation["responses"].values())


def test_documents_share_no_mutable_parts():
    ServiceContract.document()["paths"]["/v1/assist"]["post"]["parameters"].clear()
    changed = ServiceContract.document()
    changed["paths"]["/v1/assist"]["post"]["parameters"][0]["name"] = "other"
    changed["components"]["securitySchemes"]["bearer"].clear()
    OpenAPIV31SpecValidator(ServiceContract.document()).validate()
    assert ServiceContract.document()["paths"]["/v1/assist"]["post"]["parameters"][0]["name"] == "Last-Event-ID"


def test_the_document_can_be_written_as_json():
    assert json.loads(json.dumps(ServiceContract.document())) == ServiceContract.document()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_valid(name: str):
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize(
    ("file", "name"), [(file, model.__name__) for file, model in GOLDEN_CASES.items() if model in MESSAGES]
)
def test_every_golden_message_fits_its_schema(file: str, name: str):
    check(name, json.loads((GOLDEN / f"{file}.json").read_text()))


def test_the_schema_of_the_manifest_takes_the_golden_manifest():
    golden = json.loads((Path(GOLDEN) / "capability_manifest.json").read_text())
    check("CapabilityManifest", golden)
    assert accord.CapabilityManifest.model_validate(golden).model_dump() == golden


def kinds_in(node: Any, definitions: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every kind of a tagged union in this schema, with the name of its tag."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        if "discriminator" in schema:
            for reference in schema["discriminator"]["mapping"].values():
                name = reference.rpartition("/")[2]
                found[name] = (schema["discriminator"]["propertyName"], definitions[name])
        node = list(schema.values())
    if isinstance(node, list):
        for inner in cast("list[Any]", node):
            found |= kinds_in(inner, definitions)
    return found


KINDS = {
    name: kind
    for schema in [*SCHEMAS.values(), {"$defs": ServiceContract.document()["components"]["schemas"]}]
    for name, kind in kinds_in(schema, schema.get("$defs", {})).items()
}


@pytest.mark.parametrize("name", KINDS)
def test_the_tag_of_every_kind_is_required(name: str):
    tag, schema = KINDS[name]
    assert tag in schema["required"]
    assert "default" not in schema["properties"][tag]


def test_the_kinds_of_every_protocol_are_covered():
    assert {
        "DeltaPacket",
        "CitationEvent",
        "TextContent",
        "SystemPromptInjection",
        "TextPart",
        "ReportedNative",
    } <= set(KINDS)


PACKETS: list[tuple[dict[str, Any], bool]] = [
    ({"op": "delta", "p": "x"}, True),
    ({"op": "delta", "p": ""}, True),
    ({"op": "delta", "p": 1}, False),
    ({"op": "delta", "p": None}, False),
    ({"op": "delta"}, False),
    ({"op": "event", "p": {}}, True),
    ({"op": "event", "p": {"type": "x", "data": [None]}}, True),
    ({"op": "event", "p": "x"}, False),
    ({"op": "event", "p": []}, False),
    ({"op": "error", "p": {"code": "c", "message": "m", "severity": "fatal"}}, True),
    ({"op": "error", "p": {"code": "c", "message": "m", "severity": "bad"}}, False),
    ({"op": "error", "p": {"code": 1, "message": "m", "severity": "fatal"}}, False),
    ({"op": "error", "p": {"code": "c"}}, False),
    ({"op": "error", "p": "c"}, False),
    ({"op": "close"}, True),
    ({"op": "close", "p": None}, True),
    ({"op": "close", "p": ""}, False),
    ({"op": "close", "p": {}}, False),
    ({"op": "DELTA", "p": "x"}, False),
    ({"op": "other", "p": "x"}, False),
    ({"op": None, "p": "x"}, False),
    ({"p": "x"}, False),
    ({}, False),
]


@pytest.mark.parametrize(("packet", "valid"), PACKETS)
def test_decision_3_a_call_the_union_and_the_schema_are_equally_strict(packet: dict[str, Any], valid: bool):
    def accepts(read: Callable[[], object]) -> bool:
        try:
            read()
        except (PydanticError, SchemaError):
            return False
        return True

    assert accepts(lambda: accord.StreamPacket(**packet)) is valid
    assert accepts(lambda: accord.StreamPacket.model_validate(packet)) is valid
    assert accepts(lambda: accord.StreamPacket.model_validate_json(json.dumps(packet))) is valid
    assert accepts(lambda: check("StreamPacket", packet)) is valid


REQUESTS: list[tuple[dict[str, Any], bool]] = [
    ({"query": "q"}, True),
    ({"session_id": "s", "payload": {"input": "q", "timezone": "UTC"}, "capabilities": {"supported_events": []}}, True),
    ({"query": "q", "payload": "anything"}, True),
    ({"session_id": "s", "payload": {}}, False),
    ({"session_id": "s", "payload": {"input": 1}}, False),
    ({"session_id": "s"}, False),
    ({"query": 1}, False),
]


@pytest.mark.parametrize(("request_", "valid"), REQUESTS)
def test_decision_1_the_schema_has_the_older_request_too(request_: dict[str, Any], valid: bool):
    operation = ServiceContract.generate_openapi()["post"]
    inline = operation["requestBody"]["content"]["application/json"]["schema"]["properties"]["payload"]
    for schema in (SCHEMAS["AgentRequest"], inline):
        assert Draft202012Validator(schema).is_valid(request_) is valid  # pyright: ignore[reportUnknownMemberType]
    try:
        accord.AgentRequest.model_validate(request_)
    except PydanticError:
        assert not valid
    else:
        assert valid
