"""Every message of the protocol has a golden file that the official schema accepts and that we read without loss."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from jsonschema import Draft202012Validator
from scripts.acp_types import SCHEMAS

from accord.acp import jsonrpc, schema_v1, schema_v2
from accord.acp.methods import Method
from accord.errors import InvalidMessageError
from accord.wire.message import Message

HERE: Final = Path(__file__).parent

PARTS: Final[dict[str, tuple[type[Message], str]]] = {
    # what is not the parameters or the result of a method: its model, and the schema's own name
    "request": (jsonrpc.Request, "ClientRequest"),
    "request_with_null_id": (jsonrpc.Request, "ClientRequest"),
    "notification": (jsonrpc.Notification, "ClientNotification"),
    "success_response": (jsonrpc.SuccessResponse, "AgentResponse"),
    "success_response_with_null_result": (jsonrpc.SuccessResponse, "AgentResponse"),
    "error_response": (jsonrpc.ErrorResponse, "AgentResponse"),
    "error_response_with_null_id": (jsonrpc.ErrorResponse, "AgentResponse"),
    "error": (jsonrpc.RpcErrorObject, "Error"),
    "draft_error": (jsonrpc.RpcErrorObject, "Error"),
    "tool_call": (schema_v1.ToolCall, "ToolCall"),
    "tool_call_update": (schema_v1.ToolCallUpdate, "ToolCallUpdate"),
    "draft_tool_call_update": (schema_v2.ToolCallUpdate, "ToolCallUpdate"),
    "draft_tool_call_update_with_new_words": (schema_v2.ToolCallUpdate, "ToolCallUpdate"),
}


def find_message(file: str) -> tuple[type[Message], str]:
    """The model of a golden file, and the schema's own name; a file is named after its method."""
    if file in PARTS:
        return PARTS[file]
    schema, name = (schema_v2 if file.startswith("draft_") else schema_v1), file.removeprefix("draft_")
    methods = schema.RESULTS if name.endswith("_response") else schema.PARAMETERS
    method = max((each for each in methods if name.startswith(as_stem(each))), key=len)
    return methods[method], methods[method].__name__


def as_stem(method: str) -> str:
    return method.removeprefix("$/").replace("/", "_")


# Files called draft_… belong to the version 2 draft.
GOLDEN_CASES: Final = [(path.stem, *find_message(path.stem)) for path in sorted((HERE / "golden").iterdir())]

# Methods that Accord answers or passes on without looking inside.
NOT_MODELLED: Final = frozenset(
    method
    for method in Method
    if method.startswith(("fs/", "terminal/", "elicitation/", "auth", "logout", "tool_call/"))
)


WRONG: Final[list[Any]] = [None, 7, "wrong", {}, [{}]]


@cache
def schema_of(version: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{version}.json").read_bytes())


@cache
def validator(version: str, name: str) -> Callable[[Any], bool]:
    """Whether the official schema takes a value as what it calls `name`."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": schema_of(version)["$defs"]}
    return cast("Callable[[Any], bool]", Draft202012Validator(schema).is_valid)  # pyright: ignore[reportUnknownMemberType]


def version_of(file: str) -> str:
    return "v2" if file.startswith("draft_") else "v1"


def golden(file: str) -> bytes:
    return (HERE / "golden" / f"{file}.json").read_bytes()


def leaves(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Every place in a JSON tree with what is there; a null counts as nothing."""
    if isinstance(value, dict):
        yield path, "an object"
        for key, inner in cast("dict[str, Any]", value).items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield path, f"{len(cast('list[Any]', value))} items"
        for place, inner in enumerate(cast("list[Any]", value)):
            yield from leaves(inner, f"{path}[{place}]")
    elif value is not None:
        yield path, json.dumps(value)


@pytest.mark.parametrize(("file", "model", "name"), GOLDEN_CASES, ids=[file for file, _, _ in GOLDEN_CASES])
def test_a_golden_message_is_read_and_written_back_without_loss(file: str, model: type[Message], name: str) -> None:
    raw = golden(file)
    official = validator(version_of(file), name)
    assert official(json.loads(raw))

    message = model.parse(raw)
    written = message.to_json()

    assert model.parse(written) == message
    assert set(leaves(json.loads(raw))) - set(leaves(json.loads(written))) == set()
    assert message.dump() == json.loads(written)
    assert official(json.loads(written))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_every_message_of_the_protocol_has_a_golden_file_or_is_named_as_not_modelled(version: str) -> None:
    definitions: dict[str, dict[str, Any]] = schema_of(version)["$defs"]
    named = {name for name, found in definitions.items() if found.get("x-method") not in {None, *NOT_MODELLED}}
    assert named <= {name for file, _, name in GOLDEN_CASES if version_of(file) == version}


@pytest.mark.parametrize(("file", "model", "name"), GOLDEN_CASES, ids=[file for file, _, _ in GOLDEN_CASES])
def test_a_golden_message_with_one_wrong_part_is_refused_only_if_the_schema_refuses_it_too(
    file: str, model: type[Message], name: str
) -> None:
    official = validator(version_of(file), name)
    for wrong in WRONG:
        for damaged in replaced(json.loads(golden(file)), wrong):
            try:
                written = model.parse(json.dumps(damaged)).to_json()
            except InvalidMessageError:
                assert not official(damaged) or stricter_than_the_schema(damaged)
            else:
                assert model.parse(written).to_json() == written


def stricter_than_the_schema(message: dict[str, Any]) -> bool:
    """The two things that the schema's definitions let pass and we do not."""
    another_json_rpc = message.get("jsonrpc", "2.0") != "2.0"
    cancels_nothing = message == {"requestId": None}
    return another_json_rpc or cancels_nothing


def replaced(value: Any, wrong: Any) -> Iterator[Any]:
    """The value with each of its parts in turn replaced by a wrong one."""
    if isinstance(value, dict):
        whole = cast("dict[str, Any]", value)
        for key, inner in whole.items():
            yield {**whole, key: wrong}
            for changed in replaced(inner, wrong):
                yield {**whole, key: changed}
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for place, inner in enumerate(items):
            for changed in (wrong, *replaced(inner, wrong)):
                yield [*items[:place], changed, *items[place + 1 :]]
