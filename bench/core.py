"""Content checks and negotiation, as ratios in one run against the protocol's own SDK and a typed msgspec decode.

Everything runs in turn in one process, several rounds, and the best round of each counts: the machine is shared.
"""

import json
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Final

import msgspec
from acp.schema import PromptRequest

from accord.core.prompt import ContentValidator
from accord.core.work.conversation import build_order
from accord.core.work.emulation.choose import choose_emulations
from accord.core.work.emulation.run import EmulationRun
from accord.core.work.negotiate import generate_report, negotiate
from accord.core.work.plan import Candidate, PlanConfig, plan, remove_unsupported, shared_plan
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements
from accord.wire.plan import Plan
from accord.wire.work import WorkOrder

ROUNDS: Final = 15
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
KINDS: Final = (
    {"type": "text", "text": "Have a look at this, please."},
    {"type": "image", "mimeType": "image/png", "data": PNG},
    {"type": "audio", "mimeType": "audio/wav", "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAAA"},
    {"type": "resource_link", "uri": "file:///home/u/a.pdf", "name": "a.pdf", "mimeType": "application/pdf", "size": 9},
    {"type": "resource", "resource": {"uri": "file:///home/u/b.py", "mimeType": "text/x-python", "text": "print()"}},
)
EVERYTHING: Final = {"image": True, "audio": True, "embeddedContext": True}
LEVELS: Final = ("native", "emulated", "unsupported", {"restricted": {"reason": "sandbox"}})


class Text(msgspec.Struct, tag_field="type", tag="text"):
    """A text block."""

    text: str


class Image(msgspec.Struct, tag_field="type", tag="image"):
    """An image block."""

    data: str
    mimeType: str  # noqa: N815 - the wire's own name


class Audio(msgspec.Struct, tag_field="type", tag="audio"):
    """An audio block."""

    data: str
    mimeType: str  # noqa: N815 - the wire's own name


class Link(msgspec.Struct, tag_field="type", tag="resource_link"):
    """A link block."""

    uri: str
    name: str


class Inner(msgspec.Struct):
    """The contents of a resource."""

    uri: str
    text: str | None = None
    blob: str | None = None


class Resource(msgspec.Struct, tag_field="type", tag="resource"):
    """A resource block."""

    resource: Inner


class Prompt(msgspec.Struct):
    """A session/prompt, typed."""

    sessionId: str  # noqa: N815 - the wire's own name
    prompt: list[Text | Image | Audio | Link | Resource]


def main() -> None:
    """Print all tables."""
    content()
    flatness()
    negotiation()
    planning()


def content() -> None:
    """Ten thousand mixed blocks from bytes: ours, the SDK's, msgspec's."""
    blocks = [KINDS[number % 5] for number in range(10_000)]
    raw, request = json.dumps(blocks).encode(), json.dumps({"sessionId": "s", "prompt": blocks}).encode()
    typed, ours = msgspec.json.Decoder(Prompt), ContentValidator(EVERYTHING)
    best = interleaved(
        {
            "accord: parse, structure, capability, base64, media type": lambda: ours.validate_json(raw),
            "msgspec: typed decode": lambda: typed.decode(request),
            "acp 0.12.1: json.loads + model_validate, as its router does": lambda: PromptRequest.model_validate(
                json.loads(request)
            ),
            "acp 0.12.1: model_validate_json": lambda: PromptRequest.model_validate_json(request),
        }
    )
    assert ours.validate_json(raw).valid  # noqa: S101 - a benchmark of refusals would measure something else
    print("10,000 mixed blocks from bytes")
    for name, seconds in best.items():
        print(f"  {name:62} {seconds * 1e3:7.2f} ms")
    mine, decode, routed, direct = best.values()
    print(f"  against the SDK {mine / routed:.2f} (its fastest way {mine / direct:.2f}), goal ≤ 0.25")
    print(f"  against msgspec {mine / decode:.2f}, goal ≤ 2.5\n")


def flatness() -> None:
    """The cost of a block, from a hundred to a hundred thousand."""
    ours = ContentValidator(EVERYTHING)
    print("cost of a block")
    for count in (100, 1_000, 10_000, 100_000):
        raw = json.dumps([KINDS[number % 5] for number in range(count)]).encode()
        best = min(timed(lambda raw=raw: ours.validate_json(raw)) for _ in range(ROUNDS))
        print(f"  {count:7,} blocks {best / count * 1e6:6.3f} µs a block")
    print()


def negotiation() -> None:
    """Negotiation and report, cold and asked again."""
    print("negotiate + generate_report (goals for 100: ≤ 100 µs cold, ≤ 5 µs again)")
    for count in (10, 100, 1_000, 10_000):
        levels = {f"capability_{number}": LEVELS[number % 4] for number in range(count)}
        wanted = [{"capability": name, "min_support": "emulated"} for name in levels]
        pairs = [
            (CapabilityManifest.model_validate(levels), CapabilityRequirements.model_validate({"required": wanted}))
            for _ in range(ROUNDS)
        ]
        cold = min(timed(lambda pair=pair: generate_report(negotiate(*pair))) for pair in pairs)
        again = min(timed(lambda pair=pairs[-1]: generate_report(negotiate(*pair))) for _ in range(ROUNDS * 10))
        print(f"  {count:6,} requirements  cold {cold * 1e6:9.1f} µs   again {again * 1e6:7.2f} µs")


def planning() -> None:
    """The plan of the simplest order, and everything pure that one question costs before a backend is asked."""
    candidate, config = Candidate("a", CapabilityManifest.model_validate({"streaming": "native"})), PlanConfig()

    def asked() -> WorkOrder:
        return build_order(prompt="hi", content=(), history=(), system=None, stream=True)

    def whole() -> None:
        order = asked()
        outcome = planned(order)
        chosen = choose_emulations(config.emulation, [rescue.capability for rescue in outcome.rescues])
        EmulationRun(remove_unsupported(order, [loss.capability for loss in outcome.offer.losses]), chosen.emulations)

    def planned(order: WorkOrder) -> Plan:
        outcome = shared_plan(order, [candidate], config)
        assert isinstance(outcome, Plan)  # noqa: S101 - a benchmark of refusals would measure something else
        return outcome

    order = asked()
    fresh = [Candidate(f"never asked {number}", candidate.manifest) for number in range(ROUNDS)]
    cold = min(timed(lambda one=one: shared_plan(order, [one], config)) for one in fresh)
    again = min(timed(lambda: planned(order)) for _ in range(ROUNDS * 100))
    copied = min(timed(lambda: plan(order, [candidate], config)) for _ in range(ROUNDS * 100))
    everything = min(timed(whole) for _ in range(ROUNDS * 100))
    print("\na streaming question, one backend")
    print(f"  plan: cold {cold * 1e6:.1f} µs, again {again * 1e6:.1f} µs, as a copy {copied * 1e6:.1f} µs")
    print(f"  order, plan, emulations and run together: {everything * 1e6:.1f} µs, goal ≤ 60")


def interleaved(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds a call of each takes, the best of several rounds taken in turn."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], timed(call))
    return best


def timed(call: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


if __name__ == "__main__":
    main()
