"""`accord capabilities`: list the known capabilities."""

import json
from typing import Final

from accord.cli.options import JsonOption
from accord.console import Console
from accord.wire.capability import ALIASES, KNOWN_CAPABILITIES, canonical_name

OPEN_VOCABULARY: Final = "Other snake_case names can be required and declared, too; see docs/backends.md"


def capabilities_command(
    *,
    as_json: JsonOption = False,
) -> None:
    """List the known capabilities.

    These are the names for --require, --capability, --override and the overrides of the configuration.

    Example:
      accord capabilities --json
    """
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
    console.print(OPEN_VOCABULARY)
