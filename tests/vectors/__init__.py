"""The conformance vectors, one JSON object a line."""

import json
from pathlib import Path
from typing import Any


def read_vectors(name: str) -> list[dict[str, Any]]:
    """Every line of one file."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]
