"""Checks of the pipe: broken lines, long ones, lines in pieces, and the ids of what is asked."""

import asyncio
from typing import Final

from accord.acp_tools.inspect.probe import MAY, MUST, SHOULD, UNKNOWN_NOTICE, AgentProbe, CheckTable
from accord.acp_tools.inspect.replies import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Answered,
    CheckOutcome,
    Gone,
    Refused,
    failed,
    judge_answered,
    judge_error,
    judge_next,
    judge_told,
    passed,
    sentence,
    tell,
)
from accord.core.rpc import notification_line, request_line

LINES: Final = CheckTable()
RECOVERY: Final = "JSON-RPC 2.0 §5.1: a bad message is an error, not an end"
TELLING: Final = "JSON-RPC 2.0 §5.1: -32700 and -32600, with id null"
STDIO: Final = "ACP: Transports – stdio"
IDS: Final = "JSON-RPC 2.0 §5: the id is that of the request"
MEGABYTE: Final = 1024 * 1024
LARGE_ID: Final = 2**53 - 1
ROUND_MEGABYTES: Final = {1: SHOULD, 10: MAY}
BAD_LINES: Final = {
    "garbage-line": ("a line of garbage", b"this is no JSON {{{\n"),
    "binary-line": ("a line that is not UTF-8", b'\xff\xfe\x00{"\x80\n'),
    "array-line": ("the line []", b"[]\n"),
    "number-line": ("the line 42", b"42\n"),
    "blank-lines": ("blank lines", b"\n  \n\r\n"),
}


def _bad_line(own: str) -> None:
    what, line = BAD_LINES[own]

    @LINES.check(own, f"after {what} the next request is answered", RECOVERY, MUST)
    async def _survives(probe: AgentProbe) -> CheckOutcome:
        seen = await probe.after(line)
        return judge_next(seen.reply, len(seen.strays), what, lines=line.count(b"\n"))


for _own in BAD_LINES:
    _bad_line(_own)


def _told(own: str, bad: str, wanted: int) -> None:
    what, line = BAD_LINES[bad]

    @LINES.check(own, f"the sender of {what} is told {wanted}", TELLING, SHOULD)
    async def _tells(probe: AgentProbe) -> CheckOutcome:
        seen = await probe.after(line)
        if isinstance(seen.reply, Gone):
            return failed(f"{sentence(what)} ended the agent", seen.reply)
        codes = [stray.code for stray in seen.strays if isinstance(stray, Refused)]
        return judge_told(codes, wanted, what, lacks_id=seen.lacks_id)


_told("garbage-told", "garbage-line", PARSE_ERROR)
_told("number-told", "number-line", INVALID_REQUEST)


@LINES.check("half-line", "a line that comes in two pieces is one line", STDIO, MUST)
async def _half(probe: AgentProbe) -> CheckOutcome:
    talk = await probe.agent()
    own = talk.next_id()
    line, waiting = request_line(own, *await probe.harmless()), talk.expect(own)
    await talk.send(line[:20])
    await asyncio.sleep(0.2)
    await talk.send(line[20:])
    return judge_answered(await talk.reply(waiting, own), "The line in two pieces")


def _long_line(megabytes: int) -> None:
    @LINES.check(f"line-{megabytes}mb", f"a line of {megabytes} MB is read", STDIO, ROUND_MEGABYTES[megabytes])
    async def _reads(probe: AgentProbe) -> CheckOutcome:
        talk = await probe.agent()
        reply = await talk.call(*await probe.harmless(text="x" * (megabytes * MEGABYTE)))
        return judge_answered(reply, f"A request of {megabytes} MB")


for _megabytes in ROUND_MEGABYTES:
    _long_line(_megabytes)


@LINES.check("unknown-method", "an unknown method gets -32601", "JSON-RPC 2.0 §5.1: -32601 method not found", MUST)
async def _unknown_method(probe: AgentProbe) -> CheckOutcome:
    # Not an extension (those begin with _): some libraries answer every extension with null.
    return judge_error(await (await probe.agent()).call("accord/unknown", {}), METHOD_NOT_FOUND, "An unknown method")


@LINES.check("unknown-notification", "an unknown notification is ignored", "JSON-RPC 2.0 §4.1: no reply", MUST)
async def _unknown_notice(probe: AgentProbe) -> CheckOutcome:
    seen = await probe.after(notification_line(UNKNOWN_NOTICE, {}))
    if seen.strays:
        return failed("An unknown notification got a reply", seen.strays[0])
    return judge_next(seen.reply, 0, "an unknown notification")


def _id(own: str, what: str, value: int | str) -> None:
    @LINES.check(own, f"{what} comes back as it was", IDS, MUST)
    async def _returns(probe: AgentProbe) -> CheckOutcome:
        talk = await probe.agent()
        before = len(talk.strays)
        reply = await talk.exchange(request_line(value, *await probe.harmless()), value)
        if others := [stray.id for stray in talk.strays[before:]]:
            return failed(f"{sentence(what)} {value!r} came back as {others[0]!r}")
        return judge_answered(reply, f"A request with {what}")


_id("string-id", "an id that is text", "accord-id-1")
_id("large-id", "a large id", LARGE_ID)


@LINES.check("null-id", "a request whose id is null does no harm", "JSON-RPC 2.0 §4: null should not be an id", MAY)
async def _null_id(probe: AgentProbe) -> CheckOutcome:
    seen = await probe.after(request_line(None, *await probe.harmless()))
    return judge_next(seen.reply, len(seen.strays), "a request whose id is null")


@LINES.check("concurrent", "requests at once get answers with the right ids", IDS, MUST)
async def _concurrent(probe: AgentProbe) -> CheckOutcome:
    talk = await probe.agent()
    method, params = await probe.harmless()
    replies = await asyncio.gather(*(talk.call(method, params) for _ in range(5)))
    if lost := [reply for reply in replies if not isinstance(reply, Answered | Refused)]:
        return failed(f"{len(lost)} of 5 requests at once were not answered: {tell(lost[0])}")
    return passed("5 requests at once got 5 answers")
