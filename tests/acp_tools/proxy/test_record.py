"""A trace's entries are the same whether a line was looked into or went in as it came."""

import json

import pytest

from accord.acp_tools.proxy.guard import Guard
from accord.acp_tools.trace.writer import Side, plain_entries, trace_entry


def update(text: str, **more: object) -> bytes:
    content = {"type": "text", "text": text, **more}
    told = {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": content}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": told}).encode()


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
def test_a_plain_update_is_recorded_as_any_line_is(line: bytes, full: bool):
    written = plain_entries(7, 1.5, [line, line], full=full)
    assert b"\r" not in written
    entries = [json.loads(entry) for entry in written.splitlines()]
    assert entries == [trace_entry(number, 1.5, Side.AGENT, line.strip(), full=full) for number in (7, 8)]


def test_looking_for_the_record_finds_and_counts_what_looking_at_once_does():
    lines = [update("a"), b"", b"garbage", update("b"), update("c"), b'{"id":1,"result":{}}', b"  ", update("d")]
    at_once, apart = Guard(), Guard()
    findings = at_once.from_agent(lines)
    looks = list(apart.looks_at_agent(lines))
    assert [finding for look in looks for finding in look.findings] == findings
    assert at_once.number == apart.number == 6
    assert [(look.number, len(look.lines), look.is_plain) for look in looks] == [
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
