"""The client side of an inspection: what the inspector offers to an agent, and how it answers the agent's requests.

By default it offers nothing and rejects every permission. The checks of files, terminals and permissions use a client
that offers more: files inside one folder, and terminals for the commands of these checks. What the agent did wrong is
judged in `conduct` and in `checks/client.py`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

from accord.acp import schema_v1
from accord.acp.methods import Method
from accord.acp.schema_parts import PermissionOptionKind
from accord.acp.schema_v1 import CreateTerminalRequest, ReadTextFileRequest, WriteTextFileRequest
from accord.acp_tools.inspect.terminals import Terminals
from accord.core.rpc import RpcRequest
from accord.errors import RpcCode

NOT_OFFERED: Final = "Not offered by the inspector"
CANCELLED: Final[Mapping[str, Any]] = {"outcome": {"outcome": "cancelled"}}
MAX_FILE_BYTES: Final = 16 * 1024 * 1024


class PermissionPolicy(Enum):
    """How permission requests are answered."""

    REJECT = "reject"
    ALLOW = "allow"
    HOLD = "hold"
    """Not answered until the turn is cancelled."""


KINDS: Final[Mapping[PermissionPolicy, tuple[PermissionOptionKind, ...]]] = {
    # Once is better than always, which an agent may remember for the next turn.
    PermissionPolicy.ALLOW: (PermissionOptionKind.ALLOW_ONCE, PermissionOptionKind.ALLOW_ALWAYS),
    PermissionPolicy.REJECT: (PermissionOptionKind.REJECT_ONCE, PermissionOptionKind.REJECT_ALWAYS),
    PermissionPolicy.HOLD: (),
}
"""The options that are chosen, the best first."""


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """An error response to a request of the agent."""

    code: int
    message: str


Answer = Mapping[str, Any] | RefusedRequest


@dataclass(slots=True)
class InspectorClient:
    """What the inspector offers on one connection, and what the agent requested."""

    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    permissions: PermissionPolicy = PermissionPolicy.REJECT
    folder: Path | None = None
    """The folder whose files the agent can read and write."""
    unsaved: dict[str, str] = field(default_factory=dict[str, str])
    """The text of files that are changed in the editor and not saved, by path."""
    command: str | None = None
    """What a command must contain to be run; without it every command is."""
    requests: list[RpcRequest] = field(default_factory=list[RpcRequest])
    terminals: Terminals = field(default_factory=Terminals)
    _turn_cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: RpcRequest) -> Answer:
        """The result of a request, or the error."""
        self.requests.append(request)
        try:
            return await self._answer(request)
        except (ValueError, RecursionError) as error:
            return RefusedRequest(RpcCode.INVALID_PARAMS, str(error))
        except FileNotFoundError as error:
            return RefusedRequest(RpcCode.NOT_FOUND, f"Resource not found: no such file: {error.filename}")
        except OSError as error:
            return RefusedRequest(RpcCode.INTERNAL_ERROR, str(error))

    def cancel_permissions(self) -> None:
        """Answer the permission requests that are held, as a client must when it cancels the turn."""
        self._turn_cancelled.set()
        self._turn_cancelled = asyncio.Event()

    async def close(self) -> None:
        """Answer what is held, and end what the agent left open."""
        self.cancel_permissions()
        await self.terminals.close()

    async def _answer(self, request: RpcRequest) -> Answer:
        files: Any = self.capabilities.get("fs", {})
        match request.method:
            case Method.SESSION_REQUEST_PERMISSION:
                return await self._decide_permission(request.value())
            case Method.FS_READ_TEXT_FILE if files.get("readTextFile"):
                return self._read_file(ReadTextFileRequest.parse(request.raw))
            case Method.FS_WRITE_TEXT_FILE if files.get("writeTextFile"):
                return self._write_file(WriteTextFileRequest.parse(request.raw))
            case Method.TERMINAL_CREATE if self.capabilities.get("terminal"):
                return await self._create_terminal(CreateTerminalRequest.parse(request.raw))
            case (
                Method.TERMINAL_OUTPUT | Method.TERMINAL_WAIT_FOR_EXIT | Method.TERMINAL_KILL | Method.TERMINAL_RELEASE
            ) if self.capabilities.get("terminal"):
                return await self._use_terminal(
                    request.method, schema_v1.TerminalOutputRequest.parse(request.raw).terminal_id
                )
            case _:
                return RefusedRequest(RpcCode.METHOD_NOT_FOUND, NOT_OFFERED)

    async def _decide_permission(self, params: Any) -> Mapping[str, Any]:
        if self.permissions is PermissionPolicy.HOLD:
            await self._turn_cancelled.wait()
        for kind in KINDS[self.permissions]:
            for option in permission_options(params):
                if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return CANCELLED

    def _read_file(self, request: ReadTextFileRequest) -> Answer:
        path = self._locate(request.path)
        text = self.unsaved.get(str(path))
        if text is None:
            if path.stat().st_size > MAX_FILE_BYTES:
                return RefusedRequest(RpcCode.INVALID_PARAMS, f"{path} is larger than {MAX_FILE_BYTES} bytes")
            text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)[max(0, (request.line or 1) - 1) :]
        return {"content": "".join(lines if request.limit is None else lines[: request.limit])}

    def _write_file(self, request: WriteTextFileRequest) -> Answer:
        path = self._locate(request.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request.content, encoding="utf-8")
        self.unsaved.pop(str(path), None)
        return {}

    def _locate(self, path: str) -> Path:
        """The path without symbolic links; raises `ValueError` if it is not inside the folder."""
        located = Path(path).resolve()
        if self.folder is None or not located.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{path} is not in the folder of the session")
        return located

    async def _create_terminal(self, request: CreateTerminalRequest) -> Answer:
        if self.command is not None and self.command not in " ".join([request.command, *request.args]):
            return RefusedRequest(RpcCode.INVALID_PARAMS, f"The inspector runs only commands with {self.command!r}")
        return {"terminalId": await self.terminals.create(request, str(self.folder or "/"))}

    async def _use_terminal(self, method: str, terminal_id: str) -> Answer:
        terminal = self.terminals.find(terminal_id)
        if terminal is None:
            return RefusedRequest(RpcCode.NOT_FOUND, f"Resource not found: there is no terminal {terminal_id!r}")
        if method == Method.TERMINAL_OUTPUT:
            return terminal.output()
        if method == Method.TERMINAL_WAIT_FOR_EXIT:
            return await terminal.wait_for_exit()
        if method == Method.TERMINAL_KILL:
            terminal.kill()
        else:
            await self.terminals.release(terminal_id)
        return {}


def permission_options(params: Any) -> list[Mapping[str, Any]]:
    """The options of a permission request, which may have any shape."""
    options: Any = cast("Mapping[str, Any]", params).get("options") if isinstance(params, Mapping) else None
    listed = cast("list[Any]", options) if isinstance(options, list) else []
    return [cast("Mapping[str, Any]", option) for option in listed if isinstance(option, Mapping)]


def initialize_params(version: int, capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The parameters of `initialize`."""
    info = {"name": "accord-inspect", "version": "1"}
    params: dict[str, Any] = {"protocolVersion": version}
    params |= {"info": info, "capabilities": {}} if version >= 2 else {}
    # An agent of version 1 reads only these fields, also when version 2 is offered.
    return params | {"clientInfo": info, "clientCapabilities": dict(capabilities or {})}
