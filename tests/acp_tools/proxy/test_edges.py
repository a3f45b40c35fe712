"""What a proxy owes when things go badly: stalls, signals, deaths, garbage, endless lines, two at once."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from accord.core.rpc import MAX_LINE_BYTES
from tests.acp_tools.proxy.talk import Talk, hello, line, prompt, proxy, until

TEXT = {"type": "text", "text": "Hello"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
CANCEL = b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId":"s"}}\n'
GARBAGE = b'\xff\xfe\x00 {"jsonrpc"\r\n\n  \n[]\n{]\n{"jsonrpc":"2.0","id":99,"result":1}\r\n'
"""As the agent has it."""
MAX_ON_THE_WAY = 8 * 1024 * 1024
LONG = MAX_LINE_BYTES + 1024 * 1024


def resident_bytes(talk: Talk) -> int:
    status = Path(f"/proc/{talk.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def child_of(talk: Talk) -> int:
    pid = talk.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Counted:
    """How many lines the agent got rid of, and whether it has come to a halt."""

    def __init__(self, talk: Talk) -> None:
        self._path = Path(f"{talk.seen}.sent")
        self._same = 0
        self.number = 0

    def has_stopped(self) -> bool:
        now = int(self._path.read_bytes() or b"0")
        self._same = self._same + 1 if now == self.number and now else 0
        self.number = now
        return self._same > 20


def test_a_stalled_editor_holds_the_agent_back_and_can_still_cancel_and_be_ended(tmp_path: Path):
    with Talk(tmp_path, *proxy("guard")) as talk:
        talk.ask(hello())
        before, agent = resident_bytes(talk), child_of(talk)
        talk.say(line(1, "test/flood", {}))
        counted = Counted(talk)
        until(counted.has_stopped)
        assert counted.number * 900 < MAX_ON_THE_WAY
        assert resident_bytes(talk) - before < 2 * MAX_ON_THE_WAY
        talk.say(CANCEL)
        until(lambda: talk.seen.read_bytes().endswith(CANCEL))
        numbers = [json.loads(talk.hear())["method"] for _ in range(2 * counted.number)]
        assert numbers == [f"test/{number}" for number in range(1, len(numbers) + 1)]
        until(counted.has_stopped)
        talk.process.send_signal(signal.SIGTERM)
        assert talk.process.wait(10) == 128 + signal.SIGTERM
        assert not is_running(agent)
        assert talk.told() == "accord: the agent was ended by SIGTERM\n"


def test_a_signal_ends_even_an_agent_that_ignores_it(tmp_path: Path):
    with Talk(tmp_path, *proxy("guard"), manner="stubborn") as talk:
        talk.ask(hello())
        agent = child_of(talk)
        talk.process.send_signal(signal.SIGINT)
        assert talk.process.wait(10) == 128 + signal.SIGKILL
        assert not is_running(agent)


def test_two_conversations_at_once_with_garbage_batches_and_lines_without_end(tmp_path: Path):
    with Talk(tmp_path, *proxy("observe")) as observed, Talk(tmp_path, *proxy("guard")) as guarded:
        said = [hello(2), b"\xff\x00garbage\r\n", b"\n", b"[]\n", b'[ {"jsonrpc":"2.0", "id":5,"method":"x"} ]\n']
        _observe_garbage(observed, said)
        _guard_batches(guarded)
        _pass_long_lines(guarded)
        assert b"end_turn" in observed.ask(prompt(8, IMAGE))[-1]
        observed.say(line(9, "test/die", {}))
        assert observed.process.wait(10) == 128 + signal.SIGKILL
        assert observed.told().splitlines()[-1] == "accord: the agent was ended by SIGKILL"
        agent = child_of(guarded)
        assert guarded.end() == 0
        assert not is_running(agent)
    entries = [json.loads(entry) for entry in (tmp_path / "accord-trace.jsonl").read_text().splitlines()]
    assert {entry["kind"] for entry in entries} >= {"call", "answer", "batch", "broken", "notice"}


def _observe_garbage(talk: Talk, said: list[bytes]) -> None:
    talk.ask(said[0])
    talk.say(*said[1:], line(6, "test/garbage", {}))
    heard = b""
    while b'"id":6' not in heard:
        heard += talk.hear()
    what = b'{"jsonrpc": "2.0",   "id": null, "error": {"code": -32700, "message": "what?"}}\n'
    batch = b'[ {"jsonrpc":"2.0","id":5,"result":{}} ]\n'
    last = b'{"jsonrpc":"2.0", "id":6, "result":  {"stopReason":"end_turn"}}\n'
    assert heard == what + what + what + batch + GARBAGE + last
    assert talk.seen.read_bytes() == b"".join([*said, line(6, "test/garbage", {})])


def _guard_batches(talk: Talk) -> None:
    talk.ask(hello(2))
    mixed = [json.loads(prompt(3, IMAGE)), json.loads(line(4, "x", {}))]
    talk.say(json.dumps(mixed).encode() + b"\n")
    heard: list[Any] = [json.loads(talk.hear()), json.loads(talk.hear())]
    by_id = {answer["id"]: answer for batch in heard for answer in batch}
    assert by_id[3]["error"]["data"]["required"]
    assert by_id[4]["result"] == {}
    assert b"aGk=" not in talk.seen.read_bytes()


def _pass_long_lines(talk: Talk) -> None:
    refused = json.loads(talk.ask(b'{"long":"' + b"x" * LONG + b'"}\n')[0])
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    long, _ = talk.ask(line(7, "test/long", {"size": LONG}))
    assert long == b'{"long":"' + b"y" * LONG + b'"}\n'
    assert b"end_turn" in talk.ask(prompt(8, TEXT))[-1]
    assert talk.seen.stat().st_size < LONG
