"""Answers an agent's requests to its client: permission and files, as the operator allows; by default nothing.

Folders are compared after every link is followed, so a link inside a folder that leads out of it opens nothing.
Terminals are never offered. It knows requests and files, not processes.
"""

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import ValidationError

from accord.acp import schema_v1
from accord.acp.methods import Method
from accord.acp.schema_parts import (
    CancelledPermissionOutcome,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.acp.schema_v1 import FileSystemCapabilities
from accord.core.rpc import RpcRequest
from accord.errors import RpcCode
from accord.stdio import RpcError

MAX_FILE_BYTES: Final = 16 * 1024 * 1024

CHOICES: Final[Mapping[str, tuple[PermissionOptionKind, ...]]] = {
    "deny": (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS),
    "allow": (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS),
}
"""The kinds of option to choose, the narrower one first."""


@dataclass(frozen=True, slots=True)
class AgentPermissions:
    """What the operator allows: the answer to permission requests, folders to read in, folders to write in."""

    permission: Literal["deny", "allow"] = "deny"
    read_files: Sequence[str] = field(default=())
    write_files: Sequence[str] = field(default=())

    def client_capabilities(self) -> schema_v1.ClientCapabilities:
        """Return the capabilities to declare to the agent."""
        files = FileSystemCapabilities(read_text_file=bool(self.read_files), write_text_file=bool(self.write_files))
        return schema_v1.ClientCapabilities(fs=files)

    async def answer(self, call: RpcRequest) -> Any:
        """Return the result of an agent's request; raise `RpcError` if it is not allowed."""
        match call.method:
            case Method.SESSION_REQUEST_PERMISSION:
                return self._permission(call)
            case Method.FS_READ_TEXT_FILE:
                return await asyncio.to_thread(self._read, _object_params(call))
            case Method.FS_WRITE_TEXT_FILE:
                return await asyncio.to_thread(self._write, _object_params(call))
            case _:
                raise RpcError(RpcCode.METHOD_NOT_FOUND, "This client does not offer that method")

    def _permission(self, call: RpcRequest) -> RequestPermissionResponse:
        try:
            request = RequestPermissionRequest.model_validate_json(call.raw or b"{}")
        except ValidationError as error:
            raise RpcError(RpcCode.INVALID_PARAMS, "The permission request is malformed") from error
        by_kind = (option for kind in CHOICES[self.permission] for option in request.options if option.kind == kind)
        chosen = next(by_kind, None)
        outcome = (
            CancelledPermissionOutcome() if chosen is None else SelectedPermissionOutcome(option_id=chosen.option_id)
        )
        return RequestPermissionResponse(outcome=outcome)

    def _read(self, params: Mapping[str, Any]) -> dict[str, str]:
        text = _read_text(_resolve_within(_path(params), self.read_files, "read"))
        first, count = params.get("line"), params.get("limit")
        if first is None and count is None:
            return {"content": text}
        lines = text.splitlines(keepends=True)
        start = max(first - 1, 0) if isinstance(first, int) else 0
        end = start + max(count, 0) if isinstance(count, int) else len(lines)
        return {"content": "".join(lines[start:end])}

    def _write(self, params: Mapping[str, Any]) -> dict[str, Any]:
        content = params.get("content")
        if not isinstance(content, str):
            raise RpcError(RpcCode.INVALID_PARAMS, "content should be text")
        path = _resolve_within(_path(params), self.write_files, "write")
        try:
            # The path has no links left in it; one that was put there meanwhile is not followed.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
                file.write(content)
        except OSError as error:
            raise RpcError(RpcCode.INTERNAL_ERROR, "The file cannot be written") from error
        return {}


def _object_params(call: RpcRequest) -> Mapping[str, Any]:
    params = call.value()
    if not isinstance(params, Mapping):
        raise RpcError(RpcCode.INVALID_PARAMS, "params should be an object")
    return cast("Mapping[str, Any]", params)


def _path(params: Mapping[str, Any]) -> Path:
    path = params.get("path")
    if not isinstance(path, str) or not Path(path).is_absolute() or "\0" in path:
        raise RpcError(RpcCode.INVALID_PARAMS, "path should be an absolute path")
    return Path(path)


def _resolve_within(path: Path, folders: Sequence[str], verb: str) -> Path:
    """Return the path with every link followed; raise `RpcError` if it is in none of these folders."""
    try:
        real = path.resolve()
        if any(real.is_relative_to(Path(folder).resolve()) for folder in folders):
            return real
    except (OSError, RuntimeError):  # a cycle of links
        pass
    # The same message whether the file exists or not: the agent learns nothing about other folders.
    raise RpcError(RpcCode.INTERNAL_ERROR, f"This client does not let the agent {verb} that file")


def _read_text(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                raise RpcError(RpcCode.INTERNAL_ERROR, f"Only files of at most {MAX_FILE_BYTES} bytes are read")
            return file.read(MAX_FILE_BYTES).decode()
    except OSError as error:
        raise RpcError(RpcCode.INTERNAL_ERROR, "The file cannot be read") from error
    except UnicodeDecodeError as error:
        raise RpcError(RpcCode.INTERNAL_ERROR, "The file is not text") from error
