"""`accord ask`: one turn from the shell, through the same engine as everybody's. The flags; the rest is loaded on use.

The answer goes to standard output as it comes, everything else to standard error. Exit status: 0 answered, 1 refused or
failed, 2 the call or a file has to be put right.
"""

from typing import Annotated

import typer

from accord.cli.loading import ConfigOption, TrustOption, load


def ask_command(  # noqa: PLR0913 - the command's own flags
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    *,
    backend: Annotated[str | None, typer.Option(help="Ask this backend and no other.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="A picture's file; may be repeated.")] = None,
    file: Annotated[list[str] | None, typer.Option(help="A document, sound or other file; may be repeated.")] = None,
    schema: Annotated[str | None, typer.Option(help="A JSON Schema's file: the answer must fit it.")] = None,
    require: Annotated[list[str] | None, typer.Option(help="CAPABILITY or CAPABILITY=native; may be repeated.")] = None,
    system: Annotated[str | None, typer.Option(help="Instructions that stand apart from the question.")] = None,
    receipt: Annotated[bool, typer.Option("--receipt", help="Print the turn's receipt to standard error.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer and its account for a program.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Print the answer as it comes, or at once.")
    ] = True,
    config: ConfigOption = None,
    trust: TrustOption = False,
) -> None:
    """Ask a model one question, and hear what had to be emulated or was lost."""
    # An engine takes a while to load, which no other command should wait for.
    from accord.cli.asking import Asked, answer  # noqa: PLC0415
    from accord.cli.attaching import attached  # noqa: PLC0415
    from accord.cli.reading import STDIN, read_json, read_text  # noqa: PLC0415

    memory = (("store", "kind"), "memory", "accord ask")  # one turn is not worth a file
    loaded = load(config, trusts=trust, flags=[memory])
    asked = Asked(
        prompt=read_text(STDIN) if prompt == STDIN else prompt,
        content=attached(image or (), file or (), loaded.config.limits.max_block_bytes),
        schema=None if schema is None else read_json(schema),
        requirements=require or (),
        system=system,
        backend=backend,
    )
    if not answer(loaded, asked, streams=stream and not as_json, as_json=as_json, with_receipt=receipt):
        raise typer.Exit(1)
