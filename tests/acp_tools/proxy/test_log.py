"""The log of the proxy: its entries, its file, and how entries are shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from accord.acp_tools.proxy.guard import Guard, ProxyFinding, Severity, Side
from accord.acp_tools.proxy.log import ProxyLog, describe, log_line, read_entry
from accord.cli.proxy import show_log
from accord.errors import UsageError

CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
FINDING = ProxyFinding(3, Side.EDITOR, Severity.ERROR, "a clause", "a sentence")


def entry_of(line: bytes, outcome: str = "passed") -> dict[str, Any]:
    written = log_line("now", 3, Side.EDITOR, Side.AGENT, outcome, line, [FINDING])
    assert written.count(b"\n") == 1
    assert b"\r" not in written
    return json.loads(written)


BATCH = b'[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":2,"method":"y"}]'
KINDS: list[tuple[bytes, str, str | None]] = [
    (b'{"jsonrpc":"2.0","id":1,"method":"x"}', "call", "x"),
    (b'{"jsonrpc":"2.0","method":"x"}', "notice", "x"),
    (b'{"jsonrpc":"2.0","id":"a","result":{}}', "answer", None),
    (b'{"jsonrpc":"2.0","id":null,"error":{}}', "failure", None),
    (BATCH, "batch", "x"),
    (b'[{"jsonrpc":"2.0","method":"x"}]', "batch", "x"),
    (b"[broken", "broken", None),
    (b"[]", "broken", None),
    (b"bro\xffken", "broken", None),
    (b'{"jsonrpc": "2.0",\r"id":123456789012345678901234567890,"method":"x"}\r\n', "call", "x"),
    (b'{"jsonrpc":"2.0","method":"x","params":"h\xc3\xa9llo \xe2\x80\xa8"}', "notice", "x"),
]


@pytest.mark.parametrize(("line", "kind", "method"), KINDS)
def test_an_entry_has_the_whole_message_and_says_what_kind_it_is(line: bytes, kind: str, method: str | None):
    message = line.decode(errors="replace") if kind == "broken" else json.loads(line)
    assert entry_of(line, "refused") == {
        "time": "now",
        "number": 3,
        "from": "editor",
        "to": "agent",
        "outcome": "refused",
        "kind": kind,
        "method": method,
        "findings": [{"severity": "error", "clause": "a clause", "sentence": "a sentence"}],
        "message": message,
    }


def test_half_of_a_surrogate_pair_is_logged_as_the_replacement_character():
    line = b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"text":"\\ud83d"}}'
    entry = entry_of(line)
    assert (entry["kind"], entry["method"], entry["message"]["id"]) == ("call", "session/prompt", 5)
    assert entry["message"]["params"] == {"text": "\ufffd"}


def test_findings_have_the_number_of_their_message():
    params = {"sessionId": "s", "update": CHUNK}
    chunk = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()
    guard = Guard()
    block = guard.check_agent([chunk, b"", b"garbage", chunk, chunk, b'{"id":1,"result":{}}', b"  ", chunk])
    assert {finding.number for finding in block.findings} == {2, 5}
    assert guard.number == 6


def test_a_second_writer_gets_the_next_file(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    first, second = ProxyLog(path), ProxyLog(path)
    assert (first.path, second.path) == (path, tmp_path / "log-2.jsonl")
    first.add(1, Side.EDITOR, b"[1]\n\n", "passed")
    first.add(1, Side.ACCORD, b"{}\n[]\n", to=Side.AGENT)
    first.flush()
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [(each["from"], each["to"], each["outcome"]) for each in entries] == [
        ("editor", "agent", "passed"),
        ("accord", "agent", "sent"),
        ("accord", "agent", "sent"),
    ]
    assert second.path.read_bytes() == b""
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            {"method": "session/update", "message": {"params": {"sessionId": "s", "update": CHUNK}}},
            'session/update {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}',
        ),
        ({"kind": "answer", "message": {"id": 3, "result": {"stopReason": "end_turn"}}}, "answer #3 end_turn"),
        ({"kind": "failure", "message": {"id": "a", "error": {"code": 1}}}, "failure #a 1"),
        ({"kind": "broken", "message": "x" * 200}, f"broken {'x' * 100}…"),
        ({"kind": "batch", "message": [1]}, "batch [1]"),
        ({"kind": 5, "method": [], "message": {"id": {}}}, "#{} {}"),
        ({}, "null"),
    ],
)
def test_an_entry_is_described_in_one_line_whatever_it_has(entry: dict[str, Any], text: str):
    assert describe(entry) == text


@pytest.mark.parametrize("text", ["import os\n", '{"hash":"x"}\n', "[]\n{}\n"], ids=["a program", "a receipt", "JSON"])
def test_a_file_that_is_no_log_is_an_error(tmp_path: Path, text: str):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(UsageError, match="line 1 is no entry of a log; expected a file that accord proxy --log wrote"):
        show_log(tmp_path / "a.jsonl")


def test_a_line_that_is_cut_off_or_too_deep_is_no_entry():
    assert read_entry('{"from": "agent", "mess') is None
    assert read_entry('{"from": "agent", "message": ' + "[" * 100_000) is None
    assert read_entry('{"from": "agent"}') == {"from": "agent"}
