"""Log every decision on content and capabilities at level debug: one structured line each, without any content.

`accord serve --log-level debug` and `accord acp --log-level debug` show them. At other levels this costs one check.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from accord.core.prompt import ContentValidator, ValidationContext, Violation
from accord.wire.manifest import CapabilityRequirements
from accord.wire.plan import Offer, Plan, Refusal

LOG: Final = logging.getLogger("accord.decisions")
MAX_LINES: Final = 1_000
"""How many lines one decision writes at most: a prompt may have a hundred thousand blocks."""


def log_content(
    validator: ContentValidator, blocks: bytes | Sequence[Any], context: ValidationContext, request_id: str
) -> None:
    """Log the decision on each content block."""
    if not LOG.isEnabledFor(logging.DEBUG):
        return
    try:
        sent = from_json(blocks) if isinstance(blocks, bytes) else blocks
    except ValueError:
        sent = None
    if not isinstance(sent, list | tuple):
        return
    for decision in validator.explain(cast("Sequence[Any]", sent)[:MAX_LINES], context):
        fields = {
            "type": decision.content_type,
            "index": decision.index,
            "context": str(decision.context),
            "capability": decision.capability,
            "declared": decision.declared,
            "verdict": str(decision.outcome),
            "reason": decision.why,
        }
        _write("content block checked", fields, request_id)


def log_warning(violation: Violation, context: ValidationContext, request_id: str) -> None:
    """Warn of malformed content that is passed on all the same."""
    fields = {"index": violation.index, "context": str(context), "reason": violation.message}
    LOG.warning("malformed content was passed on", extra={"request_id": request_id, "fields": fields})


def log_requirements(stated: CapabilityRequirements, refusal: Refusal | None, request_id: str) -> None:
    """Log the decision on what a request and its agent require before anything runs."""
    if not LOG.isEnabledFor(logging.DEBUG):
        return
    if refusal is not None:
        log_plan(refusal, request_id)
        return
    for need in stated.required[:MAX_LINES]:
        fields = {"capability": need.capability, "min_support": str(need.min_support), "verdict": "can be met"}
        _write("requirement checked", fields, request_id)


def log_plan(decided: Plan | Refusal, request_id: str | None) -> None:
    """Log what each backend could make of each requirement, and which backend was chosen."""
    if not LOG.isEnabledFor(logging.DEBUG):
        return
    needs = {need.capability: need for need in decided.needs}
    if isinstance(decided, Plan):
        offers, chosen = [decided.offer, *(each.offer for each in decided.lost)], decided.backend
    else:
        offers, chosen = decided.offers, None
    for offer in offers:
        for capability, (verdict, reason) in list(_verdicts(offer).items())[:MAX_LINES]:
            need = needs.get(capability)
            fields = {
                "backend": offer.backend,
                "chosen": offer.backend == chosen,
                "capability": capability,
                "min_support": None if need is None else str(need.min_support),
                "verdict": verdict,
                "reason": reason or (None if need is None else need.because),
            }
            _write("capability negotiated", fields, request_id)


def _verdicts(offer: Offer) -> dict[str, tuple[str, str | None]]:
    """What this backend makes of each capability, and why; a later row replaces an earlier one."""
    found: dict[str, tuple[str, str | None]] = {}
    found |= dict.fromkeys(offer.negotiation.native, ("native", None))
    found |= dict.fromkeys(offer.negotiation.emulatable, ("emulated by the backend", None))
    found |= {each.capability: ("missing", each.reason) for each in offer.missing}
    found |= {each.capability: ("lost", each.reason) for each in offer.losses}
    found |= {each.capability: ("not met, only preferred", each.reason) for each in offer.unmet}
    found |= {each.capability: ("emulated by Accord", each.instead_of) for each in offer.rescues}
    found |= dict.fromkeys(offer.tried, ("tried", "not declared"))
    return found


def _write(message: str, fields: dict[str, Any], request_id: str | None) -> None:
    given = {name: value for name, value in fields.items() if value is not None}
    LOG.debug(message, extra={"request_id": request_id, "fields": given})
