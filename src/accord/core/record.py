"""Takes down what a receipt says of a request and of a decision. Sealing is in `seal.py`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from accord.core.canonicalise import digest_object
from accord.wire.acp.content import ContentBlock
from accord.wire.plan import Plan, Refusal, Shortfall
from accord.wire.receipt import Candidacy
from accord.wire.request import AgentRequest


def record_request(request: AgentRequest) -> dict[str, Any]:
    """The request's digest and shape, without its words: the plain members of a `RequestShape`."""
    needs = request.requirements
    return {
        "digest": digest_object(request.dump()),
        "text_chars": len(request.query),
        "blocks": _kinds(request.content) if request.content else {},
        "files": len(request.files),
        "requirements": len(needs.required) + len(needs.preferred) if needs else 0,
    }


def _kinds(content: Sequence[ContentBlock]) -> dict[str, int]:
    return dict(sorted(Counter(str(block.type) for block in content).items()))


def record_candidates(decided: Plan | Refusal) -> list[Candidacy]:
    """Every backend that was looked at, the chosen one first, and why each was chosen or not."""
    if isinstance(decided, Refusal):
        return [
            Candidacy(backend=offer.backend, chosen=False, why=_told(offer.missing), offer=offer)
            for offer in decided.offers
        ]
    best = decided.offer
    why = f"{len(best.losses)} losses, {best.compromises} compromises"
    return [
        Candidacy(backend=best.backend, chosen=True, why=why, offer=best),
        *(
            Candidacy(backend=defeat.backend, chosen=False, why=defeat.why, offer=defeat.offer)
            for defeat in decided.lost
        ),
    ]


def _told(shortfalls: list[Shortfall]) -> str:
    return ", ".join(f"{shortfall.capability} ({shortfall.reason})" for shortfall in shortfalls)
