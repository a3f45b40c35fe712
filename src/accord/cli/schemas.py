"""`accord schemas`: the contract as files, for other languages and other tools."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.errors import UsageError
from accord.terminal import format_count
from accord.wire.acp.messages import ACP_MESSAGES
from accord.wire.contract import MESSAGES, ServiceContract, schemas_of


def schemas_command(
    folder: Annotated[Path, typer.Argument(help="Where to write; made if it is not there.")],
) -> None:
    """Write the JSON Schema of every message, and the OpenAPI document."""
    documents: dict[str, Any] = {"openapi.json": ServiceContract.document()}
    documents |= {f"{name}.json": schema for name, schema in schemas_of(MESSAGES).items()}
    documents |= {f"acp/{name}.json": schema for name, schema in schemas_of(ACP_MESSAGES).items()}
    try:
        (folder / "acp").mkdir(parents=True, exist_ok=True)
        for name, document in documents.items():
            (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write to {folder}: {error.strerror}") from error
    print(f"Wrote {format_count(len(documents), 'file')} to {folder}")
