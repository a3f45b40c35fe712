"""The contract: a real OpenAPI validator and a real JSON Schema validator accept it."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import accord
from accord.errors import FACTS
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
    assert set(operation["responses"]) == {"200", *(str(facts.http) for facts in FACTS.values())}


def test_the_document_can_be_written_as_json():
    assert json.loads(json.dumps(ServiceContract.document())) == ServiceContract.document()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_schema(name: str):
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
