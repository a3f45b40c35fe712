"""The picture in the docs is what the adapter really gives."""

from pathlib import Path

from accord.wire.packet import StreamPacket
from scripts import draw_run

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_committed_picture_is_the_one_that_the_script_draws():
    packets = [StreamPacket.parse(line) for line in (DOCS / "one-run.jsonl").read_text(encoding="utf-8").splitlines()]
    columns = [(name, declares, list(draw_run.seen(client, packets))) for name, declares, client in draw_run.CLIENTS]
    assert draw_run.draw(columns) == (DOCS / "one-run.svg").read_text(encoding="utf-8")
