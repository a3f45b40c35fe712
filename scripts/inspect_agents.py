"""Install ACP agents into temporary folders, inspect each with the fake model, and write docs/acp-agents.md.

Needs the package registries, but no key. An agent that cannot be installed or inspected in time gets a row that says
so. `--only NAME` prints the page of some agents and leaves the file alone; `--keep FOLDER` keeps the installed agents.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

from scripts.agents.packages import AGENTS, FOLDER, NODE, AgentPackage
from scripts.agents.page import write_page

from accord.acp_tools.inspect import InspectSettings, inspect_agent
from accord.stdio import PeerStartError
from accord.version import package_version
from accord.wire.inspection import InspectionReport, Level, Result

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/acp-agents.md"
INSTALL_S: Final = 400
INSPECT_S: Final = 900
TIMEOUT_S: Final = 30.0
STARTUP_S: Final = 90.0
"""Some agents are large, and the first start is the slowest."""
CONCURRENT: Final = 2
JOBS: Final = 2
"""How many processes of one agent run at the same time: they are large, and two agents are inspected at once."""


def main() -> None:
    """Inspect every agent, some at a time, and write the page."""
    parser = argparse.ArgumentParser(description="Inspect real ACP agents and write docs/acp-agents.md.")
    parser.add_argument("--only", action="append", metavar="NAME", help="print the page of this agent; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the installed agents here, and reuse them")
    arguments = parser.parse_args()
    names = {agent.name.lower(): agent for agent in AGENTS}
    if unknown := [name for name in arguments.only or () if name.lower() not in names]:
        parser.error(f"--only {unknown[0]}: unknown agent; use one of {', '.join(agent.name for agent in AGENTS)}")
    agents = [names[name.lower()] for name in arguments.only] if arguments.only else AGENTS
    with TemporaryDirectory(prefix="accord-agents-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        for which in (signal.SIGINT, signal.SIGTERM):
            signal.signal(which, partial(_stop, folder))
        with ThreadPoolExecutor(CONCURRENT) as pool:
            found = list(pool.map(partial(_inspect_in_folder, folder, arguments.keep), agents))
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    page = write_page(list(zip(agents, found, strict=True)), date, package_version())
    if arguments.only:
        print(page)
    else:
        PAGE.write_text(page, encoding="utf-8")
        _say(f"wrote {PAGE.relative_to(ROOT)}")


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _stop(folder: Path, which: int, _frame: FrameType | None) -> None:
    """End every agent and this process at once; otherwise the threads would finish their inspections first."""
    _end_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(128 + which)


def _inspect_in_folder(temporary: Path, keep: Path | None, agent: AgentPackage) -> InspectionReport | str:
    started = time.monotonic()
    name = re.sub(r"[^\w.-]+", "-", agent.package).strip("-")
    run = temporary / name
    run.mkdir()
    folder = run / "agent" if keep is None else keep.resolve() / name
    found = _install(agent, folder) or _inspect(agent, folder, run / "home")
    # Some agents start processes of their own, in sessions of their own; these have the home folder of this run.
    if left := _end_processes(run):
        _say(f"{agent.name}: ended {left} processes that it left behind")
    shutil.rmtree(run, ignore_errors=True)
    summary = f"{found.count(Result.FAIL, Level.MUST)} musts fail" if isinstance(found, InspectionReport) else found
    _say(f"{agent.name}: {summary} ({time.monotonic() - started:.0f} s)")
    return found


def _install(agent: AgentPackage, folder: Path) -> str | None:
    """Install the agent unless it is there; the result is what prevented it."""
    ready = folder / ".ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == agent.package:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    _say(f"{agent.name}: installing {agent.package}")
    # The launcher of pyenv finds only the chosen version; uv finds the others if they are named.
    versions = sorted(str(path) for path in Path.home().glob(".pyenv/versions/3.*/bin"))
    environ = {**os.environ, "PATH": os.pathsep.join([_node_path(), *versions])}
    for command in agent.install:
        words = [word.replace("{folder}", str(folder)) for word in command]
        try:
            done = subprocess.run(words, env=environ, capture_output=True, check=False, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            return f"it did not install within {INSTALL_S} s"
        if done.returncode != 0:
            _say(f"{agent.name}: {done.stderr.decode(errors='replace').strip()[-500:]}")
            return "it does not install here"
    ready.write_text(agent.package, encoding="utf-8")
    return None


def _inspect(agent: AgentPackage, folder: Path, home: Path) -> InspectionReport | str:
    _say(f"{agent.name}: inspecting")
    work = home / "work"
    for folder_of_run in (work, home / "tmp"):
        folder_of_run.mkdir(parents=True)
    settings_file = home.parent / "settings.json"
    settings_file.write_text(json.dumps({"environ": dict(agent.environ), "files": dict(agent.files)}), encoding="utf-8")
    start = [word.replace("{folder}", str(folder)) for word in agent.start]
    settings = InspectSettings(
        (sys.executable, "-IS", str(FOLDER / "start_agent.py"), str(settings_file), *start),
        environ=_environ(folder, home),
        cwd=str(work),
        session_cwd=str(work),
        timeout_s=TIMEOUT_S,
        startup_s=STARTUP_S,
        jobs=JOBS,
        mock_llm=True,
        authenticate=agent.authenticate,
        secrets=(str(home), str(folder), str(ROOT), f"host {socket.gethostname()}"),
    )
    try:
        return asyncio.run(asyncio.wait_for(inspect_agent(settings), INSPECT_S))
    except PeerStartError:
        return "it cannot be started"
    except TimeoutError:
        return f"the inspection did not end within {INSPECT_S} s"


def _environ(folder: Path, home: Path) -> Mapping[str, str]:
    """An empty home folder, so that no settings or keys of the current user get into the page, and nothing remains."""
    programs = [f"{folder}/node_modules/.bin", f"{folder}/bin", _node_path()]
    temporary = str(home / "tmp")
    path = os.pathsep.join(programs)
    return {"PATH": path, "HOME": str(home), "TMPDIR": temporary, "TMUX_TMPDIR": temporary, "LANG": "C.UTF-8"}


def _node_path() -> str:
    return os.pathsep.join([str(NODE / "bin"), os.environ["PATH"]])


def _end_processes(folder: Path) -> int:
    """End the processes whose home folder is in this folder, and return their number. Needs /proc."""
    beginning = f"HOME={folder}/".encode()
    count = 0
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(entry.startswith(beginning) for entry in environ.read_bytes().split(b"\0")):
                os.kill(int(environ.parent.name), signal.SIGKILL)
                count += 1
    return count


if __name__ == "__main__":
    main()
