"""`accord backends`: show the configured backends, and probe what they can do. Probes are in `backends/probe.py`."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

import typer

from accord.assembly.endpoint_refusals import forget_refusals, read_refusals
from accord.assembly.loop import run_async
from accord.assembly.parts import ConfiguredBackend, build_backends, find_backend
from accord.backends.evidence import from_probe, gather, manifest_of
from accord.backends.probe import (
    ProbeFinding,
    ProbeVerdict,
    differs_from,
    first_order,
    manifest_of_verdicts,
    probe_questions,
    verdict_of_error,
)
from accord.cli.configuration import load
from accord.cli.negotiate import format_source, judge, negotiation_json
from accord.cli.options import (
    ConfigOption,
    JsonOption,
    QueueOption,
    RequireOption,
    StoreOption,
    TrustOption,
    read_requirements,
)
from accord.config.probed import save_probe
from accord.console import Cell, Console, styled
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.derive import REASONS, SETTINGS
from accord.core.work.evidence import Evidence
from accord.core.work.negotiate import negotiate
from accord.errors import BackendError, UsageError
from accord.ports import Backend, DescribedBackend, ManagedBackend, SystemClock
from accord.terminal import format_count, warn
from accord.wire.capability import ALIASES, Capability
from accord.wire.disposition import RememberedRefusal
from accord.wire.manifest import CapabilityRequirements
from accord.wire.service import ProbeRecord
from accord.wire.work import AnyPiece, EndPiece, WorkOrder

CHECKED: Final = tuple(dict.fromkeys(map(str, (*REASONS, Capability.SYSTEM_MESSAGE, *SETTINGS.values()))))
"""What a request can need of a backend; `accord backends` lists those of them that no source says anything about."""
SOURCES: Final = ("operator", "probe", "endpoint", "facts", "API")
NO_BACKEND: Final = (
    "No backend is configured, so the built-in echo answers: it repeats the prompt. (The demo agent has scripted "
    "backends of its own.) Add a backend to accord.toml (`accord config init` writes one), such as:\n\n"
    '[[backends]]\nname = "local"\nkind = "openai"\nmodel = "llama3.2"\nbase_url = "http://localhost:11434/v1"'
)
COLOURS: Final[Mapping[ProbeFinding, str]] = {
    ProbeFinding.WORKS: "green",
    ProbeFinding.REFUSED: "red",
    ProbeFinding.IGNORED: "red",
    ProbeFinding.INCONCLUSIVE: "bright_black",
}
NO_SERVICE: Final = (
    "No process of a service on this store answered. Give the --store and --queue of the service; without a shared "
    "store, send it SIGHUP or DELETE /v1/admin/backends/NAME/refusals"
)
REACH_S: Final = 10.0
ANSWER_S: Final = 60.0

backends_app = typer.Typer(rich_markup_mode=None, add_completion=False)


@backends_app.callback(invoke_without_command=True)
def backends_command(  # noqa: PLR0913 - one flag each
    context: typer.Context,
    *,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each backend.")] = REACH_S,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
    queue: QueueOption = None,
    store: StoreOption = None,
) -> None:
    """Show backends and probe what they can do.

    For each backend: whether it can be reached, how many calls of it may run at once, which sources its capabilities
    come from, and which are unknown; and, if a service runs on the store, what endpoints have refused to it recently.
    Exit status 1 if one cannot be reached.

    Examples:
      accord backends
      accord backends probe local
    """
    if context.invoked_subcommand is not None:
        return
    loaded = load(config, trusted=trust, store=store, queue=queue)
    configured = build_backends(loaded, warns=False)

    async def check_all() -> tuple[list[RememberedRefusal], list[BackendState]]:
        checks = asyncio.gather(*(_check(each, timeout_s) for each in configured))
        return await read_refusals(loaded) if configured else [], await checks

    refusals, states = run_async(check_all())
    if as_json:
        found = {"backends": [state.to_json() for state in states], "refused": [each.dump() for each in refusals]}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif states:
        _print_states(states)
        _print_refusals(refusals)
    else:
        print(NO_BACKEND)
    if any(state.problem for state in states):
        raise typer.Exit(1)


@backends_app.command("probe")
def probe_command(  # noqa: PLR0913 - one flag each
    name: Annotated[str, typer.Argument(help="Name of the backend in the configuration.")],
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Save the result beside the configuration and use it.")
    ] = False,
    require: RequireOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for each answer.")] = ANSWER_S,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Send small requests to find out what a backend can do.

    Compares the result with what is declared. The endpoint may charge for the requests. Exit status 1 if the backend
    does not answer, or lacks something that --require names.

    Examples:
      accord backends probe local --write
      accord backends probe local --require tool_use=native
    """
    needs = None if require is None else read_requirements(require)
    loaded = load(config, trusted=trust)
    configured = find_backend(name, loaded)
    if write and loaded.file is None:
        raise UsageError("--write needs a configuration file to write beside; `accord config init` makes one")
    console = Console(stderr=True)
    try:
        probe: ProbeRun = run_async(_probe(configured, timeout_s, console))
    except BackendError as error:
        print(json.dumps({"backend": name, "error": error.message}) if as_json else error.message)
        raise typer.Exit(1) from None
    record = ProbeRecord(
        backend=name,
        model=configured.config.model,
        date=SystemClock().now().date().isoformat(),
        found=manifest_of_verdicts(probe.verdicts),
    )
    if write:
        console.print(save_probe(loaded, configured.config, record), soft_wrap=True)
    # What was observed overrides everything that is declared, even by the operator: a probe is there to check that.
    evidence = gather(from_probe(record), configured.evidence)
    if as_json:
        is_met = _print_probe_json(configured, probe, record, needs, evidence)
    else:
        _print_probe(configured, probe)
        is_met = needs is None or judge(needs, evidence, as_json=False)
    if not is_met:
        raise typer.Exit(1)


@backends_app.command("forget")
def forget_command(
    name: Annotated[str, typer.Argument(help="Name of the backend in the configuration.")],
    *,
    config: ConfigOption = None,
    trust: TrustOption = False,
    queue: QueueOption = None,
    store: StoreOption = None,
) -> None:
    """Have a running service forget what an endpoint refused.

    What an endpoint refused is not sent to it again for a while. This reaches every process of the service on the
    store; `DELETE /v1/admin/backends/NAME/refusals` and SIGHUP do the same. Exit status 1 if no process answers.

    Example:
      accord backends forget local
    """
    loaded = load(config, trusted=trust, store=store, queue=queue)
    find_backend(name, loaded)
    counts = run_async(forget_refusals(loaded, name))
    if not counts:
        print(NO_SERVICE, file=sys.stderr)
        raise typer.Exit(1)
    print(f"{name}: forgot {format_count(sum(counts), 'refusal')}; processes that answered: {len(counts)}")


@dataclass(frozen=True, slots=True)
class BackendState:
    """One backend: whether it can be reached, and what is known of it."""

    name: str
    kind: str
    model: str | None
    problem: str | None
    sources: dict[str, int]
    unknown: list[str]
    warnings: tuple[str, ...]
    concurrent: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        found = {"ok": self.problem is None, "why_not": self.problem, "sources": self.sources, "unknown": self.unknown}
        limit = {"concurrent": self.concurrent, "warnings": list(self.warnings)}
        return {"name": self.name, "kind": self.kind, "model": self.model, **found, **limit}


async def _check(configured: ConfiguredBackend, timeout_s: float) -> BackendState:
    config, backend, problem = configured.config, configured.backend, None
    try:
        async with asyncio.timeout(timeout_s):
            await backend.probe()
            if isinstance(backend, ManagedBackend):
                await backend.discover()
    except BackendError as error:
        problem = error.message.removeprefix(f"{backend.name}: ")
    except TimeoutError:
        problem = f"no answer within {timeout_s:g} s"
    finally:
        if isinstance(backend, ManagedBackend):
            await backend.aclose()
    known = set(backend.manifest)
    unknown = [name for name in CHECKED if not {name, ALIASES.get(name, name)} & known]
    sources, warnings = _count_sources(configured), configured.known.warnings
    return BackendState(config.name, config.kind, config.model, problem, sources, unknown, warnings, config.concurrent)


def _count_sources(configured: ConfiguredBackend) -> dict[str, int]:
    """Count how many capabilities come from each source."""
    backend, known = configured.backend, configured.known
    if not isinstance(backend, DescribedBackend):
        count = Counter("operator" if name in known.declared else "endpoint" for name in backend.manifest)
    else:
        api = getattr(getattr(backend, "api", None), "name", None)
        layers = {"operator": known.declared, "probe": known.probed, "facts": known.facts}
        count = Counter(
            next(
                (source for source, layer in layers.items() if layer.get(name) == evidence),
                "API" if evidence.source == api else "endpoint",
            )
            for name, evidence in backend.evidence.items()
        )
    return {source: count[source] for source in SOURCES if count[source]}


def _print_states(states: Sequence[BackendState]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for state in states:
        found = styled("ok", "green") if state.problem is None else styled(state.problem, "red")
        sources = ", ".join(f"{source} {count}" for source, count in state.sources.items()) or "none"
        unknown = styled(", ".join(state.unknown) or "nothing", "yellow" if state.unknown else "")
        limit = styled("-" if state.concurrent is None else str(state.concurrent))
        rows.append(
            (styled(state.name), styled(state.kind), styled(state.model or "-"), found, limit, styled(sources), unknown)
        )
    console = Console()
    console.print_table(("name", "kind", "model", "state", "at once", "known from", "unknown"), rows)
    for state in states:
        for warning in state.warnings:
            console.print(warning, style="yellow", soft_wrap=True)


def _print_refusals(refusals: Sequence[RememberedRefusal]) -> None:
    rows: list[tuple[Cell, ...]] = [
        (
            styled(each.backend),
            styled(each.capability or f"{each.field} ({each.api})"),
            styled("-" if each.value is None else each.value),
            styled(f"{each.times}"),
            styled(f"{each.since:%Y-%m-%d %H:%M}"),
            styled(f"{each.until:%Y-%m-%d %H:%M}"),
            styled("all" if each.for_all else "those who met it"),
            styled(each.example or "-"),
        )
        for each in sorted(refusals, key=lambda each: (each.backend, each.since))
    ]
    if rows:
        columns = ("name", "refused", "value", "times", "since (UTC)", "until (UTC)", "for callers", "last request")
        Console().print_table(columns, rows)


@dataclass(slots=True)
class ProbeRun:
    """What a probe has found so far, and what it cost."""

    verdicts: dict[str, ProbeVerdict] = field(default_factory=dict[str, ProbeVerdict])
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    async def send(self, backend: Backend, order: WorkOrder, timeout_s: float) -> list[AnyPiece]:
        """Send one request, count what it costs, and return the answer."""
        self.requests += 1
        try:
            async with asyncio.timeout(timeout_s), aclosing(cast("Any", backend.answer(order))) as answer:
                pieces: list[AnyPiece] = [piece async for piece in answer]
        except TimeoutError:
            raise BackendError(f"{backend.name}: no complete answer within {timeout_s:g} s") from None
        for piece in pieces:
            if isinstance(piece, EndPiece) and piece.usage:
                self.input_tokens += _count(piece.usage, "input_tokens")
                self.output_tokens += _count(piece.usage, "output_tokens")
        return pieces

    @property
    def cost(self) -> str:
        """What it took, as a sentence."""
        requests = format_count(self.requests, "small request")
        tokens = f"{self.input_tokens} tokens in and {self.output_tokens} out"
        return f"{requests}, {tokens} as the endpoint counts them; it may charge for them"


def _count(usage: Mapping[str, Any], name: str) -> int:
    count = usage.get(name)
    return count if isinstance(count, int) else 0


async def _probe(configured: ConfiguredBackend, timeout_s: float, console: Console) -> ProbeRun:
    backend, probe = configured.backend, ProbeRun()
    unsupported: Mapping[str, str] = getattr(getattr(backend, "api", None), "unsupported", {})
    try:
        if isinstance(backend, ManagedBackend):
            await backend.discover()
        with console.status(f"Probing {backend.name} …") as status:
            await probe.send(backend, first_order(unsupported), timeout_s)  # an endpoint that fails this one fails all
            for question in probe_questions(unsupported):
                status.update(f"Probing {backend.name}: {question.capability} …")
                try:
                    verdict = question.verdict(await probe.send(backend, question.order, timeout_s))
                except BackendError as error:
                    verdict = verdict_of_error(error)
                probe.verdicts[question.capability] = verdict
                if not console.is_terminal:
                    console.print(f"{question.capability}: {verdict.finding}")
    finally:
        if isinstance(backend, ManagedBackend):
            await backend.aclose()
    return probe


def _print_probe(configured: ConfiguredBackend, probe: ProbeRun) -> None:
    manifest, evidence = configured.backend.manifest, configured.evidence
    rows: list[tuple[Cell, ...]] = []
    differing: list[str] = []
    for name, verdict in probe.verdicts.items():
        level = manifest.get(name)
        differs = differs_from(level, verdict.finding)
        if differs:
            differing.append(name)
        observed = styled(verdict.finding, f"bold {COLOURS[verdict.finding]}" if differs else COLOURS[verdict.finding])
        declared = styled("unknown" if level is None else level.kind, "bold yellow" if differs else "")
        source = format_source(evidence[name]) if name in evidence else "no source"
        rows.append((styled(name), declared, styled(source), observed, styled(verdict.reason)))
    console = Console()
    columns = ("capability", "declared", "source", "observed", "why")
    console.print_table(columns, rows, title=f"{configured.config.name}: declared and observed")
    summary = f"New, or different from what is declared: {', '.join(differing)}" if differing else "All as declared"
    console.print(f"{summary}. {probe.cost}.", soft_wrap=True)


def _print_probe_json(
    configured: ConfiguredBackend,
    probe: ProbeRun,
    record: ProbeRecord,
    needs: CapabilityRequirements | None,
    evidence: Mapping[str, Evidence],
) -> bool:
    """Print everything as one object; return whether the requirements are met."""
    manifest, declared = configured.backend.manifest, configured.evidence
    capabilities: dict[str, Any] = {}
    for name, verdict in probe.verdicts.items():
        level = manifest.get(name)
        capabilities[name] = {
            "declared": None if level is None else level.model_dump(mode="json"),
            "source": declared[name].source if name in declared else None,
            "observed": verdict.finding.value,
            "why": verdict.reason or None,
            "differs": differs_from(level, verdict.finding),
        }
    spent = {"requests": probe.requests, "input_tokens": probe.input_tokens, "output_tokens": probe.output_tokens}
    members = {**record.dump(), "capabilities": capabilities, "spent": spent}
    result = negotiate(manifest_of(evidence), needs or CapabilityRequirements())
    if needs is not None:
        warnings = unknown_name_warnings((need.capability for need in needs.required), evidence)
        members["negotiation"] = negotiation_json(result, needs, evidence, warnings)
        warn(warnings)
    print(json.dumps(members, indent=2, ensure_ascii=False))
    return result.is_compatible()
