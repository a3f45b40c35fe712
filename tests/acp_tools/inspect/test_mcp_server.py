"""The MCP server of the inspector, started as an agent starts it."""

import json
import subprocess
import sys
from pathlib import Path

from accord.acp_tools.inspect import mcp_server
from accord.errors import RpcCode


def test_the_server_answers_a_client_and_writes_down_what_it_received(tmp_path: Path):
    calls = ["initialize", "notifications/initialized", "tools/list", "tools/call", "ping", "resources/list"]
    lines = [
        json.dumps({"jsonrpc": "2.0", "method": method, **({} if "notif" in method else {"id": number})})
        for number, method in enumerate(calls)
    ]
    received = tmp_path / "received.jsonl"
    done = subprocess.run(
        [sys.executable, "-I", mcp_server.__file__, str(received)],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert list(answers) == [0, 2, 3, 4, 5]
    assert answers[0]["result"]["serverInfo"]["name"] == mcp_server.NAME
    assert answers[2]["result"]["tools"][0]["name"] == mcp_server.TOOL
    assert answers[3]["result"]["content"] == [{"type": "text", "text": mcp_server.NOTE}]
    assert answers[5]["error"]["code"] == RpcCode.METHOD_NOT_FOUND
    assert received.read_text().splitlines() == lines


def test_the_server_goes_on_when_the_inspector_has_removed_its_file(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-I", mcp_server.__file__, str(tmp_path / "gone" / "received.jsonl")],
        input='{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
