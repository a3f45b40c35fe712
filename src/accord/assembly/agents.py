"""Find the agent that a command names: one of the configuration, a built-in one, `module:name` or `file.py:name`.

An error in the user's module gives one line with its place in the user's code; the traceback is logged at level debug.
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
    """Return the agent of this name; raise `UsageError` that says what to do if there is none."""
    if name not in config.agents and name in BUILT_IN:
        return BUILT_IN[name]
    # Users keep their agents in the folder where they start them. It comes after everything that is installed, and
    # only once our own modules are loaded: a file `json.py` or `PIL.py` in a folder must not become part of Accord.
    _add_to_path(Path.cwd())
    try:
        return load_agent(config.agents.get(name, name))
    except UsageError as error:
        near = closest(name, (*config.agents, *BUILT_IN))
        if near is not None and isinstance(error.__cause__, ModuleNotFoundError):
            raise UsageError(f"{error.message.partition(';')[0]}; did you mean {near}?") from error
        raise


def load_agent(place: str) -> Agent:
    """Import the agent at `module:name` or `file.py:name`; without a name, the only agent of the module."""
    if found := _FILE.fullmatch(place):
        module, name = _import_file(place, Path(found["file"])), found["name"]
    else:
        module_name, _, name = place.partition(":")
        module = _import_module(place, module_name)
    agent = _find_in_module(place, module, name)
    if not agent.is_defined:
        raise UsageError(f"{place}: this agent has no function yet; decorate an async generator function with it")
    return agent


def _find_in_module(place: str, module: ModuleType, name: str | None) -> Agent:
    agents = {each: value for each, value in vars(module).items() if isinstance(value, Agent)}
    # With its file: an installed module may have the same name as a file in the working directory.
    source = getattr(module, "__file__", None) or f"the module {module.__name__}"
    if not name:
        # One agent may have several names: a decorated function is its agent, too.
        names = {id(agent): each for each, agent in reversed(agents.items())}
        if len(names) == 1:
            return next(iter(agents.values()))
        if not agents:
            raise UsageError(f"{place}: there is no accord.Agent in {source}")
        listed = ", ".join(reversed(names.values()))
        example = f"{place.rstrip(':')}:{next(iter(agents))}"
        raise UsageError(f"{place}: has several agents: {listed}; name one, such as {example}")
    if name in agents:
        return agents[name]
    if name in vars(module):
        raise UsageError(f"{place}: expected an accord.Agent, found {type(vars(module)[name]).__name__}")
    if not agents:
        raise UsageError(f"{place}: there is no accord.Agent in {source}")
    raise UsageError(f"{place}: {unknown_name('agent', name, agents)} (in {source})")


def _import_module(place: str, name: str) -> ModuleType:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name):
        if name and Path(name).exists():
            kind = "a folder" if Path(name).is_dir() else "not a Python file"
            raise UsageError(f"{place}: {name} is {kind}; name a file such as my_agent.py:agent")
        raise UsageError(
            f"{place}: expected module:name or file.py:name, such as my_agent:agent or ./my_agent.py:agent"
        )
    parents = [name[: dot.start()] for dot in re.finditer(r"\.", name)]
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name in (*parents, name):
            raise UsageError(
                f"{place}: there is no module {error.name}; a file is named as in ./my_agent.py:agent"
            ) from error
        raise _import_error(place, error) from error
    except (Exception, SystemExit) as error:
        raise _import_error(place, error) from error


def _import_file(place: str, file: Path) -> ModuleType:
    """Import a file as a module of the same name. It can import modules beside it, as when Python runs the file."""
    path = file.expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"{place}: {'is a folder; name a file in it' if path.is_dir() else 'No such file'}")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    # A file with the name of a loaded module, such as json.py, must not replace that module.
    name = path.stem if loaded is None and path.stem.isidentifier() else f"_accord_agent_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{place}: cannot be imported as a Python module")
    _add_to_path(path.parent)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_error(place, error) from error
    return module


def _import_error(place: str, error: BaseException) -> UsageError:
    """Describe in one line what a user's module raised at import: the place in the user's code, and the message."""
    LOG.debug("The agent's module cannot be imported", exc_info=error)
    if isinstance(error, SyntaxError) and error.filename:
        return UsageError(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(Path(frame.filename))]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else place
    message = " ".join(str(error).split())[:MAX_CHARS]
    if isinstance(error, UsageError):  # our own message, which may have the place already
        return UsageError(message if frames and message.startswith(frames[-1].filename) else f"{where}: {message}")
    return UsageError(f"{where}: {type(error).__name__}: {message}" if message else f"{where}: {type(error).__name__}")


def _is_user_code(path: Path) -> bool:
    """Whether this file is neither part of Accord nor of Python nor of an installed package."""
    if not path.is_file() or {"site-packages", "dist-packages"} & set(path.parts):
        return False
    accord_folder, python_folder = Path(__file__).parent.parent, Path(traceback.__file__).parent
    return accord_folder not in path.parents and python_folder not in path.parents


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
