"""`accord models`: which model can do what, as far as anyone has said so."""

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Final

import typer

from accord.backends.evidence import from_facts, manifest_of
from accord.backends.facts import ModelFacts, all_models
from accord.cli.reading import catalogue, read_requirements
from accord.cli.terminal import unfiltered
from accord.core.negotiate import negotiate
from accord.core.terminal import make_line

SHORT: Final = {
    "tool_use": "tools",
    "image_input": "images",
    "structured_output_json_schema": "schema",
    "extended_thinking": "thinking",
    "audio": "audio",
    "pdf_input": "pdf",
    "cache_control": "cache",
    "streaming": "stream",
}
"""The columns that are shown unless others are asked for, and their headings."""
MARKS: Final = {"native": ("yes", "green"), "unsupported": ("no", "red")}
UNKNOWN: Final = ("?", "bright_black")
DISPUTED: Final = "yellow"


def models_command(  # noqa: PLR0913 - the command's own flags
    *,
    search: Annotated[str, typer.Argument(help="Show only models whose name contains this.")] = "",
    require: Annotated[
        str | None, typer.Option(help="Show only models that have these, such as vision,tool_use.")
    ] = None,
    capability: Annotated[list[str] | None, typer.Option(help="Show this column; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many models at the most; 0 for all.")] = 40,
    snapshot: Annotated[str | None, typer.Option(help="Model facts of your own instead of the shipped.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts for a program.")] = False,
) -> None:
    """Show what is known of models: yes, no, or ? where no source speaks."""
    everything = catalogue(snapshot).all_models() if snapshot else all_models()
    found = list(_matching(everything, search, require))
    shown = list(islice(found, limit or None))
    if as_json:
        print(json.dumps([_told(model) for model in shown], indent=2, ensure_ascii=False))
    else:
        _print_matrix(shown, tuple(capability or SHORT), len(found))
    if not found:
        raise typer.Exit(1)


def _matching(models: Iterable[ModelFacts], search: str, require: str | None) -> Iterable[ModelFacts]:
    needs = read_requirements(require) if require else None
    for model in models:
        if search.lower() not in model.name.lower():
            continue
        if needs is None or negotiate(manifest_of(from_facts(model)), needs).is_compatible():
            yield model


def _told(model: ModelFacts) -> dict[str, Any]:
    return {
        "provider": model.provider,
        "model": model.model,
        "facts": {
            name: {"level": fact.level, "source": fact.source, "date": fact.date} for name, fact in model.facts.items()
        },
        "disputed": [dispute.capability for dispute in model.disputed],
    }


def _print_matrix(models: Sequence[ModelFacts], columns: Sequence[str], found: int) -> None:
    headings = [SHORT.get(column, column) for column in columns]
    if models:
        out = unfiltered(sys.stdout)  # for the colours of the cells
        width = max(len(model.name) for model in models)
        typer.echo("  ".join([" " * width, *headings]))
        for model in models:
            cells = [_cell(model, column, len(heading)) for column, heading in zip(columns, headings, strict=True)]
            typer.echo("  ".join([make_line(model.name).ljust(width), *cells]), file=out)
        typer.echo("\nyes and no are what a source says; * sources disagree; ? nobody says")
    more = f", {len(models)} shown (--limit 0 for all)" if found > len(models) else ""
    typer.echo(f"{found} models{more}")


def _cell(model: ModelFacts, capability: str, width: int) -> str:
    """One cell as wide as its heading. Thousands of rows go by; a table that measures them all would take long."""
    fact = model.facts.get(capability)
    word, colour = MARKS[fact.level] if fact else UNKNOWN
    if fact is not None and any(dispute.capability == capability for dispute in model.disputed):
        word, colour = f"{word}*", DISPUTED
    return typer.style(word.ljust(max(width, len(word))), fg=colour)
