"""The proxy's streams at the end of an agent: requests that arrive at the last moment, and an agent that does not read."""

import asyncio
import json
import sys
from collections.abc import Callable

import pytest
import uvloop

from accord.acp_tools.proxy import Proxy, pump
from accord.acp_tools.proxy.guard import Guard
from accord.stdio import start_peer
from tests.acp_tools.proxy.conversation import line

NewLoop = Callable[[], asyncio.AbstractEventLoop]
ENDS = 'input(); print("{}", flush=True); raise SystemExit(3)'
CLOSES_ITS_INPUT = 'import os, time; input(); os.close(0); print("{}", flush=True); time.sleep(60)'


class Editor:
    """The editor's end of both streams; `on_lines` is called with all lines that it has received so far."""

    def __init__(self, on_lines: Callable[["Editor"], None]) -> None:
        self.reader = asyncio.StreamReader()
        self.received = b""
        self._on_lines = on_lines

    def write(self, data: bytes, /) -> None:
        self.received += data
        self._on_lines(self)

    async def drain(self) -> None:
        """Nothing to wait for."""

    async def finish(self) -> None:
        """Nothing to wait for."""

    def errors(self) -> list[tuple[int, str]]:
        lines = [json.loads(each) for each in self.received.splitlines()]
        return [(each["id"], each["error"]["message"]) for each in lines if "error" in each]


def run(loop: NewLoop, script: str, on_lines: Callable[[Editor], None]) -> tuple[Editor, pump.ProxyExit]:
    """Send a request to the agent that this script is, and go on until the proxy ends."""

    async def converse() -> tuple[Editor, pump.ProxyExit]:
        editor = Editor(on_lines)
        peer = await start_peer([sys.executable, "-S", "-c", script])
        editor.reader.feed_data(line(1, "x", {}))
        return editor, await asyncio.wait_for(Proxy(editor.reader, editor, peer, Guard()).run(), 30)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(converse())


on_both_loops = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


@on_both_loops
def test_a_request_that_arrives_after_the_first_error_gets_an_error_too(loop: NewLoop):
    def send_another(editor: Editor) -> None:
        if [call_id for call_id, _ in editor.errors()] == [1]:
            editor.reader.feed_data(line(2, "x", {}))

    editor, ended = run(loop, ENDS, send_another)
    sentence = "The agent ended with status 3; it did not answer this request"
    assert editor.errors() == [(1, sentence), (2, sentence)]
    assert ended.status == 3


@on_both_loops
def test_an_agent_that_does_not_read_any_more_is_ended_and_its_requests_get_errors(
    monkeypatch: pytest.MonkeyPatch, loop: NewLoop
):
    monkeypatch.setattr(pump, "FINISH_S", 0.2)

    def keep_sending(editor: Editor) -> None:
        number = iter(range(2, 10_000))

        def send() -> None:
            if not editor.errors():
                editor.reader.feed_data(line(next(number), "x", {}))
                asyncio.get_running_loop().call_later(0.05, send)

        if editor.received == b"{}\n":
            send()

    editor, ended = run(loop, CLOSES_ITS_INPUT, keep_sending)
    sentence = "The agent closed its input or output without ending; it did not answer this request"
    assert len(editor.errors()) > 2
    assert editor.errors() == [(number, sentence) for number in range(1, len(editor.errors()) + 1)]
    assert ended.message == "the agent closed its input or output without ending"
