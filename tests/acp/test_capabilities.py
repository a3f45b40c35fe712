"""Omitted means unsupported, and so does everything malformed; one bad flag never fails the whole."""

import json
from typing import Any, Final

import pytest

from accord.acp import schema_v1, schema_v2
from accord.acp.schema_parts import PromptCapabilities
from accord.acp.schema_v1 import AgentCapabilities, FileSystemCapabilities, McpCapabilities, SessionCapabilities
from accord.wire.message import Message

MALFORMED: Final[list[Any]] = ["true", "True", "", 1, 0, 1.0, {}, [], [True], None]
FLAGS: Final[list[tuple[type[Message], str, str]]] = [
    (PromptCapabilities, "image", "image"),
    (PromptCapabilities, "audio", "audio"),
    (PromptCapabilities, "embeddedContext", "embedded_context"),
    (McpCapabilities, "http", "http"),
    (McpCapabilities, "sse", "sse"),
    (AgentCapabilities, "loadSession", "load_session"),
    (FileSystemCapabilities, "readTextFile", "read_text_file"),
    (FileSystemCapabilities, "writeTextFile", "write_text_file"),
    (schema_v1.ClientCapabilities, "terminal", "terminal"),
    (schema_v1.AuthCapabilities, "terminal", "terminal"),
]
OBJECTS: Final[list[tuple[type[Message], str, str]]] = [
    (schema_v2.PromptCapabilities, "image", "image"),
    (schema_v2.PromptCapabilities, "audio", "audio"),
    (schema_v2.PromptCapabilities, "embeddedContext", "embedded_context"),
    (schema_v2.McpCapabilities, "stdio", "stdio"),
    (schema_v2.McpCapabilities, "http", "http"),
    (SessionCapabilities, "list", "list"),
    (SessionCapabilities, "additionalDirectories", "additional_directories"),
    (schema_v2.AgentCapabilities, "session", "session"),
    (schema_v2.AgentCapabilities, "auth", "auth"),
    (schema_v2.ClientCapabilities, "auth", "auth"),
    (schema_v2.ClientCapabilities, "elicitation", "elicitation"),
]


@pytest.mark.parametrize(("model", "key", "field"), FLAGS)
def test_only_true_declares_a_capability_in_version_1(model: type[Message], key: str, field: str) -> None:
    assert getattr(model.parse(json.dumps({key: True})), field) is True
    assert getattr(model.parse("{}"), field) is False
    for sent in [False, *MALFORMED]:
        assert getattr(model.parse(json.dumps({key: sent})), field) is False
        assert getattr(model.model_validate({key: sent}), field) is False


@pytest.mark.parametrize(("model", "key", "field"), OBJECTS)
def test_only_an_object_declares_an_object_capability(model: type[Message], key: str, field: str) -> None:
    for sent in ({}, {"_meta": {"a": 1}}, {"unknown": [1]}):
        read = model.parse(json.dumps({key: sent}))
        assert getattr(read, field).dump() == sent
        assert read.dump()[key] == sent
    for sent in [True, False, *(value for value in MALFORMED if value != {})]:
        assert getattr(model.parse(json.dumps({key: sent})), field) is None
    assert getattr(model.parse("{}"), field) is None


@pytest.mark.parametrize("sent", ["yes", 1, [], None, True])
def test_a_malformed_part_is_read_as_nothing_declared(sent: Any) -> None:
    agent = AgentCapabilities.parse(
        json.dumps({"promptCapabilities": sent, "mcpCapabilities": sent, "sessionCapabilities": sent, "auth": sent})
    )
    assert agent == AgentCapabilities()
    client = schema_v1.ClientCapabilities.parse(
        json.dumps({"fs": sent, "session": sent, "auth": sent, "elicitation": sent})
    )
    assert client == schema_v1.ClientCapabilities()


def test_one_bad_flag_leaves_the_others_as_declared() -> None:
    read = PromptCapabilities.parse('{"image": "true", "audio": true, "video": {"codec": "av1"}}')
    assert (read.image, read.audio, read.embedded_context) == (False, True, False)
    assert read.dump()["video"] == {"codec": "av1"}
