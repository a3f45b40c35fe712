"""The editor user: start an agent as an editor does, inspect it, and run it behind the proxy."""

import json
from typing import Any

import pytest

from tests.roles.user import User
from tests.servers.acp.editor import Editor

MY_AGENT = """\
from accord import Agent

agent = Agent(name="helper")


@agent
async def answer(turn):
    yield f"You said {turn.text}."
"""
INSPECT_S = 120  # it starts some twenty agents
AGENT = ("accord", "acp", "my_agent:agent")
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


@pytest.fixture(autouse=True)
def _agent(user: User) -> None:  # pyright: ignore[reportUnusedFunction]
    user.write("my_agent.py", MY_AGENT)


def prompt(editor: Editor, session: str, *blocks: dict[str, Any]) -> tuple[Any, str]:
    """Send a prompt; return the answer and the text that was streamed before it."""
    answer, frames = editor.call("session/prompt", sessionId=session, prompt=list(blocks))
    updates = [frame["params"]["update"] for frame in frames]
    chunks = [update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return answer, "".join(chunks)


@pytest.mark.parametrize(
    "command",
    [AGENT, ("accord", "proxy", "--", *AGENT), ("accord", "proxy", "--mode", "observe", "--", *AGENT)],
    ids=["direct", "guarded", "observed"],
)
def test_an_editor_prompts_the_agent_itself_and_through_the_proxy(user: User, command: tuple[str, ...]):
    with user.editor(*command) as editor:
        greeting, _ = editor.call("initialize", protocolVersion=1, clientCapabilities={})
        assert greeting["result"]["protocolVersion"] == 1
        made, _ = editor.call("session/new", cwd=str(user.folder), mcpServers=[])
        session = made["result"]["sessionId"]
        answer, text = prompt(editor, session, {"type": "text", "text": "hello"})
        assert (answer["result"]["stopReason"], text) == ("end_turn", "You said hello.")
        # The agent declares no images, so one is refused with the protocol's own error.
        answer, _ = prompt(editor, session, {"type": "text", "text": "look"}, PICTURE)
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"]["required"] == "promptCapabilities.image"
        assert editor.end() == 0
    if "observe" in command:
        text = user.accord("proxy", "--show", "accord-proxy.jsonl").stdout
        assert "session/prompt" in text
        assert "You said hello." in text


@pytest.mark.timeout(INSPECT_S + 30)
def test_the_agent_keeps_its_contract(user: User):
    flags = ("--allow-unjudged", "--cwd", ".", "--json", "report.json")
    done = user.accord("inspect", *flags, "--", *AGENT, timeout_s=INSPECT_S)
    # This agent answers at once, so that there is no turn to cancel.
    assert done.stdout.rstrip().endswith("not judged: 1 mandatory check of turn")
    report = json.loads((user.folder / "report.json").read_text())
    assert report["keeps_contract"] is True
    # Accord does not use MCP servers, and says so in the answer to session/new.
    assert [found["check"] for found in report["findings"] if found["result"] == "fail"] == ["mcp-connect"]
