"""`accord validate`: may this prompt come in? Exit status 1 when it may not."""

import json
from typing import Annotated, Any, Final, cast

import typer

from accord.core.prompt import BlockDecision, ContentValidator, ValidationContext, Verdict
from accord.core.vocabulary import unknown_name
from accord.errors import UsageError
from accord.files import STDIN, path_exists, read_json
from accord.terminal import Console, format_count, styled

FLAGS: Final = ("image", "audio", "embeddedContext")
"""The prompt capabilities that the Agent Client Protocol has."""


def validate_command(
    file: Annotated[str, typer.Argument(help="Content blocks, or a session/prompt with them; - for standard input.")],
    *,
    capabilities: Annotated[
        str, typer.Option(help="promptCapabilities: a file, JSON, or image,audio,embeddedContext.")
    ] = "",
    protocol_version: Annotated[int, typer.Option(min=1, help="1, or 2 for the draft.")] = 1,
    context: Annotated[
        ValidationContext, typer.Option(help="Where the content is on its way.")
    ] = ValidationContext.PROMPT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict for a program.")] = False,
) -> None:
    """Check a prompt's content blocks against what an agent declares."""
    blocks = _blocks(read_json(file), file)
    validator = ContentValidator(_declared(capabilities, protocol_version), protocol_version=protocol_version)
    verdict = validator.validate(blocks, context=context)
    if as_json:
        told = {"valid": verdict.valid, "results": list(verdict.results), "error": verdict.error}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        _print_decisions(validator.explain(blocks, context), validator, verdict)
    if not verdict.valid:
        raise typer.Exit(1)


def _blocks(value: Any, file: str) -> list[Any]:
    """The blocks of a prompt: an array, or inside of the request that carries it."""
    for key in ("params", "prompt"):
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, Any]", value)[key]
    if not isinstance(value, list):
        raise UsageError(f"{file}: expected an array of content blocks, or an object with one under prompt")
    return cast("list[Any]", value)


def _declared(given: str, protocol_version: int) -> dict[str, Any] | None:
    if given == STDIN or (given and path_exists(given)):
        return _inside(read_json(given), given)
    if given.lstrip().startswith("{"):
        try:
            return _inside(json.loads(given), "--capabilities")
        except ValueError as error:
            raise UsageError(f"--capabilities: expected JSON: {error}") from error
    yes: Any = {} if protocol_version >= 2 else True
    flags = [flag.strip() for flag in given.split(",") if flag.strip()]
    for flag in flags:
        if flag not in FLAGS:
            raise UsageError(f"--capabilities: {unknown_name('prompt capability', flag, FLAGS)}")
    return dict.fromkeys(flags, yes)


def _inside(value: Any, place: str) -> dict[str, Any] | None:
    """The declaration itself, also where it stands inside of an `initialize` answer."""
    for key in ("result", "agentCapabilities", "capabilities", "session", "promptCapabilities", "prompt"):
        if isinstance(value, dict) and key in value:
            value = cast("dict[str, Any]", value)[key]
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
                styled("accepted", "green") if decision.accepted else styled("refused", "red"),
                styled(decision.why),
            )
            for decision in decisions
        ]
        console.print_table(("block", "type", "verdict", "why"), rows)
    refused = sum(not accepted for accepted in verdict.results)
    console.print(f"{format_count(len(decisions), 'block')}, {refused} refused; the agent accepts ", end="")
    console.print(", ".join(validator.declaration.accepted))
