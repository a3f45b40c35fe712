"""Finding the agent that a command names, and the message for each mistake."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.agents import demo
from accord.assembly.agents import find_agent, load_agent
from accord.config import Config
from accord.errors import UsageError
from tests.cli.test_app import accord

AGENT = """
from accord import Agent
from beside import WORD

agent = Agent(name=WORD)

@agent
async def answer(turn):
    yield WORD

idle = Agent()
number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with an agent; modules that are imported from it are removed afterwards."""
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "beside.py").write_text("WORD = 'found'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def wrong(place: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_agent(place)
    return str(caught.value)


def test_an_agent_is_found_by_module_and_name():
    assert load_agent("accord.agents:demo") is demo


@pytest.mark.parametrize("place", ["./my_agent.py:agent", "my_agent.py:agent", "{folder}/my_agent.py:agent"])
def test_an_agent_is_found_by_its_file_and_finds_the_modules_beside_it(folder: Path, place: str):
    assert load_agent(place.format(folder=folder)).name == "found"


def test_a_file_is_loaded_once_under_its_own_name(folder: Path):
    agent = load_agent(str(folder / "my_agent.py:agent"))
    assert load_agent("./my_agent.py:agent") is agent
    assert sys.modules["my_agent"].__file__ == str(folder / "my_agent.py")


def test_a_file_with_the_name_of_a_loaded_module_does_not_replace_it(folder: Path):
    import json  # noqa: PLC0415 - the module that must stay

    (folder / "my_agent.py").rename(folder / "json.py")
    assert load_agent("./json.py:agent").name == "found"
    assert sys.modules["json"] is json


def test_the_only_agent_of_a_file_needs_no_name(folder: Path):
    (folder / "single.py").write_text("from accord.agents import demo as mine\nalso_mine = mine\n")
    assert load_agent("single.py") is demo


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (
            "no_such_module:agent",
            "no_such_module:agent: there is no module no_such_module; a file is named as in ./my_agent.py:agent",
        ),
        ("accord.agents:dmo", 'accord.agents:dmo: unknown agent "dmo"; did you mean demo? (in {agents})'),
        ("accord.errors:ERROR_FACTS", "accord.errors:ERROR_FACTS: expected an accord.Agent, found mappingproxy"),
        ("accord.errors", "accord.errors: there is no accord.Agent in {errors}"),
        (
            "./my_agent.py:agnet",
            './my_agent.py:agnet: unknown agent "agnet"; did you mean agent? (in {folder}/my_agent.py)',
        ),
        ("my_agent.py", "my_agent.py: has several agents: agent, idle; name one, such as my_agent.py:agent"),
        ("my_agent.py:number", "my_agent.py:number: expected an accord.Agent, found int"),
        (
            "my_agent.py:idle",
            "my_agent.py:idle: this agent has no function yet; decorate an async generator function with it",
        ),
        ("gone.py:agent", "gone.py:agent: No such file"),
        ("./:agent", "./:agent: ./ is a folder; name a file such as my_agent.py:agent"),
        (".", ".: . is a folder; name a file such as my_agent.py:agent"),
        (
            "my agent",
            "my agent: expected module:name or file.py:name, such as my_agent:agent or ./my_agent.py:agent",
        ),
    ],
)
def test_an_agent_that_cannot_be_found_gives_one_sentence(folder: Path, place: str, sentence: str):
    modules = {name: sys.modules[f"accord.{name}"].__file__ for name in ("agents", "errors")}
    assert wrong(place) == sentence.format(folder=folder, **modules)


def test_a_misspelled_agent_gives_a_suggestion():
    config = Config.model_validate({"agents": {"helper": "my_agents:helper"}})
    for name, near in (("relai", "relay"), ("helpr", "helper")):
        with pytest.raises(UsageError, match=f"there is no module {name}; did you mean {near}"):
            find_agent(name, config)


BROKEN = [
    ("def answer(turn)\n", "{file}:1: SyntaxError: expected ':'"),
    ("if True:\nx = 1\n", "{file}:2: IndentationError: expected an indented block after 'if' statement on line 1"),
    ("import json\n\njson.loads('{{')\n", "{file}:3: JSONDecodeError: Expecting property name"),
    ("import not_installed_anywhere\n", "{file}:1: ModuleNotFoundError: No module named 'not_installed_anywhere'"),
    ("import sys\nsys.exit('bye')\n", "{file}:2: SystemExit: bye"),
    ("raise ValueError('one\\ntwo')\n", "{file}:1: ValueError: one two"),
    (
        "from accord import Agent\n@Agent()\nasync def answer(turn):\n    return 'hello'\n",
        "{file}:2: answer cannot be an agent, which is an async generator function; it is a coroutine function: use",
    ),
    (
        "from accord import Agent\nagent = Agent(accepts=['imgae'])\n",
        '{file}:2: accepts: unknown content "imgae"; did you mean image?',
    ),
]


@pytest.mark.parametrize("command", ["serve", "acp"])
@pytest.mark.parametrize("place", ["./broken_agent.py:agent", "broken_agent:agent"])
@pytest.mark.parametrize(("text", "sentence"), BROKEN)
def test_a_module_that_cannot_be_imported_gives_one_line_with_its_place(
    folder: Path, command: str, place: str, text: str, sentence: str
):
    file = folder / "broken_agent.py"
    file.write_text(text)
    done = accord(command, place, "--store", str(folder / "accord.db"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"accord: {sentence.format(file=file)}")
    assert done.stderr.count("\n") == 1


def test_the_whole_traceback_is_logged_at_level_debug(folder: Path):
    (folder / "broken_agent.py").write_text("import json\njson.loads('{')\n")
    done = accord("serve", "broken_agent.py", "--store", str(folder / "accord.db"), "--log-level", "debug")
    assert "in raw_decode" in done.stderr
