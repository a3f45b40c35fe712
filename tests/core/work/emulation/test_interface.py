"""Every emulation implements the interface."""

import pytest

from accord.core.work.emulation.base import Accepted, Emulation, PassthroughReader
from accord.core.work.emulation.choose import EMULATIONS, EmulationSettings
from accord.wire.work import EndPiece, TextPiece, WorkOrder

ALL = [perform(EmulationSettings()) for perform in EMULATIONS.values()]


@pytest.mark.parametrize("emulation", ALL, ids=lambda emulation: emulation.capability)
def test_an_emulation_is_immutable_and_its_readers_are_new(emulation: Emulation):
    assert emulation == EMULATIONS[emulation.capability](EmulationSettings())
    assert emulation.reader(WorkOrder()) is not emulation.reader(WorkOrder())
    with pytest.raises(AttributeError):
        emulation.capability = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("emulation", ALL, ids=lambda emulation: emulation.capability)
def test_an_order_that_requests_nothing_gets_its_answer_unchanged(emulation: Emulation):
    reader = emulation.reader(WorkOrder())
    assert reader.feed(TextPiece(text="as it is")) == [TextPiece(text="as it is")]
    assert reader.finish(EndPiece(reason="max_tokens")) == Accepted(EndPiece(reason="max_tokens"))


def test_the_passthrough_reader_changes_nothing():
    reader = PassthroughReader()
    assert reader.feed(TextPiece(text="a")) == [TextPiece(text="a")]
    assert reader.finish(EndPiece()) == Accepted(EndPiece())
