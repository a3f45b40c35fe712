"""`accord negotiate`: can this backend do this work? Exit status 1 when it cannot."""

import json
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from accord.backends.evidence import Evidence, from_operator, manifest_of
from accord.cli.reading import read_evidence, read_levels, read_requirements
from accord.cli.terminal import Console, styled
from accord.core.negotiate import generate_report, negotiate
from accord.errors import UsageError
from accord.wire.capability import ALIASES
from accord.wire.manifest import CapabilityManifest
from accord.wire.negotiation import NegotiationResult
from accord.wire.requirement import CapabilityRequirements

EXAMPLE_MANIFEST: Final = {
    "streaming": "native",
    "tool_read": "emulated",
    "tool_bash": {"restricted": {"reason": "sandbox only"}},
}
EXAMPLE_NEEDS: Final = "streaming=native,tool_read,tool_bash"

COLOURS: Final = {"native": "green", "emulated": "yellow", "unsupported": "red"}


def negotiate_command(  # noqa: PLR0913 - the command's own flags
    *,
    manifest: Annotated[str | None, typer.Option(help="A manifest's file, or the name of a model.")] = None,
    require: Annotated[str | None, typer.Option(help="A requirements file, or name=level,name …")] = None,
    override: Annotated[list[str] | None, typer.Option(help="name=level, over what the manifest says.")] = None,
    snapshot: Annotated[str | None, typer.Option(help="Model facts of your own instead of the shipped.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Use the built-in manifest and requirements.")] = False,
) -> None:
    """Print the compatibility report of a manifest and requirements."""
    if example:
        evidence = dict(from_operator(CapabilityManifest.model_validate(EXAMPLE_MANIFEST), source="example"))
        needs = read_requirements(EXAMPLE_NEEDS)
    elif manifest is None or require is None:
        raise UsageError("Give --manifest FILE|MODEL and --require FILE|name=level,…; or --example")
    else:
        evidence = read_evidence(manifest, read_levels(override or []), snapshot)
        needs = read_requirements(require)
    result = negotiate(manifest_of(evidence), needs)
    _print_json(result, evidence) if as_json else _print_table(result, needs, evidence)
    if not result.is_compatible():
        raise typer.Exit(1)


def _print_json(result: NegotiationResult, evidence: dict[str, Evidence]) -> None:
    told: dict[str, Any] = {
        "result": result.dump(),
        "report": generate_report(result).dump(),
        "evidence": {
            name: {"level": said.level.model_dump(mode="json"), "source": said.source, "date": said.date}
            for name, said in evidence.items()
        },
    }
    print(json.dumps(told, indent=2, ensure_ascii=False))


def _print_table(result: NegotiationResult, needs: CapabilityRequirements, evidence: dict[str, Evidence]) -> None:
    table = Table(title="Compatibility report", title_justify="left")
    for column in ("capability", "needs", "result", "how, or why not", "says"):
        table.add_column(column)
    lists = (("native", result.native), ("emulated", result.emulatable), ("unsupported", result.unsupported))
    minima = {need.capability: str(need.min_support) for need in needs.required}
    for level, names in lists:
        for name in names:
            how = result.strategies.get(name, "adapter") if level == "emulated" else result.reasons.get(name, "")
            told = "" if level == "native" else how
            says = _says(evidence.get(name) or evidence.get(ALIASES.get(name, "")))
            table.add_row(name, minima[name], styled(level, COLOURS[level]), styled(told), styled(says))
    console = Console()
    console.print(table)
    console.print(generate_report(result).summary)


def _says(evidence: Evidence | None) -> str:
    if evidence is None:
        return "nobody: unknown"
    return f"{evidence.source}, {evidence.date}" if evidence.date else evidence.source
