"""A defect in an agent in the log of `accord serve` and `accord acp`, in real processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import aiohttp
import pytest

from tests.servers.acp.editor import Editor
from tests.servers.process import ServedProcess, accord_serve
from tests.servers.transports import body

AGENT = """
import asyncio
import sys
from accord import Agent

agent = Agent()


def look_up(word):
    try:
        return {}[word]
    except KeyError as error:
        raise ValueError(f"no entry for {word}\\n2026-01-01T00:00:00 error forged \\x1b[2J") from error


async def fail_later(word):
    look_up(word)


@agent
async def answer(turn):
    yield "so far"
    match turn.text:
        case "raise":
            look_up("apple")
        case "exit":
            sys.exit("leaving")
        case "task":
            asyncio.create_task(fail_later("pear"))
            await asyncio.sleep(0.05)
        case "task exit":
            asyncio.get_running_loop().call_soon(sys.exit, "left")
            await asyncio.sleep(0.05)
        case "callback":
            asyncio.get_running_loop().call_soon(look_up, "plum")
            await asyncio.sleep(0.05)
        case "tool":
            await turn.ask(tools=[{"name": "add", "parameters": {}}]).text()
        case "wrong type":
            yield 7
        case "stopped":
            try:
                yield 7
            finally:
                look_up("fig")
    yield "end"
"""
LINES = AGENT.splitlines()
RAISED_AT = (
    LINES.index(
        '        raise ValueError(f"no entry for {word}\\n2026-01-01T00:00:00 error forged \\x1b[2J") from error'
    )
    + 1
)


async def ask(served: ServedProcess, number: int, text: str) -> str:
    request = body(number, text)
    async with aiohttp.ClientSession(served.address) as client, client.post("/v1/assist", json=request) as response:
        return await response.text()


def exceptions(lines: list[str]) -> list[dict[str, Any]]:
    """The records of exceptions; a service also prints where it listens."""
    records = [json.loads(line) for line in lines if line.startswith("{")]
    return [record for record in records if "exception" in record]


CASES: list[tuple[str, str, str, str, str | None]] = [
    ("raise", "The agent failed", "ValueError", "no entry for apple", "look_up"),
    ("exit", "The agent failed", "SystemExit", "leaving", "answer"),
    ("task", "A task failed and nothing awaited it", "ValueError", "no entry for pear", "look_up"),
    ("task exit", "A task of an agent tried to stop the process", "SystemExit", "left", None),
    ("callback", "A callback failed", "ValueError", "no entry for plum", "look_up"),
    ("tool", "The agent failed", "accord.errors.UsageError", 'ToolSpec: unknown key "parameters"', "_as_message"),
    ("wrong type", "The agent failed", "accord.errors.AgentError", "The agent yielded a int", None),
    ("stopped", "The agent failed while it was stopped", "ValueError", "no entry for fig", "look_up"),
]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], str]]:
    """For each kind of failure of agent code: its record in the log of one service, and the answer to the client."""

    async def run() -> dict[str, tuple[dict[str, Any], str]]:
        found: dict[str, tuple[dict[str, Any], str]] = {}
        async with accord_serve(tmp_path_factory.mktemp("failing"), "--log-json", agent=AGENT) as served:
            for number, (text, message, *_) in enumerate(CASES, start=1):
                seen = len(served.log_lines)
                answer = await ask(served, number, text)
                await served.until_logged(message, count=sum(case[1] == message for case in CASES[:number]))
                found[text] = exceptions(served.log_lines[seen:])[0], answer
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_each_failure_of_agent_code_gives_one_json_record(
    failed: dict[str, tuple[dict[str, Any], str]], case: tuple[str, str, str, str, str | None]
):
    text, message, kind, reason, function = case
    record, answer = failed[text]
    raised = record["exception"]
    assert (record["level"], record["logger"], record["message"]) == ("error", "accord.agent", message)
    assert (raised["type"], raised["message"][: len(reason)]) == (kind, reason)
    assert [frame.rpartition(" ")[2] for frame in raised["stack"][-1:]] == ([function] if function else [])
    assert "no entry" not in answer
    assert "served_agent" not in answer


def test_a_record_names_the_request_the_agent_its_line_and_the_cause(failed: dict[str, tuple[dict[str, Any], str]]):
    record, answer = failed["raise"]
    raised = record["exception"]
    assert record["request_id"] == body(1)["request_id"]
    assert record["fields"] == {"agent": "answer"}
    called_at = LINES.index('            look_up("apple")') + 1
    places = [f"served_agent.py:{called_at} answer", f"served_agent.py:{RAISED_AT} look_up"]
    assert [Path(frame).name for frame in raised["stack"]] == places
    assert raised["cause"]["type"] == "KeyError"
    assert "ValueError" in answer


def test_a_task_is_logged_with_the_function_that_it_runs(failed: dict[str, tuple[dict[str, Any], str]]):
    line = LINES.index("async def fail_later(word):") + 1
    assert failed["task"][0]["fields"]["task"].endswith(f"served_agent.py:{line} fail_later")


def test_a_text_log_has_the_traceback_and_no_line_of_it_can_be_forged(tmp_path: Path):
    async def run() -> list[str]:
        async with accord_serve(tmp_path, agent=AGENT) as served:
            await ask(served, 1, "raise")
            await served.until_logged("    ValueError: no entry for apple")
            return list(served.log_lines)

    lines = asyncio.run(run())
    (head,) = [line for line in lines if "The agent failed" in line]
    assert "error   The agent failed: ValueError: no entry for apple\\u000a2026" in head
    assert f'    File "{tmp_path / "served_agent.py"}", line {RAISED_AT}, in look_up' in "\n".join(lines)
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("arguments", [["--log-json"], []])
def test_accord_acp_logs_to_standard_error(tmp_path: Path, arguments: list[str]):
    (tmp_path / "served_agent.py").write_text(AGENT)
    with (
        (tmp_path / "log").open("wb") as log,
        editor_of(tmp_path, log, "./served_agent.py:agent", *arguments) as editor,
    ):
        session = editor.new_session()
        reply, updates = editor.call("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "raise"}])
        assert editor.end() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    if arguments:
        (record,) = exceptions(lines)
        assert record["exception"]["message"].startswith("no entry for apple")
    else:
        assert f"line {RAISED_AT}, in look_up" in "\n".join(lines)
    assert "no entry" not in json.dumps([reply, updates])


@contextmanager
def editor_of(folder: Path, log: IO[bytes], *arguments: str) -> Generator[Editor]:
    """An editor with `accord acp` as its agent, whose standard error goes to this file."""
    environ = {**os.environ, "ACCORD_STORE_PATH": str(folder / "accord.db")}
    command = [sys.executable, "-m", "accord", "acp", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, cwd=folder, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        editor = Editor(process.stdin, process.stdout, process)
        try:
            yield editor
        finally:
            editor.close()
