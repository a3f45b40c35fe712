"""Reading declarations: those of real agents, and malformed ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from accord.acp_tools.inspect.declared import read_initialize_result
from accord.core.prompt.verdict import read_declaration

VECTORS = Path(__file__).parent / "initialize"
REAL = {
    "auggie": (True, False, False),
    "claude-agent-acp-0.99": (True, False, True),
    "claude-agent-acp-0.99.v2": (True, False, True),
    "claude-code-acp": (True, False, True),
    "cline": (True, False, False),
    "droid": (True, False, True),
    "fast-agent": (True, False, True),
    "minion-code": (False, False, False),
    "openhands": (True, False, True),
    "pydantic-acp": (False, False, False),
    "qodercli": (True, False, True),
}


@pytest.mark.parametrize("name", sorted(REAL))
def test_the_declarations_of_real_agents_are_read_correctly(name: str):
    result = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))["result"]
    read = read_initialize_result(result)
    assert read.agent.name
    assert read.agent.version
    assert read.version == result["protocolVersion"]
    rows = {row.flag.rpartition(".")[2]: row for row in read.capabilities if "rompt" in row.flag}
    assert tuple(rows[flag].supported for flag in ("image", "audio", "embeddedContext")) == REAL[name]
    assert not [row for row in read.capabilities if (row.remark or "").startswith("malformed")]
    declaration = read_declaration(read.prompt, read.version)
    assert tuple(declaration.accepts(kind) for kind in ("image", "audio", "resource")) == REAL[name]


MALFORMED: list[Any] = ["true", 1, 0, {}, []]


def rows_of(capabilities: Any, version: int = 1) -> dict[str, Any]:
    key = "agentCapabilities" if version == 1 else "capabilities"
    read = read_initialize_result({"protocolVersion": version, key: capabilities})
    return {row.flag: (row.received, row.supported, row.remark) for row in read.capabilities}


@pytest.mark.parametrize(
    ("received", "supported", "is_malformed"),
    [(True, True, False), (False, False, False), (None, False, False)] + [(value, False, True) for value in MALFORMED],
)
def test_a_flag_is_supported_only_if_it_is_true(received: Any, supported: bool, is_malformed: bool):
    row = rows_of({"promptCapabilities": {"image": received}})["promptCapabilities.image"]
    assert row[:2] == (received, supported)
    assert (row[2] is not None) == is_malformed


@pytest.mark.parametrize(("received", "supported"), [({}, True), ({"a": 1}, True), (None, False), (True, False)])
def test_a_draft_flag_is_supported_if_it_is_an_object(received: Any, supported: bool):
    row = rows_of({"session": {"prompt": {"image": received}}}, 2)["session.prompt.image"]
    assert row[1] == supported


def test_unknown_flags_are_listed_and_metadata_is_not():
    rows = rows_of({"promptCapabilities": {"video": True}, "telepathy": {}, "_meta": {"x": 1}})
    assert rows["promptCapabilities.video"] == (True, False, "unknown: not in the schema")
    assert rows["telepathy"] == ({}, False, "unknown: not in the schema")
    assert not [flag for flag in rows if "_meta" in flag]


def test_a_group_that_is_not_an_object_is_malformed_and_its_flags_are_omitted():
    rows = rows_of({"promptCapabilities": "all"})
    assert rows["promptCapabilities"][2] == "malformed: should be an object of flags, counts as unsupported"
    assert rows["promptCapabilities.image"] == (None, False, "omitted")


@pytest.mark.parametrize("nonsense", [None, 42, [], "x", {}, {"agentInfo": 1, "agentCapabilities": []}])
def test_any_result_can_be_read(nonsense: Any):
    read = read_initialize_result(nonsense)
    assert read.version == 1
    assert read.agent.name is None
    assert not any(row.supported for row in read.capabilities)
