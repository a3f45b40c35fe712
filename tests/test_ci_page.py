"""docs/ci.md and its workflow are right: the steps pass with the files of the page, and fail for a fault in each of them."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from accord.cli.app import EPILOG
from tests.cli.model_server import KEY, ModelServer
from tests.page_blocks import DOCS, read_blocks

WORKFLOW: Any = yaml.safe_load((DOCS / "ci" / "accord.yml").read_text(encoding="utf-8"))
STEPS: dict[str, str] = {
    step["name"]: step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step
}
FILES = {block.file_name: block.text for block in read_blocks("ci.md") if block.file_name}
INSPECT = "--only handshake --only undeclared-image"
"""Two checks of the agent instead of dozens: `tests/acp_tools/inspect` runs them all."""


@pytest.fixture(scope="module")
def endpoint() -> Generator[ModelServer]:
    with ModelServer().running() as running:
        yield running


def run(step: str, folder: Path, endpoint: ModelServer, **changed: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the workflow with the files of the page, some of them changed."""
    for name, text in {**FILES, **changed}.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("https://models.example/v1", endpoint.url), encoding="utf-8")
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "INSPECT": INSPECT,
        "CI": "true",
    }
    environ |= {"MODEL_KEY": KEY, "ACCORD_STATE_DIR": str(folder / "state")}
    return subprocess.run(
        ["bash", "-e", "-c", STEPS[step]],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("step", ["Configuration", "Model", "Prompts", "Agent", "Probe"])
def test_every_step_passes_with_the_files_of_the_page(step: str, tmp_path: Path, endpoint: ModelServer):
    done = run(step, tmp_path, endpoint)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("step", "file", "text", "reason"),
    [
        ("Configuration", "accord.toml", "polcy = 'strict'", "did you mean policy?"),
        ("Model", "requirements.json", '{"required": [{"capability": "audio", "min_support": "native"}]}', "audio"),
        (
            "Prompts",
            "prompts/photo.json",
            '[{"type": "audio", "mimeType": "audio/wav", "data": "aGk="}]',
            "1 refused",
        ),
        ("Agent", "my_agent.py", "agent = 5", "handshake"),
    ],
)
def test_a_fault_fails_its_step(step: str, file: str, text: str, reason: str, tmp_path: Path, endpoint: ModelServer):  # noqa: PLR0917 - the columns
    done = run(step, tmp_path, endpoint, **{file: text})
    assert (done.returncode, reason in done.stdout + done.stderr) == (1, True), done.stdout + done.stderr


def test_a_probe_that_finds_a_lack_fails_its_step(
    tmp_path: Path, endpoint: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(STEPS, "Probe", STEPS["Probe"].replace("tool_use", "stop_sequences=native"))
    assert run("Probe", tmp_path, endpoint).returncode == 1


def rows(heading: str) -> list[str]:
    """The first column of the table with this heading."""
    table = (DOCS / "ci.md").read_text(encoding="utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def test_the_page_lists_every_file_step_and_exit_status():
    assert [*FILES] == ["requirements.json", "prompts/photo.json", "accord.toml", "my_agent.py"]
    assert rows("step") == [name for name in STEPS if name != "Install"]
    assert {*re.findall(r"^  (\d+) ", EPILOG, flags=re.MULTILINE)} <= {*rows("status")}
