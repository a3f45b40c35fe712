"""Finds the agent that a command names: one of the configuration, a built-in one, `module:name` or `file.py:name`.

What is wrong with the user's module is said in one line with the place in the user's code; the whole traceback is
logged at level debug.
"""

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from accord.agent import Agent
from accord.agents import demo, relay
from accord.config import Config
from accord.core.vocabulary import closest, unknown_name
from accord.errors import UsageError

LOG: Final = logging.getLogger("accord.agent")
BUILT_IN: Final[Mapping[str, Agent]] = {"demo": demo, "relay": relay}
MAX_CHARS: Final = 500
_FILE: Final = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^:/\\]*))?")


def find_agent(name: str, config: Config) -> Agent:
    """The agent of this name, ready to run; raises `UsageError`, naming the cure."""
    if name not in config.agents and name in BUILT_IN:
        return BUILT_IN[name]
    # People keep their agents in the folder where they start them. It comes after everything that is installed, and
    # only once our own parts are loaded: a file `json.py` or `PIL.py` in a folder must not become a part of Accord.
    _search(Path.cwd())
    try:
        return load_agent(config.agents.get(name, name))
    except UsageError as error:
        near = closest(name, (*config.agents, *BUILT_IN))
        if near is not None and isinstance(error.__cause__, ModuleNotFoundError):
            raise UsageError(f"{error.message}; did you mean {near}?") from error
        raise


def load_agent(place: str) -> Agent:
    """The agent at `module:name` or `file.py:name`; without a name it is the only agent that the module has."""
    if found := _FILE.fullmatch(place):
        module, name = _import_file(place, Path(found["file"])), found["name"]
    else:
        module_name, _, name = place.partition(":")
        module = _import_module(place, module_name)
    agent = _agent_of(place, module, name)
    if not agent.is_defined:
        raise UsageError(f"{place}: this agent does nothing yet; decorate an async generator function with it")
    return agent


def _agent_of(place: str, module: ModuleType, name: str | None) -> Agent:
    agents = {each: value for each, value in vars(module).items() if isinstance(value, Agent)}
    if not name:
        first = {id(agent): each for each, agent in reversed(agents.items())}  # a decorated function is its agent, too
        if len(first) == 1:
            return next(iter(agents.values()))
        if not agents:
            raise UsageError(f"{place}: there is no accord.Agent in {_named(module)}")
        listed = ", ".join(reversed(first.values()))
        example = f"{place.rstrip(':')}:{next(iter(agents))}"
        raise UsageError(f"{place}: name one of its agents, such as {example}; known are {listed}")
    if name in agents:
        return agents[name]
    if name in vars(module):
        raise UsageError(f"{place}: expected an accord.Agent, found {type(vars(module)[name]).__name__}")
    if not agents:
        raise UsageError(f"{place}: there is no accord.Agent in {_named(module)}")
    raise UsageError(f"{place}: {unknown_name('agent', name, agents)} (in {_named(module)})")


def _named(module: ModuleType) -> str:
    """The module by its file: an installed module comes before a file of the same name in the working directory."""
    return getattr(module, "__file__", None) or f"the module {module.__name__}"


def _import_module(place: str, name: str) -> ModuleType:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        if name and Path(name).exists():
            what = "a folder" if Path(name).is_dir() else "not a Python file"
            raise UsageError(f"{place}: {name} is {what}; name a file such as my_agent.py:agent")
        raise UsageError(
            f"{place}: expected module:name or file.py:name, such as my_agent:agent or ./my_agent.py:agent"
        )
    parents = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name in (*parents, name):
            raise UsageError(f"{place}: there is no module {error.name}") from error
        raise _broken(place, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(place, error) from error


def _import_file(place: str, file: Path) -> ModuleType:
    """Run the file as a module of its own name. Modules beside it can be imported, as when Python runs the file."""
    path = file.expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"{place}: {'it is a folder' if path.is_dir() else 'there is no such file'}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    # A file that is called like a module that is loaded already, such as json.py, must not replace it.
    name = path.stem if known is None and path.stem.isidentifier() else f"_accord_agent_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{place}: it cannot be read as a Python module")
    _search(path.parent)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(place, error) from error
    return module


def _broken(place: str, error: BaseException) -> UsageError:
    """One line for what the user's module raised at import: the place in the user's code, and the message."""
    LOG.debug("The agent's module cannot be imported", exc_info=error)
    if isinstance(error, SyntaxError) and error.filename:
        return UsageError(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else place
    said = " ".join(str(error).split())[:MAX_CHARS]
    if isinstance(error, UsageError):  # in our own words, some of which name the place
        return UsageError(said if frames and said.startswith(frames[-1].filename) else f"{where}: {said}")
    return UsageError(f"{where}: {type(error).__name__}: {said}" if said else f"{where}: {type(error).__name__}")


def _is_users(filename: str) -> bool:
    """Whether this is code that is not ours, not Python's and not installed."""
    path = Path(filename)
    return path.is_file() and not {"site-packages", "dist-packages"} & set(path.parts) and not _is_below(path)


def _is_below(path: Path) -> bool:
    ours, pythons = Path(__file__).parent.parent, Path(traceback.__file__).parent
    return ours in path.parents or pythons in path.parents


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
