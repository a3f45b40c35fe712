"""An agent that cannot read images, alone and behind `accord proxy`: the same prompt, with an image, three times.

Needs `accord-agents[cli]`.

    python examples/07_guard_proxy.py

The agent is in this file, too: a plain one, without Accord, that overlooks what it cannot read, as most agents do.
"""

import json
import subprocess
import sys
from typing import Any

AGENT = [sys.executable, __file__, "agent"]
PROXY = [sys.executable, "-m", "accord", "proxy"]
SETUPS = {
    "the agent alone": AGENT,
    "accord proxy, which refuses": [*PROXY, "--", *AGENT],
    "accord proxy --mode adapt, which replaces": [*PROXY, "--mode", "adapt", "--", *AGENT],
}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
PROMPT = [{"type": "text", "text": "What is this?"}, IMAGE]
CALLS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": 1},
    "session/new": {"cwd": "/", "mcpServers": []},
    "session/prompt": {"sessionId": "1", "prompt": PROMPT},
}


def run_agent() -> None:
    """Answer each line. The agent declares no images; if one comes all the same, it says nothing of it."""
    for line in sys.stdin:
        request = json.loads(line)
        match request["method"]:
            case "initialize":
                result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": {}}}
            case "session/new":
                result = {"sessionId": "1"}
            case _:
                blocks = request["params"]["prompt"]
                words = [block.get("text") or block.get("name") for block in blocks if block["type"] != "image"]
                say(f"My model got: {' + '.join(words)}")
                result = {"stopReason": "end_turn"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def say(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "1", "update": update}}
    print(json.dumps(message), flush=True)


def send_prompt(command: list[str]) -> None:
    """Start the agent, send the prompt, and print what an editor would show."""
    with subprocess.Popen(  # noqa: S603 - this very interpreter
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, (method, params) in enumerate(CALLS.items()):
            call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            print(json.dumps(call), file=process.stdin, flush=True)
            for line in process.stdout:
                match json.loads(line):
                    case {"method": "session/update", "params": {"update": {"content": {"text": text}}}}:
                        print(f"  {text.strip()}")
                    case {"error": {"code": code, "message": message, "data": data}}:
                        print(f"  {code} {message}\n  accepted: {', '.join(data['supportedTypes'])}")
                        break
                    case _:
                        break
        process.stdin.close()


def main() -> None:
    for title, command in SETUPS.items():
        print(f"{title}:", flush=True)
        send_prompt(command)


if __name__ == "__main__":
    run_agent() if sys.argv[1:] == ["agent"] else main()
