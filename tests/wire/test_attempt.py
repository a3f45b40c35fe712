"""The record of emulations."""

import pytest

from accord.wire.emulation import LOSSES, Attempt, Effect, EffectKind, EmulationRecord


@pytest.mark.parametrize("kind", EffectKind)
def test_an_effect_knows_whether_it_is_a_loss(kind: EffectKind):
    assert Effect(capability="tool_use", kind=kind).lost is (kind in LOSSES)


def test_a_record_is_written_and_read_back():
    record = EmulationRecord(
        attempts=[Attempt(number=1, ok=False, capability="json_mode", problems=["no JSON"], usage={"input": 3})],
        effects=[Effect(capability="stop_sequences", kind=EffectKind.TEXT_AFTER_STOP, count=9)],
    )
    effect = Effect(capability="image_input", kind=EffectKind.IMAGE_SHOWN, by="seer", usage={"input": 9})
    assert Effect.model_validate(effect.dump()) == effect
    assert EmulationRecord.model_validate(record.dump()) == record
    assert record.dump()["effects"] == [{"capability": "stop_sequences", "kind": "text_after_stop", "count": 9}]
