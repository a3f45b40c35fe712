"""A small agent on bare standard input and output, with the manners, good and bad, that its first argument names.

Uses nothing of Accord and no library: what it says is what a stranger's program says.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

MANNER = sys.argv[1] if len(sys.argv) > 1 else "echo"
MORE = sys.argv[2:]
CAPABILITIES: dict[str, Any] = {
    "image": {"promptCapabilities": {"image": True}},
    "lies_about_images": {"promptCapabilities": {"image": True}},
    "closes": {"sessionCapabilities": {"close": {}}},
    "everything": {"promptCapabilities": {"image": True, "audio": True, "embeddedContext": True}},
}
lock = threading.Lock()
cancelled: dict[str, threading.Event] = {}
answers: dict[str, Any] = {}
answered = threading.Condition()


def send(message: Any) -> None:
    with lock:
        sys.stdout.write((message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})) + "\n")
        sys.stdout.flush()


def note(word: str) -> None:
    """Leave a line in the file that the test gave."""
    with open(MORE[0], "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{word}\n")


def send_update(session: str, update: dict[str, Any]) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def say(session: str, text: str, kind: str = "agent_message_chunk") -> None:
    send_update(session, {"sessionUpdate": kind, "content": {"type": "text", "text": text}})


def ask(method: str, params: dict[str, Any]) -> Any:
    message_id = f"ask-{len(answers)}-{method}"
    send({"id": message_id, "method": method, "params": params})
    with answered:
        answered.wait_for(lambda: message_id in answers)
        return answers[message_id]


def echo(session: str, prompt: list[dict[str, Any]]) -> str | None:
    shown = {"text": "{text}", "resource_link": "<{uri} {name}>"}
    text = "".join(shown.get(block["type"], "<{type}>").format(**block) for block in prompt)
    for word in text.split(" "):
        say(session, f"{word} ")
    return "end_turn"


def slow(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    say(session, "begun ")
    cancelled[session].wait()
    note("cancelled")
    return "cancelled"


def deaf(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    say(session, f"{os.getpid()}")
    threading.Event().wait()
    return None


def crash_mid_stream(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    say(session, "so far ")
    print("the disk is on fire", file=sys.stderr, flush=True)
    os._exit(7)


def crash_on_prompt(_session: str, _prompt: list[dict[str, Any]]) -> str | None:
    print("no first word", file=sys.stderr, flush=True)
    os._exit(3)


def garbage(session: str, prompt: list[dict[str, Any]]) -> str | None:
    for line in ("Debugger listening", "[]", "42", "{", '{"jsonrpc":"2.0","method":"session/update","params":{}}', ""):
        send(line)
    return echo(session, prompt)


def asks_permission(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    options = [{"optionId": word, "name": word, "kind": word} for word in MORE]
    call = {"toolCallId": "1", "title": "rm"}
    say(
        session,
        json.dumps(ask("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})),
    )
    return "end_turn"


def asks(session: str, prompt: list[dict[str, Any]]) -> str | None:
    """Send the request in the prompt to the client, and answer with the reply."""
    wanted = json.loads(prompt[0]["text"])
    say(session, json.dumps(ask(wanted["method"], {"sessionId": session, **wanted["params"]})))
    return "end_turn"


def huge(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    for _ in range(4):
        say(session, "x" * 3_000_000)
    return "end_turn"


def works(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    say(session, "hm", "agent_thought_chunk")
    send_update(session, {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a file"})
    send_update(session, {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"})
    send_update(session, {"sessionUpdate": "usage_update", "used": 5, "size": 100})
    send_update(session, {"sessionUpdate": "something_new", "x": 1})
    say(session, "Done.")
    return MORE[0] if MORE else "end_turn"


def shows(session: str, _prompt: list[dict[str, Any]]) -> str | None:
    """A tool call whose output is the block that the test gave as JSON."""
    content = [{"type": "content", "content": json.loads(MORE[0])}]
    send_update(session, {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Listen", "content": content})
    say(session, "Done.")
    return "end_turn"


def crash_on_word(session: str, prompt: list[dict[str, Any]]) -> str | None:
    if prompt[0]["text"] == "crash":
        os._exit(3)
    return echo(session, prompt)


MANNERS: dict[str, Callable[[str, list[dict[str, Any]]], str | None]] = {
    "slow": slow,
    "deaf": deaf,
    "crash_mid_stream": crash_mid_stream,
    "crash_on_prompt": crash_on_prompt,
    "crash_on_word": crash_on_word,
    "garbage": garbage,
    "asks_permission": asks_permission,
    "asks": asks,
    "huge": huge,
    "works": works,
    "shows": shows,
}


def prompt_answer(message_id: Any, session: str, prompt: list[dict[str, Any]]) -> None:
    if MANNER == "lies_about_images" and any(block["type"] == "image" for block in prompt):
        error = {"code": -32602, "message": "no images, says /home/me", "data": {"contentType": "image"}}
        send({"id": message_id, "error": error})
        return
    send({"id": message_id, "result": {"stopReason": MANNERS.get(MANNER, echo)(session, prompt)}})


def new_session(message_id: Any) -> None:
    if MANNER == "wants_auth":
        send({"id": message_id, "error": {"code": -32000, "message": "Authentication required"}})
        return
    session = f"s{message_id}"
    cancelled[session] = threading.Event()
    send({"id": message_id, "result": {"sessionId": session}})


def initialize(message_id: Any) -> None:
    if MANNER == "silent":
        return
    version = 2 if MANNER == "speaks_the_draft" else 1
    send({"id": message_id, "result": {"protocolVersion": version, "agentCapabilities": CAPABILITIES.get(MANNER, {})}})


def take(message: dict[str, Any]) -> None:
    message_id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            initialize(message_id)
        case "session/new":
            new_session(message_id)
        case "session/prompt":
            work = (message_id, params["sessionId"], params["prompt"])
            threading.Thread(target=prompt_answer, args=work, daemon=True).start()
        case "session/cancel":
            cancelled[params["sessionId"]].set()
        case "session/close":
            note("closed")
            send({"id": message_id, "result": {}})
        case None if isinstance(message_id, str):
            with answered:
                answers[message_id] = message.get("result", message.get("error"))
                answered.notify_all()
        case _:
            pass


def main() -> None:
    if MANNER == "crash_at_once":
        print("cannot find my configuration", file=sys.stderr, flush=True)
        sys.exit(5)
    for line in sys.stdin:
        take(json.loads(line))
    if MANNER == "stubborn":
        time.sleep(60)


if __name__ == "__main__":
    main()
