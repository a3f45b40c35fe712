"""Every fault of an endpoint has one stated outcome over every transport."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from accord.apis.failure import EndpointError, Failure
from accord.backends.model import ModelBackend
from accord.backends.upstream import UpstreamTimeouts
from accord.wire.work import AnyPiece, EndPiece, TextPiece
from tests.backends.models.toy_server import (
    AT_ONCE,
    ENDED,
    HELLO,
    HUGE_BYTES,
    KEY,
    STREAMED,
    TEXT,
    THERE,
    ZIPPED,
    Waits,
    bare,
    drip,
    model,
    order,
    pieces_of,
    refusal,
)
from tests.client.faulty_server import END, STREAM_HEAD, Do, FaultyServer, Step, chunk, in_turn, whole

HURRIED = UpstreamTimeouts(connect_s=0.3, first_byte_s=0.3, gap_s=0.3)


@dataclass(frozen=True)
class Case:
    """The endpoint's fault for each request in turn, and the expected outcome."""

    answers: Sequence[Sequence[Step]]
    outcome: str | Failure
    requests: int = 1
    waited: tuple[float, ...] = ()
    before: str = ""
    times: UpstreamTimeouts | None = None
    instead: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    """The outcome, after one request, over transports that do not have what this needs."""


UNCOMPRESSED: Mapping[str, Failure] = {"direct": Failure.NOT_UNDERSTOOD}

CASES: dict[str, Case] = {
    "a stream": Case([STREAMED], TEXT),
    "an answer at once": Case([AT_ONCE], TEXT),
    "a compressed answer": Case([[whole(200, ZIPPED, "Content-Encoding: gzip")]], TEXT, instead=UNCOMPRESSED),
    "a stream that ends with its connection": Case([bare(HELLO, THERE, ENDED)], TEXT),
    "a stream byte by byte": Case([[STREAM_HEAD, *map(chunk, drip(HELLO + THERE + ENDED)), END]], TEXT),
    "nothing after the answer's end": Case([[STREAM_HEAD, chunk(HELLO + THERE + ENDED), Do.RESET]], TEXT),
    "reset before the head": Case([[Do.RESET]], Failure.UNREACHABLE, 3, (0.5, 1.0)),
    "closed before the head": Case([[Do.CLOSE]], Failure.UNREACHABLE, 3, (0.5, 1.0)),
    "reset, then well": Case([[Do.RESET], STREAMED], TEXT, 2, (0.5,)),
    "closed in the head": Case([[b"HTTP/1.1 200 OK\r\nContent-", Do.CLOSE]], Failure.UNREACHABLE, 3, (0.5, 1.0)),
    "no head": Case([[Do.HOLD]], Failure.TIMED_OUT, times=HURRIED),
    "no body": Case([[STREAM_HEAD, Do.HOLD]], Failure.TIMED_OUT, times=HURRIED),
    "no more": Case([[STREAM_HEAD, chunk(HELLO), Do.HOLD]], Failure.TIMED_OUT, before="Hello ", times=HURRIED),
    "cut before the first piece": Case([[STREAM_HEAD, Do.CLOSE]], Failure.BROKEN_OFF, 3, (0.5, 1.0)),
    "cut before the first piece, then well": Case([[STREAM_HEAD, Do.CLOSE], STREAMED], TEXT, 2, (0.5,)),
    "cut after the first piece": Case(
        [[STREAM_HEAD, chunk(HELLO), Do.CLOSE], STREAMED], Failure.BROKEN_OFF, before="Hello "
    ),
    "reset after the first piece": Case(
        [[STREAM_HEAD, chunk(HELLO), Do.BEAT, Do.RESET], STREAMED], Failure.BROKEN_OFF, before="Hello "
    ),
    "half an event": Case([[STREAM_HEAD, chunk(HELLO[:-4]), Do.CLOSE]], Failure.BROKEN_OFF, 3, (0.5, 1.0)),
    "half an event, ended in order": Case([[STREAM_HEAD, chunk(HELLO[:-4]), END]], Failure.NOT_UNDERSTOOD),
    "a stream without its end": Case([[STREAM_HEAD, chunk(HELLO), END]], Failure.NOT_UNDERSTOOD, before="Hello "),
    "less than was announced": Case(
        [[AT_ONCE[0].replace(b"Length: 24", b"Length: 99"), Do.CLOSE]], Failure.BROKEN_OFF, 3, (0.5, 1.0)
    ),
    "more than was announced": Case(
        [[AT_ONCE[0].replace(b"Length: 24", b"Length: 9"), Do.CLOSE]], Failure.NOT_UNDERSTOOD
    ),
    "another kind": Case([[whole(200, b"<p>Hello there.</p>", kind="text/html")]], Failure.NOT_UNDERSTOOD),
    "an empty body": Case([[whole(200, b"")]], Failure.NOT_UNDERSTOOD),
    "an empty stream": Case([[STREAM_HEAD, END]], Failure.NOT_UNDERSTOOD),
    "no content": Case([[b"HTTP/1.1 204 None\r\n\r\n"]], Failure.NOT_UNDERSTOOD),
    "not JSON": Case([[whole(200, b"Hello there.")]], Failure.NOT_UNDERSTOOD),
    "not text": Case([[STREAM_HEAD, chunk(b'data: {"text": "\xff\xfe"}\n\n'), END]], Failure.NOT_UNDERSTOOD),
    "an event that is not JSON": Case([[STREAM_HEAD, chunk(b"data: hello\n\n"), END]], Failure.NOT_UNDERSTOOD),
    "not HTTP": Case([[b"\x16\x03\x01 what is this\r\n\r\n", Do.CLOSE]], Failure.NOT_UNDERSTOOD),
    "a chunk without a size": Case(
        [[STREAM_HEAD, Do.BEAT, b"zz\r\n" + HELLO, Do.CLOSE]], Failure.BROKEN_OFF, 3, (0.5, 1.0)
    ),
    "a chunk without a size after the first piece": Case(
        [[STREAM_HEAD, chunk(HELLO), Do.BEAT, b"zz\r\n" + THERE, Do.HOLD]], Failure.BROKEN_OFF, before="Hello "
    ),
    "not what its encoding says": Case(
        [[whole(200, b"Hello there.", "Content-Encoding: gzip")]],
        Failure.BROKEN_OFF,
        3,
        (0.5, 1.0),
        instead=UNCOMPRESSED,
    ),
    "a huge event": Case([[STREAM_HEAD, chunk(b"data: " + b"a" * HUGE_BYTES), END]], Failure.NOT_UNDERSTOOD),
    "a huge head": Case([[whole(200, b"{}", "X-Long: " + "a" * (1 << 20))]], Failure.NOT_UNDERSTOOD),
    "busy": Case([refusal(429)], Failure.RATE_LIMITED, 3, (0.5, 1.0)),
    "busy, then well": Case([refusal(429), STREAMED], TEXT, 2, (0.5,)),
    "busy for three seconds": Case([refusal(429, "Retry-After: 3"), STREAMED], TEXT, 2, (3.0,)),
    "busy until five seconds past": Case(
        [refusal(429, "Retry-After: Tue, 01 Jan 2030 12:00:05 GMT"), STREAMED], TEXT, 2, (5.0,)
    ),
    "busy for an hour": Case([refusal(429, "Retry-After: 3600"), STREAMED], Failure.RATE_LIMITED),
    "busy until who knows when": Case([refusal(429, "Retry-After: soon"), STREAMED], TEXT, 2, (0.5,)),
    "busy for a number without end": Case([refusal(429, "Retry-After: " + "9" * 400), STREAMED], TEXT, 2, (0.5,)),
    "overloaded, then well": Case([refusal(529), refusal(503, "Retry-After: 2"), STREAMED], TEXT, 3, (0.5, 2.0)),
    "failed, then well": Case([refusal(500), AT_ONCE], TEXT, 2, (0.5,)),
    "failed": Case([refusal(502)], Failure.FAILED, 3, (0.5, 1.0)),
    "a key that is not accepted": Case([refusal(401)], Failure.BAD_KEY),
    "a key that may not": Case([refusal(403)], Failure.FORBIDDEN),
    "no such model": Case([refusal(404)], Failure.NO_SUCH_MODEL),
    "a refusal that breaks off": Case([[refusal(401)[0][:-5], Do.CLOSE]], Failure.BAD_KEY),
}


def within(task: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(task(), 20)

    return asyncio.run(bounded())


async def outcome(backend: ModelBackend) -> tuple[str, str | Failure, EndpointError | None]:
    """The text that arrived, and the failure if there was one."""
    pieces: list[AnyPiece] = []
    try:
        async for piece in backend.answer(order()):
            pieces += [piece]
    except EndpointError as error:
        return text_of(pieces), error.report.failure, error
    finally:
        await backend.aclose()
    assert isinstance(pieces[-1], EndPiece)
    return "", text_of(pieces), None


def text_of(pieces: list[AnyPiece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_fault_has_its_outcome(case: Case, transport: str):
    waits = Waits()
    if transport in case.instead:
        case = replace(case, outcome=case.instead[transport], requests=1, waited=())
    with FaultyServer(in_turn(*case.answers)) as server:
        before, came, error = within(lambda: outcome(model(server.url, transport, waits=waits, times=case.times)))
    assert (before, came) == (case.before, case.outcome)
    assert len(server.seen) == case.requests
    assert tuple(waits.waited) == case.waited
    assert error is None or not {KEY, str(server.port), "127.0.0.1"} & set(f"{error} {error.details}".split())


def test_a_redirect_is_not_followed(transport: str):
    with FaultyServer(in_turn(STREAMED)) as elsewhere:
        answer = whole(307, b"", f"Location: {elsewhere.url}/talk")
        with FaultyServer(in_turn([answer])) as server:
            _, came, _ = within(lambda: outcome(model(server.url, transport)))
    assert (came, len(server.seen), elsewhere.seen) == (Failure.NOT_UNDERSTOOD, 1, [])


def test_a_closed_port_is_unreachable_and_tried_again(transport: str):
    with FaultyServer(in_turn()) as server:
        gone = server.url
    waits = Waits()
    assert within(lambda: outcome(model(gone, transport, waits=waits)))[1] == Failure.UNREACHABLE
    assert waits.waited == [0.5, 1.0]


@pytest.mark.parametrize(
    "answer",
    [
        STREAMED,
        AT_ONCE,
        [*STREAMED[:-1], Do.BEAT, END],
        [*STREAMED[:-1], chunk(b": a word more\n\n"), END],
        refusal(401),
    ],
    ids=["a stream", "at once", "its end comes later", "more comes after its end", "a refusal"],
)
def test_a_connection_is_used_again_once_its_answer_was_read_but_for_those_of_aiohttp(
    answer: Sequence[Step], transport: str
):
    async def thrice(backend: ModelBackend) -> None:
        for _ in range(3):
            with suppress(EndpointError):
                await pieces_of(backend)
            await backend.drained()
        await backend.aclose()

    with FaultyServer(in_turn(answer)) as server:
        within(lambda: thrice(model(server.url, transport)))
    assert (len(server.seen), server.connections) == (3, 3 if transport == "aiohttp" else 1)


def test_a_connection_that_the_endpoint_closed_is_replaced(transport: str):
    async def twice(backend: ModelBackend) -> list[str]:
        texts = [text_of(await pieces_of(backend)) for _ in range(2)]
        await backend.aclose()
        return texts

    with FaultyServer(in_turn([*STREAMED, Do.CLOSE])) as server:
        assert within(lambda: twice(model(server.url, transport))) == [TEXT, TEXT]


def test_cancelling_closes_the_connection_at_once(transport: str):
    async def cancelled(server: FaultyServer) -> bool:
        backend = model(server.url, transport)
        api_request = asyncio.create_task(pieces_of(backend))
        assert await asyncio.to_thread(server.held.wait, 10)
        api_request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await api_request
        try:
            return await asyncio.to_thread(server.left.wait, 2)
        finally:
            await backend.aclose()

    for held in ([Do.HOLD], [STREAM_HEAD, Do.HOLD], [STREAM_HEAD, chunk(HELLO), Do.HOLD]):
        with FaultyServer(in_turn(held)) as server:
            assert within(lambda server=server: cancelled(server)), held


def test_closing_the_answer_early_closes_the_connection_at_once(transport: str):
    async def closed(server: FaultyServer) -> bool:
        backend = model(server.url, transport)
        async with aclosing(cast("Any", backend.answer(order()))) as pieces:
            assert await anext(pieces) == TextPiece(text="Hello ")
        try:
            return await asyncio.to_thread(server.left.wait, 2)
        finally:
            await backend.aclose()

    with FaultyServer(in_turn([STREAM_HEAD, chunk(HELLO), Do.HOLD])) as server:
        assert within(lambda: closed(server))


def test_a_piece_is_delivered_before_the_next_one_is_sent(transport: str):
    async def first(server: FaultyServer) -> AnyPiece:
        backend = model(server.url, transport)
        async with aclosing(cast("Any", backend.answer(order()))) as pieces:
            piece = await anext(pieces)
        await backend.aclose()
        return piece

    with FaultyServer(in_turn([STREAM_HEAD, chunk(HELLO), Do.HOLD])) as server:
        assert within(lambda: first(server)) == TextPiece(text="Hello ")


def test_parallel_requests_get_their_own_answers(transport: str):
    async def many(server: FaultyServer) -> set[str]:
        backend = model(server.url, transport)
        answers = await asyncio.gather(*(pieces_of(backend, stream=number % 2 == 0) for number in range(40)))
        await backend.aclose()
        return {text_of(pieces) for pieces in answers}

    def answering(seen: Any) -> Sequence[Step]:
        return STREAMED if b'"stream":true' in seen.body else AT_ONCE

    with FaultyServer(answering) as server:
        assert within(lambda: many(server)) == {TEXT}


def test_the_endpoints_message_is_for_the_operator_and_without_keys():
    with FaultyServer(in_turn(refusal(401))) as server:
        _, _, error = within(lambda: outcome(model(server.url)))
    assert error is not None
    assert error.__notes__
    assert KEY not in f"{error}{error.details}{error.__notes__}"
