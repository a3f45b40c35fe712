"""What well-known clients send by default is never refused: every recorded request, to a backend of every API."""

import json
import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.servers.model_apis.served import BACKENDS, ServedModels

ENTRIES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("clients.json").read_text("utf-8"))["clients"]
REQUESTS: dict[str, dict[str, Any]] = {
    f"{entry['client']}, {entry['configuration']}, {number}": request
    for entry in ENTRIES
    for number, request in enumerate(entry["requests"])
    if request["method"] == "POST"
}
SERVED = {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"}
BROKEN_STREAM = re.compile(r'^event: (?:error|response\.failed)|^data: \{"error"', re.MULTILINE)


def post(served: ServedModels, request: dict[str, Any], model: str) -> tuple[int, str]:
    """The status and the body of the answer to a recorded request, sent with this model."""
    body = json.dumps(request["body"] | {"model": model})
    headers = request["values"] | {"authorization": "Bearer a-key", "content-type": "application/json"}
    with closing(HTTPConnection(served.address.removeprefix("http://"), timeout=20)) as connection:
        connection.request("POST", request["path"], body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_every_api_is_in_the_record():
    assert {request["path"].partition("?")[0] for request in REQUESTS.values()} == SERVED


@pytest.mark.parametrize("model", BACKENDS)
@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_that_a_client_sends_by_default_is_refused(served: ServedModels, name: str, model: str):
    status, answer = post(served, REQUESTS[name], model)
    if "thread" in REQUESTS[name]["body"] and model != "messages":
        # Only its own API has threads. The SDK sends the request again without one if it is refused in these words.
        assert json.loads(answer)["error"]["details"]["error_code"] == "thread_unsupported_request", answer
    else:
        assert status == 200, answer
        assert not BROKEN_STREAM.search(answer), answer


def test_a_websocket_is_declined_with_the_status_that_makes_codex_post_at_once(served: ServedModels):
    handshake = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    with closing(HTTPConnection(served.address.removeprefix("http://"), timeout=20)) as connection:
        connection.request("GET", "/v1/responses", headers=handshake)
        assert connection.getresponse().status == 426
