"""A loaded conversation is what the user sent and what the agent showed, over real pipes and after a restart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.ports import SessionRuns
from accord.run.admit import MAX_REFUSED_BYTES
from accord.servers.acp.replay import ChosenRun, ReplayLimits, choose_turns
from tests.servers.acp import replay_agent
from tests.servers.acp.editor import Editor, start
from tests.stores.records import a_turn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PROMPT = [
    {"type": "text", "text": "What is this? \N{GRINNING FACE}", "annotations": {"priority": 1}},
    {"type": "image", "data": PIXEL, "mimeType": "image/png", "uri": "file:///pixel.png"},
    {"type": "resource", "resource": {"uri": "file:///a.py", "text": "a\n", "mimeType": "text/x-python"}},
    {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "aGk=", "mimeType": "application/octet-stream"}},
    {"type": "resource_link", "uri": "file:///c.md", "name": "c.md", "size": 12, "_meta": {"a": 1}},
]
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
VERSIONS = (1, 2)


def begin(folder: Path, version: int) -> Editor:
    (folder / "replay_agent.py").write_text(Path(replay_agent.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    editor = start(folder, "replay_agent:agent")
    editor.session, editor.version = editor.new_session(version), version
    return editor


@pytest.fixture(params=VERSIONS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Editor, Path]]:
    editor = begin(tmp_path, request.param)
    yield editor, tmp_path
    editor.close()


def prompt(editor: Editor, blocks: list[Any], outcome: str = "selected") -> tuple[Any, list[Any]]:
    """Send a prompt and reject its permission requests; the reply, and the updates without states."""
    editor.send(line(99, "session/prompt", {"sessionId": editor.session, "prompt": blocks}))
    updates, reply, is_over = list[Any](), None, False
    while not is_over:
        frame = editor.receive()
        if frame.get("method") == "session/request_permission":
            rejects = [option for option in frame["params"]["options"] if option["kind"] == "reject_once"]
            chosen = {"outcome": {"outcome": outcome, "optionId": rejects[0]["optionId"]}}
            editor.send(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": chosen}).encode() + b"\n")
        elif frame.get("id") == 99:
            reply = frame
            is_over = editor.version == 1 or "error" in reply
        else:
            update = frame["params"]["update"]
            is_over = update.get("state") == "idle"
            updates.append(update)
    return reply, [update for update in updates if "state" not in update]


def line(request_id: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


def load(editor: Editor, session: str) -> list[Any]:
    """The updates of a loaded session, without states. All of them come before the answer."""
    params: dict[str, Any] = {"sessionId": session, "cwd": "/", "mcpServers": []}
    if editor.version == 1:
        answer, frames = editor.call("session/load", **params)
    else:
        answer, frames = editor.call("session/resume", **params, replayFrom={"type": "start"})
    assert "result" in answer, answer
    updates = [frame["params"]["update"] for frame in frames]
    return [update for update in updates if "state" not in update]


def user_updates(editor: Editor, blocks: list[Any], updates: list[Any]) -> list[Any]:
    """How a prompt is replayed: block by block, or whole in the draft, with the id that the live updates have."""
    if editor.version == 1:
        return [{"sessionUpdate": "user_message_chunk", "content": block} for block in blocks]
    message_id = next(update["messageId"] for update in updates if "messageId" in update)
    return [{"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}]


def texts_of(updates: list[Any]) -> str:
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


@pytest.mark.parametrize("outcome", ["selected", "cancelled"])
def test_a_loaded_conversation_is_what_was_sent_and_shown_before_a_restart(opened: tuple[Editor, Path], outcome: str):
    editor, folder = opened
    shown: list[Any] = []
    for blocks in (PROMPT, [{"type": "text", "text": "again"}]):
        _, updates = prompt(editor, blocks, outcome)
        live = updates if editor.version == 1 else [each for each in updates if each["sessionUpdate"] != "user_message"]
        shown += [*user_updates(editor, blocks, updates), *live]
    assert load(editor, editor.session) == shown  # also while the session is open
    assert editor.end() == 0
    second = begin(folder, editor.version)
    try:
        assert load(second, editor.session) == shown
    finally:
        second.close()


def test_calls_whose_permission_was_denied_have_failed_in_the_end(opened: tuple[Editor, Path]):
    editor, _ = opened
    _, live = prompt(editor, [{"type": "text", "text": "late"}])
    for updates in (live, load(editor, editor.session)):
        calls = [update for update in updates if "-call-" in update.get("toolCallId", "")]
        last = {update["toolCallId"].partition("-call-")[2]: update["status"] for update in calls if "status" in update}
        expected = {"1": "completed", "2": "completed", "3": "failed", "4": "failed", "permission-3": "failed"}
        assert last == expected
    titles = [update["title"] for update in load(editor, editor.session) if update.get("title")]
    assert "Only asked for" in titles


REFUSED: list[tuple[list[Any], list[Any], str]] = [
    ([PROMPT[0], AUDIO], [PROMPT[0], AUDIO], "(This prompt was refused: Invalid content type: agent does not support"),
    ([PROMPT[0], {"type": "image"}], [PROMPT[0]], "(1 malformed content blocks of the user are not shown.)"),
    ([{"type": "odd"}], [], "(This prompt was refused: Unsupported content type: odd)"),
]


@pytest.mark.parametrize(("sent", "replayed", "statement"), REFUSED)
def test_a_refused_prompt_is_replayed_and_marked(
    opened: tuple[Editor, Path], sent: list[Any], replayed: list[Any], statement: str
):
    editor, _ = opened
    reply, live = prompt(editor, sent)
    assert "error" in reply
    assert live == []
    updates = load(editor, editor.session)
    if editor.version == 1:
        blocks = [update["content"] for update in updates if update["sessionUpdate"] == "user_message_chunk"]
    else:
        blocks = [block for update in updates if "user" in update["sessionUpdate"] for block in update["content"]]
    assert blocks == replayed
    assert statement in texts_of(updates)


def test_large_blocks_of_a_refused_prompt_are_not_stored(opened: tuple[Editor, Path]):
    editor, folder = opened
    prompt(editor, [PROMPT[0], {**AUDIO, "data": "aGlo" * MAX_REFUSED_BYTES}])
    updates = load(editor, editor.session)
    assert "1 more content blocks" in json.dumps(updates)
    assert "aGlo" not in json.dumps(updates)
    assert editor.end() == 0
    assert (folder / "accord.db").stat().st_size < 2 * MAX_REFUSED_BYTES


def test_a_failed_turn_and_a_cancelled_one_say_so(opened: tuple[Editor, Path]):
    editor, _ = opened
    prompt(editor, [{"type": "text", "text": "fail"}])
    editor.send(line(98, "session/prompt", {"sessionId": editor.session, "prompt": [{"type": "text", "text": "wait"}]}))
    while "Waiting." not in json.dumps(editor.receive()):
        pass
    editor.send(
        json.dumps({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": editor.session}}).encode()
        + b"\n"
    )
    while "cancelled" not in json.dumps(editor.receive()):
        pass
    updates = load(editor, editor.session)
    assert "(This turn ended with an error: " in texts_of(updates)
    assert texts_of(updates).endswith("Waiting.\n\n(This turn was cancelled.)")
    assert [update["status"] for update in updates if "toolCallId" in update] == ["in_progress", "failed"]


def test_a_turn_whose_process_was_killed_is_replayed_as_far_as_it_got(opened: tuple[Editor, Path]):
    editor, folder = opened
    editor.send(line(98, "session/prompt", {"sessionId": editor.session, "prompt": [PROMPT[1], *PROMPT[:1]]}))
    while "Something of every kind." not in json.dumps(editor.receive()):
        pass
    editor.close()  # kills it
    second = begin(folder, editor.version)
    try:
        updates = load(second, editor.session)
        assert PIXEL in json.dumps(updates[0])
        assert "Something of every kind." in json.dumps(updates)
        assert "(This turn has not ended: " in texts_of(updates)
        second.session = editor.session
        reply, _ = prompt(second, [{"type": "text", "text": "echo on"}])  # and it goes on
        assert "result" in reply
    finally:
        second.close()


def test_long_texts_are_stored_once_and_replayed_whole(opened: tuple[Editor, Path]):
    editor, folder = opened
    size = 4_000_000
    blocks = [{"type": "text", "text": "echo " + "x" * size}]
    _, updates = prompt(editor, blocks)
    live = [each for each in updates if each["sessionUpdate"] != "user_message"]
    assert load(editor, editor.session) == [*user_updates(editor, blocks, updates), *live]
    assert editor.end() == 0
    assert (folder / "accord.db").stat().st_size < 2.2 * size  # the prompt and the answer, each once


def test_what_exceeds_the_limits_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "small.toml").write_text("[limits]\nmax_replay_turns = 2\nmax_replay_bytes = 5000\n")
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "small.toml"))
    editor = begin(tmp_path, 1)
    try:
        for text in ("echo one", "echo two", "echo " + "x" * 6_000):
            prompt(editor, [{"type": "text", "text": text}])
        text = texts_of(load(editor, editor.session))
        assert text.startswith("(1 earlier turns of this conversation are not shown: at most 2 turns and 5000 bytes")
        assert "echo two(A turn of 1" in text
        assert "one" not in text
    finally:
        editor.close()


TURNS = [a_turn(f"r{number}") for number in range(4)]


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "chosen"),
    [
        ([10, 10, 10, 10], 100, TURNS),
        ([10, 10, 10, 10], 40, TURNS),
        ([10, 10, 10, 10], 39, TURNS[1:]),
        ([1, 39, 10, 10], 50, TURNS[2:]),
        ([10, 10, 99, 10], 30, TURNS),
        ([99, 99, 99, 99], 30, TURNS),
        ([], 30, []),
    ],
)
def test_the_last_turns_that_fit_are_replayed_and_one_that_never_fits_is_only_mentioned(
    sizes: list[int], max_bytes: int, chosen: list[Any]
):
    found = SessionRuns(len(sizes), list(zip(TURNS, sizes, strict=False)))
    expected = [ChosenRun(turn, size if size > max_bytes else None) for turn, size in found.last if turn in chosen]
    assert choose_turns(found, ReplayLimits(4, max_bytes)) == expected
