"""An Accord agent requests permission from its editor over real pipes, in both versions: one process for each."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accord.stores.sqlite import SqliteStore
from accord.wire.receipt import Receipt
from tests.acp.test_golden import validator
from tests.servers.acp import permission_agent
from tests.servers.acp.editor import Editor, start

PERMISSION = "session/request_permission"


def begin(folder: Path) -> Editor:
    (folder / "permission_agent.py").write_text(
        Path(permission_agent.__file__).read_text(encoding="utf-8"), encoding="utf-8"
    )
    return start(folder, "permission_agent:agent")


def receipts_of(folder: Path, session_id: str) -> list[Receipt]:
    async def read() -> list[Receipt]:
        store = SqliteStore(folder / "accord.db")
        await store.open()
        try:
            return [Receipt.parse(record.body) for record in await store.receipts(session_id)]
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


def prompt(editor: Editor, session_id: str, text: str = "delete", call: str = "p") -> None:
    params = {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}
    send(editor, id=call, method="session/prompt", params=params)


def until(editor: Editor, method: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The next frame of this method, and the messages before it."""
    messages: list[dict[str, Any]] = []
    while (frame := editor.receive()).get("method") != method:
        messages.append(frame)
    return frame, messages


def until_answer(editor: Editor, call: str = "p") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    while (frame := editor.receive()).get("id") != call or "method" in frame:
        messages.append(frame)
    return frame, messages


def updates(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [frame["params"]["update"] for frame in messages if frame.get("method") == "session/update"]


def text_of(messages: list[dict[str, Any]]) -> str:
    chunks = [update for update in updates(messages) if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(chunk["content"]["text"] for chunk in chunks)


def select(editor: Editor, question: dict[str, Any], option: Any) -> None:
    send(editor, id=question["id"], result={"outcome": {"outcome": "selected", "optionId": option}})


ANSWERS: list[tuple[dict[str, Any], str, str]] = [
    ({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}, "allowed allow", "completed"),
    ({"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}}, "rejected reject", "failed"),
    ({"result": {"outcome": {"outcome": "cancelled"}}}, "cancelled The client cancelled the request", "failed"),
    ({"result": {"outcome": {"outcome": "selected", "optionId": "sudo"}}}, "failed The client chose", "failed"),
    (
        {"result": {"outcome": {"outcome": "_mine", "optionId": "allow"}}},
        "failed The outcome in the client's response is unknown",
        "failed",
    ),
    ({"result": None}, "failed The client's response is not valid", "failed"),
    ({"error": {"code": -32601, "message": "x"}}, "failed The client answered with the error -32601", "failed"),
    ({"error": "no"}, "failed The client answered with the error", "failed"),
]
"""What an editor can answer, what the agent receives, and the final status of the tool call."""


@pytest.mark.parametrize(("answer", "expected", "status"), ANSWERS)
def test_the_agent_receives_what_the_editor_answers(stable: Editor, answer: dict[str, Any], expected: str, status: str):
    prompt(stable, session(stable))
    question, before = until(stable, PERMISSION)
    send(stable, id=question["id"], **answer)
    done, after = until_answer(stable)
    assert done["result"] == {"stopReason": "end_turn"}
    assert text_of(after).startswith(expected)
    (call,) = [update for update in updates(before) if update["sessionUpdate"] == "tool_call"]
    ends = [update["status"] for update in updates(after) if update.get("toolCallId") == call["toolCallId"]]
    assert ends == [status]


def test_a_request_does_not_overtake_the_updates_before_it(stable: Editor):
    session_id = session(stable)
    prompt(stable, session_id)
    question, before = until(stable, PERMISSION)
    assert text_of(before) == "".join(f"{number} " for number in range(200))
    call = updates(before)[-1]
    assert (call["sessionUpdate"], call["status"], call["title"]) == ("tool_call", "pending", "Delete build/")
    assert question["params"]["sessionId"] == session_id
    assert question["params"]["toolCall"] == {
        "toolCallId": call["toolCallId"],
        "title": "Really delete build/?",
        "content": [{"type": "diff", "path": "/a", "oldText": "b", "newText": ""}],
        "locations": [{"path": "/a"}],
    }
    assert question["params"]["options"] == [
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ]
    assert validator("v1", "RequestPermissionRequest")(question["params"])
    select(stable, question, "allow")
    until_answer(stable)


def test_a_new_call_is_sent_before_the_permission_request_for_it(stable: Editor):
    prompt(stable, session(stable), "first")
    question, before = until(stable, PERMISSION)
    (started,) = updates(before)
    assert (started["sessionUpdate"], started["status"], started["kind"]) == ("tool_call", "pending", "execute")
    assert question["params"]["toolCall"]["toolCallId"] == started["toolCallId"]
    assert [option["kind"] for option in question["params"]["options"]] == ["allow_always", "reject_always"]
    select(stable, question, "allow")
    _, after = until_answer(stable)
    assert text_of(after) == "allowed allow_always"


def test_concurrent_requests_of_two_sessions_each_get_their_own_answer(stable: Editor):
    one, two = session(stable), session(stable)
    prompt(stable, one, "both", "one")
    prompt(stable, two, "both", "two")
    question = [until(stable, PERMISSION)[0] for _ in range(4)]
    for each in reversed(question):
        select(stable, each, "allow" if each["params"]["sessionId"] == one else "reject")
    messages: list[dict[str, Any]] = []
    while sum("stopReason" in frame.get("result", {}) for frame in messages) < 2:
        messages.append(stable.receive())
    texts = {
        session_id: text_of([frame for frame in messages if frame.get("params", {}).get("sessionId") == session_id])
        for session_id in (one, two)
    }
    assert texts == {one: "allowed allowed", two: "rejected rejected"}


@pytest.mark.parametrize("late", [True, False])
def test_a_client_may_cancel_instead_of_answering_and_answer_late(stable: Editor, late: bool):
    session_id = session(stable)
    prompt(stable, session_id)
    question, _ = until(stable, PERMISSION)
    send(stable, method="session/cancel", params={"sessionId": session_id})
    if not late:
        send(stable, id=question["id"], result={"outcome": {"outcome": "cancelled"}})
    done, messages = until_answer(stable)
    assert done["result"] == {"stopReason": "cancelled"}
    withdrawn = [frame["params"] for frame in messages if frame.get("method") == "$/cancel_request"]
    assert withdrawn == [{"requestId": question["id"]}] * len(withdrawn)
    if late:
        assert len(withdrawn) == 1
        select(stable, question, "allow")
    prompt(stable, session_id, "first")
    again, _ = until(stable, PERMISSION)
    assert again["id"] != question["id"]
    select(stable, again, "no")
    assert text_of(until_answer(stable)[1]) == "rejected reject_always"


def test_cancelling_the_prompt_request_withdraws_its_permission_request(stable: Editor):
    session_id = session(stable)
    prompt(stable, session_id, "first", "gone")
    question, _ = until(stable, PERMISSION)
    send(stable, method="$/cancel_request", params={"requestId": "gone"})
    frames = [stable.receive(), stable.receive()]
    assert {"requestId": question["id"]} in [frame.get("params") for frame in frames]
    assert [frame["error"]["code"] for frame in frames if frame.get("id") == "gone"] == [-32800]


def test_a_session_can_be_closed_while_a_request_is_open(stable: Editor):
    session_id = session(stable)
    prompt(stable, session_id, "first")
    until(stable, PERMISSION)
    answer, messages = stable.call("session/close", sessionId=session_id)
    assert "result" in answer
    assert [frame["result"] for frame in messages if frame.get("id") == "p"] == [{"stopReason": "cancelled"}]


def test_an_agent_that_stops_waiting_withdraws_its_request(stable: Editor):
    prompt(stable, session(stable), "briefly")
    question, _ = until(stable, PERMISSION)
    notice, _ = until(stable, "$/cancel_request")
    assert notice["params"] == {"requestId": question["id"]}
    done, messages = until_answer(stable)
    assert (done["result"]["stopReason"], text_of(messages)) == ("end_turn", "too late")


# --- the draft ---


def test_in_the_draft_a_request_has_a_title_and_a_subject_and_sets_the_state(draft: Editor):
    session_id = session(draft)
    prompt(draft, session_id)
    question, before = until(draft, PERMISSION)
    states = [update["state"] for update in updates(before) if update["sessionUpdate"] == "state_update"]
    assert states == ["running", "requires_action"]
    call = updates(before)[-2]
    assert (call["sessionUpdate"], call["title"]) == ("tool_call_update", "Delete build/")
    assert question["params"]["title"] == "Really delete build/?"
    subject = question["params"]["subject"]
    assert subject["type"] == "tool_call"
    assert set(subject["toolCall"]) == {"toolCallId", "content", "locations"}
    assert subject["toolCall"]["toolCallId"] == call["toolCallId"]
    assert subject["toolCall"]["content"][0]["patch"]["format"] == "git_patch"
    assert validator("v2", "RequestPermissionRequest")(question["params"])
    _, messages = draft.call("session/resume", sessionId=session_id, cwd="/", mcpServers=[])
    assert updates(messages)[-1]["state"] == "requires_action"
    select(draft, question, "allow")
    after = draft.until_idle()
    assert after[0]["state"] == "running"
    assert after[-1]["stopReason"] == "end_turn"
    assert [update["status"] for update in after if update["sessionUpdate"] == "tool_call_update"] == ["completed"]


def test_in_the_draft_the_request_comes_after_the_prompt_was_accepted(draft: Editor):
    prompt(draft, session(draft), "first")
    question, before = until(draft, PERMISSION)
    assert before[0]["id"] == "p"
    assert [update["sessionUpdate"] for update in updates(before)] == ["state_update", "user_message", "state_update"]
    assert question["params"]["subject"]["toolCall"]["title"] == "Go on?"
    select(draft, question, "no")
    after = draft.until_idle()
    (ended,) = [update for update in after if update["sessionUpdate"] == "tool_call_update"]
    assert ended["status"] == "failed"


def test_in_the_draft_the_state_is_running_again_after_the_last_answer(draft: Editor):
    prompt(draft, session(draft), "both")
    first, _ = until(draft, PERMISSION)
    second, _ = until(draft, PERMISSION)
    select(draft, first, "allow")
    select(draft, second, "allow")
    states = [update["state"] for update in draft.until_idle() if update["sessionUpdate"] == "state_update"]
    assert states == ["running", "idle"]


def test_in_the_draft_a_cancelled_turn_withdraws_its_request(draft: Editor):
    session_id = session(draft)
    prompt(draft, session_id)
    question, _ = until(draft, PERMISSION)
    send(draft, method="session/cancel", params={"sessionId": session_id})
    notice, messages = until(draft, "$/cancel_request")
    assert notice["params"] == {"requestId": question["id"]}
    assert "running" not in [update.get("state") for update in updates(messages)]
    send(draft, id=question["id"], result={"outcome": {"outcome": "cancelled"}})
    after = draft.until_idle()
    assert after[-1]["stopReason"] == "cancelled"
    assert [update["status"] for update in after if update["sessionUpdate"] == "tool_call_update"] == ["cancelled"]


# --- the end; last, since it ends the process ---


@pytest.mark.parametrize("which", ["stable", "draft"])
def test_a_client_that_disconnects_during_a_request_leaves_a_receipt_and_no_process(
    request: pytest.FixtureRequest, which: str
):
    editor: Editor = request.getfixturevalue(which)
    folder = request.getfixturevalue("folders")[which]
    session_id = session(editor)
    prompt(editor, session_id)
    until(editor, PERMISSION)
    assert editor.end() == 0
    (receipt,) = receipts_of(folder, session_id)
    assert [record.status for record in receipt.permissions or ()] == ["nobody"]
