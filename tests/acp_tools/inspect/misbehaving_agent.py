"""A small ACP agent without any library: it keeps the contract, or breaks it with the faults named on its command line."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FAULTS = set(sys.argv[1:])
IS_DRAFT = "draft" in FAULTS
DECLARED = {"image"} if "declares-image" in FAULTS else set[str]()
DEATH_FILE = next((Path(fault.partition("=")[2]) for fault in FAULTS if fault.startswith("dies-after-array=")), None)
"""A file that is created on the line `42`; an agent that got `[]` exits once it exists."""
REQUIRED = {
    "text": ("text",),
    "resource_link": ("uri", "name"),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
}
turns: dict[str, threading.Event] = {}
sessions: set[str] = set()
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
        new_session(call_id)
    elif method == "session/prompt":
        prompt(call_id, params)
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
    version = offered if "parrots-version" in FAULTS else 1
    result = {"protocolVersion": version, "agentCapabilities": {"promptCapabilities": flags}}
    return result if "anonymous" in FAULTS else {**result, "agentInfo": info}


def new_session(call_id: Any) -> None:
    if "needs-auth" in FAULTS:
        fail(call_id, -32000, "Authentication required")
        return
    name = f"s{len(sessions)}"
    sessions.add(name)
    send({"id": call_id, "result": {"sessionId": name}})


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
        fail(call_id, -32602, "No such session")
    elif "no-model" in FAULTS:
        fail(call_id, -32603, "Set API_KEY=sk-abcdefghijklmnop to use a model")
    elif found := next((found for block in params["prompt"] if (found := problem(block))), None):
        fail(call_id, -32603 if "wrong-code" in FAULTS else -32602, found)
    elif "slow" in FAULTS:
        time.sleep(30)
    else:
        turns[session] = threading.Event()
        threading.Thread(target=turn, args=(call_id, session, params["prompt"]), daemon=True).start()


def turn(call_id: Any, session: str, blocks: list[dict[str, Any]]) -> None:
    if IS_DRAFT:
        send({"id": call_id, "result": {"messageId": "m"}})
    is_long = any("slowly" in str(block.get("text")) for block in blocks) and "quick" not in FAULTS
    reason = "cancelled" if is_long and turns[session].wait(30) else "end_turn"
    if IS_DRAFT:
        update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": reason}
        send({"method": "session/update", "params": {"sessionId": session, "update": update}})
    else:
        send({"id": call_id, "result": {"stopReason": reason}})


if "noisy-stdout" in FAULTS:
    print("Welcome to the agent!", flush=True)
if "mute" in FAULTS:
    time.sleep(30)
print("ready", file=sys.stderr)
for received in lines():
    handle_line(received)
if "stays" in FAULTS:
    time.sleep(1)
