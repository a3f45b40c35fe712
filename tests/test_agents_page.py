"""docs/agents.md tells the truth: its agents are loaded from files and answer."""

import re
import sys
from inspect import signature
from pathlib import Path

import pytest

from accord.agent import Turn
from accord.agents.demo.tour import COMMANDS
from accord.assembly.agents import load_agent
from accord.backends.scripted import ScriptedBackend
from accord.engine import Dispatcher, Engine
from accord.wire.work import EndPiece, ToolCallPiece
from tests.engine.test_engine import asking, played, said

PAGE = (Path(__file__).parent.parent / "docs/agents.md").read_text(encoding="utf-8")
AGENTS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
CALL = ToolCallPiece(id="1", name="add", input={"a": 1, "b": 2})
SCRIPTS = [[["It is a cat."]], [[CALL, EndPiece(reason="tool_use")], ["It is 3."]]]


@pytest.mark.parametrize("number", range(len(AGENTS)))
def test_every_agent_of_the_page_answers(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / f"agent_of_the_page_{number}.py"
    file.write_text(AGENTS[number], encoding="utf-8")
    manifest = {"streaming": "native", "system_message": "native", "tool_use": "native"}
    backend = ScriptedBackend("a", SCRIPTS[number], manifest)
    engine = Engine(load_agent(f"{file}:agent"), Dispatcher([backend]))
    assert said(played(engine.begin(asking("What is it?")))) == SCRIPTS[number][-1][-1]


def test_the_page_names_every_parameter_of_ask():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## The demo")[0], flags=re.MULTILINE)
    assert listed == [name for name in signature(Turn.ask).parameters if name != "self"]


def test_the_page_names_every_command_of_the_demo():
    first_cells = re.findall(r"^\| (`.*?) \|", PAGE.partition("## The demo")[2], flags=re.MULTILINE)
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)", cell)} == {*COMMANDS, "long"}
