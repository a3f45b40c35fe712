"""A small ACP agent without any library that uses the client's files, terminals and permissions as a good agent does.

It follows the directives in the prompt itself: `accord:read PATH`, `accord:write PATH TEXT`, `accord:run COMMAND` and
`accord:slow`. For the last one and for plain text it calls the fake model, if there is one. Each fault on its command
line breaks one rule.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FAULTS = set(sys.argv[1:])
IS_DRAFT = "draft" in FAULTS
DIRECTIVE = re.compile(r"accord:(read|write|run|slow)[ ]?([^\n]*)")
WAIT_S = 30
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
lock = threading.Lock()
numbers = itertools.count(1)
offered: dict[str, Any] = {}
turns: dict[str, "Turn"] = {}
kept: list[HTTPConnection | None] = []
waiting: dict[str, tuple[threading.Event, dict[str, Any]]] = {}
stuck: set[str] = set()


class CancelledError(Exception):
    """The turn was cancelled."""


class FailedCallError(Exception):
    """A request to the client, or a tool, failed."""


def send(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Call a method of the client and wait for the result."""
    call_id, arrived, answer = f"c{next(numbers)}", threading.Event(), dict[str, Any]()
    waiting[call_id] = (arrived, answer)
    send({"id": call_id, "method": method, "params": params})
    if not arrived.wait(WAIT_S):
        raise FailedCallError("no answer")
    if "error" in answer:
        raise FailedCallError(answer["error"]["message"])
    return answer["result"] or {}


@dataclass
class Turn:
    """One prompt and what becomes of it."""

    session: str
    call_id: str = field(default_factory=lambda: f"tool-{next(numbers)}")
    cancelled: threading.Event = field(default_factory=threading.Event)
    prompt: str = ""

    def update(self, **members: Any) -> None:
        send({"method": "session/update", "params": {"sessionId": self.session, "update": members}})

    def say(self, text: str) -> None:
        message = {"messageId": "m1"} if IS_DRAFT else {}
        self.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **message)

    def report(self, status: str, *, text: str | None = None, **members: Any) -> None:
        """Report the state of the tool call."""
        if "hides-calls" in FAULTS:
            return
        kind = "tool_call" if status == "pending" and not IS_DRAFT else "tool_call_update"
        if "updates-first" in FAULTS:
            kind = "tool_call_update" if status == "pending" else "tool_call"
            members = {"title": "t", **members}
        content = {} if text is None else {"content": [{"type": "content", "content": {"type": "text", "text": text}}]}
        self.update(sessionUpdate=kind, toolCallId=self.call_id, status=status, **members, **content)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return request(method, {"sessionId": self.session, **params})

    def is_permitted(self, title: str) -> bool:
        if "requests-nothing" in FAULTS:
            return True
        options = [option for option in OPTIONS if "no-reject-option" not in FAULTS or option["optionId"] != "no"]
        call = {"toolCallId": self.call_id, "title": title}
        draft = {"title": title, "subject": {"type": "tool_call", "toolCall": call}}
        asked = draft if IS_DRAFT else {"toolCall": call}
        outcome = self.ask("session/request_permission", options=options, **asked)["outcome"]
        if outcome["outcome"] == "cancelled" and "does-what-is-cancelled" not in FAULTS:
            if not self.cancelled.is_set():
                raise ValueError("The client cancelled the permission, but not the turn")
            if "hangs-when-cancelled" in FAULTS:
                threading.Event().wait()
            if "stuck-after-cancel" in FAULTS:
                stuck.add(self.session)
            if "ends-what-is-cancelled" not in FAULTS:
                raise CancelledError
        if "rejection-is-error" in FAULTS and outcome.get("optionId") == "no":
            raise ValueError("The user rejected it")
        return outcome.get("optionId") in ("yes", "always") or "does-what-is-rejected" in FAULTS

    def read(self, path: str) -> str:
        if offers("fs", "readTextFile") and "reads-disk" not in FAULTS:
            return self.ask("fs/read_text_file", path=sent_path(path))["content"]
        return Path(path).read_text()

    def write(self, arguments: str) -> str:
        path, text = arguments.split(" ", 1)
        if offers("fs", "writeTextFile") and "writes-disk" not in FAULTS:
            self.ask("fs/write_text_file", path=sent_path(path), content=text)
        else:
            Path(path).write_text(text)
        return "written"

    def run(self, command: str) -> str:
        if not offers("terminal") or "runs-itself" in FAULTS:
            return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False).stdout
        terminal = self.ask("terminal/create", command=command)["terminalId"]
        self.ask("terminal/wait_for_exit", terminalId=terminal)
        output = self.ask("terminal/output", terminalId=terminal)["output"]
        if "keeps-terminal" not in FAULTS:
            self.ask("terminal/release", terminalId=terminal)
        return output

    def call_model(self, *, size: int | None = None) -> HTTPConnection | None:
        """Send the prompt to the fake model, if there is one, and read so much of the answer."""
        address = os.environ.get("OPENAI_BASE_URL")
        if address is None:
            return None
        url = urlsplit(address)
        connection = HTTPConnection(url.netloc)
        role = "zq" if "unknown-role" in FAULTS else "user"
        body = {"model": "m", "stream": True, "messages": [{"role": role, "content": self.prompt}]}
        connection.request("POST", f"{url.path}/chat/completions", json.dumps(body))
        connection.getresponse().read(size)
        return connection

    def be_slow(self) -> None:
        """Request a long answer from the model, and wait until the turn is cancelled."""
        connection = self.call_model(size=1)
        self.say("working")
        if not self.cancelled.wait(WAIT_S):
            raise FailedCallError("not cancelled")
        if connection is not None and "keeps-model" not in FAULTS:
            connection.close()
        else:
            kept.append(connection)
        raise CancelledError

    def work(self, prompt: str) -> None:
        self.prompt = prompt
        found = list(DIRECTIVE.finditer(prompt))
        action, arguments = (found[-1][1], found[-1][2]) if found else ("", "")
        if action == "slow":
            self.be_slow()
        if action not in ("read", "write", "run"):
            self.call_model()
            self.say("ok")
            return
        title = f"{action} {arguments}"
        self.report("pending", title=title)
        if action == "read" or self.is_permitted(title):
            self.use_tool(action, arguments)
        else:
            self.report("failed", text="rejected")
        self.say("done")

    def use_tool(self, action: str, arguments: str) -> None:
        tools: dict[str, Callable[[str], str]] = {"read": self.read, "write": self.write, "run": self.run}
        try:
            result = tools[action](arguments)
        except (FailedCallError, OSError) as error:
            is_missing = "missing-file-is-error" in FAULTS and action == "read"
            if is_missing or "lacks-other-tools" in FAULTS:
                raise ValueError(str(error)) from error
            self.report("failed", text=str(error))
        else:
            self.report("completed", text=result)
            self.say(f"The tool returned: {result}")


def offers(*names: str) -> bool:
    """Whether the client offers this."""
    if "ignores-capabilities" in FAULTS or "lacks-other-tools" in FAULTS:
        return True
    value: Any = offered
    for name in names:
        value = value.get(name, {}) if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value is True


def sent_path(path: str) -> str:
    return Path(path).name if "relative-paths" in FAULTS else path


def run_turn(call_id: Any, session: str, prompt: str) -> None:
    turn, reason = turns[session], "end_turn"
    if IS_DRAFT:
        send({"id": call_id, "result": {"messageId": "m"}})
    try:
        turn.work(prompt)
    except CancelledError:
        reason = "cancelled"
    except ValueError as error:
        send({"id": call_id, "error": {"code": -32603, "message": str(error)}})
        return
    if IS_DRAFT:
        turn.update(sessionUpdate="state_update", state="idle", stopReason=reason)
    else:
        send({"id": call_id, "result": {"stopReason": reason}})


def call(call_id: Any, method: str, params: dict[str, Any]) -> None:
    if method == "initialize":
        offered.update(params.get("clientCapabilities", {}))
        info = {"name": "client-agent", "version": "1.0"}
        stable = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": info}
        draft: dict[str, Any] = {"protocolVersion": 2, "capabilities": {"session": {}}, "info": info}
        send({"id": call_id, "result": draft if IS_DRAFT else stable})
    elif method == "session/new":
        send({"id": call_id, "result": {"sessionId": f"s{next(numbers)}"}})
    elif method == "session/prompt" and params["sessionId"] in stuck:
        send({"id": call_id, "error": {"code": -32603, "message": "A permission is pending"}})
    elif method == "session/prompt":
        session = params["sessionId"]
        turns[session] = Turn(session)
        text = "\n".join(block.get("text", "") for block in params["prompt"])
        threading.Thread(target=run_turn, args=(call_id, session, text), daemon=True).start()
    else:
        send({"id": call_id, "error": {"code": -32601, "message": "Method not found"}})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        done, result = waiting.pop(message["id"])
        result.update(message)
        done.set()
    elif "id" in message:
        call(message["id"], message["method"], message.get("params") or {})
    elif message["method"] == "session/cancel":
        turns[message["params"]["sessionId"]].cancelled.set()
