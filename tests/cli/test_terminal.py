"""Every command that prints text of a peer, on a real terminal: no escape sequence of the peer reaches it."""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from accord.assembly.parts import build_engine
from accord.assembly.store import make_store
from accord.config import load_config
from accord.run import Sessions
from accord.servers.observability.logs import JsonLines, TextLines
from accord.wire.request import ServiceRequest
from accord.wire.session import TokenRecord
from tests.cli.on_terminal import run_on_terminal
from tests.receipts import a_chain

PAYLOADS = {
    "window title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "hyperlink": "\x1b]8;;http://evil.example\x1b\\here\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "colour": "\x1b[8m",
    "8-bit CSI": "\x9b2J",
    "overwrite": "good\rbad",
    "backspace": "ab\x08\x08",
    "direction": "\u202egnp.exe",
    "markup": "[bold]loud[/bold][link=http://evil.example]here[/link]",
}
HOSTILE = "MARK " + " ".join(PAYLOADS.values())
OURS = re.compile(r"\r?\x1b\[(?:[0-9;]*m|\?25[lh]|\d*[AK])")
"""What rich writes: colours, and the cursor of a progress bar."""
FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")

CONFIG = """\
[[backends]]
name = "local"
kind = "scripted"
manifest = "declared"
overrides = {{ streaming = "native" }}
options = {{ script = {script} }}

[store]
path = "sessions.db"
"""

AGENT = """\
import json, sys
hostile = json.loads(sys.argv[1])
for line in sys.stdin:
    call = json.loads(line)
    result = {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": hostile, "version": hostile}}
    update = {"sessionUpdate": hostile, hostile: hostile, "content": {"type": hostile}}
    params = {"sessionId": hostile, "update": update}
    print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}, ensure_ascii=False))
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}, ensure_ascii=False), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose files have hostile text everywhere."""
    folder = tmp_path_factory.mktemp("hostile")
    # The sequences come in pieces of one character, as a model's tokens might.
    (folder / "accord.toml").write_text(CONFIG.format(script=json.dumps(list(HOSTILE))))
    receipts = a_chain(2, session_id=HOSTILE, request_id=HOSTILE)
    (folder / "receipts.jsonl").write_text("".join(f"{receipt.to_json()}\n" for receipt in receipts))
    (folder / "agent.py").write_text(AGENT)
    finding = {"severity": HOSTILE, "clause": HOSTILE, "sentence": HOSTILE}
    message = {"params": {"update": {"sessionUpdate": HOSTILE, "content": {"type": "text", "text": HOSTILE}}}}
    entry = {
        "number": 1,
        "from": HOSTILE,
        "kind": "call",
        "method": HOSTILE,
        "id": HOSTILE,
        "outcome": HOSTILE,
        "time": HOSTILE,
    }
    (folder / "log.jsonl").write_text(json.dumps({**entry, "message": message, "findings": [finding]}) + "\n")
    asyncio.run(asyncio.wait_for(_fill(folder / "accord.toml"), 30))
    return folder


async def _fill(config: Path) -> None:
    """Run a turn and keep a token, so that there is a session and a token to list."""
    loaded = load_config(str(config), environ={})
    store = make_store(loaded)
    await store.open()
    context = {"session_id": HOSTILE, "user": {"id": "u", "name": "U"}}
    request = {"request_id": str(UUID(int=1)), "context": context, "payload": {"query": "hi"}}
    try:
        sessions = Sessions(build_engine(loaded), store)
        assert (await sessions.collect(await sessions.begin(ServiceRequest.model_validate(request)))).output
        await store.put_token(
            TokenRecord(token_id="0", user=HOSTILE, label=HOSTILE, digest="0" * 64, created_at=datetime.now(UTC))  # noqa: S106
        )
    finally:
        await store.close()


def packets(*messages: Any) -> bytes:
    return b"".join(json.dumps(message, ensure_ascii=False).encode() + b"\n" for message in messages)


EVENT = {"type": "citation_block", "data": {"citations": [{"title": HOSTILE, "url": "https://a.example"}]}}
STREAM = packets(
    {"op": "delta", "p": HOSTILE},
    {"op": "event", "p": EVENT},
    {"op": "delta", "p": {HOSTILE: HOSTILE}},
    {HOSTILE: HOSTILE},
    {"op": "error", "p": {"code": HOSTILE, "message": HOSTILE, "severity": "fatal"}},
    {"op": "close"},
)
TRUSTED = ("--config", "accord.toml")
PYTHON = (sys.executable, "-S", "agent.py", json.dumps(HOSTILE))
RESOURCE = {"type": "resource", "resource": {"uri": f"file:///{HOSTILE.replace('/', '')}", "text": "x"}}
PROMPT = packets(
    {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [RESOURCE]}}
)

COMMANDS: dict[str, tuple[tuple[str, ...], bytes | None]] = {
    "ask": (("ask", "hello", *TRUSTED), None),
    "ask for a program": (("ask", "hello", "--json", "--receipt", *TRUSTED), None),
    "chat with a pipe": (("chat", "relay", *TRUSTED), b"hello\n"),
    "render": (("render", "--report"), STREAM),
    "render text": (("render", "--text"), HOSTILE.encode()),
    "keys list": (("keys", "list", *TRUSTED), None),
    "sessions list": (("sessions", "list", "u", *TRUSTED), None),
    "receipts show": (("receipts", "show", "receipts.jsonl"), None),
    "receipts verify": (("receipts", "verify", "receipts.jsonl"), None),
    "proxy --show": (("proxy", "--show", "log.jsonl"), None),
    "inspect": (("inspect", "--only", "handshake", "--timeout", "5", "--", *PYTHON), None),
    "proxy": (("proxy", "--mode", "adapt", "--", *PYTHON), PROMPT),
    "an error that repeats its argument": (("receipts", "show", HOSTILE), None),
    "a usage error": (("keys", HOSTILE), None),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_escape_sequence_of_a_peer_reaches_the_terminal(folder: Path, name: str):
    arguments, stdin = COMMANDS[name]
    screen = run_on_terminal(*arguments, cwd=folder, stdin=stdin, stdout_too=name != "proxy")
    assert "MARK" in screen.received, "the command printed what the peer wrote"
    assert "owned" in screen.received, "a sequence is escaped, not removed"
    assert PAYLOADS["colour"] not in screen.received
    assert FORBIDDEN.search(OURS.sub("", screen.received)) is None
    assert "Traceback" not in screen.received


def test_markup_of_a_peer_is_printed_as_text(folder: Path):
    screen = run_on_terminal("receipts", "verify", "receipts.jsonl", cwd=folder)
    assert "[bold]loud[/bold]" in screen.received
    assert "\x1b[32mok" in screen.received


def test_our_own_colours_are_not_escaped(folder: Path):
    assert "\x1b[" in run_on_terminal("models", "gpt-4o", "--limit", "1", cwd=folder).received


def test_help_has_no_escaped_colours(folder: Path):
    screen = run_on_terminal("sessions", "--help", cwd=folder)
    assert "Usage" in screen.received
    assert "\\u001b" not in screen.received


def test_json_output_keeps_the_text_of_the_peer(folder: Path):
    screen = run_on_terminal("ask", "hello", "--json", *TRUSTED, cwd=folder)
    written = screen.received[screen.received.index("{") : screen.received.rindex("}") + 1]
    assert json.loads(written)["text"] == HOSTILE


@pytest.mark.parametrize("lines", [JsonLines, TextLines])
def test_a_log_line_cannot_be_forged(lines: Callable[[], logging.Formatter]):
    message = "the agent failed\n2026-01-01T00:00:00.000+00:00 info    all is well\r\x1b[2J\x9b2J\u202e"
    record = logging.LogRecord("accord.turn", logging.ERROR, "", 0, message, (), None)
    line = lines().format(record)
    assert line.isprintable()
