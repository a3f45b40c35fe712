"""A user's script under pyright: a keyword that is misspelled is found before the script runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAD = """
from collections.abc import AsyncIterator

from accord import Agent, Turn
from accord.agent import Yielded

agent = Agent(accepts=["image"])


@agent
async def answer(turn: Turn) -> AsyncIterator[Yielded]:
"""
GOOD = (
    HEAD
    + """
    tool = {"name": "add", "description": "Adds", "input_schema": {"type": "object"}}
    needs = {"required": [{"capability": "tool_use", "min_support": "native"}]}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    asked = turn.ask("Add", content=[image], tools=[tool], requirements=needs, stop="END", thinking=True)
    results = [turn.result(call, "2") for call in await asked.calls()]
    async for text in turn.ask("Add", tools=[tool], parameters={"seed": 1}, follow=[asked.message, *results]):
        yield text
    yield turn.markdown(str(await turn.ask("As JSON", schema={"type": "object"}, system="Be brief").value()))
"""
)
MISSPELLED = {
    "ask": (HEAD + "    yield await turn.ask('Hi', shema={}).text()\n", 'No parameter named "shema"'),
    "agent": ("from accord import Agent\n\nAgent(acepts=['image'])\n", 'No parameter named "acepts"'),
    "type": (HEAD + "    yield await turn.ask('Hi', thinking='yes').text()\n", "cannot be assigned to parameter"),
    "coroutine": ("from accord import Agent, Turn\n\n\n@Agent()\nasync def answer(turn: Turn) -> str:\n    return ''\n",
                  "cannot be assigned to parameter"),
}  # fmt: skip


@pytest.mark.timeout(120)  # pyright starts node and reads every dependency
def test_pyright_finds_what_is_misspelled_and_nothing_else(tmp_path: Path):
    scripts = {"good": GOOD, **{name: text for name, (text, _) in MISSPELLED.items()}}
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False)
    found: dict[str, list[str]] = {name: [] for name in scripts}
    problems: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    for problem in problems:
        found[Path(problem["file"]).stem].append(problem["message"])
    assert found["good"] == []
    for name, (_, sentence) in MISSPELLED.items():
        assert any(sentence in message for message in found[name]), (name, found[name])
