"""The adaptation report on the wire."""

from accord.wire.adaptation import AdaptationEntry, AdaptationReason, AdaptationReport, Rung
from accord.wire.request import ClientCapabilities

ENTRY = AdaptationEntry(position=0, id="c1", type="poll", rung=Rung.DESCRIBED, reason=AdaptationReason.AUTHOR_TEXT)


def report(**totals: int) -> AdaptationReport:
    return AdaptationReport(totals={Rung(rung): count for rung, count in totals.items()}, entries=[ENTRY])


def test_a_report_is_written_as_it_was_read():
    full = report(described=1).model_copy(update={"declared": ClientCapabilities(supported_events=[]), "unlisted": 2})
    assert AdaptationReport.parse(full.to_json()) == full
    assert full.dump()["totals"] == {"described": 1}
    assert full.dump()["declared"] == {"supported_events": []}


def test_the_total_counts_the_packets_of_every_rung():
    assert report().total() == 0
    assert report(native=3, simplified=1).total() == 4
