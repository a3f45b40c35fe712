"""`accord backends`: show the configured backends, and probe what they can do."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

import typer

from accord.assembly.loop import run_async
from accord.assembly.parts import ConfiguredBackend, build_backends, find_backend
from accord.backends.evidence import Evidence, from_probe, gather, manifest_of
from accord.backends.probe import (
    ProbeFinding,
    ProbeQuestion,
    ProbeVerdict,
    differs_from,
    first_order,
    manifest_of_verdicts,
    probe_questions,
    verdict_of_error,
)
from accord.cli.negotiate import as_object, judge
from accord.cli.options import ConfigOption, TrustOption, load, read_requirements
from accord.config import LoadedConfig
from accord.config.probed import save_probe
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.derive import PARAMETERS, REASONS
from accord.core.work.negotiate import negotiate
from accord.errors import BackendError, UsageError
from accord.ports import Backend, DescribedBackend, EvidenceSource, ManagedBackend, SystemClock
from accord.terminal import Cell, Console, format_count, styled, warn
from accord.wire.capability import ALIASES, Capability
from accord.wire.manifest import CapabilityRequirements
from accord.wire.service import ProbeRecord
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

# Looks at every backend at once: whether it can be reached, whose word its manifest is, what nobody knows of it.

ASKED_FOR: Final = tuple(dict.fromkeys(map(str, (*REASONS, Capability.SYSTEM_MESSAGE, *PARAMETERS.values()))))
"""What work can need of a backend; what nobody says of these is unknown."""
WHOSE: Final = ("operator", "probe", "endpoint", "facts", "API")
NONE: Final = (
    "No backend is configured, so the built-in echo answers: it repeats what it is told. Add one to accord.toml "
    "(`accord config init` writes a file to begin with), such as:\n\n"
    '[[backends]]\nname = "local"\nkind = "openai"\nmodel = "llama3.2"\nbase_url = "http://localhost:11434/v1"'
)


@dataclass(frozen=True, slots=True)
class State:
    """One backend as it was found."""

    name: str
    kind: str
    model: str | None
    why_not: str | None
    sources: dict[str, int]
    unknown: list[str]
    warnings: tuple[str, ...]

    def told(self) -> dict[str, Any]:
        """The same for a program."""
        found = {"ok": self.why_not is None, "why_not": self.why_not, "sources": self.sources, "unknown": self.unknown}
        return {"name": self.name, "kind": self.kind, "model": self.model, **found, "warnings": list(self.warnings)}


def show_backends(loaded: LoadedConfig, timeout_s: float, *, as_json: bool) -> bool:
    """Print how each backend was found; gives whether all of them can be reached."""
    assembled = build_backends(loaded, warns=False)
    states: list[State] = run_async(_look_at_all(assembled, timeout_s))
    if as_json:
        print(json.dumps({"backends": [state.told() for state in states]}, indent=2, ensure_ascii=False))
    elif states:
        _print_states(states)
    else:
        print(NONE)
    return not any(state.why_not for state in states)


async def _look_at_all(assembled: Sequence[ConfiguredBackend], timeout_s: float) -> list[State]:
    return list(await asyncio.gather(*(_look_at(each, timeout_s) for each in assembled)))


async def _look_at(assembled: ConfiguredBackend, timeout_s: float) -> State:
    backend, why_not = assembled.backend, None
    try:
        async with asyncio.timeout(timeout_s):
            await backend.probe()
            if isinstance(backend, ManagedBackend):
                await backend.discover()
    except BackendError as error:
        why_not = error.message.removeprefix(f"{backend.name}: ")
    except TimeoutError:
        why_not = f"no answer within {timeout_s:g} s"
    finally:
        if isinstance(backend, ManagedBackend):
            await backend.aclose()
    config, spoken_of = assembled.config, set(backend.manifest)
    unknown = [name for name in ASKED_FOR if not {name, ALIASES.get(name, name)} & spoken_of]
    return State(
        config.name, config.kind, config.model, why_not, _sources(assembled), unknown, assembled.known.warnings
    )


def _sources(assembled: ConfiguredBackend) -> dict[str, int]:
    backend = assembled.backend
    if not isinstance(backend, DescribedBackend):
        counted = {name: name in assembled.known.declared for name in backend.manifest}
        words = ["operator" if is_declared else "endpoint" for is_declared in counted.values()]
    else:
        api = getattr(getattr(backend, "api", None), "name", None)
        words = [_whose(name, said, assembled, api) for name, said in backend.evidence.items()]
    count = Counter(words)
    return {whose: count[whose] for whose in WHOSE if count[whose]}


def _whose(name: str, said: EvidenceSource, assembled: ConfiguredBackend, api: str | None) -> str:
    known = assembled.known
    layers = {"operator": known.declared, "probe": known.probed, "facts": known.facts}
    return next(
        (whose for whose, layer in layers.items() if layer.get(name) == said),
        "API" if said.source == api else "endpoint",
    )


def _print_states(states: Sequence[State]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for state in states:
        found = styled("ok", "green") if state.why_not is None else styled(state.why_not, "red")
        sources = ", ".join(f"{whose} {count}" for whose, count in state.sources.items()) or "nobody"
        unknown = styled(", ".join(state.unknown) or "nothing", "yellow" if state.unknown else "")
        rows.append(
            (styled(state.name), styled(state.kind), styled(state.model or "-"), found, styled(sources), unknown)
        )
    console = Console()
    console.print_table(("name", "kind", "model", "state", "known from", "unknown"), rows)
    for state in states:
        for warning in state.warnings:
            console.print(warning, style="yellow", soft_wrap=True)


# Asks a model what it can do, compares that with what is said of it, and keeps it if that is wanted.
#
# What is asked and what an answer shows is `backends/probe.py`'s business.

COLOURS: Final[Mapping[ProbeFinding, str]] = {
    ProbeFinding.WORKS: "green",
    ProbeFinding.REFUSED: "red",
    ProbeFinding.IGNORED: "red",
    ProbeFinding.INCONCLUSIVE: "bright_black",
}


@dataclass(slots=True)
class Probe:
    """What was asked and seen so far."""

    verdicts: dict[str, ProbeVerdict] = field(default_factory=dict[str, ProbeVerdict])
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
        requests = format_count(self.requests, "small request")
        tokens = f"{self.input_tokens} tokens in and {self.output_tokens} out"
        return f"{requests}, {tokens} as the endpoint counts them; it may charge for them"


def show_probe(  # noqa: PLR0913 - one flag each
    name: str,
    loaded: LoadedConfig,
    timeout_s: float,
    *,
    write: bool,
    as_json: bool,
    needs: CapabilityRequirements | None = None,
) -> bool:
    """Print what was found of this backend, and keep it if that is wanted.

    Returns whether it answers at all and meets the requirements, if any are given.
    """
    assembled = find_backend(name, loaded)
    if write and loaded.file is None:
        raise UsageError("--write keeps what was found beside the configuration's file, and there is none")
    console = Console(stderr=True)
    try:
        probe: Probe = run_async(_probe(assembled, timeout_s, console))
    except BackendError as error:
        print(json.dumps({"backend": name, "error": error.message}) if as_json else error.message)
        return False
    record = ProbeRecord(
        backend=name,
        model=assembled.config.model,
        date=SystemClock().now().date().isoformat(),
        found=manifest_of_verdicts(probe.verdicts),
    )
    if write:
        console.print(save_probe(loaded, assembled.config, record), soft_wrap=True)
    # What was observed counts before everything that is declared, overrides included: a probe is there to check it.
    evidence = gather(from_probe(record), assembled.evidence)
    if as_json:
        return _print_json(assembled, probe, record, needs, evidence)
    _print_probe(assembled, probe)
    return needs is None or judge(needs, evidence, as_json=False)


async def _probe(assembled: ConfiguredBackend, timeout_s: float, console: Console) -> Probe:
    backend, probe = assembled.backend, Probe()
    unsupported: Mapping[str, str] = getattr(getattr(backend, "api", None), "unsupported", {})
    try:
        if isinstance(backend, ManagedBackend):
            await backend.discover()
        with console.status(f"Asking {backend.name} …") as status:
            probe.count(await _answer(backend, first_order(unsupported), timeout_s))
            for question in probe_questions(unsupported):
                status.update(f"Asking {backend.name}: {question.capability} …")
                probe.verdicts[question.capability] = await _verdict(backend, question, probe, timeout_s)
                if not console.is_terminal:
                    told = probe.verdicts[question.capability].finding
                    console.print(f"{question.capability}: {told}")
    finally:
        if isinstance(backend, ManagedBackend):
            await backend.aclose()
    return probe


async def _verdict(backend: Backend, question: ProbeQuestion, probe: Probe, timeout_s: float) -> ProbeVerdict:
    try:
        pieces = await _answer(backend, question.order, timeout_s)
    except BackendError as error:
        probe.requests += 1
        return verdict_of_error(error)
    probe.count(pieces)
    return question.verdict(pieces)


async def _answer(backend: Backend, order: WorkOrder, timeout_s: float) -> list[AnyPiece]:
    try:
        async with asyncio.timeout(timeout_s), aclosing(cast("Any", backend.answer(order))) as pieces:
            return [piece async for piece in pieces]
    except TimeoutError:
        raise BackendError(f"{backend.name}: no whole answer came within {timeout_s:g} s") from None


def _print_json(
    assembled: ConfiguredBackend,
    probe: Probe,
    record: ProbeRecord,
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
            "why": verdict.reason or None,
            "differs": differs_from(level, verdict.finding),
        }
    spent = {"requests": probe.requests, "input_tokens": probe.input_tokens, "output_tokens": probe.output_tokens}
    told = {**record.dump(), "capabilities": found, "spent": spent}
    result = negotiate(manifest_of(evidence), needs or CapabilityRequirements())
    if needs is not None:
        warnings = unknown_name_warnings((need.capability for need in needs.required), evidence)
        told["negotiation"] = as_object(result, needs, evidence, warnings)
        warn(warnings)
    print(json.dumps(told, indent=2, ensure_ascii=False))
    return result.is_compatible()


def _print_probe(assembled: ConfiguredBackend, probe: Probe) -> None:
    manifest, said = assembled.backend.manifest, assembled.evidence
    rows: list[tuple[Cell, ...]] = []
    for name, verdict in probe.verdicts.items():
        level = manifest.get(name)
        differs = differs_from(level, verdict.finding)
        seen = styled(verdict.finding, f"bold {COLOURS[verdict.finding]}" if differs else COLOURS[verdict.finding])
        declared = styled("unknown" if level is None else level.kind, "bold yellow" if differs else "")
        rows.append((styled(name), declared, styled(_by(said.get(name))), seen, styled(verdict.reason)))
    console = Console()
    columns = ("capability", "declared", "by", "observed", "why")
    console.print_table(columns, rows, title=f"{assembled.config.name}: declared and observed")
    news = [name for name, verdict in probe.verdicts.items() if differs_from(manifest.get(name), verdict.finding)]
    told = f"Differs from what is said, or is new: {', '.join(news)}" if news else "Nothing differs from what is said"
    console.print(f"{told}. {probe.cost}.", soft_wrap=True)


def _by(said: Evidence | None) -> str:
    if said is None:
        return "nobody"
    return f"{said.source}, {said.date}" if said.date else said.source


def _number(told: Any) -> int:
    return told if isinstance(told, int) else 0


# `accord backends`: the flags. Showing and asking backends takes parts that no other command should wait for.
#
# Exit status 1 when one of them cannot be reached, or when a probe finds that a requirement is not met.

LOOK_S: Final = 10.0
ANSWER_S: Final = 60.0

backends_app = typer.Typer(
    help="Show backends, and find out what they can do.", rich_markup_mode=None, add_completion=False
)


@backends_app.callback(invoke_without_command=True)
def backends_command(
    context: typer.Context,
    *,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each.")] = LOOK_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Show each backend: whether it can be reached, whose word its manifest is, and what nobody knows of it."""
    if context.invoked_subcommand is not None:
        return

    if not show_backends(load(config, trusts=trust), timeout_s, as_json=as_json):
        raise typer.Exit(1)


@backends_app.command("probe")
def probe_command(  # noqa: PLR0913 - one flag each
    name: Annotated[str, typer.Argument(help="The backend, as the configuration calls it.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Keep what was found beside the configuration.")] = False,
    require: Annotated[
        str | None, typer.Option(help="A requirements file, or CAPABILITY=native,…: exit status 1 if one is not met.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each.")] = ANSWER_S,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Ask a backend what it can do with a few small requests, and compare that with what is declared."""
    needs = None if require is None else read_requirements(require)
    if not show_probe(name, load(config, trusts=trust), timeout_s, write=write, as_json=as_json, needs=needs):
        raise typer.Exit(1)
