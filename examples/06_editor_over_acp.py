"""A small editor: it starts `accord acp` as its agent, sends a prompt with an image, and shows every update.

Needs `accord-agents[cli]`, and no model: the agent is the demo.

    python examples/06_editor_over_acp.py

The Agent Client Protocol is JSON-RPC, one message on a line, over the standard input and output of the agent.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AGENT = [sys.executable, "-m", "accord", "acp", "--store", "memory"]
IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIAQMAAAD+wSzIAAAAA1BMVEX/AAAZ4gk3AAAAC0lEQVR4nGNggAAAAAgAAa8DF9UAAAAASUVORK5CYII="
)
"""Eight by eight red pixels."""


class Agent:
    """A running agent."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._count = 0

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, show updates until its answer comes, and return its result."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match json.loads(line):
                case {"method": "session/update", "params": {"update": update}}:
                    show(update)
                case {"method": str(asked), "id": asked_id}:  # such as a permission request, which this editor has not
                    self._send({"id": asked_id, "error": {"code": -32601, "message": f"Method not found: {asked}"}})
                case {"id": self._count, "result": result}:
                    return result
                case {"id": self._count, "error": error}:
                    sys.exit(f"{method}: {error['message']}")
                case _:
                    pass
        sys.exit("The agent has ended.")

    def stop(self) -> None:
        """Close its input, which is how an editor ends an agent."""
        self._process.communicate(timeout=20)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self._process.stdin, flush=True)


def show(update: dict[str, Any]) -> None:
    match update:
        case {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}:
            print(text, end="", flush=True)
        case {"sessionUpdate": "tool_call" | "tool_call_update" as kind}:
            print(f"[{kind}: {update.get('title', '')} {update.get('status', '')}]")
        case _:
            print(f"[{update['sessionUpdate']}]")


def main() -> None:
    agent = Agent(AGENT)
    answer = agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    declared = answer["agentCapabilities"]["promptCapabilities"]
    print(f"The agent accepts text, links and {', '.join(name for name, yes in declared.items() if yes is True)}.")
    session = agent.call("session/new", {"cwd": str(Path.cwd()), "mcpServers": []})["sessionId"]
    prompt: list[dict[str, Any]] = [{"type": "text", "text": "What is this?"}]
    if declared.get("image"):  # an editor sends only what the agent declares
        prompt.append({"type": "image", "mimeType": "image/png", "data": IMAGE})
    ended = agent.call("session/prompt", {"sessionId": session, "prompt": prompt})
    print(f"[the turn has ended: {ended['stopReason']}]")
    agent.stop()


if __name__ == "__main__":
    main()
