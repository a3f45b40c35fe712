"""Runs every client once and writes what it sent: `python -m scripts.record_clients PEERS FILE`.

A client that cannot be started, or does not finish its task, is written down with the reason.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scripts.record_clients.clients import COUNTING, RUNS, ClientRun, start
from scripts.record_clients.redact import redact, shape_of
from scripts.record_clients.server import ModelServer, model_server
from scripts.record_clients.task import CONTENT, PROMPT


def record(run: ClientRun, peers: Path) -> dict[str, Any]:
    """Run a client and return its entry of the file."""
    entry: dict[str, Any] = {
        "client": run.client,
        "package": run.package,
        "version": run.version,
        "configuration": run.configuration,
    }
    with TemporaryDirectory(prefix="accord-client-") as name:
        folder = Path(name).resolve()
        with model_server(folder / "work") as server:
            problem = _problem(run, peers, folder, server)
        private = {str(folder): "/folder", server.address: "http://127.0.0.1:1", socket.gethostname(): "host"}
        entry["requests"] = _distinct([redact(each, private) for each in server.requests])
    if problem:
        entry["problem"] = problem
    return entry


def _problem(run: ClientRun, peers: Path, folder: Path, server: ModelServer) -> str | None:
    try:
        done = start(run, peers, folder, server.address)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not started: {type(error).__name__}"
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
    if done.returncode != 0:
        return f"exit status {done.returncode}: {lines[-1]}"
    # Counting has no answer of the model; everything else ends with what the file says.
    if run.configuration != COUNTING and CONTENT not in done.stdout:
        return f"the answer does not contain the file's text: {lines[-1]}"
    return None


def _distinct(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the shortest request of each shape, which is the same in every run, with how many there were."""
    shapes: dict[str, list[dict[str, Any]]] = {}
    for each in requests:
        shapes.setdefault(shape_of(each), []).append(each)
    return [
        min(same, key=lambda each: (len(_line(each)), _line(each))) | {"count": len(same)} for same in shapes.values()
    ]


def _document(entries: list[dict[str, Any]]) -> str:
    """Return the file, one request a line: small, and a change shows as one line."""
    clients: list[str] = []
    for entry in entries:
        head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry[key])}" for key in entry if key != "requests")
        lines = ",\n".join(f"   {_line(request)}" for request in entry["requests"])
        clients.append(f' {{\n{head},\n  "requests": [\n{lines}\n  ]\n }}')
    return f'{{\n"task": {json.dumps(PROMPT)},\n"clients": [\n' + ",\n".join(clients) + "\n]\n}\n"


def _line(request: dict[str, Any]) -> str:
    return json.dumps(request, sort_keys=True, ensure_ascii=False)


def main(peers: Path, target: Path) -> int:
    """Record every client; return the exit status."""
    entries: list[dict[str, Any]] = []
    for run in RUNS:
        entry = record(run, peers.resolve())
        entries.append(entry)
        outcome = entry.get("problem") or f"{len(entry['requests'])} kinds of requests"
        print(f"{run.client} {run.version}, {run.configuration}: {outcome}", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_document(entries), encoding="utf-8")
    print(f"wrote {target}: {target.stat().st_size:,} bytes", file=sys.stderr)
    return 1 if any("problem" in entry for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
