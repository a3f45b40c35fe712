"""docs/edges.md is right: what it invites to try prints what it says, and the ladder has every rung."""

import shutil
from pathlib import Path

from accord.wire.adaptation import Rung
from tests.page_blocks import DOCS, Reader, read_blocks, settle


def test_every_command_prints_what_the_page_says(tmp_path: Path):
    shutil.copy(DOCS / "one-run.jsonl", tmp_path)
    done = Reader(tmp_path).follow(read_blocks("edges.md"))
    assert len(done) == 3
    for _, expected, printed in done:
        assert settle(printed) == settle(expected)


def test_the_ladder_on_the_page_has_every_rung_in_order():
    ladder = (DOCS / "edges.md").read_text(encoding="utf-8").partition("| rung |")[2].partition("\n\n")[0]
    assert [line.split("|")[1].strip() for line in ladder.splitlines()[2:]] == [*Rung]
