"""Lines on the pipe: broken ones, long ones, ids, unknown methods."""

import asyncio
from dataclasses import replace
from typing import Final

from accord.acp_tools.inspect.checks.process import STDIO
from accord.acp_tools.inspect.checks.table import MAY, MUST, SHOULD, CheckTable
from accord.acp_tools.inspect.probe import UNKNOWN_NOTICE, AgentProbe
from accord.acp_tools.inspect.replies import (
    Answered,
    CheckOutcome,
    Gone,
    Refused,
    capitalize,
    describe,
    failed,
    judge_answered,
    judge_error,
    judge_error_reply,
    judge_next,
    passed,
)
from accord.core.rpc import notification_line, request_line
from accord.errors import RpcCode
from accord.wire.inspection import CheckGroup

RECOVERY: Final = "JSON-RPC 2.0 §5.1: a bad message is an error, not an end"
ERROR_REPLY: Final = "JSON-RPC 2.0 §5.1: -32700 and -32600, with id null"
IDS: Final = "JSON-RPC 2.0 §5: the id is that of the request"

BAD_LINES: Final = {
    "garbage-line": ("a line of garbage", b"this is no JSON {{{\n"),
    "binary-line": ("a line that is not UTF-8", b'\xff\xfe\x00{"\x80\n'),
    "array-line": ("the line []", b"[]\n"),
    "number-line": ("the line 42", b"42\n"),
    "blank-lines": ("blank lines", b"\n  \n\r\n"),
}
MEGABYTE: Final = 1024 * 1024
LINE_MEGABYTES: Final = {1: SHOULD, 10: MAY}
LARGE_ID: Final = 2**53 - 1

LINES: Final = CheckTable(CheckGroup.LINES)


def _add_bad_line_check(check_id: str) -> None:
    what, line = BAD_LINES[check_id]

    @LINES.check(check_id, f"after {what} the next request is answered", RECOVERY, MUST, quick=False)
    async def _recovers(probe: AgentProbe) -> CheckOutcome:
        effect = await probe.send_line(line)
        outcome = judge_next(effect.reply, len(effect.unsolicited), what, lines=line.count(b"\n"))
        return replace(outcome, lines=effect.lines)


for _name in BAD_LINES:
    _add_bad_line_check(_name)


def _add_error_reply_check(check_id: str, bad_line: str, wanted: int) -> None:
    what, line = BAD_LINES[bad_line]

    @LINES.check(check_id, f"{what} gets error {wanted}", ERROR_REPLY, SHOULD, quick=False)
    async def _replies(probe: AgentProbe) -> CheckOutcome:
        effect = await probe.send_line(line)
        if isinstance(effect.reply, Gone):
            return replace(failed(f"{capitalize(what)} ended the agent", effect.reply), lines=effect.lines)
        codes = [reply.code for reply in effect.unsolicited if isinstance(reply, Refused)]
        return replace(judge_error_reply(codes, wanted, what, lacks_id=effect.lacks_id), lines=effect.lines)


_add_error_reply_check("garbage-error", "garbage-line", RpcCode.PARSE_ERROR)
_add_error_reply_check("number-error", "number-line", RpcCode.INVALID_REQUEST)


@LINES.check("half-line", "a line that arrives in two pieces is one line", STDIO, MUST)
async def _half(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.agent()
    call_id = connection.next_id()
    line, pending = request_line(call_id, *await probe.harmless_request()), connection.expect(call_id)
    await connection.send(line[:20], piece_of=line)
    await asyncio.sleep(0.2)
    await connection.send(line[20:], piece_of=b"")
    return judge_answered(await connection.reply(pending, call_id), "The line in two pieces")


def _add_long_line_check(megabytes: int) -> None:
    @LINES.check(
        f"line-{megabytes}mb", f"a line of {megabytes} MB is read", STDIO, LINE_MEGABYTES[megabytes], quick=False
    )
    async def _reads(probe: AgentProbe) -> CheckOutcome:
        connection = await probe.agent()
        reply = await connection.call(*await probe.harmless_request(text="x" * (megabytes * MEGABYTE)))
        return judge_answered(reply, f"A request of {megabytes} MB")


for _number in LINE_MEGABYTES:
    _add_long_line_check(_number)


@LINES.check("unknown-method", "an unknown method gets -32601", "JSON-RPC 2.0 §5.1: -32601 method not found", MUST)
async def _unknown_method(probe: AgentProbe) -> CheckOutcome:
    # Without the underscore that marks an extension: some libraries answer every extension method with null.
    reply = await (await probe.agent()).call("accord/unknown", {})
    return judge_error(reply, RpcCode.METHOD_NOT_FOUND, "An unknown method")


@LINES.check(
    "unknown-notification", "an unknown notification is ignored", "JSON-RPC 2.0 §4.1: no reply", MUST, quick=False
)
async def _unknown_notice(probe: AgentProbe) -> CheckOutcome:
    effect = await probe.send_line(notification_line(UNKNOWN_NOTICE, {}))
    if effect.unsolicited:
        return replace(failed("An unknown notification got a reply", effect.unsolicited[0]), lines=effect.lines)
    return replace(judge_next(effect.reply, 0, "an unknown notification"), lines=effect.lines)


def _add_id_check(check_id: str, what: str, call_id: int | str) -> None:
    @LINES.check(check_id, f"{what} comes back unchanged", IDS, MUST)
    async def _returns(probe: AgentProbe) -> CheckOutcome:
        connection = await probe.agent()
        before = len(connection.unsolicited)
        reply = await connection.exchange(request_line(call_id, *await probe.harmless_request()), call_id)
        if others := [frame.id for frame in connection.unsolicited[before:]]:
            return failed(f"{capitalize(what)} {call_id!r} came back as {others[0]!r}")
        return judge_answered(reply, f"A request with {what}")


_add_id_check("string-id", "an id that is text", "accord-id-1")
_add_id_check("large-id", "a large id", LARGE_ID)


@LINES.check(
    "null-id", "a request whose id is null does no harm", "JSON-RPC 2.0 §4: null should not be an id", MAY, quick=False
)
async def _null_id(probe: AgentProbe) -> CheckOutcome:
    effect = await probe.send_line(request_line(None, *await probe.harmless_request()))
    return judge_next(effect.reply, len(effect.unsolicited), "a request whose id is null")


@LINES.check("concurrent", "concurrent requests get answers with the right ids", IDS, MUST)
async def _concurrent(probe: AgentProbe) -> CheckOutcome:
    connection = await probe.agent()
    method, params = await probe.harmless_request()
    replies = await asyncio.gather(*(connection.call(method, params) for _ in range(5)))
    if lost := [reply for reply in replies if not isinstance(reply, Answered | Refused)]:
        return failed(f"{len(lost)} of 5 concurrent requests were not answered: {describe(lost[0])}")
    return passed("5 concurrent requests got 5 answers")
