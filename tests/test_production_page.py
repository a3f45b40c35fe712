"""docs/production.md is right: its configuration is valid, its commands run, and the metrics of its alerts exist."""

import re
from pathlib import Path

from accord.config import load_config
from tests.page_blocks import DOCS, Reader, read_blocks

PAGE = (DOCS / "production.md").read_text(encoding="utf-8")
BLOCKS = read_blocks("production.md")


def test_the_configuration_of_the_page_is_valid(tmp_path: Path):
    (text,) = [block.text for block in BLOCKS if block.language == "toml"]
    file = tmp_path / "accord.toml"
    file.write_text(text, encoding="utf-8")
    config = load_config(str(file), environ={}).config
    assert (config.store.kind, config.queue.kind, config.backends[0].concurrent) == ("postgres", "nats", 50)


def test_a_token_of_the_page_is_in_its_backup(tmp_path: Path):
    commands = [block.text for block in BLOCKS if block.language == "sh"]
    reader = Reader(tmp_path)
    before, after = (reader.run(command) for command in commands)
    assert "ops" in before
    assert re.findall(r"│ (\w+)", after) == re.findall(r"│ (\w+)", before)


def test_every_metric_of_an_alert_exists():
    listed = (DOCS / "observability.md").read_text(encoding="utf-8")
    names = {re.sub(r"_bucket$", "", name) for name in re.findall(r"accord_\w+", PAGE)}
    assert len(names) == 9
    assert [name for name in names if f"`{name}" not in listed] == []
