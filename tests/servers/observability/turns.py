"""Receipts of turns and model API calls in which something happened."""

from typing import Any

from accord.errors import ErrorCode
from accord.wire.adaptation import AdaptationReport, Rung
from accord.wire.disposition import Disposition, FieldRecord
from accord.wire.emulation import Attempt, EmulationEntry, EmulationRecord, PostProcessing
from accord.wire.manifest import CapabilityManifest
from accord.wire.receipt import BackendParty, Fallback, ModelCallRecord, Outcome, OutcomeStatus, Work
from tests.receipts import a_body

PRIVATE_TEXT = "text of a user"

REFUSED = Outcome(status=OutcomeStatus.REFUSED, code=ErrorCode.CONTENT_UNSUPPORTED, message=PRIVATE_TEXT)
FAILED = Outcome(status=OutcomeStatus.FAILED, code=ErrorCode.BACKEND_FAILED, message=PRIVATE_TEXT)
CANCELLED = Outcome(status=OutcomeStatus.CANCELLED, code=ErrorCode.CANCELLED, message=PRIVATE_TEXT)


def backend(name: str = "local", model: str | None = "m") -> BackendParty:
    return BackendParty(name=name, model=model, manifest=CapabilityManifest.model_validate({"streaming": "native"}))


def emulating(*names: str, ok: bool = True) -> EmulationRecord:
    strategy = PostProcessing(detail="by hand")
    return EmulationRecord(
        emulated=[EmulationEntry(capability=name, strategy=strategy) for name in names],
        attempts=[Attempt(number=1, ok=ok, problems=[] if ok else [PRIVATE_TEXT])],
    )


def fallback(name: str) -> Fallback:
    return Fallback(backend=name, code=ErrorCode.TIMED_OUT, message=PRIVATE_TEXT)


def adapted(**totals: int) -> AdaptationReport:
    return AdaptationReport(totals={Rung(rung): count for rung, count in totals.items()}, entries=[])


def an_eventful_turn(**fields: Any) -> dict[str, Any]:
    """A fallback, an emulation, adaptations of several kinds, a key and a cost."""
    work = Work(
        backend=backend(),
        emulations=emulating("json_mode"),
        fallbacks=[fallback("far")],
        usage={"input_tokens": 7, "output_tokens": 9},
        cost_usd=0.25,
    )
    content: dict[str, Any] = {"work": [work], "adaptation": adapted(native=5, described=2, dropped=1)}
    content |= {"key": "k1", "cost_usd": 0.25}
    return a_body(**(content | fields)).hashed()


def a_call(*, work: dict[str, Any] | None = None, outcome: Outcome | None = None, **call: Any) -> dict[str, Any]:
    """The receipt of a model API call with a fallback, a dropped field, a key and a cost."""
    dispositions = [
        FieldRecord(field="seed", disposition=Disposition.DROPPED, reason="seed_determinism is undeclared"),
        FieldRecord(field=PRIVATE_TEXT, disposition=Disposition.DROPPED, reason="unlisted"),
    ]
    members: dict[str, Any] = {
        "backend": backend(),
        "fallbacks": [fallback("far")],
        "usage": {"input_tokens": 700, "output_tokens": 90, "cached_input_tokens": 512},
        "dispositions": dispositions,
    }
    made: dict[str, Any] = {
        "api": "chat",
        "requested": "auto",
        "served_by": "local",
        "model": "m-2026",
        "response_id": "chatcmpl-1",
        "finish_reasons": ["stop"],
        "key": "k1",
        "streamed": True,
        "cost_usd": 0.25,
    }
    return a_body(
        work=[Work(**(members | (work or {})))],
        call=ModelCallRecord(**(made | call)),
        outcome=outcome or Outcome(status=OutcomeStatus.DONE),
    ).hashed()
