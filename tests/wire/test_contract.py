"""The contract: a real OpenAPI validator and a real JSON Schema validator accept it."""

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import accord
from accord.errors import ERROR_FACTS
from accord.wire import acp
from accord.wire.acp.messages import ACP_MESSAGES
from accord.wire.contract import MESSAGES, ServiceContract, schemas_of
from tests.wire.test_golden import GOLDEN, GOLDEN_CASES

SCHEMAS = schemas_of((*MESSAGES, *ACP_MESSAGES))


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
    ("/health", "get"): set("200 405 500 503".split()),
    ("/health/ready", "get"): set("200 405 500 503".split()),
    ("/health/live", "get"): set("200 405 500".split()),
    ("/metrics", "get"): set("200 401 405 429 500 503".split()),
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
    assert document["security"] == [{}, {"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    is_open = {path for (path, _), operation in operations(document).items() if operation.get("security") == []}
    assert is_open == {"/health", "/health/live", "/health/ready", "/openapi.json", "/docs"}


@pytest.mark.parametrize("route", [("/v1/assist", "post"), ("/v1/requests/{request_id}", "get")])
def test_a_stream_can_be_resumed_where_it_is_offered(route: tuple[str, str]):
    operation = operations(ServiceContract.document())[route]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["Last-Event-ID"]
    assert not operation["parameters"][0]["required"]
    assert "text/event-stream" in operation["responses"]["200"]["content"]


REQUEST_ID = ("request_id", "path", True, {"type": "string", "format": "uuid"})
ITEM_ID = ("item_id", "path", True, {"type": "string", "minLength": 1})
LAST_EVENT_ID = ("Last-Event-ID", "header", False, {"type": "string"})


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/assist", [LAST_EVENT_ID]),
        ("/v1/requests/{request_id}", [REQUEST_ID, LAST_EVENT_ID]),
        ("/v1/requests/{request_id}/receipt", [REQUEST_ID]),
        ("/v1/requests/{request_id}/adaptation", [REQUEST_ID]),
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


def test_every_acp_message_has_a_published_schema():
    modules = [import_module(found.name) for found in pkgutil.iter_modules(acp.__path__, "accord.wire.acp.")]
    named = {
        name
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and name.endswith(("Request", "Response", "Notification"))
    }
    assert named - {message.__name__ for message in ACP_MESSAGES} == {"SessionRequest"}  # the base of others


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
