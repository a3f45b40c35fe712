"""Model clients that people use, each doing one real task through `accord serve`: read a file with a tool, then answer.

The models behind it are scripted. `make record-clients` records what the same clients send.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from scripts.record_clients.clients import GATEWAY, RUNS, ClientRun, start
from scripts.record_clients.task import CONTENT

from tests.servers.model_apis.served import BACKENDS, ServedModels, serve_models

CLIENTS = Path(os.environ.get("ACCORD_CLIENTS", "")).resolve()
COMMAND_LINE = [run for run in RUNS if run.configuration == GATEWAY]
LIBRARIES = [run for run in RUNS if run.client in ("LangChain", "pydantic-ai")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedModels]:
    with serve_models(tmp_path) as running:
        yield running


def work(run: ClientRun, served: ServedModels, folder: Path, model: str) -> str:
    """What the client printed in the end; a client that this machine cannot start is skipped with the reason."""
    try:
        done = start(run, CLIENTS, folder, served.address, model)
    except FileNotFoundError as error:
        pytest.skip(f"{run.client} {run.version} is not installed: {error}")
    except (PermissionError, OSError) as error:
        pytest.skip(f"{run.client} {run.version} cannot be started: {error}")
    except TimeoutExpired as error:
        pytest.fail(f"{run.client} did not end: {error.stdout!r} {error.stderr!r}")
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("model", BACKENDS)
@pytest.mark.parametrize("run", COMMAND_LINE, ids=lambda run: run.client)
def test_each_command_line_client_reads_a_file_and_answers(
    served: ServedModels, tmp_path: Path, run: ClientRun, model: str
):
    assert CONTENT in work(run, served, tmp_path, model)


@pytest.mark.parametrize("model", BACKENDS)
@pytest.mark.parametrize("run", LIBRARIES, ids=lambda run: f"{run.client}, {run.configuration}")
def test_each_library_reads_a_file_and_answers(served: ServedModels, tmp_path: Path, run: ClientRun, model: str):
    assert CONTENT in work(run, served, tmp_path, model)
