"""`accord negotiate`: can this backend do this work? Exit status 1 when it cannot."""

from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from accord.core.negotiate import generate_report, negotiate
from accord.errors import UsageError
from accord.wire.manifest import CapabilityManifest
from accord.wire.negotiation import CompatibilityReport
from accord.wire.requirement import CapabilityRequirements
from accord.wire.support import ReportedEmulated, ReportedSupport

EXAMPLE_MANIFEST: Final = CapabilityManifest.model_validate(
    {
        "streaming": "native",
        "tool_read": "emulated",
        "tool_bash": {"restricted": {"reason": "sandbox only"}},
    }
)
EXAMPLE_NEEDS: Final = CapabilityRequirements.model_validate(
    {
        "required": [
            {"capability": "streaming", "min_support": "native"},
            {"capability": "tool_read", "min_support": "emulated"},
            {"capability": "tool_bash", "min_support": "emulated"},
        ]
    }
)

_COLOURS: Final = {"native": "green", "emulated": "yellow", "unsupported": "red"}


def negotiate_command(
    *,
    example: Annotated[bool, typer.Option("--example", help="Use the built-in manifest and requirements.")] = False,
) -> None:
    """Print the compatibility report of a manifest and requirements."""
    if not example:
        raise UsageError("Nothing to negotiate: give --example")
    report = generate_report(negotiate(EXAMPLE_MANIFEST, EXAMPLE_NEEDS))
    _print_report(report)
    if not report.compatible:
        raise typer.Exit(1)


def _print_report(report: CompatibilityReport) -> None:
    table = Table(title="Compatibility report", title_justify="left")
    table.add_column("capability")
    table.add_column("level")
    table.add_column("how")
    for name, support in report.details:
        colour = _COLOURS[support.level]
        table.add_row(name, f"[{colour}]{support.level}[/{colour}]", _how(support))
    console = Console(highlight=False)
    console.print(table)
    console.print(report.summary, markup=False)


def _how(support: ReportedSupport) -> str:
    return support.strategy if isinstance(support, ReportedEmulated) else ""
