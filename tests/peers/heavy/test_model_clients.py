"""Model clients that people use, each doing one real task through `accord serve`: read a file with a tool, then answer.

The models behind it are scripted. `make record-clients` records what the same clients send.
"""

import os
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from scripts.record_clients.clients import COUNTING, GATEWAY, RUNS, ClientRun, start
from scripts.record_clients.task import CONTENT

from tests.servers.model_apis.served import BACKENDS, PATHS, serve_models

CLIENTS = Path(os.environ.get("ACCORD_CLIENTS", "")).resolve()
OWN_MODELS = (
    "gpt-6.1-sol",
    "gpt-5.2",
    "gpt-5.4-nano",
    "claude-opus-5-5",
    "claude-haiku-4-5",
    "claude-haiku-4-5-20251001",
)
"""What the clients request if they choose the model themselves; opencode chooses a small one for titles."""
CHOOSERS = [
    run
    for run in RUNS
    if run.client in ("Codex", "Claude Code", "opencode") and run.configuration not in (GATEWAY, COUNTING)
]
FOLLOWERS = [run for run in RUNS if run.configuration == GATEWAY or run.client in ("LangChain", "pydantic-ai")]


def name_of(run: ClientRun) -> str:
    return f"{run.client}, {run.configuration}"


def do_task(run: ClientRun, folder: Path, backend: str, model: str = "") -> str:
    """What the client printed in the end; a client that cannot be started here is skipped with the reason."""
    groups = "".join(f'\n[groups."{name}"]\nbackends = ["{backend}"]\n' for name in OWN_MODELS)
    with serve_models(folder, groups) as served:
        try:
            done = start(run, CLIENTS, folder, served.address, model)
        except OSError as error:
            pytest.skip(f"{run.client} {run.version} cannot be started: {error}")
        except TimeoutExpired as error:
            pytest.fail(f"{run.client} did not end: {error.stdout!r} {error.stderr!r}")
        assert done.returncode == 0, (done.stdout, done.stderr)
        used = {request.path for request in served.upstream.requests if request.method == "POST"}
    assert used == {PATHS[backend]}
    return done.stdout


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", FOLLOWERS, ids=name_of)
def test_a_client_with_a_model_of_ours_reads_a_file_and_answers(tmp_path: Path, run: ClientRun, backend: str):
    assert CONTENT in do_task(run, tmp_path, backend, model=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("run", CHOOSERS, ids=name_of)
def test_a_client_with_its_own_model_reads_a_file_and_answers(tmp_path: Path, run: ClientRun, backend: str):
    assert CONTENT in do_task(run, tmp_path, backend)
