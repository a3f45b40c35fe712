"""docs/reference/capabilities.md: every known capability, and what Accord does for a backend that lacks it."""

from typing import Final, cast

from scripts.docs.markdown import code, head, table

from accord.core.vocabulary import PROBED
from accord.core.work.emulation.choose import PRESET
from accord.core.work.emulation.engine import default_strategy
from accord.wire.capability import ADDED_MEANINGS, CANONICAL, KNOWN_CAPABILITIES, canonical_name
from accord.wire.emulation import AnyStrategy, Disabled, EmulationStrategy, PostProcessing, SystemPromptInjection

INTRODUCTION: Final = """
The names that manifests and requirements use. `ToolUse` and `tool_use` are the same name. Other names may be used as
well: they count where a manifest declares them. A name that is almost a known one is reported as a misspelling.

A backend declares a level for each: `native`, `emulated`, `unsupported`, or `{"restricted": {"reason": "…"}}`.
What becomes of a requirement then is drawn below.

*Default* is the strategy of ABP for a backend that lacks the capability. *Accord can emulate it* where the column says
how: if the requirement accepts emulation, and the name is `true` under `[emulation.preset]` or the default is not
`disabled`. Any capability can also be given a strategy of its own under `[emulation.strategies]`. *Probed* capabilities
are tested by `accord backends probe`.
"""


def page() -> str:
    """The whole page."""
    rows = (
        [
            code(name),
            f"{meaning}.",
            _alias(name),
            "yes" if canonical_name(name) in PROBED else "",
            _default(name),
            _how(name),
        ]
        for name, meaning in KNOWN_CAPABILITIES.items()
        if name not in ADDED_MEANINGS
    )
    added = ([code(name), f"{meaning}."] for name, meaning in ADDED_MEANINGS.items())
    return "\n".join(
        [
            head("Capabilities", "src/accord/wire/capability.py and src/accord/core/work/emulation/", INTRODUCTION),
            "![What becomes of a required capability at one backend](../diagrams/negotiation.svg)\n",
            "## Of Agent Backplane (ABP)\n",
            table(["name", "the backend …", "same as", "probed", "default", "how Accord emulates it"], rows),
            "## Added by Accord\n",
            "They count only for backends whose manifest mentions them, since a manifest of ABP does not know them.\n",
            table(["name", "the backend …"], added),
        ]
    )


def _alias(name: str) -> str:
    return ", ".join(code(other) for pair in CANONICAL.items() if name in pair for other in pair if other != name)


def _default(name: str) -> str:
    return _strategy(default_strategy(name))


def _how(name: str) -> str:
    """The strategy with which Accord emulates it; empty if it cannot."""
    canonical = canonical_name(name)
    return _strategy(PRESET[canonical]) if canonical in PRESET else ""


def _strategy(strategy: EmulationStrategy) -> str:
    match cast("AnyStrategy", strategy):
        case SystemPromptInjection(prompt=prompt):
            return f"`system_prompt_injection`: “{prompt}”"
        case PostProcessing(detail=detail):
            return f"`post_processing`: {detail}"
        case Disabled():
            return "`disabled`"
