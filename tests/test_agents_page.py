"""docs/agents.md is right: its agents are loaded from files and send what the page says, and its tables are complete."""

import asyncio
import json
import re
import sys
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from accord.agent import Agent, Answer, Turn
from accord.agents.demo.tour import COMMANDS
from accord.assembly.agents import load_agent
from accord.backends.scripted import ScriptedBackend, Step
from accord.errors import ERROR_FACTS, ErrorCode
from accord.run import Dispatcher, Engine, Run
from accord.wire.packet import DeltaPacket, ErrorPacket, EventPacket, StreamPacket
from accord.wire.work import EndPiece, ToolCallPiece
from tests.page_blocks import DOCS, Reader, read_blocks, settle
from tests.run.playing import IMAGE, asking, played, said, within

PAGE = (DOCS / "agents.md").read_text(encoding="utf-8")
BLOCKS = read_blocks("agents.md")
AGENTS = [block.text for block in BLOCKS if block.language == "python"]
PACKETS = [block.text for block in BLOCKS if block.language == "text" and block.text.endswith("close\n")]
CALL = ToolCallPiece(id="1", name="add", input={"a": 1, "b": 2})
MANIFEST: dict[str, str] = dict.fromkeys(
    ("streaming", "system_message", "tool_use", "image_input", "json_mode"), "native"
)
SCRIPTS: list[list[list[Step]]] = [
    [["It is a cat."]],
    [],
    [['{"name": "Paris", "people": 2100000}']],
    [[CALL, EndPiece(reason="tool_use")], ["It is 3."]],
    [["Both are small."]],
    [],
    [],
    [],
    [],
]
"""What the model answers to each agent."""


def described(packet: StreamPacket) -> str:
    if isinstance(packet, DeltaPacket):
        return f"delta {json.dumps(packet.p)}"
    if isinstance(packet, EventPacket):
        return f"event {packet.p['type']} {json.dumps(packet.p['data'])}"
    return f"error {packet.p.code}" if isinstance(packet, ErrorPacket) else str(packet.op)


async def read_and_cancel(turn: Run) -> list[StreamPacket]:
    """The packets of a turn that is cancelled after its first one."""
    packets: list[StreamPacket] = []
    async for packet in turn.packets():
        packets.append(packet)
        asyncio.get_running_loop().call_soon(turn.cancel)
    return packets


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_every_agent_sends_what_the_page_says(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert len(AGENTS) == len(PACKETS) == len(SCRIPTS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / f"agent_of_the_page_{number}.py"
    file.write_text(AGENTS[number], encoding="utf-8")
    engine = Engine(load_agent(f"{file}:agent"), Dispatcher([ScriptedBackend("a", SCRIPTS[number], MANIFEST)]))
    content: dict[str, Any] = {"content": [IMAGE]} if "accepts" in AGENTS[number] else {}
    turn = engine.begin(asking("What is it?", **content))
    packets = within(partial(read_and_cancel, turn)) if "sleep" in AGENTS[number] else played(turn)
    assert [described(packet) for packet in packets] == PACKETS[number].splitlines()


def test_the_tests_on_the_page_about_testing_pass(tmp_path: Path):
    ((_, expected, printed),) = Reader(tmp_path).follow(read_blocks("testing.md"))
    assert settle(printed) == settle(expected)


def rows(heading: str) -> list[str]:
    """The names in the first column of the table with this heading."""
    table = PAGE.partition(f"| {heading} | meaning |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)", "".join(line.split("|")[1] for line in table.splitlines()[2:]))


def test_the_tables_name_every_parameter_and_every_member():
    assert rows("`turn.ask(…)`") == [name for name in signature(Turn.ask).parameters if name != "self"]
    assert {*rows("`Agent(…)`")} == {*signature(Agent).parameters} - {"run"}
    attributes = {"request", "history", "client"}
    assert {*rows("of a turn")} == {name for name in vars(Turn) if not name.startswith("_")} | attributes
    assert {*rows("of an answer")} - {"async"} == {name for name in vars(Answer) if not name.startswith("_")}


def test_the_page_about_the_demo_names_every_command_of_it():
    demo = (DOCS / "page.md").read_text(encoding="utf-8").partition("## The demo")[2]
    first_cells = re.findall(r"^\| (`.*?) \|", demo, flags=re.MULTILINE)
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)", cell)} == {*COMMANDS, "long"}


def test_each_failure_has_the_status_that_the_page_says():
    table = PAGE.partition("| in the agent |")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"the error `(\w+)`.*\| (\d+) \|$", table, flags=re.MULTILINE))
    assert listed == {code: str(ERROR_FACTS[ErrorCode(code)].http) for code in listed}
    assert len(listed) == 5


def test_the_agent_of_the_page_about_editors_asks_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (code,) = [block.text for block in read_blocks("acp.md") if "turn.permission" in block.text]
    file = tmp_path / "agent_that_cleans.py"
    file.write_text(code, encoding="utf-8")
    packets = played(Engine(load_agent(f"{file}:agent"), Dispatcher([])).begin(asking("Clean up")))
    assert said(packets) == "The user said: nobody."
