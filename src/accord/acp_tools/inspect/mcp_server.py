"""A small MCP server on stdio with one tool, which `accord inspect` passes to agents.

Each message that it receives is appended to the file named on its command line, so that the inspector sees what the
agent did with it.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, cast

from accord.errors import RpcCode

NAME: Final = "accord-inspect"
TOOL: Final = "accord_note"
NOTE: Final = "The note of the inspector says: ok"
PROTOCOL_VERSION: Final = "2025-06-18"

RESULTS: Final[Mapping[str, Any]] = {
    "ping": {},
    "tools/list": {
        "tools": [
            {
                "name": TOOL,
                "description": "Returns the note of the inspector.",
                "inputSchema": {"type": "object", "properties": {}},
                "annotations": {"readOnlyHint": True},
            }
        ]
    },
    "tools/call": {"content": [{"type": "text", "text": NOTE}], "isError": False},
}


def answer(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The response to a message of an MCP client; None for a notification."""
    if "id" not in message or "method" not in message:
        return None
    head, method = {"jsonrpc": "2.0", "id": message["id"]}, message["method"]
    if method == "initialize":
        params = cast("Mapping[str, Any]", message.get("params") or {})
        return {
            **head,
            "result": {
                "protocolVersion": params.get("protocolVersion", PROTOCOL_VERSION),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": NAME, "version": "1"},
            },
        }
    if method in RESULTS:
        return {**head, "result": RESULTS[method]}
    return {**head, "error": {"code": RpcCode.METHOD_NOT_FOUND, "message": f"No such method: {method}"}}


def serve(requests: TextIO, responses: TextIO, received: Path) -> None:
    """Answer the messages of one client until it closes the input."""
    for line in requests:
        if not line.strip():
            continue
        # The inspector removes the folder of the file when it has seen enough.
        with suppress(FileNotFoundError), received.open("a", encoding="utf-8") as file:
            file.write(line.rstrip("\n") + "\n")
        message: Any = json.loads(line)
        response = answer(cast("Mapping[str, Any]", message)) if isinstance(message, Mapping) else None
        if response is not None:
            responses.write(json.dumps(response) + "\n")
            responses.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout, Path(sys.argv[1]))
