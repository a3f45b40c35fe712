"""docs/chat.md is right: its commands are run in a folder with its agent, and print what the page says."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from accord.cli.chat.session import COMMANDS
from accord.core.output.markdown_splitter import MAX_CHARS, MAX_LINES

PAGE = (Path(__file__).parent.parent / "docs/chat.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_every_command_prints_what_the_page_says(tmp_path: Path):
    (agent,) = [text for language, text in BLOCKS if language == "python"]
    (tmp_path / "my_agent.py").write_text(agent)
    pairs = [(command, text) for (language, command), (_, text) in pairwise(BLOCKS) if language == "sh"]
    assert len(pairs) == 2
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, text in pairs:
        done = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
        )
        assert done.stdout == text


def test_every_command_of_the_chat_is_on_the_page():
    assert [name for name in COMMANDS if f"`{name}" not in PAGE] == []


def test_the_limits_on_the_page_are_those_of_the_code():
    assert f"After {MAX_LINES} lines or {MAX_CHARS:,} characters" in PAGE
