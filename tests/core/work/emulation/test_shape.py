"""The shape itself: everything that is performed has it, and doing nothing is one of its forms."""

import pytest

from accord.core.work.emulation.base import Accepted, Emulation, PassthroughReader
from accord.core.work.emulation.choose import EMULATIONS, EmulationSettings
from accord.wire.work import EndPiece, TextPiece, WorkOrder

ALL = [perform(EmulationSettings()) for perform in EMULATIONS.values()]


@pytest.mark.parametrize("emulation", ALL, ids=lambda emulation: emulation.capability)
def test_an_emulation_is_a_value_and_its_readers_are_fresh(emulation: Emulation):
    assert emulation == EMULATIONS[emulation.capability](EmulationSettings())
    assert emulation.reader(WorkOrder()) is not emulation.reader(WorkOrder())
    with pytest.raises(AttributeError):
        emulation.capability = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("emulation", ALL, ids=lambda emulation: emulation.capability)
def test_an_order_that_asks_for_nothing_gets_its_answer_as_it_is(emulation: Emulation):
    reader = emulation.reader(WorkOrder())
    assert reader.feed(TextPiece(text="as it is")) == [TextPiece(text="as it is")]
    assert reader.finish(EndPiece(reason="max_tokens")) == Accepted(EndPiece(reason="max_tokens"))


def test_the_passing_reader_passes():
    reader = PassthroughReader()
    assert reader.feed(TextPiece(text="a")) == [TextPiece(text="a")]
    assert reader.finish(EndPiece()) == Accepted(EndPiece())
