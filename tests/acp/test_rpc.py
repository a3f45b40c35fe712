"""JSON-RPC messages keep ids and parameters exactly, and write the nulls that JSON-RPC requires."""

import json
from typing import Any

import pytest

from accord.acp.jsonrpc import ErrorResponse, Notification, Request, RpcErrorObject, SuccessResponse
from accord.errors import InvalidMessageError
from accord.wire.message import Message


@pytest.mark.parametrize("request_id", [0, -1, 2**63, "", "7", "seven", None])
def test_an_id_is_kept(request_id: int | str | None) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "m"})
    request = Request.parse(raw)
    assert request.id == request_id
    assert type(request.id) is type(request_id)
    assert json.loads(request.to_json()) == json.loads(raw)


@pytest.mark.parametrize("request_id", [True, 1.5, [], {}])
def test_an_id_of_another_type_is_refused(request_id: Any) -> None:
    with pytest.raises(InvalidMessageError, match="id"):
        Request.parse(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "m"}))


@pytest.mark.parametrize("params", [{}, [], [None, 1.0, "x"], {"a": None, "_meta": {"b": None}}, 7, "text", False])
def test_params_are_kept(params: Any) -> None:
    raw = json.dumps({"jsonrpc": "2.0", "method": "m", "params": params})
    assert json.loads(Notification.parse(raw).to_json())["params"] == params


@pytest.mark.parametrize(
    ("frame", "written"),
    [
        (Request(id=None, method="m"), {"jsonrpc": "2.0", "method": "m", "id": None}),
        (SuccessResponse(id=1, result=None), {"jsonrpc": "2.0", "id": 1, "result": None}),
        (SuccessResponse(id=None, result=None), {"jsonrpc": "2.0", "id": None, "result": None}),
        (
            ErrorResponse(id=None, error=RpcErrorObject(code=-32700, message="Parse error")),
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
        ),
        (Notification(method="m"), {"jsonrpc": "2.0", "method": "m"}),
    ],
)
def test_a_null_is_written_only_where_json_rpc_requires_it(frame: Message, written: dict[str, Any]) -> None:
    assert json.loads(frame.to_json()) == written
    assert frame.dump() == written


@pytest.mark.parametrize(
    ("model", "raw", "field"),
    [
        (Request, '{"jsonrpc":"2.0","method":"m"}', "id"),
        (Request, '{"jsonrpc":"2.0","id":1}', "method"),
        (Request, '{"jsonrpc":"1.0","id":1,"method":"m"}', "jsonrpc"),
        (Notification, '{"jsonrpc":"2.0","method":7}', "method"),
        (SuccessResponse, '{"jsonrpc":"2.0","id":1}', "result"),
        (ErrorResponse, '{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}', "error.code"),
        (ErrorResponse, '{"jsonrpc":"2.0","id":1,"error":{"code":"-1","message":"m"}}', "error.code"),
        (Request, "[]", "(the message)"),
        (Request, '{"jsonrpc":"2.0","id":1,"method":"m","params":NaN}', "params"),
    ],
)
def test_a_malformed_message_is_reported_with_its_field(model: type[Message], raw: str, field: str) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        model.parse(raw)
    assert caught.value.problems[0].field == field


def test_unknown_members_are_kept() -> None:
    raw = '{"jsonrpc":"2.0","id":1,"method":"m","trace":{"a":[1]}}'
    assert json.loads(Request.parse(raw).to_json()) == json.loads(raw)
