"""docs/getting-started.md is right: followed to the letter in an empty folder, it prints what the page says."""

from importlib.metadata import version
from pathlib import Path

from accord.config import load_config
from tests.page_blocks import DOCS, Reader, read_blocks, settle


def test_every_command_prints_what_the_page_says(tmp_path: Path):
    done = Reader(tmp_path).follow(read_blocks("getting-started.md"))
    assert len(done) == 9
    assert {command: settle(printed) for command, _, printed in done} == {
        command: settle(expected) for command, expected, _ in done
    }
    assert f"accord {version('accord-agents')}" in (DOCS / "getting-started.md").read_text(encoding="utf-8")
    configured = load_config(str(tmp_path / "models.toml"), environ={}).config.backends
    assert [each.name for each in configured] == ["local", "openai"]
