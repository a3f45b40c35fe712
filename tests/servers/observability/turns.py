"""Receipts of turns in which something happened."""

from typing import Any

from accord.errors import ErrorCode
from accord.wire.adaptation import AdaptationReport, Rung
from accord.wire.emulation import Attempt, EmulationEntry, EmulationRecord, PostProcessing
from accord.wire.manifest import CapabilityManifest
from accord.wire.receipt import BackendParty, Fallback, Outcome, OutcomeStatus, Work
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
    """A fallback, an emulation and adaptations of several kinds."""
    work = Work(
        backend=backend(),
        emulations=emulating("json_mode"),
        fallbacks=[fallback("far")],
        usage={"input_tokens": 7, "output_tokens": 9},
    )
    content: dict[str, Any] = {"work": [work], "adaptation": adapted(native=5, described=2, dropped=1)}
    return a_body(**(content | fields)).hashed()
