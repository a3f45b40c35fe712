"""Stored sessions: `session/load`, `list`, `resume`, `close` and `delete` do what they are declared for."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from accord.acp.methods import Method
from accord.acp_tools.inspect.blocks import LONG_WORK, TEXT
from accord.acp_tools.inspect.checks.table import MUST, SHOULD, CheckTable, Needs
from accord.acp_tools.inspect.checks.turn import RUNNING_S, SLOW
from accord.acp_tools.inspect.connection import AgentConnection
from accord.acp_tools.inspect.probe import AgentProbe, CannotJudgeError
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Refused,
    Reply,
    Silent,
    describe,
    failed,
    judge_request_error,
    not_applicable,
    not_judged,
    passed,
    silent_text,
)
from accord.acp_tools.inspect.session_results import (
    AGENT,
    Update,
    judge_closed_turn,
    judge_declared,
    judge_no_replay,
    judge_replay,
    judge_unknown,
    message_text,
)
from accord.acp_tools.json_values import as_list, as_object
from accord.core.rpc import request_line
from accord.errors import RpcCode
from accord.wire.inspection import CheckGroup, Result

LOADING: Final = "ACP: Session Setup – loading sessions"
RESUMING: Final = "ACP: Session Setup – resuming sessions"
CLOSING: Final = "ACP: Session Setup – closing sessions"
LISTING: Final = "ACP: Session List"
DELETING: Final = "ACP: Session Delete"
FLAGS: Final = {
    Method.SESSION_LOAD: "loadSession",
    Method.SESSION_LIST: "sessionCapabilities.list",
    Method.SESSION_RESUME: "sessionCapabilities.resume",
    Method.SESSION_CLOSE: "sessionCapabilities.close",
    Method.SESSION_DELETE: "sessionCapabilities.delete",
}
DRAFT_FLAGS: Final = {Method.SESSION_DELETE: "session.delete"}
DRAFT_BASELINE: Final = frozenset({Method.SESSION_LIST, Method.SESSION_RESUME, Method.SESSION_CLOSE})
"""Methods that every agent of the draft has which has sessions."""
NO_SUCH_SESSION: Final = "01234567-89ab-4cde-8f01-23456789abcd"
"""A well-formed id, because some agents accept only such ids."""
MAX_PAGES: Final = 10
LIST_TRIES: Final = 5
"""How often to list the sessions: an agent may write them to its list a moment after the end of a turn."""

STORED: Final = CheckTable(CheckGroup.SESSION)


def _is_declared(probe: AgentProbe, method: Method) -> bool:
    if probe.is_draft:
        return method in DRAFT_BASELINE or probe.declared.supports(DRAFT_FLAGS.get(method, ""))
    return probe.declared.supports(FLAGS[method])


def _require(probe: AgentProbe, method: Method) -> None:
    """Raise if the method is not declared; what it answers then says nothing."""
    if not _is_declared(probe, method):
        what = DRAFT_FLAGS.get(method, method) if probe.is_draft else FLAGS[method]
        raise CannotJudgeError(not_applicable(f"{what} is not declared"))


@dataclass(frozen=True, slots=True)
class PromptedSession:
    """A session with one prompt; `reply` is the reply to it, `answer` the text of the agent."""

    session: str
    marker: str
    answer: str
    reply: Reply


async def _converse(probe: AgentProbe) -> PromptedSession:
    """Open a session and send a prompt."""
    baseline = await probe.baseline()
    if isinstance(baseline, Silent):
        raise CannotJudgeError(not_judged(silent_text(baseline)))
    connection, session = await probe.agent(), await probe.open_session()
    since, (marker, text) = len(connection.updates), probe.marked_text()
    reply = await probe.prompt(text, session=session)
    updates = [update for updated, update in connection.updates[since:] if updated == session]
    return PromptedSession(session, marker, message_text(updates, AGENT), reply)


@dataclass(frozen=True, slots=True)
class Reopened:
    """A session that was loaded or resumed, and the updates of it that came before and after the reply."""

    reply: Reply
    before: Sequence[Update]
    after: Sequence[Update]


async def _reopen(probe: AgentProbe, connection: AgentConnection, method: Method, session: str) -> Reopened:
    call_id, since = connection.next_id(), len(connection.updates)
    line = request_line(call_id, method, probe.inspection.session_params(sessionId=session))
    reply = await connection.exchange(line, call_id, wait_s=probe.settings.startup_s)
    await connection.received_within(probe.settings.watch_s)
    split = connection.updates_before.get(call_id, len(connection.updates))
    before, after = (
        [update for updated, update in updates if updated == session]
        for updates in (connection.updates[since:split], connection.updates[split:])
    )
    return Reopened(reply, before, after)


async def _judge_next_prompt(
    probe: AgentProbe, connection: AgentConnection, method: Method, conversation: PromptedSession
) -> CheckOutcome | None:
    """What is wrong with a prompt in the reopened session; None if nothing is."""
    marker, text = probe.marked_text()
    reply = await probe.prompt(text, session=conversation.session, connection=connection)
    if not isinstance(reply, Answered):
        return failed(f"After {method} a prompt in the session is not accepted", reply)
    requests = probe.inspection.model.received(marker) if probe.inspection.model is not None else []
    if requests and not any(conversation.marker in request.text for request in requests):
        return failed(f"After {method} the model does not receive the earlier conversation any more")
    return None


Judge = Callable[[Reopened, PromptedSession], CheckOutcome]
"""Judges the result of a method that reopens a session, and the updates around it."""


async def _judge_on(
    connection: AgentConnection, probe: AgentProbe, method: Method, judge: Judge, conversation: PromptedSession
) -> tuple[Reply, CheckOutcome]:
    """Reopen a session on this connection; the reply and the outcome."""
    reopened = await _reopen(probe, connection, method, conversation.session)
    outcome = judge_declared(reopened.reply, method)
    is_missing = isinstance(reopened.reply, Refused) and reopened.reply.code == RpcCode.METHOD_NOT_FOUND
    if not is_missing and not isinstance(conversation.reply, Answered):
        outcome = not_judged(f"There is no conversation to reopen: {describe(conversation.reply)}", conversation.reply)
    outcome = outcome or judge(reopened, conversation)
    if outcome.result is Result.PASS:
        outcome = await _judge_next_prompt(probe, connection, method, conversation) or outcome
    return reopened.reply, replace(outcome, lines=probe.lines())


async def _judge_reopening(probe: AgentProbe, method: Method, judge: Judge) -> CheckOutcome:
    """Reopen a session in a new process of the agent; if that does not work, in the process that opened it."""
    _require(probe, method)
    conversation, connection = await _converse(probe), await probe.agent()
    if probe.settings.quick:
        return (await _judge_on(connection, probe, method, judge, conversation))[1]
    if _is_declared(probe, Method.SESSION_CLOSE):
        await connection.call(Method.SESSION_CLOSE, {"sessionId": conversation.session})
    fresh = await probe.fresh(initialized=True)
    reply, elsewhere = await _judge_on(fresh, probe, method, judge, conversation)
    if elsewhere.result is not Result.FAIL:
        return elsewhere
    _, here = await _judge_on(connection, probe, method, judge, conversation)
    if here.result is not Result.PASS:
        return here if isinstance(reply, Refused) else elsewhere
    # Some agents let only one process at a time have a session, and keep it until they end.
    await connection.exits_within(connection.timeout_s)
    _, after_end = await _judge_on(fresh, probe, method, judge, conversation)
    if after_end.result is Result.PASS:
        return after_end
    sentence = f"{method} works only in the process that opened the session: {elsewhere.sentence}"
    return replace(elsewhere, sentence=sentence, level=SHOULD)


@STORED.check("session-load", "session/load replays the conversation, then answers", LOADING, MUST, Needs.SESSION)
async def _load(probe: AgentProbe) -> CheckOutcome:
    def judge(reopened: Reopened, conversation: PromptedSession) -> CheckOutcome:
        return judge_replay(reopened.before, reopened.after, conversation.marker, conversation.answer)

    return await _judge_reopening(probe, Method.SESSION_LOAD, judge)


@STORED.check("session-resume", "session/resume reopens a session without replay", RESUMING, MUST, Needs.SESSION)
async def _resume(probe: AgentProbe) -> CheckOutcome:
    def judge(reopened: Reopened, _: PromptedSession) -> CheckOutcome:
        return judge_no_replay([*reopened.before, *reopened.after])

    return await _judge_reopening(probe, Method.SESSION_RESUME, judge)


def _add_unknown_check(check_id: str, method: Method, clause: str) -> None:
    @STORED.check(check_id, f"{method} of an unknown session gets an error", clause, SHOULD, Needs.SESSION, quick=False)
    async def _unknown(probe: AgentProbe) -> CheckOutcome:
        _require(probe, method)
        params = probe.inspection.session_params(sessionId=NO_SUCH_SESSION)
        reply = await (await probe.agent()).call(method, params, wait_s=probe.settings.startup_s)
        return judge_unknown(reply, method, f"{method} of an unknown session")


_add_unknown_check("load-unknown", Method.SESSION_LOAD, LOADING)
_add_unknown_check("resume-unknown", Method.SESSION_RESUME, RESUMING)


@dataclass(frozen=True, slots=True)
class Listed:
    """The reply to the last `session/list`, and whether a session was in the list or may be in a part not read."""

    reply: Reply
    is_found: bool = False
    has_more: bool = False


async def _find_in_list(connection: AgentConnection, session: str, **members: Any) -> Listed:
    """Look for a session in the list, page by page."""
    reply: Reply = Silent(0)
    params = members
    for _ in range(MAX_PAGES):
        reply = await connection.call(Method.SESSION_LIST, params)
        result = as_object(reply.result) if isinstance(reply, Answered) else {}
        if any(as_object(row).get("sessionId") == session for row in as_list(result.get("sessions"))):
            return Listed(reply, is_found=True)
        if (cursor := result.get("nextCursor")) is None:
            return Listed(reply)
        params = {**members, "cursor": cursor}
    return Listed(reply, has_more=True)


async def _find_soon(probe: AgentProbe, session: str, **members: Any) -> Listed:
    """Look for a session in the list, several times if it is not there at once."""
    connection, listed = await probe.agent(), Listed(Silent(0))
    for _ in range(LIST_TRIES):
        listed = await _find_in_list(connection, session, **members)
        if listed.is_found or not isinstance(listed.reply, Answered):
            break
        await connection.received_within(probe.settings.watch_s)
    return listed


@STORED.check("session-list", "session/list contains a session that was used", LISTING, MUST, Needs.SESSION)
async def _list(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_LIST)
    conversation = await _converse(probe)
    listed = await _find_soon(probe, conversation.session)
    if outcome := judge_declared(listed.reply, Method.SESSION_LIST):
        return outcome
    if listed.is_found:
        return passed("The list contains the session that was used", listed.reply)
    if listed.has_more or not isinstance(conversation.reply, Answered):
        why = f"not on its first {MAX_PAGES} pages" if listed.has_more else "not answered yet"
        return not_judged(f"session/list was answered; the session is {why}", listed.reply)
    # The protocol does not require that every session is listed.
    return replace(failed("The list does not contain a session that was used", listed.reply), level=SHOULD)


@STORED.check("list-cwd", "session/list filters by the working directory", LISTING, MUST, Needs.SESSION, quick=False)
async def _list_cwd(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_LIST)
    conversation = await _converse(probe)
    cwd = probe.settings.session_cwd
    listed = await _find_soon(probe, conversation.session, cwd=cwd)
    if not listed.is_found:
        if not listed.has_more and (await _find_soon(probe, conversation.session)).is_found:
            if not isinstance(listed.reply, Answered):
                return failed("session/list was answered without a working directory, but not with one", listed.reply)
            return failed("The session is in the list, but not in the list of its working directory")
        return not_judged("The session is not in the list")
    other = await _find_in_list(await probe.agent(), conversation.session, cwd="/" if cwd != "/" else "/tmp")  # noqa: S108 - a path that is only compared
    if other.is_found:
        return failed("The list of another working directory contains the session", other.reply)
    return passed("The session is in the list of its working directory only", other.reply)


@STORED.check("session-close", "session/close ends the turn of the session", CLOSING, MUST, Needs.SESSION)
async def _close(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_CLOSE)
    baseline, connection, session = await probe.baseline(), await probe.agent(), await probe.session()
    if not isinstance(baseline, Answered):
        reply = await connection.call(Method.SESSION_CLOSE, {"sessionId": session})
        return judge_declared(reply, Method.SESSION_CLOSE) or passed("An idle session was closed", reply)
    _, text = probe.marked_text(f"{LONG_WORK} {SLOW}")
    prompt = await probe.start_prompt(text)
    await asyncio.wait({prompt.pending}, timeout=min(RUNNING_S, connection.timeout_s))
    had_ended = prompt.pending.done() and not probe.is_draft
    closed = await connection.call(Method.SESSION_CLOSE, {"sessionId": session})
    if outcome := judge_declared(closed, Method.SESSION_CLOSE):
        connection.is_busy = connection.is_busy or not prompt.pending.done()
        return outcome
    if had_ended:
        return passed("The session was closed; its turn had ended before", closed)
    return judge_closed_turn(await prompt.ending())


@STORED.check("closed-session", "a prompt to a closed session gets an error", CLOSING, SHOULD, Needs.SESSION)
async def _closed(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_CLOSE)
    baseline = await probe.baseline()
    if isinstance(baseline, Silent):
        return not_judged(silent_text(baseline))
    params = {"sessionId": await probe.session()}
    closed = await (await probe.agent()).call(Method.SESSION_CLOSE, params)
    if not isinstance(closed, Answered):
        return not_judged(f"No session could be closed: {describe(closed)}", closed)
    return judge_request_error(await probe.prompt(TEXT), "A prompt to a closed session", baseline=baseline)


@STORED.check("session-delete", "session/delete removes a session from the list", DELETING, MUST, Needs.SESSION)
async def _delete(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_DELETE)
    conversation, connection = await _converse(probe), await probe.agent()
    params, is_closed, was_listed = {"sessionId": conversation.session}, False, False
    if _is_declared(probe, Method.SESSION_LIST):
        was_listed = (await _find_soon(probe, conversation.session)).is_found
    if _is_declared(probe, Method.SESSION_CLOSE):
        is_closed = isinstance(await connection.call(Method.SESSION_CLOSE, params), Answered)
    reply = await connection.call(Method.SESSION_DELETE, params)
    if isinstance(reply, Refused) and reply.code != RpcCode.METHOD_NOT_FOUND and not is_closed:
        return not_judged("The agent does not delete an open session, which the protocol allows", reply)
    if outcome := judge_declared(reply, Method.SESSION_DELETE):
        return outcome
    if not was_listed:
        return passed("session/delete was answered; the session was not in a list before", reply)
    if (await _find_in_list(connection, conversation.session)).is_found:
        return failed("A deleted session is still in the list", reply)
    return passed("The deleted session is not in the list any more", reply)


@STORED.check(
    "delete-unknown", "session/delete of an unknown session succeeds", DELETING, SHOULD, Needs.SESSION, quick=False
)
async def _delete_unknown(probe: AgentProbe) -> CheckOutcome:
    _require(probe, Method.SESSION_DELETE)
    reply = await (await probe.agent()).call(Method.SESSION_DELETE, {"sessionId": NO_SUCH_SESSION})
    if isinstance(reply, Refused) and reply.code == RpcCode.METHOD_NOT_FOUND:
        return not_judged("session/delete does not exist", reply)
    return judge_declared(reply, Method.SESSION_DELETE) or passed("Deleting an unknown session succeeded", reply)
