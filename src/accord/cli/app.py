"""The `accord` command: the table of its commands, loaded when one is used, and its exit statuses.

Exit status: 0 done, 1 the answer is no (incompatible, refused, invalid, failed), 2 the call or a file must be
corrected, 130 interrupted with Ctrl-C. A user's mistake gives one sentence and no stack trace.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from accord.errors import AccordError
from accord.terminal import safe_streams
from accord.version import package_version

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

EXIT_BUG: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""What a shell reports of a program that SIGPIPE ended, such as `cat` when its reader has gone."""


@dataclass(frozen=True, slots=True)
class Row:
    """One command: its name, where it is defined, and its line in `accord --help`."""

    section: str
    name: str
    function: str
    summary: str
    context_settings: dict[str, bool] | None = None


# A summary fits on one line of 80 columns; a test measures it.
COMMANDS: Final = {
    row.name: row
    for row in (
        Row("Run an agent", "serve", "serve_command", "Serve an agent over HTTP, SSE and WebSocket."),
        Row("Run an agent", "acp", "acp_command", "Serve an agent to an editor over ACP (stdio)."),
        Row("Run an agent", "ask", "ask_command", "Run one turn and print the answer."),
        Row("Check capabilities", "negotiate", "negotiate_command", "Compare a backend with requirements."),
        Row("Check capabilities", "validate", "validate_command", "Check content blocks against a declaration."),
        Row("Check capabilities", "render", "render_command", "Show what a client would get of a stream."),
        Row("Check capabilities", "capabilities", "capabilities_command", "List the known capabilities."),
        Row("Check capabilities", "models", "models_command", "Look up what models can do."),
        Row("ACP tools", "inspect", "inspect_command", "Test whether an ACP agent honours its contract."),
        Row(
            "ACP tools",
            "proxy",
            "proxy_command",
            "Enforce content rules between an editor and an agent.",
            {"allow_interspersed_args": False},
        ),
        Row("ACP tools", "trace", "trace_app", "Show a recorded ACP conversation."),
        Row("Operate a service", "config", "config_app", "Check, show, create and trust configurations."),
        Row("Operate a service", "backends", "backends_app", "Show backends and probe what they can do."),
        Row("Operate a service", "tokens", "tokens_app", "Manage API tokens."),
        Row("Operate a service", "sessions", "sessions_app", "List, export and delete stored sessions."),
        Row("Operate a service", "receipts", "receipts_app", "Verify and show receipts; make signing keys."),
        Row("Operate a service", "schemas", "schemas_command", "Write JSON Schemas and the OpenAPI document."),
    )
}


class LazyCommands(TyperGroup):
    """A group whose commands are imported when they are used: no command waits for the parts of another."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS, self)  # read for its keys only: "Did you mean 'proxy'?"

    def list_commands(self, ctx: "Context") -> list[str]:  # noqa: ARG002 - the signature of typer
        """The names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":  # noqa: ARG002 - the signature of typer
        """Import and return a command, or None if there is none of that name."""
        return load_command(COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002 - the signature of typer
        """Write the commands by section, from the table alone."""
        width = max(map(len, COMMANDS))
        for section, rows in groupby(COMMANDS.values(), lambda row: row.section):
            with formatter.section(section):
                formatter.write_dl([(row.name.ljust(width), row.summary) for row in rows])


def load_command(row: Row) -> "Command":
    """Import the module of a command and make it runnable."""
    found = getattr(import_module(f"accord.cli.{row.name}"), row.function)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        single.command(row.name, context_settings=row.context_settings)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = row.name
    return command


app = typer.Typer(
    name="accord",
    cls=LazyCommands,
    help="Capability negotiation for agents. Never silently degrade.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"accord {package_version()}")
        raise typer.Exit


@app.callback()
def _accord(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Capability negotiation for agents. Never silently degrade."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, that of the process unless another is given, and exit with its status."""
    with safe_streams():
        _run(arguments)


def _run(arguments: Sequence[str] | None) -> None:
    try:
        try:
            app(args=arguments, prog_name="accord")  # also as `python -m accord`
        finally:
            # Here, and not when the interpreter ends: there a reader that has gone makes Python complain.
            sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's own ending for it
            _end_without_reader()
        raise
    except AccordError as error:
        print(f"accord: {error.message}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        _end_without_reader()
    except Exception:  # noqa: BLE001 - the interpreter would print its message unescaped, whoever wrote it
        sys.stderr.write(traceback.format_exc())
        sys.exit(EXIT_BUG)


def _end_without_reader() -> NoReturn:
    """Exit quietly because standard output has no reader any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's own last flush does not complain
    sys.exit(EXIT_PIPE)
