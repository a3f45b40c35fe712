"""Session messages: what must be there, what may be null, and which words are closed."""

import json
from typing import Any

import pytest

from accord.acp import schema_v1, schema_v2
from accord.acp.schema_v1 import (
    CancelRequestNotification,
    LoadSessionRequest,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    NewSessionRequest,
    PromptResponse,
    ResumeSessionRequest,
    SetSessionConfigOptionRequest,
)
from accord.errors import InvalidMessageError
from accord.wire.message import Message

OPENING: list[type[Message]] = [
    NewSessionRequest,
    LoadSessionRequest,
    ResumeSessionRequest,
    schema_v2.NewSessionRequest,
    schema_v2.ResumeSessionRequest,
]


@pytest.mark.parametrize("model", OPENING)
@pytest.mark.parametrize("sent", [{}, {"mcpServers": None, "additionalDirectories": None}, {"mcpServers": []}])
def test_lists_that_are_null_or_absent_are_empty(model: type[Message], sent: dict[str, Any]) -> None:
    read = model.parse(json.dumps({"cwd": "/", "sessionId": "s", **sent}))
    assert read.dump()["mcpServers"] == read.dump()["additionalDirectories"] == []


@pytest.mark.parametrize("model", OPENING)
@pytest.mark.parametrize("wrong", [7, "x", [7], [{}], [{"type": "http"}]])
def test_a_malformed_server_is_an_error_not_a_smaller_session(model: type[Message], wrong: Any) -> None:
    with pytest.raises(InvalidMessageError, match="mcpServers"):
        model.parse(json.dumps({"cwd": "/", "sessionId": "s", "mcpServers": wrong}))


@pytest.mark.parametrize(
    ("model", "server", "kind"),
    [
        (NewSessionRequest, {"name": "n", "command": "c", "args": [], "env": []}, McpServerStdio),
        (NewSessionRequest, {"type": "http", "name": "n", "url": "u", "headers": []}, McpServerHttp),
        (NewSessionRequest, {"type": "sse", "name": "n", "url": "u", "headers": []}, McpServerSse),
        (schema_v2.NewSessionRequest, {"type": "stdio", "name": "n", "command": "c"}, schema_v2.McpServerStdio),
        (schema_v2.NewSessionRequest, {"type": "http", "name": "n", "url": "u"}, schema_v2.McpServerHttp),
        (schema_v2.NewSessionRequest, {"type": "sse", "name": "n", "url": "u"}, schema_v2.OtherMcpServer),
    ],
)
def test_a_server_is_read_as_its_kind(
    model: type[NewSessionRequest | schema_v2.NewSessionRequest], server: dict[str, Any], kind: type
) -> None:
    read = model.parse(json.dumps({"cwd": "/", "mcpServers": [server]}))
    assert [type(found) for found in read.mcp_servers] == [kind]


def test_the_draft_adds_a_stop_reason() -> None:
    assert {*schema_v2.StopReason} - {*schema_v1.StopReason} == {"error"}


@pytest.mark.parametrize("reason", schema_v1.StopReason)
def test_version_1_has_five_stop_reasons(reason: schema_v1.StopReason) -> None:
    assert PromptResponse.parse(json.dumps({"stopReason": reason})).stop_reason is reason


@pytest.mark.parametrize("reason", ["error", "bored", "", None, 7])
def test_version_1_is_closed_to_other_reasons(reason: Any) -> None:
    with pytest.raises(InvalidMessageError, match="stopReason"):
        PromptResponse.parse(json.dumps({"stopReason": reason}))


@pytest.mark.parametrize("request_id", [7, "7"])
def test_a_cancelled_request_is_named_exactly(request_id: Any) -> None:
    read = CancelRequestNotification.parse(json.dumps({"requestId": request_id}))
    assert (read.request_id, type(read.request_id)) == (request_id, type(request_id))
    assert json.loads(read.to_json()) == {"requestId": request_id}


@pytest.mark.parametrize("request_id", [None, True, 1.5, [], {}])
def test_an_invalid_request_id_is_refused(request_id: Any) -> None:
    with pytest.raises(InvalidMessageError, match="requestId"):
        CancelRequestNotification.parse(json.dumps({"requestId": request_id}))


@pytest.mark.parametrize(("value", "kind"), [(True, bool), ("true", str)])
def test_an_options_value_keeps_its_type(value: Any, kind: type) -> None:
    raw = json.dumps({"sessionId": "s", "configId": "c", "value": value})
    assert type(SetSessionConfigOptionRequest.parse(raw).value) is kind


@pytest.mark.parametrize(
    "model",
    [
        schema_v1.LoadSessionRequest,
        schema_v1.ResumeSessionRequest,
        schema_v2.ResumeSessionRequest,
        schema_v1.CloseSessionRequest,
        schema_v1.DeleteSessionRequest,
        schema_v1.SetSessionModeRequest,
        schema_v1.SetSessionConfigOptionRequest,
        schema_v2.SetSessionConfigOptionRequest,
        schema_v1.PromptRequest,
        schema_v2.PromptRequest,
        schema_v1.CancelNotification,
    ],
)
@pytest.mark.parametrize("meta", [{}, {"_meta": {"sessionId": "forged"}}])
def test_a_session_is_named_by_its_own_field_and_never_by_metadata(model: type[Message], meta: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError, match="sessionId: Field required"):
        model.parse(json.dumps(meta))


def test_an_error_in_a_prompt_names_the_block() -> None:
    with pytest.raises(InvalidMessageError) as caught:
        schema_v1.PromptRequest.parse('{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"type":"image"}]}')
    assert [problem.field for problem in caught.value.problems] == ["prompt.1.image.data", "prompt.1.image.mimeType"]
