"""The account of what emulation did."""

import pytest

from accord.wire.emulation import LOSSES, Attempt, Effect, EffectKind, EmulationRecord


@pytest.mark.parametrize("kind", EffectKind)
def test_an_effect_says_whether_something_was_lost(kind: EffectKind):
    assert Effect(capability="tool_use", kind=kind).lost is (kind in LOSSES)


def test_a_record_survives_the_wire():
    record = EmulationRecord(
        attempts=[Attempt(number=1, ok=False, capability="json_mode", problems=["no JSON"], usage={"input": 3})],
        effects=[Effect(capability="stop_sequences", kind=EffectKind.TEXT_AFTER_STOP, count=9)],
    )
    shown = Effect(capability="image_input", kind=EffectKind.IMAGE_SHOWN, by="seer", usage={"input": 9})
    assert Effect.parse(shown.to_json()) == shown
    assert EmulationRecord.parse(record.to_json()) == record
    assert record.dump()["effects"] == [{"capability": "stop_sequences", "kind": "text_after_stop", "count": 9}]
