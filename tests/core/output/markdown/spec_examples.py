"""The 652 examples of CommonMark, as the set-up put them beside the environment.

The specification is CC-BY-SA 4.0 and therefore not part of this repository, and no wheel carries it; the source archive
of a parser does, and `make` takes it from there (`scripts/fetch_commonmark.py`). Without it the tests fail and say so.
"""

import json
import os
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).parents[4] / ".venv" / "commonmark.json"


def read_examples() -> list[str]:
    """The markdown of every example, in order."""
    place = Path(os.environ.get("COMMONMARK_JSON", PLACE))
    if not place.is_file():
        raise FileNotFoundError("The examples of CommonMark are not here: run `make test`, which fetches them")
    return [example["markdown"] for example in json.loads(place.read_text(encoding="utf-8"))]
