"""`accord validate`: check content blocks against what an agent declares."""

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final, cast

import typer

from accord.cli.options import JsonOption
from accord.console import Console, styled
from accord.core.prompt import BlockDecision, ContentValidator, ValidationContext, Verdict
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError
from accord.files import STDIN, path_exists, read_json
from accord.terminal import format_count

FLAGS: Final = ("image", "audio", "embeddedContext")
"""The prompt capabilities of the Agent Client Protocol."""


def validate_command(
    file: Annotated[
        str, typer.Argument(help="JSON file with content blocks or a session/prompt request; - reads standard input.")
    ],
    *,
    capabilities: Annotated[
        str, typer.Option(help="What the agent declares: image,audio,embeddedContext, or JSON, or a file.")
    ] = "",
    protocol_version: Annotated[int, typer.Option(min=1, help="Version of ACP; 2 is the draft.")] = 1,
    context: Annotated[
        ValidationContext, typer.Option(help="Message that carries the content.")
    ] = ValidationContext.PROMPT,
    as_json: JsonOption = False,
) -> None:
    """Check content blocks against a declaration.

    Exit status 1 if a block is refused.

    Examples:
      accord validate prompt.json --capabilities image,audio
      accord validate - --capabilities initialize.json --json
    """
    blocks = _unwrap(read_json(file), ("params", "prompt"))
    if not isinstance(blocks, list):
        raise UsageError(f"{file}: expected an array of content blocks, or an object with one under prompt")
    blocks = cast("list[Any]", blocks)
    declaration = _read_declaration(capabilities, protocol_version)
    validator = ContentValidator(declaration, protocol_version=protocol_version)
    verdict = validator.validate(blocks, context=context)
    if as_json:
        members = {"valid": verdict.valid, "results": list(verdict.results), "error": verdict.error}
        print(json.dumps(members, indent=2, ensure_ascii=False))
    else:
        _print_decisions(validator.explain(blocks, context), validator, verdict)
    if not verdict.valid:
        raise typer.Exit(1)


def _unwrap(value: Any, keys: Iterable[str]) -> Any:
    """Follow these keys, where there are such, to the value inside of the message that carries it."""
    for key in keys:
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, Any]", value)[key]
    return cast("Any", value)


def _read_declaration(given: str, protocol_version: int) -> dict[str, Any] | None:
    """Read prompt capabilities from a file, JSON or a list of names, also from a whole `initialize` response."""
    place, value = "--capabilities", None
    if given == STDIN or (given and path_exists(given)):
        place, value = given, read_json(given)
    elif given.lstrip().startswith("{"):
        try:
            value = json.loads(given)
        except ValueError as error:
            raise UsageError(f"--capabilities: expected JSON: {error}") from error
    else:
        names = [name.strip() for name in given.split(",") if name.strip()]
        for name in names:
            if name not in FLAGS:
                raise UsageError(f"--capabilities: {unknown_name('prompt capability', name, FLAGS)}")
        return dict.fromkeys(names, {} if protocol_version >= 2 else True)
    value = _unwrap(value, ("result", "agentCapabilities", "capabilities", "session", "promptCapabilities", "prompt"))
    if value is not None and not isinstance(value, dict):
        raise UsageError(f"{place}: expected an object of prompt capabilities")
    return cast("dict[str, Any] | None", value)


def _print_decisions(decisions: list[BlockDecision], validator: ContentValidator, verdict: Verdict) -> None:
    console = Console()
    if decisions:
        rows = [
            (
                str(decision.index),
                styled(decision.content_type),
                styled(decision.outcome, "green" if decision.accepted else "red"),
                styled(decision.why),
            )
            for decision in decisions
        ]
        console.print_table(("block", "type", "verdict", "why"), rows)
    elif verdict.error is not None:
        console.print(styled(f"{verdict.error['message']}: {verdict.error['data']['details']}", "red"))
    refused = sum(not accepted for accepted in verdict.results)
    console.print(f"{format_count(len(decisions), 'block')}, {refused} refused; the agent accepts ", end="")
    console.print(", ".join(validator.declaration.accepted))
