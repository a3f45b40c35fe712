"""`accord capabilities`: list the known capabilities."""

import json
from typing import Annotated, Final

import typer

from accord.terminal import Console
from accord.wire.capability import ALIASES, KNOWN_CAPABILITIES, canonical_name

OPEN: Final = "Any other snake_case name can be required and declared as well; see docs/backends.md"


def capabilities_command(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list for a program.")] = False,
) -> None:
    """List the known capabilities: the names that --require, --capability, --override and overrides take."""
    if as_json:
        listed = [
            {
                "name": name,
                "meaning": meaning,
                "canonical": canonical_name(name),
                "aliases": [str(ALIASES[name])] if name in ALIASES else [],
            }
            for name, meaning in KNOWN_CAPABILITIES.items()
        ]
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    console = Console()
    rows = [(name, meaning, ALIASES.get(name, "")) for name, meaning in KNOWN_CAPABILITIES.items()]
    console.print_table(("capability", "meaning", "alias"), rows)
    console.print(OPEN)
