"""How Accord is started: the `accord` command. The only place that picks concrete parts."""

import sys
from collections.abc import Sequence

from accord.errors import MissingExtraError
from accord.extras import naming_extra


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, by default the one that this process was started with, and exit with its status."""
    try:
        with naming_extra("The accord command"):
            from accord.cli.app import main as run  # noqa: PLC0415 - an extra
    except MissingExtraError as error:
        print(f"accord: {error.message}", file=sys.stderr)
        sys.exit(2)
    run(arguments)
