"""Turns in which an agent is to use one tool, and what such a turn shows. Pure.

The prompt has a directive for the fake model, which calls the tool of the agent that reads a file, writes one or runs a
command. The file of each task has a name of its own, so that a message about it is recognized.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, assert_never, cast

from accord.acp.methods import Method
from accord.acp.schema_parts import PermissionOptionKind
from accord.acp_tools.inspect.client import PermissionPolicy, permission_options
from accord.acp_tools.inspect.fake_model import MalformedRequest, ReceivedRequest, explain_absence
from accord.acp_tools.inspect.fake_model.script import TextReply, choose_reply, find_directive
from accord.acp_tools.inspect.fake_model.tool_calls import Action, ChosenCall
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Reply,
    describe,
    not_applicable,
    not_judged,
)
from accord.core.rpc import RpcRequest
from accord.wire.inspection import InspectedLine

DISK_TEXT: Final = "accord-text-on-disk"
UNSAVED_TEXT: Final = "accord-text-in-the-editor"
WRITTEN_TEXT: Final = "accord-written-text"
COMMAND: Final = "echo accord-command-output"
"""The only command that an agent is given to run; its output goes to the file of the task."""

DOES: Final = {Action.READ: "reads files", Action.WRITE: "writes files", Action.RUN: "runs commands"}
NO_TOOL_USED: Final = "The agent used no tool; the fake model calls its tools: add --mock-llm"


class ClientOffer(Enum):
    """What the client of the inspector offers to the agent."""

    ALL = "files and terminals"
    READING = "only readTextFile"
    WRITING = "only writeTextFile"


CAPABILITIES: Final[Mapping[ClientOffer, Mapping[str, Any]]] = {
    ClientOffer.ALL: {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    ClientOffer.READING: {"fs": {"readTextFile": True, "writeTextFile": False}, "terminal": False},
    ClientOffer.WRITING: {"fs": {"readTextFile": False, "writeTextFile": True}, "terminal": False},
}


@dataclass(frozen=True, slots=True)
class ToolTask:
    """What an agent is to do with a tool, what it is offered for that, and how its permission requests are answered."""

    name: str
    action: Action
    offer: ClientOffer = ClientOffer.ALL
    permissions: PermissionPolicy = PermissionPolicy.ALLOW
    has_file: bool = False
    """Whether the file exists before the turn."""

    @property
    def file_name(self) -> str:
        """The name of the file that the task is about."""
        return f"accord-{self.name}.txt"

    def prompt(self, path: Path) -> str:
        """The text of the prompt: a sentence for a real model, and a line with the directive for the fake one."""
        match self.action:
            case Action.READ:
                return f"Read the file {path} and reply with its text.\naccord:read {path}"
            case Action.WRITE:
                return f"Write {WRITTEN_TEXT} to the new file {path}.\naccord:write {path} {WRITTEN_TEXT}"
            case Action.RUN:
                command = f"{COMMAND} > {shlex.quote(str(path))}"
                return f"Run the command {command} and do nothing else.\naccord:run {command}"
            case _:
                assert_never(self.action)


READ: Final = ToolTask("read", Action.READ, has_file=True)
READ_MISSING: Final = ToolTask("missing", Action.READ)
WRITE: Final = ToolTask("write", Action.WRITE)
RUN: Final = ToolTask("run", Action.RUN)
REJECTED: Final = (
    ToolTask("rejected-write", Action.WRITE, permissions=PermissionPolicy.REJECT),
    ToolTask("rejected-run", Action.RUN, permissions=PermissionPolicy.REJECT),
)
HELD: Final = {
    Action.WRITE: ToolTask("held-write", Action.WRITE, permissions=PermissionPolicy.HOLD),
    Action.RUN: ToolTask("held-run", Action.RUN, permissions=PermissionPolicy.HOLD),
}
"""The turn is cancelled while a permission request is not answered."""
PARTLY_OFFERED: Final = (
    ToolTask("undeclared-write", Action.WRITE, ClientOffer.READING),
    ToolTask("undeclared-run", Action.RUN, ClientOffer.READING),
    ToolTask("undeclared-read", Action.READ, ClientOffer.WRITING, has_file=True),
)


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """What happened in the turn of a task."""

    task: ToolTask
    reply: Reply
    """How the turn ended."""
    requests: Sequence[RpcRequest]
    """The requests of the agent to the client."""
    updates: list[Mapping[str, Any]]
    model_requests: Sequence[ReceivedRequest] | None
    """What the fake model received because of this prompt; None without it."""
    has_file: bool
    """Whether the file exists after the turn."""
    was_cancelled: bool = False
    """Whether the turn was cancelled while the agent waited for a permission."""
    unreleased: Sequence[str] = ()
    """The terminals that the agent created in this turn and did not release."""
    lines: tuple[InspectedLine, ...] = ()
    refused: MalformedRequest | None = None
    """The last request because of this prompt that the fake model refused."""

    @property
    def permissions(self) -> list[Mapping[str, Any]]:
        """The parameters of the permission requests."""
        sent = [request for request in self.requests if request.method == Method.SESSION_REQUEST_PERMISSION]
        return [params for request in sent if (params := _params(request))]

    @property
    def has_effect(self) -> bool:
        """Whether the file was written, or the command run."""
        return self.has_file and not self.task.has_file

    @property
    def tool_results(self) -> list[str]:
        """The results of the tool that the fake model received."""
        results = (find_directive(request).result for request in self.model_requests or ())
        return [result for result in results if result is not None]

    @property
    def file_requests(self) -> list[str]:
        """The methods by which the agent requested the file of the task from the client."""
        return [
            request.method
            for request in self.requests
            if request.method in (Method.FS_READ_TEXT_FILE, Method.FS_WRITE_TEXT_FILE)
            and self.task.file_name in str(_params(request).get("path"))
        ]

    @property
    def uses_terminal(self) -> bool:
        """Whether the agent requested a terminal for the command of the task."""
        return any(
            request.method == Method.TERMINAL_CREATE and COMMAND in request.raw.decode(errors="replace")
            for request in self.requests
        )

    @property
    def is_used(self) -> bool:
        """Whether the agent certainly used the tool."""
        return bool(
            self.has_effect or self.tool_results or self.file_requests or self.uses_terminal or self.shows(DISK_TEXT)
        )

    @property
    def tries_tool(self) -> bool:
        """Whether the agent used the tool, or reported that it was about to."""
        return self.is_used or bool(self.reported_calls)

    @property
    def uses_shell(self) -> bool:
        """Whether the fake model had to use a shell for a file, because the agent offers nothing better."""
        word = {Action.READ: "cat ", Action.WRITE: "printf ", Action.RUN: None}[self.task.action]
        calls = (choose_reply(request) for request in self.model_requests or ())
        return word is not None and any(isinstance(call, ChosenCall) and word in str(call.arguments) for call in calls)

    def shows(self, text: str) -> bool:
        """Whether this text is in an update or in a result that the fake model received."""
        return any(text in result for result in self.tool_results) or any(
            text in json.dumps(update) for update in self.updates
        )

    def names_file(self, permission: Mapping[str, Any]) -> bool:
        """Whether this permission request, or an update of the tool call that it is about, names the file."""
        call_ids = list(_call_ids(permission))
        related = [update for update in self.updates if update.get("toolCallId") in call_ids]
        return self.task.file_name in json.dumps([permission, *related])

    @property
    def reported_calls(self) -> list[str]:
        """The ids of the tool calls in updates and in permission requests."""
        return [*_call_ids(self.updates), *_call_ids(self.permissions)]

    @property
    def unannounced_calls(self) -> list[str]:
        """The ids of updates of a tool call that were sent before the tool call itself."""
        announced, unannounced = set(_call_ids(self.permissions)), list[str]()
        for update in self.updates:
            if update.get("sessionUpdate") == "tool_call":
                announced.update(_call_ids(update))
            else:
                unannounced += [call_id for call_id in _call_ids(update) if call_id not in announced]
        return unannounced


def why_unused(turn: ToolTurn) -> CheckOutcome | None:
    """Why a turn says nothing about the tool; None if the agent used it."""
    if turn.is_used:
        return None
    if not isinstance(turn.reply, Answered):
        return not_judged(f"The prompt to use a tool was not answered: {describe(turn.reply)}", turn.reply)
    if turn.model_requests is None:
        return not_applicable(NO_TOOL_USED)
    if not turn.model_requests:
        return not_judged(explain_absence(turn.refused))
    replies = [choose_reply(request) for request in turn.model_requests]
    if any(isinstance(reply, TextReply) and reply.missing_tool for reply in replies):
        return not_applicable(f"The agent offers its model no tool that {DOES[turn.task.action]}")
    return not_judged("The agent did not carry out the call of its model")


def has_kinds(permission: Mapping[str, Any]) -> bool:
    """Whether every option of a permission request says what choosing it means."""
    options = permission_options(permission)
    return bool(options) and all(option.get("kind") in list(PermissionOptionKind) for option in options)


def can_reject(permission: Mapping[str, Any]) -> bool:
    """Whether one of the options of a permission request rejects it."""
    return any(str(option.get("kind")).startswith("reject") for option in permission_options(permission))


def _params(request: RpcRequest) -> Mapping[str, Any]:
    try:
        value = request.value()
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _call_ids(value: Any) -> Iterator[str]:
    """The ids of tool calls in an update, in a permission request, or in a list of them."""
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        if isinstance(call_id := members.get("toolCallId"), str):
            yield call_id
        for name in ("toolCall", "subject"):
            yield from _call_ids(members.get(name))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _call_ids(item)
