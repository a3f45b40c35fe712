"""What `make record-clients` keeps of a request, and what the scripted model of the recorded clients replies."""

import json
import re
from http import HTTPStatus
from pathlib import Path, PurePath
from typing import Any

import pytest
from scripts.record_clients.clients import RUNS
from scripts.record_clients.redact import LONGEST, choose_tools, redact, shape_of
from scripts.record_clients.server import RecordedRequest
from scripts.record_clients.task import (
    CONTENT,
    GREETING,
    NOTE,
    PREFIX,
    Failure,
    ModelRequest,
    ToolCall,
    failure_in,
    reply_to,
)

FILE = Path(__file__).parent.parent / "servers" / "model_apis" / "clients.json"
RECORDED: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["clients"]
FOLDER = PurePath("/folder")
ASK = f"Read {NOTE}."
CITY: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCRIPT = f'text(await tools.exec_command({{cmd: "cat /folder/{NOTE}"}}))'
UUID = "0198c0de-1111-2222-3333-444455556666"
ANONYMOUS = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("short", "short"),
        ("x" * 61, "x" * LONGEST + "…"),
        ("in /home/someone/work", "in /folder/work"),
        (f"msg_{UUID}", f"msg_{ANONYMOUS}"),
        ("today is 2026-03-04", "today is 2026-01-01"),
        ("effort-2025-11-24", "effort-2025-11-24"),
        (f'{{"id": "{UUID}", "text": "{"x" * 70}"}}', f'{{"id": "{ANONYMOUS}", "text": "{"x" * LONGEST}\\u2026"}}'),
        ("{not JSON", "{not JSON"),
        (["a", 1, True, None], ["a", 1, True, None]),
        ({"create_time": 12.5, "other": 12.5}, {"create_time": 0.0, "other": 12.5}),
    ],
)
def test_each_value_keeps_its_kind_and_loses_what_names_a_machine(given: object, kept: object):
    request = RecordedRequest("POST", "/v1/responses", {}, {"input": given})
    assert redact(request, {"/home/someone": "/folder"})["body"] == {"input": kept}


def test_headers_are_kept_by_name_and_the_user_agent_by_its_product():
    headers = {"authorization": "Bearer x", "host": "h", "user-agent": "cli/1.2 (linux)", "anthropic-beta": "a,b"}
    assert redact(RecordedRequest("GET", "/", headers, None), {}) == {
        "method": "GET",
        "path": "/",
        "headers": ["anthropic-beta", "authorization", "user-agent"],
        "values": {"anthropic-beta": "a,b", "user-agent": "cli/1.2"},
    }


def test_one_tool_of_each_shape_is_kept_and_the_one_that_the_script_calls():
    tools: list[dict[str, Any]] = [{"name": name, "input_schema": {}} for name in ("Bash", "Edit", "Read")]
    late: dict[str, Any] = {"name": "Late", "input_schema": {}, "defer_loading": True}
    assert choose_tools([*tools, late]) == [tools[2], late]


def shape(**body: object) -> str:
    return shape_of(redact(RecordedRequest("POST", "/", {}, body), {}))


def test_requests_that_differ_in_their_texts_alone_have_one_shape():
    first = shape(model="m", messages=[{"role": "user", "content": "one"}])
    assert first == shape(model="m", messages=[{"role": "user", "content": "two"}, {"role": "user", "content": "3"}])
    assert first != shape(model="m", messages=[{"role": "system", "content": "one"}])
    assert first != shape(model="m", messages=[{"role": "user", "content": "one"}], stream=False)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (ModelRequest("m", "Hello"), GREETING),
        (ModelRequest("m", ASK), GREETING),
        (ModelRequest("m", "Hello", {"Read": {}, "Bash": {}}), GREETING),
        (ModelRequest("m", ASK, {"Bash": {}, "Read": {}}), ToolCall("Read", {"file_path": f"/folder/{NOTE}"})),
        (ModelRequest("m", ASK, {"a": {}, "exec": {}}), ToolCall("exec", SCRIPT)),
        (ModelRequest("m", ASK, {"a": {}, "functions__exec": CITY}), ToolCall("functions__exec", {"input": SCRIPT})),
        (ModelRequest("m", ASK, {"Read": {}}, result=CONTENT), PREFIX + CONTENT),
        (ModelRequest("m", "A city?", schema=CITY), '{"name": "Paris"}'),
        (ModelRequest("m", "A city?", {"city": CITY}), ToolCall("city", {"name": "Paris"})),
        (ModelRequest("m", "A city?", {"a": CITY, "b": CITY}, tool_choice="b"), ToolCall("b", {"name": "Paris"})),
    ],
)
def test_each_request_gets_the_reply_of_the_script(request_: ModelRequest, reply: str | ToolCall):
    assert reply_to(request_, FOLDER) == reply
    assert failure_in(request_) is None


def test_a_prompt_can_request_a_failure():
    assert failure_in(ModelRequest("m", "Please fail with 429 now")) == Failure(HTTPStatus.TOO_MANY_REQUESTS)


def test_the_committed_record_has_every_client_in_its_locked_version():
    found = [(entry["client"], entry["configuration"], entry["version"]) for entry in RECORDED]
    assert found == [(run.client, run.configuration, run.version) for run in RUNS]


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry['client']}, {entry['configuration']}")
def test_every_client_of_the_committed_record_did_its_task(entry: dict[str, Any]):
    assert "problem" not in entry
    assert [request["path"] for request in entry["requests"] if request["method"] == "POST"]


def test_the_committed_record_is_small_and_names_no_machine():
    text = FILE.read_text(encoding="utf-8")
    assert len(text) < 150_000
    assert re.findall(r"/(?:home|tmp|Users|var)/\S+|npmjs|Bearer|sk-\w+", text) == []
