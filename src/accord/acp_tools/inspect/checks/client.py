"""What an agent requests from the client: permissions, files and terminals, and the tool calls that it reports.

The fake model calls the tools of the agent. Without it an agent uses no tool, unless a real model happens to, and these
checks are not judged. That nothing is called which the client did not declare is a rule for messages (`messages.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from accord.acp.methods import Method
from accord.acp_tools.inspect.checks.table import MAY, MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.probe import AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Refused,
    Silent,
    describe,
    failed,
    not_applicable,
    not_judged,
    passed,
    shorten,
    stop_reason,
)
from accord.acp_tools.inspect.tool_turns import run_task
from accord.acp_tools.inspect.tool_use import (
    DISK_TEXT,
    HELD,
    PARTLY_OFFERED,
    READ,
    READ_MISSING,
    REJECTED,
    RUN,
    UNSAVED_TEXT,
    WRITE,
    ToolTurn,
    can_reject,
    has_kinds,
    why_unused,
)
from accord.wire.inspection import CheckGroup, Result

PERMISSION: Final = "ACP: Tool Calls – requesting permission"
CANCELLATION: Final = "ACP: Prompt Turn – cancellation"
FILES: Final = "ACP: File System"
TERMINALS: Final = "ACP: Terminals"
CALLS: Final = "ACP: Tool Calls"
NO_FILES: Final = "The draft has no files and terminals of the client"
NO_PERMISSION: Final = "The agent requested no permission to write a file or to run a command"

CLIENT: Final = CheckTable(CheckGroup.CLIENT)


def _with_lines(outcome: CheckOutcome, turn: ToolTurn) -> CheckOutcome:
    return replace(outcome, lines=turn.lines)


def _not_done(turn: ToolTurn, sentence: str) -> CheckOutcome:
    results = [shorten(result) for result in turn.tool_results]
    return not_judged(f"{sentence}; its tool returned: {results[-1]}" if results else sentence, turn.reply)


async def _rejected_turns(probe: AgentProbe) -> tuple[Sequence[ToolTurn], CheckOutcome]:
    """The turns in which a permission was requested and rejected, and the outcome if there are none."""
    turns = [await run_task(probe, task) for task in REJECTED]
    unused = [why for turn in turns if (why := why_unused(turn))]
    none = unused[0] if len(unused) == len(turns) else not_applicable(NO_PERMISSION)
    return [turn for turn in turns if turn.permissions], none


@CLIENT.check("permission-options", "every permission request can be rejected", PERMISSION, SHOULD, Needs.SESSION)
async def _permission_options(probe: AgentProbe) -> CheckOutcome:
    turns, none = await _rejected_turns(probe)
    for turn in turns:
        if not all(has_kinds(permission) for permission in turn.permissions):
            return not_judged("The options of a permission request are malformed: see permission-shape")
        if not all(can_reject(permission) for permission in turn.permissions):
            return _with_lines(failed("A permission request has no option that rejects it"), turn)
    return passed("Every permission request has an option that rejects it") if turns else none


@CLIENT.check(
    "permission-rejected", "a rejected tool call is not carried out, and its turn ends", PERMISSION, MUST, Needs.SESSION
)
async def _permission_rejected(probe: AgentProbe) -> CheckOutcome:
    turns, none = await _rejected_turns(probe)
    outcomes = [_with_lines(_judge_rejection(turn), turn) for turn in turns]
    order = [Result.FAIL, Result.NOT_JUDGED, Result.PASS]
    return min(outcomes, key=lambda outcome: order.index(outcome.result)) if outcomes else none


def _judge_rejection(turn: ToolTurn) -> CheckOutcome:
    what = f"the permission to {turn.task.action}"
    if not all(can_reject(permission) for permission in turn.permissions):
        return not_judged(f"There was no option to reject {what}", turn.reply)
    if turn.has_effect and not any(turn.names_file(permission) for permission in turn.permissions):
        return not_judged("It is not certain what the rejected permission was for: the request does not name the file")
    if turn.has_effect:
        return failed(f"The user rejected {what}, but the agent did it", turn.reply)
    if isinstance(turn.reply, Answered):
        return passed("The rejected tool call was not carried out", turn.reply)
    if isinstance(turn.reply, Silent) and len(turn.permissions) > 1:
        return not_judged(f"The agent requested {what} again and again", turn.reply)
    return failed(f"When the user rejected {what}, the turn did not end with a stop reason", turn.reply)


@CLIENT.check(
    "permission-cancelled",
    "a turn that is cancelled while a permission is requested ends as cancelled",
    CANCELLATION,
    MUST,
    Needs.SESSION,
    quick=False,
)
async def _permission_cancelled(probe: AgentProbe) -> CheckOutcome:
    rejected, none = await _rejected_turns(probe)
    if not rejected:
        return none
    turn = await run_task(probe, HELD[rejected[0].task.action])
    if not turn.permissions:
        return not_judged("The agent requested no permission this time", turn.reply)
    if not turn.was_cancelled:
        return not_judged("The agent ended the turn without waiting for the permission", turn.reply)
    if turn.has_effect:
        outcome = failed("The turn was cancelled before the permission was given, but the agent did it", turn.reply)
    elif stop_reason(turn.reply) == "cancelled":
        outcome = passed("The turn ended as cancelled", turn.reply)
    elif isinstance(turn.reply, Silent):
        outcome = failed("The turn went on after session/cancel", turn.reply)
    else:
        outcome = failed("The cancelled turn did not end with the stop reason cancelled", turn.reply)
    return _with_lines(outcome, turn)


@CLIENT.check(
    "fs-read",
    "files are read by fs/read_text_file if it is offered",
    FILES,
    SHOULD,
    Needs.SESSION,
    quick=False,
    draft_lacks=NO_FILES,
)
async def _fs_read(probe: AgentProbe) -> CheckOutcome:
    turn = await run_task(probe, READ)
    has_disk_text, has_unsaved_text = turn.shows(DISK_TEXT), turn.shows(UNSAVED_TEXT)
    if Method.FS_READ_TEXT_FILE in turn.file_requests and (has_unsaved_text or not has_disk_text):
        return passed("The agent read the unsaved text of the file from the client", turn.reply)
    if unused := why_unused(turn):
        return unused
    if turn.uses_shell:
        return not_applicable("The agent has no tool that reads files, only one that runs commands")
    if has_disk_text:
        return _with_lines(failed("The agent read the file from disk and missed the unsaved text of the client"), turn)
    return _not_done(turn, "The agent did not read the file")


@CLIENT.check(
    "fs-write",
    "files are written by fs/write_text_file if it is offered",
    FILES,
    SHOULD,
    Needs.SESSION,
    quick=False,
    draft_lacks=NO_FILES,
)
async def _fs_write(probe: AgentProbe) -> CheckOutcome:
    turn = await run_task(probe, WRITE)
    if Method.FS_WRITE_TEXT_FILE in turn.file_requests:
        return passed("The agent wrote the file through the client", turn.reply)
    if unused := why_unused(turn):
        return unused
    if turn.uses_shell:
        return not_applicable("The agent has no tool that writes files, only one that runs commands")
    if turn.has_effect:
        return _with_lines(failed("The agent wrote the file to disk, which the client does not notice"), turn)
    return _not_done(turn, "The agent did not write the file")


@CLIENT.check(
    "terminal-used",
    "commands are run by terminal/create if it is offered",
    TERMINALS,
    MAY,
    Needs.SESSION,
    quick=False,
    draft_lacks=NO_FILES,
)
async def _terminal_used(probe: AgentProbe) -> CheckOutcome:
    turn = await run_task(probe, RUN)
    if turn.uses_terminal:
        return passed("The agent ran the command in a terminal of the client", turn.reply)
    if unused := why_unused(turn):
        return unused
    if turn.has_effect:
        return _with_lines(failed("The agent ran the command itself"), turn)
    return _not_done(turn, "The agent did not run the command")


@CLIENT.check(
    "terminal-released",
    "every terminal is released",
    f"{TERMINALS} – releasing",
    MUST,
    Needs.SESSION,
    quick=False,
    draft_lacks=NO_FILES,
)
async def _terminal_released(probe: AgentProbe) -> CheckOutcome:
    turn = await run_task(probe, RUN)
    if not turn.uses_terminal:
        return why_unused(turn) or not_applicable("The agent created no terminal")
    if not isinstance(turn.reply, Answered):
        return not_judged(f"The turn did not end: {describe(turn.reply)}", turn.reply)
    if turn.unreleased:
        return _with_lines(failed("The agent did not release the terminal of a command that has ended"), turn)
    return passed("The agent released the terminal", turn.reply)


@CLIENT.check(
    "tool-call-reported", "a tool that is used is reported as a tool call", CALLS, SHOULD, Needs.SESSION, quick=False
)
async def _tool_call_reported(probe: AgentProbe) -> CheckOutcome:
    turns = [await run_task(probe, task) for task in (READ, WRITE, RUN)]
    used = [turn for turn in turns if turn.is_used and isinstance(turn.reply, Answered)]
    for turn in used:
        if not turn.reported_calls:
            return _with_lines(failed(f"The agent reported no tool call when it had to {turn.task.action}"), turn)
        if turn.unannounced_calls and not probe.is_draft:
            sentence = f"A tool_call_update with the id {turn.unannounced_calls[0]!r} was sent before its tool_call"
            return _with_lines(failed(sentence), turn)
    if used:
        return passed("Every tool that was used was reported as a tool call")
    return why_unused(turns[0]) or not_judged(f"The turn did not end: {describe(turns[0].reply)}")


@CLIENT.check("failed-tool", "a tool that fails does not fail the turn", CALLS, SHOULD, Needs.SESSION, quick=False)
async def _failed_tool(probe: AgentProbe) -> CheckOutcome:
    normal = await run_task(probe, READ)
    if not isinstance(normal.reply, Answered):
        return not_judged(f"Reading a file does not work at all: {describe(normal.reply)}", normal.reply)
    turn = await run_task(probe, READ_MISSING)
    if isinstance(turn.reply, Refused):
        return _with_lines(failed("Reading a missing file ended the turn with an error", turn.reply), turn)
    return why_unused(turn) or passed("The turn in which a missing file was read ended normally", turn.reply)


@CLIENT.check(
    "partial-client",
    "an agent works if the client offers only a part of fs/*",
    f"{FILES} – checking support",
    SHOULD,
    Needs.SESSION,
    quick=False,
    draft_lacks=NO_FILES,
)
async def _partial_client(probe: AgentProbe) -> CheckOutcome:
    turns = [await run_task(probe, task) for task in PARTLY_OFFERED]
    for turn in turns:
        if isinstance(turn.reply, Refused):
            sentence = f"With {turn.task.offer.value} offered, the turn to {turn.task.action} ended with an error"
            return _with_lines(failed(sentence, turn.reply), turn)
    unused = [why for turn in turns if (why := why_unused(turn))]
    return unused[0] if len(unused) == len(turns) else passed("Every turn ended normally")
