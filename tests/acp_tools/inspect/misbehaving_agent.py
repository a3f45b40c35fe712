"""A small ACP agent without any library: it keeps the contract, or breaks it with the faults named on its command line."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FAULTS = set(sys.argv[1:])
IS_DRAFT = "draft" in FAULTS
DECLARED = {"image"} if "declares-image" in FAULTS else set[str]()
DEATH_FILE = next((Path(fault.partition("=")[2]) for fault in FAULTS if fault.startswith("dies-after-array=")), None)
"""A file that is created on the line `42`; an agent that got `[]` exits once it exists."""
STORE = next((Path(fault.partition("=")[2]) for fault in FAULTS if fault.startswith("store=")), None)
"""A folder in which the sessions are stored; without it they are known in this process only."""
REQUIRED = {
    "text": ("text",),
    "resource_link": ("uri", "name"),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
}
SESSION_METHODS = ("list", "resume", "close", "delete")
turns: dict[str, threading.Event] = {}
sessions: dict[str, list[list[str]]] = {}
"""The messages of each open session: who sent it, and its text."""
stored: dict[str, dict[str, Any]] = {}
"""The messages and the working directory of each session, also of closed ones."""
settings: dict[str, str] = {}
"""The values of the options that were set."""
stuck: set[str] = set()
is_running, was_refused = threading.Event(), threading.Event()
call_ids = itertools.count(1000)
lock = threading.Lock()
is_initialized = False


def send(message: Any) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def fail(call_id: Any, code: int, message: str) -> None:
    send({"id": call_id, "error": {"code": code, "message": message}})


def lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline():
        if line.strip():
            yield line


def handle_line(line: bytes) -> None:
    try:
        message: Any = json.loads(line)
    except ValueError:
        if "errors-without-id" in FAULTS:
            send({"error": {"code": -32700, "message": "Parse error"}})
        elif "silent-on-garbage" not in FAULTS:
            fail(None, -32700, "Parse error")
        return
    if not isinstance(message, Mapping):
        handle_nonsense(message)
        return
    fields: Mapping[str, Any] = message  # pyright: ignore[reportUnknownVariableType]
    if "method" not in fields:
        return  # a reply of the inspector
    if "id" in fields:
        call(fields["id"], fields.get("method", ""), fields.get("params") or {})
    elif fields.get("method") == "session/cancel" and "ignores-cancel" not in FAULTS:
        turns[fields["params"]["sessionId"]].set()


def handle_nonsense(message: Any) -> None:
    if "crashes-on-array" in FAULTS and isinstance(message, list):
        os._exit(3)
    fail(None, -32600, "Invalid request")
    if "dies-soon-of-array" in FAULTS and isinstance(message, list):
        threading.Timer(0.05, os._exit, (3,)).start()
    elif DEATH_FILE and isinstance(message, list):
        threading.Thread(target=die_at, args=(DEATH_FILE,), daemon=True).start()
    elif DEATH_FILE:
        DEATH_FILE.touch()


def die_at(death_file: Path) -> None:
    while not death_file.exists():
        time.sleep(0.005)
    os._exit(3)


def call(call_id: Any, method: str, params: dict[str, Any]) -> None:
    if "swaps-ids" in FAULTS and isinstance(call_id, str):
        call_id = 0
    if method == "initialize":
        send({"id": call_id, "result": initialize(params["protocolVersion"])})
    elif method == "session/new":
        new_session(call_id, params)
    elif method == "session/prompt":
        prompt(call_id, params)
    elif (IS_DRAFT or "declares-sessions" in FAULTS) and method in METHODS:
        METHODS[method](call_id, params)
    elif method in SETTINGS and method.replace("session/", "lacks-") not in FAULTS:
        SETTINGS[method](call_id, params)
    else:
        fail(call_id, -32601, "Method not found")


def initialize(offered: int) -> dict[str, Any]:
    global is_initialized  # noqa: PLW0603 - a program of one file
    is_initialized = True
    info = {"name": "misbehaving", "version": "1.0"}
    if IS_DRAFT and offered >= 2:
        capabilities: dict[str, Any] = {"session": {"prompt": {name: {} for name in DECLARED}}}
        return {"protocolVersion": 2, "info": info, "capabilities": capabilities}
    flags: dict[str, Any] = dict.fromkeys(DECLARED, True) | ({"audio": "true"} if "malformed-flag" in FAULTS else {})
    version = offered if "parrots-version" in FAULTS else 2 if "wrong-body" in FAULTS and offered > 1 else 1
    declared: dict[str, Any] = {"promptCapabilities": flags}
    if FAULTS & {"declares-sessions", "lacks-declared-sessions"}:
        declared |= {"loadSession": True, "sessionCapabilities": {name: {} for name in SESSION_METHODS}}
    result = {"protocolVersion": version, "agentCapabilities": declared, "authMethods": auth_methods()}
    return result if "anonymous" in FAULTS else {**result, "agentInfo": info}


def auth_methods() -> list[dict[str, Any]]:
    if not FAULTS & {"offers-login", "needs-auth"} or "offers-no-login" in FAULTS:
        return []
    method: dict[str, Any] = {"id": "key", "name": "API key"}
    if "nameless-login" in FAULTS:
        method = {"id": "key"}
    if "terminal-login" in FAULTS:
        method |= {"type": "terminal"}
    return [method, method] if "double-login" in FAULTS else [method]


def authenticate(call_id: Any, params: dict[str, Any]) -> None:
    if params["methodId"] == "key" or "any-login" in FAULTS:
        send({"id": call_id, "result": {}})
    else:
        fail(call_id, -32602, "Unknown method")


def new_session(call_id: Any, params: dict[str, Any]) -> None:
    if "needs-auth" in FAULTS:
        fail(call_id, -32603 if "wrong-login-code" in FAULTS else -32000, "Authentication required")
        return
    if params.get("mcpServers") and "refuses-mcp" in FAULTS:
        fail(call_id, -32602, "MCP servers are not supported")
        return
    if not all(connect_mcp(server) for server in params.get("mcpServers", [])) and "hangs-on-broken-mcp" in FAULTS:
        return
    name = "s" if "same-session-id" in FAULTS else f"s{os.getpid()}-{next(call_ids)}"
    sessions[name] = []
    stored[name] = {"cwd": params["cwd"], "messages": sessions[name]}
    send({"id": call_id, "result": {"sessionId": name, **modes(), "configOptions": config_options()}})


def connect_mcp(server: dict[str, Any]) -> bool:
    """Start an MCP server, and do what a client does at first; whether it was started."""
    if "ignores-mcp" in FAULTS:
        return True
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
    try:
        subprocess.run([server["command"], *server["args"]], input=lines.encode(), capture_output=True, check=True)
    except OSError:
        return False
    return True


def store(session: str) -> None:
    if STORE is not None:
        # Replaced as a whole: another process may be listing the folder, and would read half of a file.
        partial = STORE / f"{session}.{os.getpid()}.part"
        partial.write_text(json.dumps(stored[session]))
        partial.replace(STORE / f"{session}.json")
        (STORE / f"{session}.lock").touch()


def find_stored() -> dict[str, dict[str, Any]]:
    """Every session that this process or another one has stored."""
    found: dict[str, dict[str, Any]] = {}
    for file in STORE.glob("*.json") if STORE is not None else ():
        with suppress(FileNotFoundError):  # deleted by another process since the folder was read
            found[file.stem] = json.loads(file.read_text())
    return {**found, **stored}


def is_locked(session: str) -> bool:
    """Whether another process that still runs has opened this session."""
    lock_file = STORE / f"{session}.lock" if STORE is not None and "locks-sessions" in FAULTS else None
    return lock_file is not None and lock_file.exists() and session not in stored


def reopen(call_id: Any, session: str) -> bool:
    found = find_stored()
    if is_locked(session):
        fail(call_id, -32600, "Another process has this session")
        return False
    if session not in found and "opens-anything" not in FAULTS:
        fail(call_id, -32002, "No such session")
        return False
    stored[session] = found.get(session, {"cwd": "/", "messages": []})
    sessions[session] = stored[session]["messages"]
    return True


def replay(session: str) -> None:
    for kind, text in sessions[session]:
        update(session, sessionUpdate=f"{kind}_message_chunk", content={"type": "text", "text": text})


def load_session(call_id: Any, params: dict[str, Any]) -> None:
    session = params["sessionId"]
    if not reopen(call_id, session):
        return
    if "loads-late" in FAULTS:
        send({"id": call_id, "result": {}})
    if "loads-nothing" not in FAULTS:
        replay(session)
    if "loads-late" not in FAULTS:
        send({"id": call_id, "result": {}})


def resume_session(call_id: Any, params: dict[str, Any]) -> None:
    if reopen(call_id, params["sessionId"]):
        if "resumes-with-replay" in FAULTS:
            replay(params["sessionId"])
        send({"id": call_id, "result": {}})


def list_sessions(call_id: Any, params: dict[str, Any]) -> None:
    cwd = None if "lists-every-folder" in FAULTS else params.get("cwd")
    found = [{"sessionId": name, "cwd": session["cwd"]} for name, session in find_stored().items()]
    rows = [row for row in found if cwd in (None, row["cwd"]) and "lists-nothing" not in FAULTS]
    # The first page is empty, so that a client has to follow the cursor.
    result: dict[str, Any] = {"sessions": rows} if "cursor" in params else {"sessions": [], "nextCursor": "2"}
    send({"id": call_id, "result": result})


def close_session(call_id: Any, params: dict[str, Any]) -> None:
    session = params["sessionId"]
    if "closes-nothing" not in FAULTS:
        turns.get(session, threading.Event()).set()
        sessions.pop(session, None)
    send({"id": call_id, "result": {}})


def delete_session(call_id: Any, params: dict[str, Any]) -> None:
    session = params["sessionId"]
    if "deletes-known-only" in FAULTS and session not in find_stored():
        fail(call_id, -32002, "No such session")
        return
    if "deletes-nothing" not in FAULTS:
        sessions.pop(session, None)
        stored.pop(session, None)
        if STORE is not None:
            (STORE / f"{session}.json").unlink(missing_ok=True)
    send({"id": call_id, "result": {}})


def modes() -> dict[str, Any]:
    if "offers-modes" not in FAULTS:
        return {}
    ids = ["ask", "ask" if "double-mode" in FAULTS else "code"]
    current = "plan" if "wrong-mode" in FAULTS else "ask"
    return {"modes": {"currentModeId": current, "availableModes": [{"id": name, "name": name} for name in ids]}}


def set_mode(call_id: Any, params: dict[str, Any]) -> None:
    if params["modeId"] in ("ask", "code") or "any-mode" in FAULTS:
        send({"id": call_id, "result": {}})
    else:
        fail(call_id, -32602, "Unknown mode")


def config_options() -> list[dict[str, Any]]:
    if "offers-options" not in FAULTS:
        return []
    options: list[dict[str, Any]] = [
        {
            "id": name,
            "name": name,
            "type": "select",
            "currentValue": settings.get(name, "low"),
            "options": [{"value": value, "name": value} for value in ("low", "high")],
        }
        for name in ("thinking", "thinking" if "double-option" in FAULTS else "effort")
    ]
    if "wrong-value" in FAULTS:
        options[1]["currentValue"] = "medium"
    if "switch-option" in FAULTS:
        options.append({"id": "fast", "name": "fast", "type": "boolean", "currentValue": True})
    return options


def set_option(call_id: Any, params: dict[str, Any]) -> None:
    option, value = params["configId"], params["value"]
    is_known = option in ("thinking", "effort") and value in ("low", "high")
    if not is_known and "any-value" not in FAULTS:
        fail(call_id, -32602, "Unknown option or value")
        return
    if "keeps-value" not in FAULTS:
        settings[option] = value
    options = [each for each in config_options() if "short-options" not in FAULTS or each["id"] == option]
    send({"id": call_id, "result": {"configOptions": options}})


SETTINGS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "authenticate": authenticate,
    "session/set_mode": set_mode,
    "session/set_config_option": set_option,
}
METHODS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "session/load": load_session,
    "session/resume": resume_session,
    "session/list": list_sessions,
    "session/close": close_session,
    "session/delete": delete_session,
}


def update(session: str, **members: Any) -> None:
    send({"method": "session/update", "params": {"sessionId": session, "update": members}})


def say(session: str, text: str) -> None:
    message = {"messageId": "m1"} if IS_DRAFT else {}
    update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **message)


def problem(block: dict[str, Any]) -> str | None:
    kind = block.get("type")
    if kind not in REQUIRED:
        return "Unknown type"
    if kind not in DECLARED | {"text", "resource_link"} and "accepts-undeclared" not in FAULTS:
        return "Not declared"
    if any(not isinstance(block.get(name), str) for name in REQUIRED[kind]):
        return "Malformed"
    return "Bad base64" if "!" in block.get("data", "") else None


def prompt(call_id: Any, params: dict[str, Any]) -> None:
    session = params.get("sessionId", "")
    if session not in sessions:
        code = -32603 if "crashes-on-unknown-session" in FAULTS and is_initialized else -32602
        fail(call_id, code, "No such session")
    elif session in stuck:
        return
    elif not params["prompt"] and "hangs-after-empty-prompt" in FAULTS:
        stuck.add(session)
        send({"id": call_id, "result": {"stopReason": "end_turn"}})
    elif "no-model" in FAULTS:
        fail(call_id, -32603, "Set API_KEY=sk-abcdefghijklmnop to use a model")
    elif found := next((found for block in params["prompt"] if (found := problem(block))), None):
        fail(call_id, -32603 if "wrong-code" in FAULTS else -32602, found)
    elif "slow" in FAULTS:
        time.sleep(30)
    elif is_running.is_set() and "one-at-a-time" in FAULTS:
        fail(call_id, -32600, "Another session has a turn")
        was_refused.set()
    else:
        turns[session] = threading.Event()
        is_running.set()
        threading.Thread(target=turn, args=(call_id, session, params["prompt"]), daemon=True).start()


def turn(call_id: Any, session: str, blocks: list[dict[str, Any]]) -> None:
    if IS_DRAFT:
        send({"id": call_id, "result": {"messageId": "m"}})
    messages = stored[session]["messages"]
    messages += [["user", block["text"]] for block in blocks if block["type"] == "text"]
    misbehave_in_turn(session, blocks)
    if "no-updates" not in FAULTS:
        say(session, "ok")
        messages.append(["agent", "ok"])
    store(session)
    is_long = any("slowly" in str(block.get("text")) for block in blocks) and "quick" not in FAULTS
    reason = "cancelled" if is_long and turns[session].wait(30) else "end_turn"
    if IS_DRAFT:
        update(session, sessionUpdate="state_update", state="idle", stopReason=reason)
        return
    result = {"stopReason": "done" if "bad-stop-reason" in FAULTS and reason == "end_turn" else reason}
    send({"id": call_id, "result": None if "null-result" in FAULTS and reason == "end_turn" else result})
    if "answers-twice" in FAULTS:
        send({"id": call_id, "result": result})
    if "late-update" in FAULTS:
        say(session, "one more thing")


def misbehave_in_turn(session: str, blocks: list[dict[str, Any]]) -> None:
    for fault, (method, params) in MESSAGES.items():
        if fault in FAULTS and method == "session/update":
            update(session, **params)
        elif fault in FAULTS:
            send({"id": next(call_ids), "method": method, "params": {"sessionId": session, **params}})
    if "foreign-session" in FAULTS:
        say("another-session", "hello")
    if "mixes-sessions" in FAULTS:
        for other in set(sessions) - {session}:
            say(other, str(blocks))
    if "one-at-a-time" in FAULTS:
        was_refused.wait(0.5)
        is_running.clear()


MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "malformed-update": ("session/update", {"sessionUpdate": "agent_message_chunk", "content": "not an object"}),
    "unknown-status": (
        "session/update",
        {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "status": "running"},
    ),
    "unfinished-call": (
        "session/update",
        {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "status": "in_progress"},
    ),
    "unstable-update": ("session/update", {"sessionUpdate": "plan_removed", "planId": "p"}),
    "calls-fs": ("fs/read_text_file", {"path": "/etc/hosts"}),
    "calls-terminal": ("terminal/create", {"command": "true"}),
    "malformed-permission": (
        "session/request_permission",
        {"toolCall": {"toolCallId": "1"}, "options": [{"name": "Yes"}]},
    ),
    "unknown-client-method": ("client/beep", {}),
}
"""Messages that are sent in a turn, for each fault."""


if "noisy-stdout" in FAULTS:
    print("Welcome to the agent!", flush=True)
if "mute" in FAULTS:
    time.sleep(30)
print("ready", file=sys.stderr)
for received in lines():
    handle_line(received)
if STORE is not None:
    for name in stored:
        (STORE / f"{name}.lock").unlink(missing_ok=True)
if "stays" in FAULTS:
    time.sleep(1)
