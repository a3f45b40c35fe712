"""Decision 12, seen from a turn: a requirement is met, performed or refused, and the record says which."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from accord.agent import Turn, Yielded
from accord.backends.scripted import ScriptedBackend
from accord.core.work.emulation.choose import preset_config
from accord.errors import RefusedError
from accord.wire.emulation import EmulationRecord
from tests.run.playing import IMAGE, STREAMS, asking, engine, relay
from tests.run.test_engine import played, said


def requiring(name: str) -> dict[str, Any]:
    return {"requirements": {"required": [{"capability": name, "min_support": "emulated"}]}}


async def structured(turn: Turn) -> AsyncIterator[Yielded]:
    yield await turn.ask(schema={"type": "object"}).text()


def test_decision_12_structured_output_without_a_schema_is_refused_before_a_backend_is_asked():
    backend = ScriptedBackend("a", [["not JSON"]], STREAMS)
    turn = engine(relay, backend).begin(asking(**requiring("structured_output_json_schema")))
    played(turn)
    assert isinstance(turn.failure, RefusedError)
    assert "structured_output_json_schema (cannot be emulated: no schema is given)" in turn.failure.message
    assert backend.orders == []


def test_decision_12_structured_output_with_a_schema_is_performed():
    backend = ScriptedBackend("a", [["not JSON"], ['Here it is:\n{"a": 1}']], STREAMS)
    turn = engine(structured, backend).begin(asking(**requiring("structured_output_json_schema")))
    assert said(played(turn)) == '{"a": 1}'
    assert len(backend.orders) == 2


@pytest.mark.parametrize(
    ("content", "emulated", "effects"), [([], [], []), ([IMAGE], ["image_input"], ["image_not_seen"])]
)
def test_decision_12_what_the_work_does_not_use_is_not_recorded_as_emulated(
    content: list[Any], emulated: list[str], effects: list[str]
):
    backend = ScriptedBackend("a", [["Seen."]], STREAMS)
    running = engine(relay, backend, emulation=preset_config(), accepts={"image": True})
    turn = running.begin(asking(content=content, **requiring("image_input")))
    assert said(played(turn)) == "Seen."
    record = turn.work[0].emulation
    assert isinstance(record, EmulationRecord)
    assert [entry.capability for entry in record.emulated] == emulated
    assert [effect.kind for effect in record.effects] == effects
