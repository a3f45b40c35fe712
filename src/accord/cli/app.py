"""The `accord` command itself: its list of commands, and how any of them ends.

Exit status: 0 done, 1 the answer is no, 2 the call or a file has to be put right. No stack trace for a user's
mistake, none for Ctrl-C, none when the reader of a pipe goes away.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Final, NoReturn

import typer

from accord.cli.acp import acp_command
from accord.cli.ask import ask_command
from accord.cli.backends import backends_app
from accord.cli.capabilities import capabilities_command
from accord.cli.config import config_app
from accord.cli.inspect import inspect_command
from accord.cli.models import models_command
from accord.cli.negotiate import negotiate_command
from accord.cli.proxy import proxy_command
from accord.cli.receipts import receipts_app
from accord.cli.render import render_command
from accord.cli.schemas import schemas_command
from accord.cli.serve import serve_command
from accord.cli.sessions import sessions_app
from accord.cli.terminal import safe_streams
from accord.cli.tokens import tokens_app
from accord.cli.trace import trace_app
from accord.cli.validate import validate_command
from accord.errors import AccordError

EXIT_BUG: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""What a shell reports of a program that SIGPIPE ended, as `cat` or `grep` are when their reader has gone."""

app = typer.Typer(
    name="accord",
    help="Capability negotiation for agents. Never silently degrade.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("serve")(serve_command)
app.command("acp")(acp_command)
app.command("ask")(ask_command)
app.command("proxy", context_settings={"allow_interspersed_args": False})(proxy_command)
app.command("negotiate")(negotiate_command)
app.command("capabilities")(capabilities_command)
app.command("inspect")(inspect_command)
app.command("models")(models_command)
app.command("validate")(validate_command)
app.command("render")(render_command)
app.command("schemas")(schemas_command)
app.add_typer(backends_app, name="backends")
app.add_typer(config_app, name="config")
app.add_typer(receipts_app, name="receipts")
app.add_typer(sessions_app, name="sessions")
app.add_typer(tokens_app, name="tokens")
app.add_typer(trace_app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"accord {version('accord-agents')}")
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
    """Run the command line, the process's own unless another is given, and end as its answer says."""
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
    except Exception:  # noqa: BLE001 - the interpreter would print its message as it is, whoever wrote that
        sys.stderr.write(traceback.format_exc())
        sys.exit(EXIT_BUG)


def _end_without_reader() -> NoReturn:
    """End quietly because nobody reads standard output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's own last flush does not complain
    sys.exit(EXIT_PIPE)
