"""Plan a piece of work by hand: no server, no async, no model. A picture, and an answer that must be JSON."""

from accord import CapabilityManifest, Plan, Refusal, WorkOrder, plan
from accord.core.work.plan import Candidate, PlanConfig

CANDIDATES = [
    Candidate("blind", CapabilityManifest.model_validate({"streaming": "native", "tool_use": "native"})),
    Candidate("seeing", CapabilityManifest.model_validate({"streaming": "native", "image_input": "native"})),
]
PICTURE = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
ORDER = WorkOrder.model_validate(
    {
        "conversation": {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]}]},
        "response_schema": {"type": "object", "required": ["answer"]},
        "stream": True,
    }
)

match plan(ORDER, CANDIDATES, PlanConfig()):
    case Plan() as made:
        print(f"{made.backend} does it")
        print("Accord stands in for:", ", ".join(rescue.capability for rescue in made.rescues) or "nothing")
        print("not chosen:", "; ".join(f"{defeat.backend}: {defeat.why}" for defeat in made.lost))
    case Refusal() as refusal:
        print(refusal.message)
