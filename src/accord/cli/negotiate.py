"""`accord negotiate`: compare a backend with requirements."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from accord.backends.evidence import from_operator, gather, manifest_of, read_evidence
from accord.cli.options import (
    ConfigOption,
    JsonOption,
    RequireOption,
    SnapshotOption,
    TrustOption,
    parse_levels,
    read_requirements,
    split_level,
)
from accord.console import Console, styled
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.evidence import Evidence
from accord.core.work.negotiate import generate_report, negotiate
from accord.errors import UsageError
from accord.terminal import warn
from accord.wire.capability import ALIASES, canonical_name, pascal_case
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, NegotiationResult

EXAMPLE_MANIFEST: Final = {
    "streaming": "native",
    "tool_read": "emulated",
    "tool_bash": {"restricted": {"reason": "sandbox only"}},
}
EXAMPLE_NEEDS: Final = "streaming=native,tool_read,tool_bash"

COLOURS: Final = {"native": "green", "emulated": "yellow", "unsupported": "red"}


def negotiate_command(  # noqa: PLR0913 - one flag each
    *,
    manifest: Annotated[
        str | None, typer.Option(metavar="FILE|MODEL", help="Manifest or probe in a file, or the name of a model.")
    ] = None,
    backend: Annotated[str | None, typer.Option(metavar="NAME", help="Backend of the configuration.")] = None,
    require: RequireOption = None,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LEVEL", help="Capability that overrides what is known; repeatable."),
    ] = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
    example: Annotated[bool, typer.Option("--example", help="Use a built-in manifest and requirements.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Compare a backend with requirements.

    Exit status 1 if the backend lacks a required capability.

    Examples:
      accord negotiate --manifest openai/gpt-4o --require vision,tool_use=native
      accord negotiate --backend local --require requirements.json --json
    """
    if example and (manifest or backend or require):
        raise UsageError("--example has its own manifest and requirements; omit --manifest, --backend and --require")
    if example:
        known: Mapping[str, Evidence] = from_operator(
            CapabilityManifest.model_validate(EXAMPLE_MANIFEST), source="example"
        )
        needs = read_requirements([EXAMPLE_NEEDS])
    elif require is None or (manifest is None) is (backend is None):
        raise UsageError("Give --manifest FILE|MODEL or --backend NAME, and --require NAME[=LEVEL]|FILE; or --example")
    else:
        needs = read_requirements(require)
        known = read_evidence(manifest, snapshot) if manifest else _configured_evidence(backend or "", config, trust)
    evidence = gather(from_operator(parse_levels(override or [])), known)
    if not judge(needs, evidence, as_json=as_json, overridden=[split_level(item)[0] for item in override or ()]):
        raise typer.Exit(1)


def _configured_evidence(backend: str, config: str | None, trusted: bool) -> Mapping[str, Evidence]:
    # Here, because comparing a manifest or a model needs neither a configuration nor any backend.
    from accord.assembly.parts import find_backend  # noqa: PLC0415 - as above
    from accord.cli.configuration import load  # noqa: PLC0415

    return find_backend(backend, load(config, trusted=trusted)).evidence


def judge(
    needs: CapabilityRequirements, evidence: Mapping[str, Evidence], *, as_json: bool, overridden: Iterable[str] = ()
) -> bool:
    """Print the compatibility report; return whether all requirements are met.

    `overridden` are the names of `--override`.
    """
    result = negotiate(manifest_of(evidence), needs)
    required = [need.capability for need in needs.required]
    # An unknown name that the backend itself declares is fine; one that only --override has may be misspelled.
    warnings = unknown_name_warnings((*required, *overridden), evidence.keys() - set(overridden))
    if as_json:
        print(json.dumps(negotiation_json(result, needs, evidence, warnings), indent=2, ensure_ascii=False))
    else:
        _print_table(result, needs, evidence)
    warn(warnings)
    return result.is_compatible()


def negotiation_json(
    result: NegotiationResult,
    needs: CapabilityRequirements,
    evidence: Mapping[str, Evidence],
    warnings: Iterable[str],
) -> dict[str, Any]:
    """Return the result as JSON; docs/backends.md describes each member.

    `result` and `report` are documents of ABP, with the names as the user wrote them. `requirements` relates the
    spellings: the user's, the canonical one, the one in `report.details`, and the one in `evidence`.
    """
    return {
        "compatible": result.is_compatible(),
        "requirements": [
            {
                "capability": need.capability,
                "canonical": canonical_name(need.capability),
                "report_name": pascal_case(need.capability),
                "evidence_name": _name_in_evidence(need.capability, evidence),
                "min_support": str(need.min_support),
                "support": _support(need.capability, result),
                "how": _how(need.capability, result) or None,
            }
            for need in needs.required
        ],
        "result": result.dump(),
        "report": generate_report(result).dump(),
        "evidence": {
            name: {
                "canonical": canonical_name(name),
                "level": entry.level.model_dump(mode="json"),
                "source": entry.source,
                "date": entry.date,
            }
            for name, entry in evidence.items()
        },
        "warnings": [*warnings],
    }


def _support(name: str, result: NegotiationResult) -> str:
    if name in result.unsupported:
        return "unsupported"
    return "native" if name in result.native else "emulated"


def _how(name: str, result: NegotiationResult) -> str:
    """How an emulated capability is provided, or why an unsupported one is not."""
    match _support(name, result):
        case "emulated":
            return result.strategies.get(name, "adapter")
        case "unsupported":
            return result.reasons.get(name, "")
        case _:
            return ""


def _name_in_evidence(name: str, evidence: Mapping[str, Evidence]) -> str | None:
    """Return the spelling of this capability in the evidence, or None."""
    return next((spelling for spelling in (name, ALIASES.get(name)) if spelling in evidence), None)


def _print_table(result: NegotiationResult, needs: CapabilityRequirements, evidence: Mapping[str, Evidence]) -> None:
    rows = [
        (
            need.capability,
            str(need.min_support),
            styled(support := _support(need.capability, result), COLOURS[support]),
            _how(need.capability, result),
            "none: unknown" if name is None else format_source(evidence[name]),
        )
        for need in needs.required
        for name in (_name_in_evidence(need.capability, evidence),)
    ]
    console = Console()
    columns = ("capability", "needs", "result", "how, or why not", "source")
    console.print_table(columns, rows, title="Compatibility report")
    console.print(generate_report(result).summary)


def format_source(evidence: Evidence) -> str:
    """Write the source of a capability, with its date if it has one."""
    return f"{evidence.source}, {evidence.date}" if evidence.date else evidence.source
