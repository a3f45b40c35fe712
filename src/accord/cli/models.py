"""`accord models`: which model can do what, as far as anyone has said so."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from accord.backends.evidence import from_facts, manifest_of, read_catalogue
from accord.backends.facts import Catalogue, Fact, ModelFacts, shipped
from accord.cli.options import check_spelling, read_requirements
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.negotiate import NOT_DECLARED, negotiate
from accord.terminal import Console, escape_line, format_count, unfiltered, warn
from accord.wire.capability import ALIASES
from accord.wire.manifest import CapabilityRequirements

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
NO_SOURCE: Final = "no source says so"


def models_command(  # noqa: PLR0913 - one flag each
    *,
    search: Annotated[str, typer.Argument(help="A model's name, or a part of the names to show.")] = "",
    require: Annotated[
        str | None,
        typer.Option(help="Show only models that have these, such as vision,tool_use; judge the model if it is one."),
    ] = None,
    capability: Annotated[list[str] | None, typer.Option(help="Show this column; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many models at the most; 0 for all.")] = 40,
    snapshot: Annotated[str | None, typer.Option(help="Model facts of your own instead of the shipped.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the facts for a program.")] = False,
) -> None:
    """Show what is known of models: yes, no, or ? where no source says.

    Exit status 1 when there is no such model, or when the named model lacks something that --require names.
    """
    columns = capability or [*SHORT]
    check_spelling(columns, "--capability")
    needs = CapabilityRequirements() if require is None else read_requirements(require)
    required = [need.capability for need in needs.required]
    known = read_catalogue(snapshot) if snapshot else shipped()
    models, is_named = _search(known, search, by_name=require is not None)
    reasons = {model.name: negotiate(manifest_of(from_facts(model)), needs).reasons for model in models}
    found = [model for model in models if not reasons[model.name]]
    shown = found[: limit or None]
    if as_json:
        print(json.dumps([_as_object(model) for model in shown], indent=2, ensure_ascii=False))
    elif shown or not is_named:
        _print_matrix(shown, columns, len(found))
    warn(unknown_name_warnings((*columns, *required)))
    for name, lacking in reasons.items() if is_named else ():
        if lacking:
            listed = ", ".join(f"{need} ({NO_SOURCE if why == NOT_DECLARED else why})" for need, why in lacking.items())
            print(f"accord: {escape_line(name)} lacks {listed}", file=sys.stderr)
    if not models:
        print(f"accord: no model's name contains {escape_line(search)}; `accord models` lists them", file=sys.stderr)
    if not found:
        raise typer.Exit(1)


def _search(known: Catalogue, search: str, *, by_name: bool) -> tuple[list[ModelFacts], bool]:
    """The models whose name contains this; `by_name` only that of exactly this name, if there is one, and True."""
    exact = known.find(search) if by_name and search else None
    if isinstance(exact, ModelFacts):
        return [exact], True
    if exact is not None and exact.ambiguous:  # several providers have it
        return [model for model in known.all_models() if model.name in exact.candidates], True
    return [model for model in known.all_models() if search.lower() in model.name.lower()], False


def _as_object(model: ModelFacts) -> dict[str, Any]:
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
        console, out = Console(), unfiltered(sys.stdout)  # for the colours of the cells
        width = max(len(model.name) for model in models)
        is_narrow = width + sum(len(heading) + 2 for heading in headings) > console.width
        if not is_narrow:
            print("  ".join([" " * width, *headings]))
        for model in models:
            cells = [_cell(model, column, heading, console) for column, heading in zip(columns, headings, strict=True)]
            name = escape_line(model.name)
            out.write(f"{name}\n{_stacked(cells, headings)}" if is_narrow else "  ".join([name.ljust(width), *cells]))
            out.write("\n")
        print("\nyes and no are what a source says; * sources disagree; ? no source says")
    more = f", {len(models)} shown (--limit 0 for all)" if found > len(models) else ""
    print(f"{format_count(found, 'model')}{more}")


def _stacked(cells: Sequence[str], headings: Sequence[str]) -> str:
    """The cells under each other, for a terminal that a row does not fit on."""
    return "\n".join(f"  {heading}: {cell.rstrip()}" for cell, heading in zip(cells, headings, strict=True))


def _cell(model: ModelFacts, capability: str, heading: str, console: Console) -> str:
    """One cell as wide as its heading. Thousands of rows go by; a table that measures them all would take long."""
    fact = _fact(model, capability)
    word, colour = MARKS[fact.level] if fact else UNKNOWN
    if fact is not None and any(
        dispute.capability in (capability, ALIASES.get(capability)) for dispute in model.disputed
    ):
        word, colour = f"{word}*", DISPUTED
    text = word.ljust(max(len(heading), len(word)))
    return typer.style(text, fg=colour) if console.shows_colour else text


def _fact(model: ModelFacts, capability: str) -> Fact | None:
    """What is known of this capability, under this name or its alias."""
    return model.facts.get(capability) or model.facts.get(ALIASES.get(capability, ""))
