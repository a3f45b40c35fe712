"""The 652 examples of CommonMark, which `make` puts beside the environment.

The specification is CC-BY-SA 4.0 and therefore not part of this repository. `scripts/fetch_commonmark.py` takes the
examples from the source archive of a parser. Without the file the tests fail.
"""

import json
import os
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).parents[4] / ".venv" / "commonmark.json"


def read_examples() -> list[str]:
    """Return the markdown of every example, in order."""
    path = Path(os.environ.get("COMMONMARK_JSON", PATH))
    if not path.is_file():
        raise FileNotFoundError("The CommonMark examples are missing: run `make test`, which fetches them")
    return [example["markdown"] for example in json.loads(path.read_text(encoding="utf-8"))]
