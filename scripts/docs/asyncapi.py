"""docs/asyncapi.yaml: the queue as AsyncAPI, from the models, subjects and headers of the queue."""

from typing import Final

import yaml

from accord.wire.queue_contract import queue_document

HEAD: Final = "# `make docs` writes this from src/accord/wire/queue_contract.py; `accord schemas` writes it as JSON.\n"


def page() -> str:
    """The document as YAML."""
    return HEAD + yaml.safe_dump(queue_document(), sort_keys=False, allow_unicode=True, width=120)
