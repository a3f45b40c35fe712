"""Receipts to test with."""

from datetime import UTC, datetime
from typing import Any

from accord.core.receipt import seal
from accord.wire.manifest import CapabilityManifest
from accord.wire.receipt import (
    AgentParty,
    BackendParty,
    ClientParty,
    EvidenceRecord,
    Outcome,
    OutcomeStatus,
    Parties,
    Receipt,
    ReceiptBody,
    RequestShape,
    Timings,
    Work,
)

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def a_body(number: int = 0, previous: str | None = None, **fields: Any) -> ReceiptBody:
    manifest = CapabilityManifest.model_validate({"streaming": "native"})
    members: dict[str, Any] = {
        "request_id": f"r{number}",
        "session_id": "s1",
        "created_at": NOON,
        "previous": previous,
        "request": RequestShape(digest="0" * 64, text_chars=12, blocks={"image": 1}),
        "parties": Parties(
            agent=AgentParty(name="demo", declared={"image": True}, accepts=["text", "image"]),
            client=ClientParty(assumed=["standard_client"]),
        ),
        "work": [
            Work(
                backend=BackendParty(
                    name="local",
                    model="m",
                    manifest=manifest,
                    evidence={"streaming": EvidenceRecord(source="operator")},
                ),
                usage={"input_tokens": 7, "rate": 0.5, "note": None},
            )
        ],
        "timings": Timings(plan_ms=0.25, first_packet_ms=3, total_ms=40.5),
        "outcome": Outcome(status=OutcomeStatus.DONE),
    }
    return ReceiptBody.model_validate(members | fields)


def a_chain(length: int, **fields: Any) -> list[Receipt]:
    chain: list[Receipt] = []
    for number in range(length):
        chain.append(seal(a_body(number, chain[-1].hash if chain else None, **fields)))
    return chain
