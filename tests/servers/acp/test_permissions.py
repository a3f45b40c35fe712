"""An agent of ours asks its editor for permission over real pipes, in both versions: one process for each."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.receipt import Receipt
from tests.servers.acp import asker
from tests.servers.acp.editor import Editor, start
from tests.wire.acp.test_golden import validator

PERMISSION = "session/request_permission"


def begin(folder: Path) -> Editor:
    (folder / "asker.py").write_text(Path(asker.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    return start(folder, "asker:agent")


def receipts_of(folder: Path, own: str) -> list[Receipt]:
    async def read() -> list[Receipt]:
        store = SqliteStore(folder / "accord.db")
        await store.open()
        try:
            return [Receipt.parse(record.body) for record in await store.receipts(own)]
        finally:
            await store.close()

    return asyncio.run(asyncio.wait_for(read(), 20))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {which: tmp_path_factory.mktemp(which) for which in ("stable", "draft")}


@pytest.fixture(scope="module")
def stable(folders: dict[str, Path]) -> Iterator[Editor]:
    editor = begin(folders["stable"])
    editor.call("initialize", protocolVersion=1, clientCapabilities={})
    yield editor
    editor.close()


@pytest.fixture(scope="module")
def draft(folders: dict[str, Path]) -> Iterator[Editor]:
    editor = begin(folders["draft"])
    editor.call("initialize", protocolVersion=2, info={"name": "t", "version": "1"}, capabilities={})
    yield editor
    editor.close()


def session(editor: Editor) -> str:
    return editor.call("session/new", cwd="/", mcpServers=[])[0]["result"]["sessionId"]


def send(editor: Editor, **frame: Any) -> None:
    editor.send(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")


def prompt(editor: Editor, own: str, text: str = "delete", call: str = "p") -> None:
    params = {"sessionId": own, "prompt": [{"type": "text", "text": text}]}
    send(editor, id=call, method="session/prompt", params=params)


def until(editor: Editor, method: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The next frame of this method, and what was told before it."""
    told: list[dict[str, Any]] = []
    while (frame := editor.receive()).get("method") != method:
        told.append(frame)
    return frame, told


def until_answer(editor: Editor, call: str = "p") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    while (frame := editor.receive()).get("id") != call or "method" in frame:
        told.append(frame)
    return frame, told


def updates(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [frame["params"]["update"] for frame in told if frame.get("method") == "session/update"]


def words(told: list[dict[str, Any]]) -> str:
    chunks = [update for update in updates(told) if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def select(editor: Editor, asked: dict[str, Any], option: Any) -> None:
    send(editor, id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": option}})


ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    ({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}, "allowed allow", "completed"),
    ({"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}}, "rejected reject", "failed"),
    ({"result": {"outcome": {"outcome": "cancelled"}}}, "cancelled The client says", "failed"),
    ({"result": {"outcome": {"outcome": "selected", "optionId": "sudo"}}}, "failed The client chose", "failed"),
    ({"result": {"outcome": {"outcome": "_mine", "optionId": "allow"}}}, "failed The client's answer", "failed"),
    ({"result": None}, "failed The client's answer", "failed"),
    ({"error": {"code": -32601, "message": "x"}}, "failed The client answered with the error -32601", "failed"),
    ({"error": "no"}, "failed The client answered with the error", "failed"),
]
"""What an editor can answer, what the agent makes of it, and how the call that it was about ends."""


@pytest.mark.parametrize(("answer", "said", "status"), ANSWERS)
def test_what_the_editor_answers_is_what_the_agent_is_told(
    stable: Editor, answer: dict[str, Any], said: str, status: str
):
    prompt(stable, session(stable))
    asked, before = until(stable, PERMISSION)
    send(stable, id=asked["id"], **answer)
    done, after = until_answer(stable)
    assert done["result"] == {"stopReason": "end_turn"}
    assert words(after).startswith(said)
    (call,) = [update for update in updates(before) if update["sessionUpdate"] == "tool_call"]
    ends = [update["status"] for update in updates(after) if update.get("toolCallId") == call["toolCallId"]]
    assert ends == [status]


def test_a_request_does_not_overtake_what_was_told_before_it(stable: Editor):
    own = session(stable)
    prompt(stable, own)
    asked, before = until(stable, PERMISSION)
    assert words(before) == "".join(f"{number} " for number in range(200))
    call = updates(before)[-1]
    assert (call["sessionUpdate"], call["status"], call["title"]) == ("tool_call", "pending", "Delete build/")
    assert asked["params"]["sessionId"] == own
    assert asked["params"]["toolCall"] == {
        "toolCallId": call["toolCallId"],
        "title": "Really delete build/?",
        "content": [{"type": "diff", "path": "/a", "oldText": "b", "newText": ""}],
        "locations": [{"path": "/a"}],
    }
    assert asked["params"]["options"] == [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    assert validator("v1", "RequestPermissionRequest")(asked["params"])
    select(stable, asked, "allow")
    until_answer(stable)


def test_a_call_that_nobody_has_shown_is_shown_before_it_is_asked_about(stable: Editor):
    prompt(stable, session(stable), "first")
    asked, before = until(stable, PERMISSION)
    (shown,) = updates(before)
    assert (shown["sessionUpdate"], shown["status"], shown["kind"]) == ("tool_call", "pending", "execute")
    assert asked["params"]["toolCall"]["toolCallId"] == shown["toolCallId"]
    assert [option["kind"] for option in asked["params"]["options"]] == ["allow_always", "reject_always"]
    select(stable, asked, "allow")
    _, after = until_answer(stable)
    assert words(after) == "allowed allow_always"


def test_two_sessions_and_one_turn_ask_at_once_and_nobody_gets_anothers_answer(stable: Editor):
    one, two = session(stable), session(stable)
    prompt(stable, one, "both", "one")
    prompt(stable, two, "both", "two")
    asked = [until(stable, PERMISSION)[0] for _ in range(4)]
    for each in reversed(asked):
        select(stable, each, "allow" if each["params"]["sessionId"] == one else "reject")
    told: list[dict[str, Any]] = []
    while sum("stopReason" in frame.get("result", {}) for frame in told) < 2:
        told.append(stable.receive())
    said = {
        own: words([frame for frame in told if frame.get("params", {}).get("sessionId") == own]) for own in (one, two)
    }
    assert said == {one: "allowed allowed", two: "rejected rejected"}


@pytest.mark.parametrize("late", [True, False])
def test_a_client_that_never_answers_and_then_cancels_ends_the_turn_and_may_answer_late(stable: Editor, late: bool):
    own = session(stable)
    prompt(stable, own)
    asked, _ = until(stable, PERMISSION)
    send(stable, method="session/cancel", params={"sessionId": own})
    if not late:
        send(stable, id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
    done, told = until_answer(stable)
    assert done["result"] == {"stopReason": "cancelled"}
    given_up = [frame["params"] for frame in told if frame.get("method") == "$/cancel_request"]
    assert given_up == [{"requestId": asked["id"]}] * len(given_up)
    if late:
        assert len(given_up) == 1
        select(stable, asked, "allow")
    prompt(stable, own, "first")
    again, _ = until(stable, PERMISSION)
    assert again["id"] != asked["id"]
    select(stable, again, "no")
    assert words(until_answer(stable)[1]) == "rejected reject_always"


def test_a_prompt_that_is_cancelled_as_a_request_is_not_asked_about_any_more(stable: Editor):
    own = session(stable)
    prompt(stable, own, "first", "gone")
    asked, _ = until(stable, PERMISSION)
    send(stable, method="$/cancel_request", params={"requestId": "gone"})
    frames = [stable.receive(), stable.receive()]
    assert {"requestId": asked["id"]} in [frame.get("params") for frame in frames]
    assert [frame["error"]["code"] for frame in frames if frame.get("id") == "gone"] == [-32800]


def test_a_session_can_be_closed_while_its_client_is_asked(stable: Editor):
    own = session(stable)
    prompt(stable, own, "first")
    until(stable, PERMISSION)
    answer, told = stable.call("session/close", sessionId=own)
    assert "result" in answer
    assert [frame["result"] for frame in told if frame.get("id") == "p"] == [{"stopReason": "cancelled"}]


def test_an_agent_that_waits_no_longer_says_so(stable: Editor):
    prompt(stable, session(stable), "briefly")
    asked, _ = until(stable, PERMISSION)
    notice, _ = until(stable, "$/cancel_request")
    assert notice["params"] == {"requestId": asked["id"]}
    done, told = until_answer(stable)
    assert (done["result"]["stopReason"], words(told)) == ("end_turn", "too late")


# --- the draft ---


def test_in_the_draft_a_request_has_a_title_and_a_subject_and_the_state_says_who_is_waited_for(draft: Editor):
    own = session(draft)
    prompt(draft, own)
    asked, before = until(draft, PERMISSION)
    states = [update["state"] for update in updates(before) if update["sessionUpdate"] == "state_update"]
    assert states == ["running", "requires_action"]
    call = updates(before)[-2]
    assert (call["sessionUpdate"], call["title"]) == ("tool_call_update", "Delete build/")
    assert asked["params"]["title"] == "Really delete build/?"
    subject = asked["params"]["subject"]
    assert subject["type"] == "tool_call"
    assert set(subject["toolCall"]) == {"toolCallId", "content", "locations"}
    assert subject["toolCall"]["toolCallId"] == call["toolCallId"]
    assert subject["toolCall"]["content"][0]["patch"]["format"] == "git_patch"
    assert validator("v2-draft", "RequestPermissionRequest")(asked["params"])
    _, told = draft.call("session/resume", sessionId=own, cwd="/", mcpServers=[])
    assert updates(told)[-1]["state"] == "requires_action"
    select(draft, asked, "allow")
    after = draft.until_idle()
    assert after[0]["state"] == "running"
    assert after[-1]["stopReason"] == "end_turn"
    assert [update["status"] for update in after if update["sessionUpdate"] == "tool_call_update"] == ["completed"]


def test_in_the_draft_the_request_comes_after_the_prompt_was_taken(draft: Editor):
    prompt(draft, session(draft), "first")
    asked, before = until(draft, PERMISSION)
    assert before[0]["id"] == "p"
    assert [update["sessionUpdate"] for update in updates(before)] == ["state_update", "user_message", "state_update"]
    assert asked["params"]["subject"]["toolCall"]["title"] == "Go on?"
    select(draft, asked, "no")
    after = draft.until_idle()
    (ended,) = [update for update in after if update["sessionUpdate"] == "tool_call_update"]
    assert ended["status"] == "failed"


def test_in_the_draft_the_agent_is_at_work_again_when_the_last_answer_is_there(draft: Editor):
    prompt(draft, session(draft), "both")
    first, _ = until(draft, PERMISSION)
    second, _ = until(draft, PERMISSION)
    select(draft, first, "allow")
    select(draft, second, "allow")
    states = [update["state"] for update in draft.until_idle() if update["sessionUpdate"] == "state_update"]
    assert states == ["running", "idle"]


def test_in_the_draft_a_cancelled_turn_takes_its_request_back(draft: Editor):
    own = session(draft)
    prompt(draft, own)
    asked, _ = until(draft, PERMISSION)
    send(draft, method="session/cancel", params={"sessionId": own})
    notice, told = until(draft, "$/cancel_request")
    assert notice["params"] == {"requestId": asked["id"]}
    assert "running" not in [update.get("state") for update in updates(told)]
    send(draft, id=asked["id"], result={"outcome": {"outcome": "cancelled"}})
    after = draft.until_idle()
    assert after[-1]["stopReason"] == "cancelled"
    assert [update["status"] for update in after if update["sessionUpdate"] == "tool_call_update"] == ["cancelled"]


# --- the end; last, since it ends the process ---


@pytest.mark.parametrize("which", ["stable", "draft"])
def test_a_client_that_goes_while_it_is_asked_leaves_no_process_and_a_receipt(
    request: pytest.FixtureRequest, which: str
):
    editor: Editor = request.getfixturevalue(which)
    folder = request.getfixturevalue("folders")[which]
    own = session(editor)
    prompt(editor, own)
    until(editor, PERMISSION)
    assert editor.end() == 0
    (receipt,) = receipts_of(folder, own)
    assert [asked.status for asked in receipt.permissions or ()] == ["nobody"]
