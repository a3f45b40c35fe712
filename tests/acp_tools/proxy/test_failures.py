"""The proxy under failures: stalled editors, signals, crashes, garbage, oversized lines, two conversations at once."""

import json
import signal
from pathlib import Path
from typing import Any

from accord.core.rpc import MAX_LINE_BYTES
from tests.acp_tools.proxy.conversation import Conversation, child_of, hello, is_running, line, prompt, proxy, until

TEXT = {"type": "text", "text": "Hello"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
CANCEL = b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId":"s"}}\n'
GARBAGE = b'\xff\xfe\x00 {"jsonrpc"\r\n\n  \n[]\n{]\n{"jsonrpc":"2.0","id":99,"result":1}\r\n'
"""The same bytes as in the raw agent."""
MAX_BUFFERED = 8 * 1024 * 1024
LONG = MAX_LINE_BYTES + 1024 * 1024


def resident_bytes(conversation: Conversation) -> int:
    status = Path(f"/proc/{conversation.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


class SentLines:
    """How many lines the agent has written, and whether it has stopped."""

    def __init__(self, conversation: Conversation) -> None:
        self._path = Path(f"{conversation.received}.sent")
        self._same = 0
        self.number = 0

    def has_stopped(self) -> bool:
        now = int(self._path.read_bytes() or b"0")
        self._same = self._same + 1 if now == self.number and now else 0
        self.number = now
        return self._same > 20


def test_a_stalled_editor_slows_the_agent_and_can_still_cancel_and_be_ended(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        before, agent = resident_bytes(conversation), child_of(conversation)
        conversation.send(line(1, "test/flood", {}))
        counted = SentLines(conversation)
        until(counted.has_stopped)
        assert counted.number * 900 < MAX_BUFFERED
        assert resident_bytes(conversation) - before < 2 * MAX_BUFFERED
        conversation.send(CANCEL)
        until(lambda: conversation.received.read_bytes().endswith(CANCEL))
        numbers = [json.loads(conversation.receive())["method"] for _ in range(2 * counted.number)]
        assert numbers == [f"test/{number}" for number in range(1, len(numbers) + 1)]
        until(counted.has_stopped)
        conversation.process.send_signal(signal.SIGTERM)
        assert conversation.process.wait(10) == 128 + signal.SIGTERM
        assert not is_running(agent)
        assert conversation.stderr() == "accord: the agent was ended by SIGTERM\n"


def test_a_signal_ends_even_an_agent_that_ignores_it(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard"), behaviour="stubborn") as conversation:
        conversation.call(hello())
        agent = child_of(conversation)
        conversation.process.send_signal(signal.SIGINT)
        assert conversation.process.wait(10) == 128 + signal.SIGKILL
        assert not is_running(agent)


def test_an_editor_that_does_not_read_any_more_ends_the_agent_without_a_complaint(tmp_path: Path):
    with Conversation(tmp_path, *proxy("guard")) as conversation:
        conversation.call(hello())
        agent = child_of(conversation)
        conversation.send(line(1, "test/flood", {}))
        conversation.receive()
        assert conversation.process.stdout is not None
        conversation.process.stdout.close()
        assert conversation.process.wait(30) in (0, 128 + signal.SIGTERM)
        assert "Traceback" not in (printed := conversation.stderr())
        assert "closed its" not in printed
        assert not is_running(agent)


def test_two_conversations_with_garbage_batches_and_oversized_lines(tmp_path: Path):
    with Conversation(tmp_path, *proxy("observe")) as observed, Conversation(tmp_path, *proxy("guard")) as guarded:
        sent_lines = [hello(2), b"\xff\x00garbage\r\n", b"\n", b"[]\n", b'[ {"jsonrpc":"2.0", "id":5,"method":"x"} ]\n']
        _observe_garbage(observed, sent_lines)
        _guard_batches(guarded)
        _pass_long_lines(guarded)
        assert b"end_turn" in observed.call(prompt(8, IMAGE))[-1]
        observed.send(line(9, "test/die", {}))
        assert observed.process.wait(10) == 128 + signal.SIGKILL
        assert observed.stderr().splitlines()[-1] == "accord: the agent was ended by SIGKILL"
        agent = child_of(guarded)
        assert guarded.end() == 0
        assert not is_running(agent)
    entries = [json.loads(entry) for entry in (tmp_path / "accord-proxy.jsonl").read_text().splitlines()]
    assert {entry["kind"] for entry in entries} >= {"call", "answer", "batch", "broken", "notice"}


def _observe_garbage(conversation: Conversation, sent_lines: list[bytes]) -> None:
    conversation.call(sent_lines[0])
    conversation.send(*sent_lines[1:], line(6, "test/garbage", {}))
    received = b""
    while b'"id":6' not in received:
        received += conversation.receive()
    what = b'{"jsonrpc": "2.0",   "id": null, "error": {"code": -32700, "message": "what?"}}\n'
    batch = b'[ {"jsonrpc":"2.0","id":5,"result":{}} ]\n'
    last = b'{"jsonrpc":"2.0", "id":6, "result":  {"stopReason":"end_turn"}}\n'
    assert received == what + what + what + batch + GARBAGE + last
    assert conversation.received.read_bytes() == b"".join([*sent_lines, line(6, "test/garbage", {})])


def _guard_batches(conversation: Conversation) -> None:
    conversation.call(hello(2))
    mixed = [json.loads(prompt(3, IMAGE)), json.loads(line(4, "x", {}))]
    conversation.send(json.dumps(mixed).encode() + b"\n")
    received: list[Any] = [json.loads(conversation.receive()), json.loads(conversation.receive())]
    by_id = {answer["id"]: answer for batch in received for answer in batch}
    assert by_id[3]["error"]["data"]["required"]
    assert by_id[4]["result"] == {}
    assert b"aGk=" not in conversation.received.read_bytes()


def _pass_long_lines(conversation: Conversation) -> None:
    refused = json.loads(conversation.call(prompt(6, {"type": "text", "text": "x" * LONG}))[0])
    assert (refused["id"], refused["error"]["code"]) == (6, -32600)
    long, _ = conversation.call(line(7, "test/long", {"size": LONG}))
    assert long == b'{"long":"' + b"y" * LONG + b'"}\n'
    assert b"end_turn" in conversation.call(prompt(8, TEXT))[-1]
    assert conversation.received.stat().st_size < LONG
