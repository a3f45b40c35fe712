"""The backend in a receipt: its model, and the source of each entry of its manifest."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from accord.agent import Turn, Yielded
from accord.backends.evidence import manifest_of
from accord.backends.scripted import ScriptedBackend
from accord.core.receipt import seal_members, verify
from accord.core.work.evidence import Evidence, Layer
from accord.ports import SystemClock
from accord.run.engine import Engine
from accord.run.record import ended_turn, record_request
from accord.wire.manifest import SupportLevel
from accord.wire.receipt import EvidenceRecord, Receipt
from accord.wire.work import EndPiece
from tests.run.playing import asking, engine, played, relay

STREAMS: Layer = {"streaming": Evidence(SupportLevel.NATIVE, "a test", "2026-01-02")}


@dataclass
class Model(ScriptedBackend):
    """A scripted backend that says which model it is and whose word its manifest is."""

    model: str = "m-1"
    evidence: Layer = field(default_factory=lambda: STREAMS)


def receipt_of(made: Engine) -> Receipt:
    request = asking()
    turn = made.begin(request)
    played(turn)
    report = made.new_view(None).adapter.report_json()
    content = ended_turn(turn, report, record_request(request.payload), SystemClock().now()).content()
    sealed = seal_members(content.encoded)
    stored = from_json(sealed.json)
    assert verify([stored]).ok
    # What observers get is what is stored.
    assert content.members == {name: value for name, value in stored.items() if name != "hash"}
    return Receipt.parse(sealed.json)


def backend(**more: Any) -> Model:
    return Model("a", [["Hi"]] * 9, manifest_of(STREAMS).model_dump(), **more)


def test_a_receipt_names_the_model_and_whose_word_its_manifest_is():
    party = receipt_of(engine(relay, backend())).work[0].backend
    assert party is not None
    assert (party.model, party.evidence) == ("m-1", {"streaming": EvidenceRecord(source="a test", date="2026-01-02")})


def test_evidence_that_changed_is_not_taken_for_what_it_was():
    known = backend()
    made = engine(relay, known)
    receipt_of(made)
    known.evidence = {"streaming": Evidence(SupportLevel.NATIVE, "another")}
    party = receipt_of(made).work[0].backend
    assert party is not None
    assert party.evidence == {"streaming": EvidenceRecord(source="another")}


def test_a_backend_that_knows_nothing_of_that_says_nothing_of_it():
    party = receipt_of(engine(relay, ScriptedBackend("a", [["Hi"]], {"streaming": "native"}))).work[0].backend
    assert party is not None
    assert (party.model, party.evidence) == (None, {})


def test_what_an_answer_took_is_in_the_receipt():
    end = EndPiece(usage={"output_tokens": 2})
    work = receipt_of(engine(relay, ScriptedBackend("a", [["Hi", end]], {"streaming": "native"}))).work[0]
    assert work.usage == {"output_tokens": 2}


def test_a_receipt_says_when_the_first_packet_came():
    async def pauses(_: Turn) -> AsyncIterator[Yielded]:
        await asyncio.sleep(0.03)
        yield "a"
        await asyncio.sleep(0.03)
        yield "b"

    timings = receipt_of(engine(pauses)).timings
    assert timings.first_packet_ms is not None
    assert 30 <= timings.first_packet_ms <= timings.total_ms - 30
