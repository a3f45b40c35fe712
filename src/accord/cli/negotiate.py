"""`accord negotiate`: compare a backend with requirements. Exit status 1 when it lacks something that is required."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from accord.backends.evidence import Evidence, from_operator, gather, manifest_of, read_evidence
from accord.cli.options import ConfigOption, TrustOption, load, parse_levels, read_requirements
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.negotiate import generate_report, negotiate
from accord.errors import UsageError
from accord.terminal import Console, styled, warn
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
        str | None, typer.Option(help="The file of a manifest or of a probe, or the name of a model.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="A backend of the configuration, with what was probed.")] = None,
    require: Annotated[str | None, typer.Option(help="A requirements file, or CAPABILITY=native,CAPABILITY,…")] = None,
    override: Annotated[
        list[str] | None, typer.Option(help="CAPABILITY=LEVEL, over what is known; repeatable.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="Model facts of your own instead of the shipped.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for a program.")] = False,
    example: Annotated[bool, typer.Option("--example", help="Use the built-in manifest and requirements.")] = False,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Compare what a backend supports with requirements, and print the compatibility report."""
    if example:
        known: Mapping[str, Evidence] = from_operator(
            CapabilityManifest.model_validate(EXAMPLE_MANIFEST), source="example"
        )
        needs = read_requirements(EXAMPLE_NEEDS)
    elif require is None or (manifest is None) is (backend is None):
        raise UsageError("Give --manifest FILE|MODEL or --backend NAME, and --require FILE|CAPABILITY,…; or --example")
    else:
        needs = read_requirements(require)
        known = read_evidence(manifest, snapshot) if manifest else _configured(backend or "", config, trusts=trust)
    evidence = gather(from_operator(parse_levels(override or [])), known)
    if not judge(needs, evidence, as_json=as_json, given=[item.partition("=")[0] for item in override or ()]):
        raise typer.Exit(1)


def _configured(name: str, config: str | None, *, trusts: bool) -> Mapping[str, Evidence]:
    from accord.assembly.parts import find_backend  # noqa: PLC0415 - backends take a while to load

    return find_backend(name, load(config, trusts=trusts)).evidence


def judge(
    needs: CapabilityRequirements, evidence: Mapping[str, Evidence], *, as_json: bool, given: Iterable[str] = ()
) -> bool:
    """Print the report of these requirements; return whether the evidence meets them all.

    `given` are names that the user typed beside the requirements.
    """
    result = negotiate(manifest_of(evidence), needs)
    required = [need.capability for need in needs.required]
    # A name that the backend itself declares is no mistake, but one that only an --override has may be.
    warnings = unknown_name_warnings((*required, *given), evidence.keys() - set(given))
    if as_json:
        print(json.dumps(as_object(result, needs, evidence, warnings), indent=2, ensure_ascii=False))
    else:
        _print_table(result, needs, evidence)
    warn(warnings)
    return result.is_compatible()


def as_object(
    result: NegotiationResult,
    needs: CapabilityRequirements,
    evidence: Mapping[str, Evidence],
    warnings: Iterable[str],
) -> dict[str, Any]:
    """The judgement for a program; docs/backends.md describes each member.

    `result` and `report` are ABP's own documents, with the names as the caller wrote them. `requirements` relates the
    spellings: the caller's, the canonical one, the one in `report.details`, and the one in `evidence`.
    """
    return {
        "compatible": result.is_compatible(),
        "requirements": [
            {
                "capability": need.capability,
                "canonical": canonical_name(need.capability),
                "report_name": pascal_case(need.capability),
                "evidence_name": _declared_as(need.capability, evidence),
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


def _declared_as(name: str, evidence: Mapping[str, Evidence]) -> str | None:
    """The spelling under which the evidence has this capability."""
    return next((spelling for spelling in (name, ALIASES.get(name)) if spelling in evidence), None)


def _print_table(result: NegotiationResult, needs: CapabilityRequirements, evidence: Mapping[str, Evidence]) -> None:
    rows = [
        (
            need.capability,
            str(need.min_support),
            styled(support := _support(need.capability, result), COLOURS[support]),
            _how(need.capability, result),
            _source(evidence.get(_declared_as(need.capability, evidence) or "")),
        )
        for need in needs.required
    ]
    console = Console()
    columns = ("capability", "needs", "result", "how, or why not", "source")
    console.print_table(columns, rows, title="Compatibility report")
    console.print(generate_report(result).summary)


def _source(evidence: Evidence | None) -> str:
    if evidence is None:
        return "none: unknown"
    return f"{evidence.source}, {evidence.date}" if evidence.date else evidence.source
