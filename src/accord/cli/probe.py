"""Asks a model what it can do, compares that with what is said of it, and keeps it if that is wanted.

What is asked and what an answer shows is `backends/models/probing.py`'s business.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, cast

from accord.backends.evidence import Evidence, gather, manifest_of
from accord.backends.models.probing import (
    Finding,
    Question,
    Verdict,
    found_by,
    is_news,
    plain_question,
    questions,
    refusal_of,
)
from accord.cli.assemble import Assembled, named_backend
from accord.cli.keep_probed import keep_probed
from accord.cli.loop import event_loop_runner
from accord.cli.negotiate import as_object, judge
from accord.cli.reading import probed_evidence, warnings_about
from accord.cli.terminal import Cell, Console, count_of, styled, warn
from accord.config import Loaded
from accord.core.negotiate import negotiate
from accord.engine.clock import SystemClock
from accord.errors import BackendError, UsageError
from accord.ports import Backend, LivingBackend
from accord.wire.answer import AnyPiece, EndPiece
from accord.wire.probed import Probed
from accord.wire.requirement import CapabilityRequirements
from accord.wire.work import WorkOrder

COLOURS: Final[Mapping[Finding, str]] = {
    Finding.WORKS: "green",
    Finding.REFUSED: "red",
    Finding.IGNORED: "red",
    Finding.UNTOLD: "bright_black",
}


@dataclass(slots=True)
class Probe:
    """What was asked and seen so far."""

    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def count(self, pieces: Iterable[AnyPiece]) -> None:
        """Take down what an answer cost."""
        self.requests += 1
        for piece in pieces:
            if isinstance(piece, EndPiece) and piece.usage:
                self.input_tokens += _number(piece.usage.get("input_tokens"))
                self.output_tokens += _number(piece.usage.get("output_tokens"))

    @property
    def cost(self) -> str:
        """What it took, in a sentence."""
        tokens = f"{self.input_tokens} tokens in and {self.output_tokens} out"
        return (
            f"{count_of(self.requests, 'small request')}, {tokens} by the endpoint's own count; it may charge for them"
        )


def show_probe(  # noqa: PLR0913 - one flag each
    name: str,
    loaded: Loaded,
    timeout_s: float,
    *,
    write: bool,
    as_json: bool,
    needs: CapabilityRequirements | None = None,
) -> bool:
    """Print what was found of this backend, and keep it if that is wanted.

    Returns whether it answers at all and meets the requirements, if any are given.
    """
    assembled = named_backend(name, loaded)
    if write and loaded.file is None:
        raise UsageError("--write keeps what was found beside the configuration's file, and there is none")
    console = Console(stderr=True)
    try:
        probe: Probe = event_loop_runner()(_probe(assembled, timeout_s, console))
    except BackendError as error:
        print(json.dumps({"backend": name, "error": error.message}) if as_json else error.message)
        return False
    record = Probed(
        backend=name,
        model=assembled.config.model,
        date=SystemClock().now().date().isoformat(),
        found=found_by(probe.verdicts),
    )
    if write:
        console.print(keep_probed(loaded, assembled.config, record), soft_wrap=True)
    # What was observed counts before everything that is declared, overrides included: a probe is there to check it.
    evidence = gather(probed_evidence(record), assembled.evidence)
    if as_json:
        return _print_json(assembled, probe, record, needs, evidence)
    _print_table(assembled, probe)
    return needs is None or judge(needs, evidence, as_json=False)


async def _probe(assembled: Assembled, timeout_s: float, console: Console) -> Probe:
    backend, probe = assembled.backend, Probe()
    lacks: Mapping[str, str] = getattr(getattr(backend, "api", None), "lacks", {})
    try:
        if isinstance(backend, LivingBackend):
            await backend.discover()
        with console.status(f"Asking {backend.name} …") as status:
            probe.count(await _answer(backend, plain_question(lacks), timeout_s))
            for question in questions(lacks):
                status.update(f"Asking {backend.name}: {question.capability} …")
                probe.verdicts[question.capability] = await _verdict(backend, question, probe, timeout_s)
                if not console.is_terminal:
                    told = probe.verdicts[question.capability].finding
                    console.print(f"{question.capability}: {told}")
    finally:
        if isinstance(backend, LivingBackend):
            await backend.aclose()
    return probe


async def _verdict(backend: Backend, question: Question, probe: Probe, timeout_s: float) -> Verdict:
    try:
        pieces = await _answer(backend, question.order, timeout_s)
    except BackendError as error:
        probe.requests += 1
        return refusal_of(error)
    probe.count(pieces)
    return question.judged(pieces)


async def _answer(backend: Backend, order: WorkOrder, timeout_s: float) -> list[AnyPiece]:
    try:
        async with asyncio.timeout(timeout_s), aclosing(cast("Any", backend.answer(order))) as pieces:
            return [piece async for piece in pieces]
    except TimeoutError:
        raise BackendError(f"{backend.name}: no whole answer came within {timeout_s:g} s") from None


def _print_json(
    assembled: Assembled,
    probe: Probe,
    record: Probed,
    needs: CapabilityRequirements | None,
    evidence: Mapping[str, Evidence],
) -> bool:
    """Print all of it as one object; return whether the requirements are met."""
    manifest, said = assembled.backend.manifest, assembled.evidence
    found: dict[str, Any] = {}
    for name, verdict in probe.verdicts.items():
        level = manifest.get(name)
        found[name] = {
            "declared": None if level is None else level.model_dump(mode="json"),
            "source": said[name].source if name in said else None,
            "observed": verdict.finding.value,
            "why": verdict.why or None,
            "differs": is_news(level, verdict.finding),
        }
    spent = {"requests": probe.requests, "input_tokens": probe.input_tokens, "output_tokens": probe.output_tokens}
    told = {**record.dump(), "capabilities": found, "spent": spent}
    result = negotiate(manifest_of(evidence), needs or CapabilityRequirements())
    if needs is not None:
        warnings = warnings_about((need.capability for need in needs.required), evidence)
        told["negotiation"] = as_object(result, needs, evidence, warnings)
        warn(warnings)
    print(json.dumps(told, indent=2, ensure_ascii=False))
    return result.is_compatible()


def _print_table(assembled: Assembled, probe: Probe) -> None:
    manifest, said = assembled.backend.manifest, assembled.evidence
    rows: list[tuple[Cell, ...]] = []
    for name, verdict in probe.verdicts.items():
        level = manifest.get(name)
        differs = is_news(level, verdict.finding)
        seen = styled(verdict.finding, f"bold {COLOURS[verdict.finding]}" if differs else COLOURS[verdict.finding])
        declared = styled("unknown" if level is None else level.kind, "bold yellow" if differs else "")
        rows.append((styled(name), declared, styled(_by(said.get(name))), seen, styled(verdict.why)))
    console = Console()
    columns = ("capability", "declared", "by", "observed", "why")
    console.print_table(columns, rows, title=f"{assembled.config.name}: declared and observed")
    news = [name for name, verdict in probe.verdicts.items() if is_news(manifest.get(name), verdict.finding)]
    told = f"Differs from what is said, or is new: {', '.join(news)}" if news else "Nothing differs from what is said"
    console.print(f"{told}. {probe.cost}.", soft_wrap=True)


def _by(said: Evidence | None) -> str:
    if said is None:
        return "nobody"
    return f"{said.source}, {said.date}" if said.date else said.source


def _number(told: Any) -> int:
    return told if isinstance(told, int) else 0
