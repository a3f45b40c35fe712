"""Decisions on content and capabilities in the log of a real process: a line each at level debug, never any content."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.servers.acp.editor import Editor
from tests.servers.process import accord_serve
from tests.servers.transports import body, within

MARKER = "Zanzibar-payload"
ENCODED = base64.b64encode(MARKER.encode() * 4).decode()
AGENT = """
from accord import Agent

async def ask(turn):
    yield turn.tool_call("1", "Look", {"type": "text", "text": "Zanzibar-payload"})
    async for text in turn.ask():
        yield text

agent = Agent(ask, accepts=["image"])
"""
CONFIG = """
[[backends]]
name = "local"
kind = "scripted"
options = {script = ["Zanzibar-payload"]}
overrides = {streaming = "native", image_input = "native", tool_use = "unsupported"}

[[backends]]
name = "far"
kind = "scripted"
options = {script = ["unused"]}
overrides = {streaming = "native"}
"""
LINK = {"type": "resource_link", "uri": f"file:///{MARKER}", "name": MARKER, "title": MARKER, "_meta": {"a": MARKER}}
ACCEPTED: list[dict[str, Any]] = [
    {"type": "text", "text": MARKER, "annotations": {"audience": [MARKER]}},
    {"type": "image", "data": ENCODED, "mimeType": "image/png", "uri": f"https://{MARKER}.example"},
    LINK,
]
REFUSED: list[dict[str, Any]] = [
    {"type": "audio", "data": ENCODED, "mimeType": "audio/wav"},
    {"type": "text", "txt": MARKER},
    {"type": "image", "data": f"{MARKER}!", "mimeType": f"image/{MARKER}"},
    {"type": "video", "data": MARKER},
    {"type": "resource", "resource": {"uri": f"file:///{MARKER}", "text": MARKER}},
    {"type": "text", "text": MARKER},
]
VERDICTS = [
    ("audio", "promptCapabilities.audio", False, "refused"),
    ("text", None, True, "refused"),
    ("image", "promptCapabilities.image", True, "refused"),
    ("video", None, False, "refused"),
    ("resource", "promptCapabilities.embeddedContext", False, "refused"),
    ("text", None, True, "accepted"),
]


def decisions(lines: list[str], kind: str, request_id: str | None = None) -> list[dict[str, Any]]:
    """The fields of the lines on decisions of this kind."""
    found = [json.loads(line) for line in lines if '"accord.decisions"' in line]
    assert all(line["level"] == "debug" for line in found)
    return [line["fields"] for line in found if line["message"] == kind and request_id in (None, line["request_id"])]


def check_blocks(found: list[dict[str, Any]], flags: str = "promptCapabilities") -> None:
    """That each refused block has one line with everything that was decided on."""
    assert [(line["index"], line["context"]) for line in found] == [(index, "prompt") for index in range(len(REFUSED))]
    expected = [
        (kind, capability and capability.replace("promptCapabilities", flags), declared, verdict)
        for kind, capability, declared, verdict in VERDICTS
    ]
    assert [(line["type"], line.get("capability"), line["declared"], line["verdict"]) for line in found] == expected
    assert all(line["reason"] for line in found)


@pytest.mark.parametrize("level", ["debug", "info"])
def test_a_service_logs_each_decision_at_level_debug_and_never_any_content(level: str, tmp_path: Path):
    requirements = {
        "required": [{"capability": "vision", "min_support": "native"}],
        "preferred": [{"capability": "tool_use", "min_support": "emulated"}],
    }
    requests = [
        body(1, MARKER, content=ACCEPTED, requirements=requirements),
        body(2, MARKER, content=REFUSED),
        body(3, MARKER, requirements={"required": [{"capability": "tool_use", "min_support": "native"}]}),
    ]
    ids = [request["request_id"] for request in requests]

    async def run() -> list[str]:
        arguments = ("--log-json", "--log-level", level)
        async with (
            accord_serve(tmp_path, *arguments, config=CONFIG, agent=AGENT) as served,
            aiohttp.ClientSession(served.address) as client,
        ):
            statuses: list[int] = []
            for request in requests:
                async with client.post("/v1/assist", json=request) as response:
                    statuses.append(response.status)
                    await response.read()
            assert statuses == [200, 422, 422]
            await served.until_logged("accord.turn", count=3)
            return served.log_lines

    lines = within(run)
    assert not [line for line in lines if MARKER in line or ENCODED in line]
    turns = [json.loads(line) for line in lines if '"accord.turn"' in line]
    assert [(line["request_id"], line["fields"]["outcome"], line["fields"]["status"]) for line in turns] == [
        (ids[0], "done", 200),
        (ids[1], "refused", 422),
        (ids[2], "refused", 422),
    ]
    assert not [line for line in lines if '"accord.http"' in line], "a request that starts a turn has one line"
    if level == "info":
        assert not [line for line in lines if "accord.decisions" in line]
        return
    first = decisions(lines, "content block checked", ids[0])
    assert [(line["type"], line["context"], line["verdict"]) for line in first] == [
        ("text", "prompt", "accepted"),
        ("image", "prompt", "accepted"),
        ("resource_link", "prompt", "accepted"),
        ("text", "tool_result", "accepted"),
    ]
    check_blocks(decisions(lines, "content block checked", ids[1]))
    assert decisions(lines, "requirement checked", ids[0]) == [
        {"capability": "vision", "min_support": "native", "verdict": "can be met"}
    ]
    planned = decisions(lines, "capability negotiated", ids[0])
    assert {(line["backend"], line["chosen"]) for line in planned} == {("local", True), ("far", False)}
    by_name = {(line["backend"], line["capability"]): line["verdict"] for line in planned}
    assert by_name["local", "vision"] == "native"
    assert by_name["far", "vision"] == "missing"
    assert by_name["local", "tool_use"] == "not met, only preferred"
    refused = decisions(lines, "capability negotiated", ids[2])
    assert {(line["backend"], line["capability"], line["verdict"]) for line in refused} == {
        ("local", "tool_use", "missing"),
        ("far", "tool_use", "missing"),
    }
    assert all(line["reason"] for line in refused)


@pytest.mark.parametrize("version", [1, 2])
def test_an_editor_agent_logs_each_decision_to_standard_error(version: int, tmp_path: Path):
    (tmp_path / "accord.toml").write_text(CONFIG)
    (tmp_path / "served_agent.py").write_text(AGENT)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "PYTHONPATH": paths, "ACCORD_STORE_PATH": str(tmp_path / "accord.db")}
    command = [sys.executable, "-m", "accord", "acp", "served_agent:agent", "--config", "accord.toml"]
    command += ["--log-level", "debug", "--log-json"]
    errors = tmp_path / "errors"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=tmp_path, env=environ
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        editor = Editor(process.stdin, process.stdout, process)
        try:
            session = editor.new_session(version)
            answer, _ = editor.call("session/prompt", sessionId=session, prompt=ACCEPTED)
            assert "result" in answer
            if version == 2:
                editor.until_idle()
            answer, _ = editor.call("session/prompt", sessionId=session, prompt=REFUSED)
            assert answer["error"]["code"] == -32602
            assert editor.end() == 0
        finally:
            process.kill()
    lines = errors.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if MARKER in line or ENCODED in line]
    blocks = decisions(lines, "content block checked")
    assert [line["verdict"] for line in blocks[:4]] == ["accepted"] * 4
    check_blocks(blocks[4:], "promptCapabilities" if version == 1 else "session.prompt")
    assert {line["backend"] for line in decisions(lines, "capability negotiated") if line["chosen"]} == {"local"}
