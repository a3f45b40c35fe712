"""The table of everything under docs/ that is made from the code."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from scripts.docs import (
    answers,
    asyncapi,
    capabilities,
    commands,
    dispositions,
    errors,
    http,
    index,
    messages,
    metrics,
    one_run,
    python,
    settings,
)
from scripts.docs.diagrams import ladder, layers, negotiation, packet_order, pipeline, run_states, session_life

DOCS: Final = Path(__file__).parent.parent.parent / "docs"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "answers.md": answers.page,
    "asyncapi.yaml": asyncapi.page,
    "diagrams/ladder.svg": ladder.page,
    "diagrams/layers.svg": layers.page,
    "diagrams/negotiation.svg": negotiation.page,
    "diagrams/packet-order.svg": packet_order.page,
    "diagrams/pipeline.svg": pipeline.page,
    "diagrams/run-states.svg": run_states.page,
    "diagrams/session-life.svg": session_life.page,
    "dispositions.md": dispositions.page,
    "one-run.svg": one_run.page,
    "reference/README.md": index.page,
    "reference/capabilities.md": capabilities.page,
    "reference/commands.md": commands.page,
    "reference/errors.md": errors.page,
    "reference/http.md": http.page,
    "reference/messages.md": messages.page,
    "reference/metrics.md": metrics.page,
    "reference/python.md": python.page,
    "reference/settings.md": settings.page,
}
"""Each file, and the function that makes its text."""
