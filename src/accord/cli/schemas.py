"""`accord schemas`: write the contract as files, for other languages and tools."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.acp import schema_v1, schema_v2
from accord.errors import UsageError
from accord.terminal import format_count
from accord.wire.contract import MESSAGES, ServiceContract, schemas_of
from accord.wire.queue_contract import queue_document


def schemas_command(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; created if needed.")],
) -> None:
    """Write JSON Schemas, OpenAPI and AsyncAPI.

    Example:
      accord schemas build/schemas
    """
    documents: dict[str, Any] = {"openapi.json": ServiceContract.document(), "asyncapi.json": queue_document()}
    documents |= {f"{name}.json": schema for name, schema in schemas_of(MESSAGES).items()}
    for folder_name, schema in (("acp/v1", schema_v1), ("acp/v2", schema_v2)):
        messages = (*schema.PARAMETERS.values(), *schema.RESULTS.values())
        documents |= {f"{folder_name}/{name}.json": each for name, each in schemas_of(messages).items()}
    try:
        for name, document in documents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        why = "Not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"{folder}: cannot be written: {why}") from error
    print(f"Wrote {format_count(len(documents), 'file')} to {folder}")
