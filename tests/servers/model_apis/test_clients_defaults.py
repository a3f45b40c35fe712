"""What well-known clients send by default is refused by no kind of backend that has tools, streams and schemas.

`test_recorded_clients.py` sends the same requests to a running service; here they are planned for every column of the
table, with backends that declare those three capabilities and images, which some of the recorded calls send, and
nothing else.
"""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from accord.core.work.groups import BackendGroup
from accord.errors import BackendError, RefusedError
from accord.ports import SystemClock
from accord.run import Dispatcher
from accord.run.costs import RunCosts
from accord.run.model_call import ModelCall
from accord.run.model_calls import ModelCalls
from accord.servers.http.model_calls import PATHS, SERVED_APIS
from accord.wire.disposition import Api
from accord.wire.keys import Payer
from tests.servers.model_apis.test_effective import BackendOfKind

ENTRIES: Final[list[dict[str, Any]]] = json.loads(Path(__file__).with_name("clients.json").read_text("utf-8"))[
    "clients"
]
APIS: Final = {PATHS[each.api]: each for each in SERVED_APIS}
REQUESTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    f"{entry['client']}, {entry['configuration']}, {number}": (path, request["body"])
    for entry in ENTRIES
    for number, request in enumerate(entry["requests"])
    if request["method"] == "POST" and (path := request["path"].partition("?")[0]) in APIS
}
HAS: Final = ("tool_use", "streaming", "structured_output_json_schema", "image_input")


async def answer_at(kind: Api, name: str) -> dict[str, Any] | None:
    """Answer this request with one backend of this kind; the body of the error if it is refused."""
    path, body = REQUESTS[name]
    api = APIS[path]
    backend = BackendOfKind("b", [["Hello"]], dict.fromkeys(HAS, "native"), api_name=kind)
    calls = ModelCalls(Dispatcher([backend]), lambda _: BackendGroup(("b",)), SystemClock())
    call = ModelCall(
        api.read_request(json.loads(json.dumps(body))),
        "r",
        "u",
        "",
        datetime.now(UTC),
        0.0,
        RunCosts(None, Payer(), calls.dispatcher),
    )
    try:
        await (await calls.answer(call)).close()
    except RefusedError as error:
        return api.write_error(error, "r")
    except BackendError:
        pass  # it was sent; the script's answer is not what a schema wants
    return None


@pytest.mark.parametrize("name", REQUESTS)
def test_no_kind_of_backend_refuses_what_a_client_sends_by_default(name: str):
    for kind in Api:
        refusal = asyncio.run(asyncio.wait_for(answer_at(kind, name), 10))
        if "thread" in REQUESTS[name][1] and kind is not Api.MESSAGES:
            # The SDK sends the request again without a thread if it is refused in these words.
            assert refusal is not None
            assert refusal["error"]["details"]["error_code"] == "thread_unsupported_request"
        else:
            assert refusal is None, (kind.value, refusal)


def test_threads_are_among_the_recorded_requests():
    assert any("thread" in body for _, body in REQUESTS.values())
