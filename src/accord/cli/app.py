"""The `accord` command: the table of its commands, loaded when one is used, and its exit statuses.

Each command is one module of this package. A user's mistake gives one sentence and no stack trace.
"""

import gc
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from accord.errors import AccordError, UsageError
from accord.extras import naming_extra
from accord.terminal import safe_streams
from accord.version import package_version

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

EXIT_BUG: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""The status that shells report for a program that SIGPIPE ended, such as `cat` without a reader."""

EPILOG: Final = """\b
Exit status:
  0    done
  1    the answer is no: incompatible, refused, invalid, failed or not found
  2    wrong option, argument or file; the message says which
  3    nothing to verify (receipts verify), or not judged in CI (inspect)
  130  interrupted with Ctrl-C
  141  the reader of standard output has gone

\b
Examples:
  accord ask "What is an adapter?"
  accord serve my_agent.py
  accord COMMAND --help
"""


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command: its name, where it is defined, and its line in `accord --help`."""

    section: str
    name: str
    function: str
    summary: str
    context_settings: dict[str, bool] | None = None


# A summary is the first line of the help of its command, and fits on one line of 80 columns; tests check both.
COMMANDS: Final = {
    row.name: row
    for row in (
        CommandRow("Run an agent", "serve", "serve_command", "Serve an agent over HTTP, SSE and WebSocket."),
        CommandRow("Run an agent", "chat", "chat_command", "Chat with an agent in the terminal."),
        CommandRow("Run an agent", "worker", "worker_command", "Run turns of agents that a queue hands out."),
        CommandRow("Run an agent", "acp", "acp_command", "Serve an agent to an editor over ACP (stdio)."),
        CommandRow("Run an agent", "ask", "ask_command", "Run one turn and print the answer."),
        CommandRow("Check capabilities", "negotiate", "negotiate_command", "Compare a backend with requirements."),
        CommandRow("Check capabilities", "validate", "validate_command", "Check content blocks against a declaration."),
        CommandRow("Check capabilities", "render", "render_command", "Show what a client would get of a stream."),
        CommandRow("Check capabilities", "capabilities", "capabilities_command", "List the known capabilities."),
        CommandRow("Check capabilities", "models", "models_command", "Look up what models can do."),
        CommandRow("ACP tools", "inspect", "inspect_command", "Test whether an ACP agent honours its contract."),
        CommandRow(
            "ACP tools",
            "proxy",
            "proxy_command",
            "Enforce content rules between an editor and an agent.",
            {"allow_interspersed_args": False},
        ),
        CommandRow("Operate a service", "config", "config_app", "Check, show, create and trust configurations."),
        CommandRow("Operate a service", "backends", "backends_app", "Show backends and probe what they can do."),
        CommandRow("Operate a service", "keys", "keys_app", "Manage keys with models, rates and budgets; show usage."),
        CommandRow("Operate a service", "sessions", "sessions_app", "List, export and delete stored sessions."),
        CommandRow("Operate a service", "receipts", "receipts_app", "Verify and show receipts; make signing keys."),
        CommandRow("Operate a service", "schemas", "schemas_command", "Write JSON Schemas, OpenAPI and AsyncAPI."),
    )
}

REPLACED: Final = {
    "tokens": "`accord tokens` is now `accord keys`, for the same records: accord keys add | list | revoke | open",
    "trace": "`accord trace` is gone: `accord proxy --log FILE` writes a conversation, and --show FILE prints it",
    "top": "`accord top` is gone; its figures are those of /metrics: curl http://127.0.0.1:8000/metrics (where the "
    "service needs keys, with -H 'Authorization: Bearer KEY')",
}
"""The names of commands of the version before, each with the sentence that it answers with."""


class LazyCommands(TyperGroup):
    """A group whose commands are imported when they are used, so that none waits for the imports of another."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS, self)  # typer reads the keys only: "Did you mean 'proxy'?"

    def list_commands(self, ctx: "Context") -> list[str]:  # noqa: ARG002 - the signature of typer
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":  # noqa: ARG002 - the signature of typer
        """Import and return a command, or None if there is none of this name."""
        if cmd_name in REPLACED:
            raise UsageError(REPLACED[cmd_name])
        return load_command(COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002 - the signature of typer
        """Write the commands by section, from the table alone."""
        width = max(map(len, COMMANDS))
        for section, rows in groupby(COMMANDS.values(), lambda row: row.section):
            with formatter.section(section):
                formatter.write_dl([(row.name.ljust(width), row.summary) for row in rows])

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a command from the table, without importing any, or an option."""
        from typer._click.shell_completion import CompletionItem  # noqa: PLC0415 - only a completing shell needs it

        rows = [row for row in COMMANDS.values() if row.name.startswith(incomplete)]
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [CompletionItem(row.name, help=row.summary) for row in rows] + options


def load_command(row: CommandRow) -> "Command":
    """Import the module of a command and make it runnable."""
    with paused_garbage_collector():
        found = getattr(import_module(f"accord.cli.{row.name}"), row.function)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        single.command(row.name, context_settings=row.context_settings)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = row.name
    for each in (command, *getattr(command, "commands", {}).values()):
        # Without this mark the lines of an example would be joined into a paragraph.
        each.help = (each.help or "").replace("\nExample", "\n\b\nExample")
    return command


@contextmanager
def paused_garbage_collector() -> Generator[None]:
    """Search for no reference cycles in this context, and never among the objects that are there at its end.

    Modules, classes and functions stay until the process ends. Searching the 140,000 objects of a service again and
    again, while they are loaded, takes an eighth of its start.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


app = typer.Typer(
    name="accord",
    cls=LazyCommands,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(is_given: bool) -> None:
    if is_given:
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
    """Run a command, by default the one that this process was started with, and exit with its status."""
    with safe_streams():
        try:
            try:
                with naming_extra("This command"):
                    app(args=arguments, prog_name="accord")  # also as `python -m accord`
            finally:
                # Now, because the interpreter prints an error if it is the one that finds the reader gone.
                sys.stdout.flush()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # typer turned it into an exit
                _exit_without_reader()
            raise
        except AccordError as error:
            print(f"accord: {error.message}", file=sys.stderr)
            sys.exit(EXIT_USAGE)
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _exit_without_reader()
        except Exception:  # noqa: BLE001 - the interpreter would print it without escaping what a peer wrote
            sys.stderr.write(traceback.format_exc())
            sys.exit(EXIT_BUG)


def _exit_without_reader() -> NoReturn:
    """Exit quietly because standard output has no reader any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush when the interpreter ends
    sys.exit(EXIT_PIPE)
