"""The agent author: write an agent, serve it, break it, find the reason in the log, continue after a restart."""

import re
import time
from typing import Any

from tests.roles.user import WAIT_S, Served, User

MY_AGENT = """\
from accord import Agent

agent = Agent(name="greeter")


@agent
async def answer(turn):
    if "drawer" in turn.text:
        raise LookupError("the drawer is empty")
    yield turn.progress("Thinking", 0.5)
    yield f"You said {turn.text}. "
    yield f"We have exchanged {len(turn.history)} messages before."
"""

VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}


def test_an_agent_is_written_served_broken_and_continued(user: User):
    user.write("my_agent.py", MY_AGENT)
    with user.serve("my_agent:agent") as served:
        # The line that was printed can be pasted as it is, and again with another text and for JSON.
        streamed = user.shell(served.curl)
        assert '"op":"delta"' in streamed
        assert "You said Hello." in streamed
        assert streamed.rstrip().endswith('{"op":"close"}')
        whole = user.shell(served.curl.replace("text/event-stream", "application/json").replace("Hello", "Hi"))
        assert '"You said Hi. We have exchanged 2 messages before."' in whole

        # The same over HTTP from a program, in another session.
        first = served.ask("good morning")
        assert first.status == 200
        assert first.body["output"]["text"] == "You said good morning. We have exchanged 0 messages before."
        packets = served.ask("good evening", accept="text/event-stream").packets
        assert [packet["op"] for packet in packets] == ["event", "delta", "delta", "close"]
        assert "2 messages before" in packets[2]["p"]

        # A client that declares no events gets text only.
        packets = served.ask("hi", "by voice", accept="text/event-stream", capabilities=VOICE).packets
        assert {packet["op"] for packet in packets} == {"delta", "close"}

        # The agent raises: the client gets a generic error.
        failed = served.ask("look into the drawer")
        assert failed.status == 500
        assert failed.body["code"] == "agent_failed"
        assert "drawer is empty" not in failed.text

        # The log has the reason and the line.
        assert "LookupError: the drawer is empty" in served.log
        assert re.search(r'my_agent\.py", line 9, in answer', served.log)
        assert served.ask("still there?").status == 200

        # A second one cannot listen at the same port, and says what to do.
        port = served.address.rpartition(":")[2]
        refused = user.accord("serve", "my_agent:agent", "--port", port, status=2).stderr
        assert "give another --port" in refused
        assert served.press_ctrl_c() == 0

    # State is kept in the home folder only.
    assert (user.home / ".local/state/accord/accord.db").is_file()
    assert {path.name for path in user.folder.iterdir()} <= {"my_agent.py", "serve.log", "__pycache__"}

    # A second run remembers both the session and the answers that it gave.
    with user.serve("my_agent:agent") as served:
        text = served.ask("good night").body["output"]["text"]
        assert text.startswith("You said good night. We have exchanged ")
        assert not text.startswith("You said good night. We have exchanged 0 ")
        again = served.fetch(f"/v1/requests/{first.body['request_id']}")
        assert again.body["output"] == first.body["output"]
        assert served.press_ctrl_c() == 0
    listed = user.accord("sessions", "list", "me").stdout
    assert "mine  greeter" in listed


def test_an_agent_is_repaired_while_it_is_served(user: User):
    user.write("my_agent.py", MY_AGENT)
    user.write("typing.py", "raise SystemExit('a file of the user is no part of Accord')")
    with user.serve("./my_agent.py:agent", "--reload") as served:
        assert served.ask("look into the drawer").status == 500
        user.write("my_agent.py", MY_AGENT.replace("drawer", "cellar"))
        until = time.monotonic() + WAIT_S
        while not answers(served, "look into the drawer"):
            assert time.monotonic() < until, served.log
            time.sleep(0.1)
        assert served.press_ctrl_c() == 0
    assert "waiting for a change" not in served.log


def answers(served: Served, query: str) -> bool:
    """Whether the service answers this now; while it restarts, nothing listens."""
    try:
        return served.ask(query).status == 200
    except OSError:
        return False


def test_the_printed_line_works_before_and_after_the_first_token(user: User):
    with user.serve() as served:
        assert '"op":"close"' in user.shell(served.curl)
        assert served.press_ctrl_c() == 0
    token = user.accord("keys", "add", "ada").stdout.strip()
    with user.serve() as served:
        assert '"code":"unauthenticated"' in user.shell(served.curl.replace("$TOKEN", "wrong"))
        assert '"op":"close"' in user.shell(served.curl.replace("$TOKEN", token).replace("USER", "ada"))
        assert served.press_ctrl_c() == 0
