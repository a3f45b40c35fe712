"""Session messages: what must be there, what may be null, and which words are closed."""

import json
from typing import Any

import pytest

from accord.errors import InvalidMessageError
from accord.wire.acp import session
from accord.wire.acp.session import (
    CancelRequestNotification,
    DraftHttpMcpServer,
    DraftNewSessionRequest,
    DraftResumeSessionRequest,
    DraftStdioMcpServer,
    HttpMcpServer,
    LoadSessionRequest,
    NewSessionRequest,
    OtherMcpServer,
    PromptResponse,
    ResumeSessionRequest,
    SetSessionConfigOptionRequest,
    StdioMcpServer,
    StopReason,
)
from accord.wire.message import Message

OPENING: list[type[Message]] = [
    NewSessionRequest,
    LoadSessionRequest,
    ResumeSessionRequest,
    DraftNewSessionRequest,
    DraftResumeSessionRequest,
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
        (NewSessionRequest, {"name": "n", "command": "c", "args": [], "env": []}, StdioMcpServer),
        (NewSessionRequest, {"type": "http", "name": "n", "url": "u", "headers": []}, HttpMcpServer),
        (NewSessionRequest, {"type": "sse", "name": "n", "url": "u", "headers": []}, HttpMcpServer),
        (DraftNewSessionRequest, {"type": "stdio", "name": "n", "command": "c"}, DraftStdioMcpServer),
        (DraftNewSessionRequest, {"type": "http", "name": "n", "url": "u"}, DraftHttpMcpServer),
        (DraftNewSessionRequest, {"type": "sse", "name": "n", "url": "u"}, OtherMcpServer),
    ],
)
def test_a_server_is_read_as_its_kind(
    model: type[NewSessionRequest | DraftNewSessionRequest], server: dict[str, Any], kind: type
) -> None:
    read = model.parse(json.dumps({"cwd": "/", "mcpServers": [server]}))
    assert [type(found) for found in read.mcp_servers] == [kind]


@pytest.mark.parametrize("reason", [reason for reason in StopReason if reason is not StopReason.ERROR])
def test_version_1_has_five_stop_reasons(reason: StopReason) -> None:
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
        session.LoadSessionRequest,
        session.ResumeSessionRequest,
        session.DraftResumeSessionRequest,
        session.CloseSessionRequest,
        session.DeleteSessionRequest,
        session.SetSessionModeRequest,
        session.SetSessionConfigOptionRequest,
        session.DraftSetSessionConfigOptionRequest,
        session.PromptRequest,
        session.DraftPromptRequest,
        session.CancelNotification,
    ],
)
@pytest.mark.parametrize("meta", [{}, {"_meta": {"sessionId": "forged"}}])
def test_a_session_is_named_by_its_own_field_and_never_by_metadata(model: type[Message], meta: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError, match="sessionId: Field required"):
        model.parse(json.dumps(meta))


def test_an_error_in_a_prompt_names_the_block() -> None:
    with pytest.raises(InvalidMessageError) as caught:
        session.PromptRequest.parse('{"sessionId":"s","prompt":[{"type":"text","text":"a"},{"type":"image"}]}')
    assert [problem.field for problem in caught.value.problems] == ["prompt.1.image.data", "prompt.1.image.mimeType"]
