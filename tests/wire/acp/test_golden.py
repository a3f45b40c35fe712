"""Every message of the protocol has a golden file that the official schema accepts and that we read without loss."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from jsonschema import Draft202012Validator

from accord.errors import InvalidMessageError
from accord.wire.acp import draft_update, initialize, rpc, session, tool, update
from accord.wire.message import Message

HERE: Final = Path(__file__).parent

GOLDEN_CASES: Final[list[tuple[str, type[Message], str]]] = [
    # file, model, the schema's own name; files called draft_… belong to the version 2 draft
    ("request", rpc.Request, "ClientRequest"),
    ("request_with_null_id", rpc.Request, "ClientRequest"),
    ("notification", rpc.Notification, "ClientNotification"),
    ("success_response", rpc.SuccessResponse, "AgentResponse"),
    ("success_response_with_null_result", rpc.SuccessResponse, "AgentResponse"),
    ("error_response", rpc.ErrorResponse, "AgentResponse"),
    ("error_response_with_null_id", rpc.ErrorResponse, "AgentResponse"),
    ("error", rpc.RpcErrorObject, "Error"),
    ("draft_error", rpc.RpcErrorObject, "Error"),
    ("initialize_request", initialize.InitializeRequest, "InitializeRequest"),
    ("initialize_response", initialize.InitializeResponse, "InitializeResponse"),
    ("draft_initialize_request", initialize.DraftInitializeRequest, "InitializeRequest"),
    ("draft_initialize_response", initialize.DraftInitializeResponse, "InitializeResponse"),
    ("session_new_request", session.NewSessionRequest, "NewSessionRequest"),
    ("session_new_response", session.NewSessionResponse, "NewSessionResponse"),
    ("session_load_request", session.LoadSessionRequest, "LoadSessionRequest"),
    ("session_load_response", session.LoadSessionResponse, "LoadSessionResponse"),
    ("session_resume_request", session.ResumeSessionRequest, "ResumeSessionRequest"),
    ("session_resume_response", session.ResumeSessionResponse, "ResumeSessionResponse"),
    ("session_list_request", session.ListSessionsRequest, "ListSessionsRequest"),
    ("session_list_response", session.ListSessionsResponse, "ListSessionsResponse"),
    ("session_close_request", session.CloseSessionRequest, "CloseSessionRequest"),
    ("session_close_response", session.CloseSessionResponse, "CloseSessionResponse"),
    ("session_delete_request", session.DeleteSessionRequest, "DeleteSessionRequest"),
    ("session_delete_response", session.DeleteSessionResponse, "DeleteSessionResponse"),
    ("session_set_mode_request", session.SetSessionModeRequest, "SetSessionModeRequest"),
    ("session_set_mode_response", session.SetSessionModeResponse, "SetSessionModeResponse"),
    ("session_set_config_option_request", session.SetSessionConfigOptionRequest, "SetSessionConfigOptionRequest"),
    (
        "session_set_config_option_boolean_request",
        session.SetSessionConfigOptionRequest,
        "SetSessionConfigOptionRequest",
    ),
    ("session_set_config_option_response", session.SetSessionConfigOptionResponse, "SetSessionConfigOptionResponse"),
    ("session_prompt_request", session.PromptRequest, "PromptRequest"),
    ("session_prompt_response", session.PromptResponse, "PromptResponse"),
    ("session_cancel_notification", session.CancelNotification, "CancelNotification"),
    ("cancel_request_notification", session.CancelRequestNotification, "CancelRequestNotification"),
    ("draft_session_new_request", session.DraftNewSessionRequest, "NewSessionRequest"),
    ("draft_session_new_response", session.DraftNewSessionResponse, "NewSessionResponse"),
    ("draft_session_resume_request", session.DraftResumeSessionRequest, "ResumeSessionRequest"),
    ("draft_session_resume_response", session.DraftResumeSessionResponse, "ResumeSessionResponse"),
    ("draft_session_list_request", session.ListSessionsRequest, "ListSessionsRequest"),
    ("draft_session_list_response", session.ListSessionsResponse, "ListSessionsResponse"),
    ("draft_session_close_request", session.CloseSessionRequest, "CloseSessionRequest"),
    ("draft_session_close_response", session.CloseSessionResponse, "CloseSessionResponse"),
    ("draft_session_delete_request", session.DeleteSessionRequest, "DeleteSessionRequest"),
    ("draft_session_delete_response", session.DeleteSessionResponse, "DeleteSessionResponse"),
    (
        "draft_session_set_config_option_request",
        session.DraftSetSessionConfigOptionRequest,
        "SetSessionConfigOptionRequest",
    ),
    (
        "draft_session_set_config_option_boolean_request",
        session.DraftSetSessionConfigOptionRequest,
        "SetSessionConfigOptionRequest",
    ),
    (
        "draft_session_set_config_option_response",
        session.DraftSetSessionConfigOptionResponse,
        "SetSessionConfigOptionResponse",
    ),
    ("draft_session_prompt_request", session.DraftPromptRequest, "PromptRequest"),
    ("draft_session_prompt_response", session.DraftPromptResponse, "PromptResponse"),
    ("draft_session_cancel_notification", session.CancelNotification, "CancelSessionNotification"),
    ("draft_cancel_request_notification", session.CancelRequestNotification, "CancelRequestNotification"),
    ("tool_call", tool.ToolCall, "ToolCall"),
    ("tool_call_update", tool.ToolCallUpdate, "ToolCallUpdate"),
    ("draft_tool_call_update", tool.DraftToolCallUpdate, "ToolCallUpdate"),
    ("draft_tool_call_update_with_new_words", tool.DraftToolCallUpdate, "ToolCallUpdate"),
    ("session_request_permission_request", tool.RequestPermissionRequest, "RequestPermissionRequest"),
    ("session_request_permission_response", tool.RequestPermissionResponse, "RequestPermissionResponse"),
    ("session_request_permission_cancelled_response", tool.RequestPermissionResponse, "RequestPermissionResponse"),
    ("draft_session_request_permission_request", tool.DraftRequestPermissionRequest, "RequestPermissionRequest"),
    (
        "draft_session_request_permission_command_request",
        tool.DraftRequestPermissionRequest,
        "RequestPermissionRequest",
    ),
    (
        "draft_session_request_permission_other_request",
        tool.DraftRequestPermissionRequest,
        "RequestPermissionRequest",
    ),
    ("draft_session_request_permission_response", tool.RequestPermissionResponse, "RequestPermissionResponse"),
    (
        "draft_session_request_permission_other_response",
        tool.RequestPermissionResponse,
        "RequestPermissionResponse",
    ),
    *(
        (f"session_update_{kind}", update.SessionNotification, "SessionNotification")
        for kind in update.SessionUpdate.kinds
    ),
    *(
        (f"draft_session_update_{kind}", draft_update.DraftSessionNotification, "UpdateSessionNotification")
        for kind in [
            *update.DraftSessionUpdate.kinds,
            "state_update_running",
            "plan_update_other",
            "other",
        ]
    ),
]

# Methods that Accord answers or passes on without looking inside.
NOT_MODELLED: Final = frozenset(
    method
    for method in rpc.Method
    if method.startswith(("fs/", "terminal/", "elicitation/", "auth", "logout", "tool_call/"))
)


WRONG: Final[list[Any]] = [None, 7, "wrong", {}, [{}]]


@cache
def schema_of(version: str) -> dict[str, Any]:
    return json.loads((HERE / "schema" / f"schema-{version}.json").read_bytes())


@cache
def validator(version: str, name: str) -> Callable[[Any], bool]:
    """Whether the official schema takes a value as what it calls `name`."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": schema_of(version)["$defs"]}
    return cast("Callable[[Any], bool]", Draft202012Validator(schema).is_valid)  # pyright: ignore[reportUnknownMemberType]


def version_of(file: str) -> str:
    return "v2-draft" if file.startswith("draft_") else "v1"


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


def test_every_golden_file_is_in_the_table() -> None:
    assert sorted(path.stem for path in (HERE / "golden").iterdir()) == sorted(file for file, _, _ in GOLDEN_CASES)


@pytest.mark.parametrize("version", ["v1", "v2-draft"])
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
