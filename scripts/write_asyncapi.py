"""Write docs/asyncapi.yaml from the models, subjects and headers of the queue."""

from pathlib import Path
from typing import Final

import yaml

from accord.wire.queue_contract import queue_document

PAGE: Final = Path(__file__).parent.parent / "docs" / "asyncapi.yaml"
HEAD: Final = (
    "# `make docs-tables` writes this from src/accord/wire/queue_contract.py; `accord schemas` writes it as JSON.\n"
)


def page() -> str:
    """The document as YAML."""
    return HEAD + yaml.safe_dump(queue_document(), sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
