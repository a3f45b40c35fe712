"""`accord acp` over real pipes: halves of surrogate pairs and broken lines leave no client without its answer."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.acp.editor import Editor, start

VERSIONS = (1, 2)


@pytest.fixture(scope="module", params=VERSIONS)
def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """One agent for all tests, in each version of the protocol."""
    made = start(tmp_path_factory.mktemp("server"))
    made.session, made.version = made.new_session(request.param), request.param
    yield made
    assert made.end() == 0
    made.close()


def prompt_line(request_id: bytes, text: bytes, session: str) -> bytes:
    block = b'{"type":"text","text":"' + text + b'"}'
    params = b'{"sessionId":"' + session.encode() + b'","prompt":[' + block + b"]}"
    return b'{"jsonrpc":"2.0","id":' + request_id + b',"method":"session/prompt","params":' + params + b"}"


def answer_to(editor: Editor, request_id: object) -> Any:
    """The answer with this id; an answer without one, which no client can use, fails the test."""
    while True:
        frame = editor.receive()
        assert frame.get("id", "") is not None
        if "method" not in frame and frame["id"] == request_id:
            if "result" in frame and editor.version == 2:
                editor.until_idle()
            return frame


@pytest.mark.parametrize(
    ("written_id", "request_id", "text"),
    [
        (b"901", 901, rb"half \ud83d"),
        (b"902", 902, rb"\udc00 half"),
        (b"903", 903, b"half \xed\xa0\xbd"),
        (rb'"904\ud83d"', "904\ud83d", rb"half \ud83d"),
        (b'"905"', "905", rb"whole \ud83d\ude00"),
    ],
)
def test_a_prompt_with_half_a_surrogate_pair_is_answered(
    editor: Editor, written_id: bytes, request_id: object, text: bytes
):
    editor.send(prompt_line(written_id, text, editor.session) + b"\n")
    assert "result" in answer_to(editor, request_id)


@pytest.mark.parametrize(
    "line",
    [
        rb'{"jsonrpc":"2.0","id":911,"method":"session/\ud83d","params":{}}',
        rb'{"jsonrpc":"2.0","id":911,"method":"session/prompt","params":{"sessionId":"\ud83d","prompt":[]}}',
        rb'{"jsonrpc":"2.0","id":911,"method":"session/prompt","params":{"\ud83d":1}}',
        rb'{"jsonrpc":"2.0","id":911,"method":"session/load","params":{"sessionId":"\ud83d","cwd":"/","mcpServers":[]}}',
        b'{"jsonrpc":"2.0","id":911,"method":"session/prompt","params":{"sessionId":"\xff","prompt":[]}}',
        rb'{"jsonrpc":"2.0","id":911,"method":"session/prompt","params":{"prompt":["\x"]}}',
        b'{"jsonrpc":"2.0","method":"session/prompt","params":{"prompt":[}},"id":911}',
    ],
)
def test_a_broken_request_gets_an_error_with_its_own_id(editor: Editor, line: bytes):
    editor.send(line + b"\n")
    assert "error" in answer_to(editor, 911)


def test_in_a_batch_of_the_draft_each_request_gets_an_answer_with_its_own_id(editor: Editor):
    if editor.version == 1:
        pytest.skip("version 1 has no batches")
    first = prompt_line(b"921", rb"half \ud83d", editor.session)
    second = rb'{"jsonrpc":"2.0","id":"922\ud83d","method":"no/such","params":["\ud83d"]}'
    editor.send(b"[" + first + b"," + second + b"]\n")
    replies = {str(each["id"]): each for each in editor.receive_batch()}
    assert set(replies) == {"921", "922\ud83d"}
    assert "result" in replies["921"]
    editor.until_idle()
    editor.send(b'[{"jsonrpc":"2.0","id":923,"method":"no/such"},{"jsonrpc":"2.0","id":924,"method":nul}]\n')
    assert {each["id"] for each in editor.receive_batch()} == {923, 924}
