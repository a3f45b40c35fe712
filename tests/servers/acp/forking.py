"""Start many `accord acp` quickly: one process loads everything and forks a child for each agent.

Each child runs the command on its own pipes. Arguments: `agent,stdin,stdout` for each, the last two being
descriptors. The exit status is 0 if every child's was.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from accord.assembly import loop
from accord.assembly import parts as assemble
from accord.cli import main
from accord.servers import acp
from accord.servers import observability as watch
from tests.servers.acp.editor import Editor

LOADED = (assemble, loop, acp, watch)
"""Modules that the command imports late: imported here once, before the forks."""


def fork_all(places: Sequence[str]) -> int:
    """Start an agent for each place and wait until the last has ended."""
    gc.freeze()
    for place in places:
        agent, stdin, stdout = place.split(",")
        if os.fork() == 0:
            os.dup2(int(stdin), 0)
            os.dup2(int(stdout), 1)
            os.closerange(3, 1024)
            _run(["acp", agent])
    os.closerange(3, 1024)
    return max((os.wait()[1] for _ in places), default=0)


def _run(arguments: Sequence[str]) -> None:
    """Run the command and exit at once: freeing a copy of the whole heap would take longer than the rest."""
    try:
        main(arguments)
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    finally:
        os._exit(1)


@contextmanager
def editors(folder: Path, agents: Sequence[str]) -> Generator[list[Editor]]:
    """An editor for each agent; checks at the end that each agent exited with status 0."""
    pipes = [(os.pipe(), os.pipe()) for _ in agents]
    theirs = [descriptor for (stdin, _), (_, stdout) in pipes for descriptor in (stdin, stdout)]
    places = [f"{agent},{stdin},{stdout}" for agent, ((stdin, _), (_, stdout)) in zip(agents, pipes, strict=True)]
    paths = os.pathsep.join([str(folder), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
    environ = {**os.environ, "ACCORD_STORE_KIND": "memory", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "tests.servers.acp.forking", *places]
    host = subprocess.Popen(command, pass_fds=theirs, cwd=Path.cwd(), env=environ)
    for descriptor in theirs:
        os.close(descriptor)
    made = [Editor(os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")) for (_, stdin), (stdout, _) in pipes]
    try:
        yield made
    finally:
        for editor in made:
            editor.close()
        try:
            status = host.wait(30)
        finally:
            host.kill()
            host.wait(30)
    assert status == 0


if __name__ == "__main__":
    sys.exit(1 if fork_all(sys.argv[1:]) else 0)
