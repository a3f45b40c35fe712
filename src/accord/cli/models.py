"""`accord models`: look up what models can do, as far as a source says so."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from accord.backends.evidence import from_facts, manifest_of, read_catalogue
from accord.backends.facts import Catalogue, ModelFacts, shipped_catalogue
from accord.cli.options import JsonOption, RequireOption, SnapshotOption, check_spelling, read_requirements
from accord.console import Console
from accord.core.vocabulary import unknown_name_warnings
from accord.core.work.negotiate import NOT_DECLARED, negotiate
from accord.terminal import escape_line, format_count, unfiltered, warn
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
"""The default columns, and their headings."""
MARKS: Final = {"native": ("yes", "green"), "unsupported": ("no", "red")}
UNKNOWN: Final = ("?", "bright_black")
DISPUTED: Final = "yellow"
NO_SOURCE: Final = "no source says so"


def models_command(  # noqa: PLR0913 - one flag each
    *,
    search: Annotated[str, typer.Argument(help="Name of a model, or a part of names.")] = "",
    require: RequireOption = None,
    capability: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Capability to show as a column; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show at most this many models; 0 shows all.")] = 40,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look up what models can do.

    With --require, lists the models that have these capabilities; if SEARCH is the exact name of a model, checks that
    model. Exit status 1 if no model is found, or the named one lacks a required capability.

    Examples:
      accord models gpt-4o
      accord models --require vision,tool_use --limit 0
    """
    columns = capability or [*SHORT]
    check_spelling(columns, "--capability")
    needs = CapabilityRequirements() if require is None else read_requirements(require)
    required = [need.capability for need in needs.required]
    known = read_catalogue(snapshot) if snapshot else shipped_catalogue()
    models, is_named = _search(known, search, by_name=require is not None)
    reasons = {model.name: negotiate(manifest_of(from_facts(model)), needs).reasons for model in models}
    found = [model for model in models if not reasons[model.name]]
    listed = found[: limit or None]
    if as_json:
        records = [
            {
                "provider": model.provider,
                "model": model.model,
                "facts": {
                    name: {"level": fact.level, "source": fact.source, "date": fact.date}
                    for name, fact in model.facts.items()
                },
                "disputed": [dispute.capability for dispute in model.disputed],
            }
            for model in listed
        ]
        print(json.dumps(records, indent=2, ensure_ascii=False))
    elif listed or not is_named:
        _print_models(listed, columns, len(found))
    warn(unknown_name_warnings((*columns, *required)))
    for name, lacking in reasons.items() if is_named else ():
        if lacking:
            missing = ", ".join(
                f"{need} ({NO_SOURCE if why == NOT_DECLARED else why})" for need, why in lacking.items()
            )
            print(f"accord: {escape_line(name)} lacks {missing}", file=sys.stderr)
    if not models:
        message = f"accord: no name of a model contains {escape_line(search)}; `accord models --limit 0` lists all"
        print(message, file=sys.stderr)
    if not found:
        raise typer.Exit(1)


def _search(known: Catalogue, search: str, *, by_name: bool) -> tuple[list[ModelFacts], bool]:
    """Return the models whose name contains `search`, and whether it names one exactly.

    With `by_name`, a model of exactly this name is the only result.
    """
    exact = known.find(search) if by_name and search else None
    if isinstance(exact, ModelFacts):
        return [exact], True
    if exact is not None and exact.ambiguous:  # several providers have it
        return [model for model in known.all_models() if model.name in exact.candidates], True
    return [model for model in known.all_models() if search.lower() in model.name.lower()], False


def _print_models(models: Sequence[ModelFacts], columns: Sequence[str], found: int) -> None:
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
            if is_narrow:
                lines = (f"  {heading}: {cell.rstrip()}" for cell, heading in zip(cells, headings, strict=True))
                out.write("\n".join([name, *lines]))
            else:
                out.write("  ".join([name.ljust(width), *cells]))
            out.write("\n")
        print("\nyes, no: a source says so; *: sources disagree; ?: no source says")
    more = f", {len(models)} shown (--limit 0 for all)" if found > len(models) else ""
    print(f"{format_count(found, 'model')}{more}")


def _cell(model: ModelFacts, capability: str, heading: str, console: Console) -> str:
    """Write one cell as wide as its heading; a rich table would measure thousands of rows first, which takes long."""
    alias = ALIASES.get(capability, "")
    fact = model.facts.get(capability) or model.facts.get(alias)
    word, colour = MARKS[fact.level] if fact else UNKNOWN
    if fact is not None and any(dispute.capability in (capability, alias) for dispute in model.disputed):
        word, colour = f"{word}*", DISPUTED
    text = word.ljust(max(len(heading), len(word)))
    return typer.style(text, fg=colour) if console.shows_colour else text
