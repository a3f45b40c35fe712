"""Trace entries are the same whether a line was parsed or recorded as it came."""

import json

import pytest

from accord.acp_tools.proxy.guard import Guard
from accord.acp_tools.trace.entries import Side, plain_entries, trace_entry


def update(text: str, **more: object) -> bytes:
    content = {"type": "text", "text": text, **more}
    params = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": content}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        update("short"),
        update("héllo \u2028"),
        update("l" * 5_000),
        update("x", _meta={"data": "d" * 900}),
        update("x", _meta={"blob": "d" * 900}),
        update("spaced").replace(b", ", b" ,\r\t "),
        update("ends") + b"\r",
    ],
)
def test_a_plain_update_is_recorded_like_any_other_line(line: bytes, full: bool):
    written = plain_entries(7, 1.5, [line, line], full=full)
    assert b"\r" not in written
    entries = [json.loads(entry) for entry in written.splitlines()]
    assert entries == [trace_entry(number, 1.5, Side.AGENT, line.strip(), full=full) for number in (7, 8)]


def test_checking_by_line_gives_the_same_findings_and_numbers():
    lines = [update("a"), b"", b"garbage", update("b"), update("c"), b'{"id":1,"result":{}}', b"  ", update("d")]
    at_once, apart = Guard(), Guard()
    findings = at_once.check_agent(lines).findings
    groups = list(apart.check_agent_by_line(lines))
    assert [finding for group in groups for finding in group.findings] == findings
    assert at_once.number == apart.number == 6
    assert [(group.number, len(group.lines), group.is_plain) for group in groups] == [
        (1, 1, True),
        (2, 1, False),
        (3, 2, True),
        (5, 1, False),
        (6, 1, True),
    ]


BATCH = b'[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","id":2,"method":"y"}]'
KINDS: list[tuple[bytes, dict[str, object]]] = [
    (b'{"jsonrpc":"2.0","id":1,"method":"x"}', {"kind": "call", "method": "x", "id": 1}),
    (b'{"jsonrpc":"2.0","method":"x"}', {"kind": "notice", "method": "x"}),
    (b'{"jsonrpc":"2.0","id":"a","result":{}}', {"kind": "answer", "id": "a"}),
    (b'{"jsonrpc":"2.0","id":null,"error":{}}', {"kind": "failure", "id": None}),
    (BATCH, {"kind": "batch", "method": "x", "id": 1}),
    (b'[{"jsonrpc":"2.0","method":"x"}]', {"kind": "batch", "method": "x"}),
    (b"[broken", {"kind": "broken"}),
    (b"[]", {"kind": "broken"}),
    (b"broken", {"kind": "broken"}),
]


@pytest.mark.parametrize(("line", "expected"), KINDS)
def test_an_entry_says_what_kind_of_message_it_is(line: bytes, expected: dict[str, object]):
    entry = trace_entry(3, 1.23456, Side.EDITOR, line, fate="refused")
    try:
        message = json.loads(line)
    except ValueError:
        message = line.decode()
    rest: dict[str, object] = {
        "number": 3,
        "at_ms": 1.235,
        "from": "editor",
        "fate": "refused",
        "bytes": len(line),
        "findings": [],
    }
    assert entry == {**rest, **expected, "message": message}


def test_half_of_a_surrogate_pair_is_recorded_as_the_replacement_character():
    line = b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"text":"\\ud83d"}}'
    entry = trace_entry(1, 0.0, Side.EDITOR, line)
    assert (entry["kind"], entry["method"], entry["id"]) == ("call", "session/prompt", 5)
    assert entry["message"]["params"] == {"text": "\ufffd"}
