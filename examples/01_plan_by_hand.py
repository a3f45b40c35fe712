"""Plan a work order without server, async or model: it has an image, and the answer must be JSON.

Needs `accord-agents`.

    python examples/01_plan_by_hand.py
"""

from accord import Candidate, CapabilityManifest, Plan, PlanConfig, Refusal, WorkOrder, plan

CANDIDATES = [
    Candidate("text-only", CapabilityManifest.model_validate({"streaming": "native", "tool_use": "native"})),
    Candidate("vision", CapabilityManifest.model_validate({"streaming": "native", "image_input": "native"})),
]
IMAGE = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
ORDER = WorkOrder.model_validate(
    {
        "conversation": {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}]},
        "response_schema": {"type": "object", "required": ["answer"]},
        "stream": True,
    }
)

match plan(ORDER, CANDIDATES, PlanConfig()):
    case Plan() as made:
        print(f"chosen: {made.backend}")
        print("emulated by Accord:", ", ".join(rescue.capability for rescue in made.rescues) or "nothing")
        print("not chosen:", "; ".join(f"{defeat.backend}: {defeat.why}" for defeat in made.lost))
    case Refusal() as refusal:
        print(refusal.message)
