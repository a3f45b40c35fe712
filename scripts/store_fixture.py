"""Write a store of the current schema for the tests of upgrades: `make store-fixture`.

A service answers a set of requests with the built-in echo; its store and every request with its answer are kept in
`tests/upgrades/landed/<schema>/`. Every schema that lands needs one. `ACCORD_SOURCE=DIR` runs another version's
source; what that version cannot answer is left out.
"""

import json
import lzma
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

LANDED = Path(__file__).parent.parent / "tests" / "upgrades" / "landed"
CONFIG = """
[store]
kind = "sqlite"
path = "accord.db"

[[backends]]
name = "echo"
kind = "echo"
"""
AGENT = """
from accord import Agent, PresentationEvent

SOURCES = {"items": [{"source_id": "1", "title": "A page", "uri": "https://example.com/a"}]}

async def run(turn):
    yield f"**Echo** of {turn.text}\\n\\n"
    yield PresentationEvent.model_validate({"type": "citation_block", "data": SOURCES})
    async for piece in turn.ask().pieces():
        if text := getattr(piece, "text", ""):
            yield text

agent = Agent(run, name="echo-agent", accepts={"image": True, "embeddedContext": True})
"""
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
VOICE: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
NEEDS = {"required": [{"capability": "streaming", "min_support": "emulated"}]}
PAYLOADS: list[dict[str, Any]] = [
    {"query": "plain"},
    {"query": "all", "files": ["https://example.com/f"], "meta": {"n": 1, "x": None}, "conversation_id": "c1"},
    {"query": "empty", "files": [], "meta": {}},
    {"query": "files only", "files": []},
    {"query": "meta only", "meta": {"n": 1.0}},
    {"query": "voice", "capabilities": VOICE},
    {"query": "screen", "capabilities": {"image_resolution": "low"}},
    {"query": "needs", "requirements": NEEDS},
    {"query": "prefers", "requirements": {"preferred": []}, "conversation_id": "c1"},
    {"query": "image", "content": [IMAGE, {"type": "text", "text": "image"}]},
    {"session_id": "older", "payload": {"input": "older"}, "capabilities": VOICE},
    {"payload": {"input": "older with more", "files": ["a"], "meta": {"m": 1}, "color": "red"}, "meta": {"n": 2}},
    {"query": "refused", "requirements": {"required": [{"capability": "code_execution", "min_support": "native"}]}},
]
TEXT = {"model": "echo", "max_tokens": 100, "messages": [{"role": "user", "content": "a call"}]}


def main() -> None:
    """Run a service, ask it, and keep its store."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "accord.toml").write_text(CONFIG)
        (Path(folder) / "echo_agent.py").write_text(AGENT)
        asked = ask_everything(Path(folder))
        file = Path(folder) / "accord.db"
        with closing(sqlite3.connect(file)) as store:
            asked["schema"] = store.execute("SELECT version_num FROM alembic_version").fetchone()[0]
            store.execute("VACUUM")
            store.execute("PRAGMA journal_mode=DELETE")
        kept = LANDED / asked["schema"]
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "accord.db.xz").write_bytes(lzma.compress(file.read_bytes()))
        (kept / "asked.json").write_text(json.dumps(asked, indent=1, ensure_ascii=False) + "\n")
    print(f"{kept}: {len(asked['turns'])} turns, {len(asked['stored'])} responses, {len(asked['calls'])} calls")


def ask_everything(folder: Path) -> dict[str, Any]:
    """Send the requests; returns them with their answers."""
    kind, *options = ["keys", "--policy", "labelled"] if run_accord(folder, "keys", "--help") else ["tokens"]
    token = run_accord(folder, kind, "add", "ada", *options).split()[-1]
    asked: dict[str, Any] = {"token": token, "turns": [], "calls": [], "stored": []}
    with served(folder) as address:
        for number, payload in enumerate(PAYLOADS):
            context = {"session_id": f"s{number % 3}", "user": {"id": "ada", "name": "Ada"}}
            body = {"request_id": str(uuid4()), "context": context, "payload": payload}
            status, _, text = send_turn(address, token, body, streams=number % 2 == 1)
            asked["turns"].append({"body": body, "k": number, "status": status, "text": text})
        for path, call in (("chat/completions", TEXT), ("messages", TEXT), ("messages", {**TEXT, "stream": True})):
            status, headers, _ = send(address, f"/v1/{path}", token, call)
            asked["calls"] += [headers["Accord-Receipt"].split("/")[3]] if status == 200 else []
        previous: dict[str, str] = {}
        for number in range(3):
            call = {"model": "echo", "input": f"remember {number}", **previous}
            status, _, answer = send(address, "/v1/responses", token, call)
            if status == 200:
                response = json.loads(answer)
                text = response["output"][0]["content"][0]["text"]
                asked["stored"].append({"id": response["id"], "text": text})
                previous = {"previous_response_id": response["id"]}
    if usage := run_accord(folder, "keys", "usage", "--json"):
        asked["usage"] = json.loads(usage)
    return asked


def send_turn(address: str, token: str, body: dict[str, Any], *, streams: bool) -> tuple[int, Any, str]:
    """Send a turn; returns the status, the events or the output, and the text."""
    accept = {"Accept": "text/event-stream" if streams else "application/json"}
    status, _, answer = send(address, "/v1/assist", token, body, accept)
    if status != 200 or not streams:
        output = json.loads(answer).get("output", {})
        return status, output, output.get("text", "")
    packets = [json.loads(line[5:]) for line in answer.splitlines() if line.startswith("data:")]
    return status, packets, "".join(packet["p"] for packet in packets if packet["op"] == "delta")


def send(
    address: str, path: str, token: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, str]:
    """Send a request; returns the status, the headers and the body of the answer."""
    sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(address + path, data, {**sent, **(headers or {})}), timeout=30) as answer:  # noqa: S310
            return answer.status, answer.headers, answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers, error.read().decode()


@contextmanager
def served(folder: Path) -> Generator[str]:
    """`accord serve` in this folder; yields its address, and stops it properly in the end."""
    command = [sys.executable, "-m", "accord", "serve", "echo_agent:agent", "--port", "0", "--config", "accord.toml"]
    log = folder / "serve.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environ(folder), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            if (found := re.search(r"http://\S+?(?=/v1)", line)) is None:
                raise RuntimeError(log.read_text())
            yield found.group()
        finally:
            process.terminate()
            process.wait(timeout=30)


def run_accord(folder: Path, *arguments: str) -> str:
    """What a command prints; nothing if this version does not have it."""
    command = [sys.executable, "-m", "accord", *arguments]
    options = [] if "--help" in arguments else ["--config", "accord.toml"]
    done = subprocess.run(
        [*command, *options], cwd=folder, env=environ(folder), capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def environ(folder: Path) -> dict[str, str]:
    """The environment of the version that is run."""
    source = os.environ.get("ACCORD_SOURCE")
    paths = [*([source] if source else []), str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "ACCORD_STATE_DIR": str(folder / "state")}


if __name__ == "__main__":
    main()
