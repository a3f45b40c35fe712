"""Requests with one JSON answer: what is sent, what is returned as a message, and what is raised."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from accord.client import AsyncClient
from accord.core.receipt import seal
from accord.errors import (
    BackendError,
    ConnectionFailedError,
    ErrorCode,
    InvalidMessageError,
    RefusedError,
    TimedOutError,
    UsageError,
)
from accord.wire.adaptation import AdaptationReport
from accord.wire.request import ClientCapabilities, Identity, ServiceRequest
from accord.wire.service import HealthCheckStatus
from tests.client.conftest import Drive
from tests.client.driving import EVENTS, Driver, Waits
from tests.client.faulty_server import (
    STREAM_HEAD,
    Do,
    FaultyServer,
    Seen,
    Step,
    as_json,
    chunk,
    in_turn,
    problem,
    whole,
)
from tests.receipts import a_body

RECEIPT = seal(a_body())
REQUEST_ID = UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
HEALTH = {"status": "ok", "agent_id": str(REQUEST_ID), "version": "1", "uptime_seconds": 1.5}


def answer(seen: Seen) -> list[Step]:
    """The answer of a service that is well."""
    request = json.loads(seen.body)
    output = {"text": request["payload"]["query"].upper()}
    return [as_json({"request_id": request["request_id"], "created_at": "2026-01-01T00:00:00Z", "output": output})]


def test_a_request_names_the_agent_that_must_answer(drive: Drive):
    with FaultyServer(answer) as server, drive(server.url, agent="writer") as driver:
        driver.run("ask", "hi")
    (seen,) = server.seen
    assert json.loads(seen.body)["context"]["agent"] == {"id": "writer", "name": "writer"}


def test_a_question_gets_its_whole_answer(drive: Drive):
    with FaultyServer(answer) as server, drive(server.url + "/under/", capabilities=ClientCapabilities()) as driver:
        response = driver.run("ask", "hi", request_id=REQUEST_ID, files=["a.txt"])
    assert response.output == {"text": "HI"}
    assert response.request_id == REQUEST_ID
    (seen,) = server.seen
    assert (seen.line, seen.headers["accept"]) == ("POST /under/v1/assist", "application/json")
    assert "authorization" not in seen.headers
    request = ServiceRequest.parse(seen.body)
    assert request.context.session_id == driver.client.session_id
    assert (request.payload.files, request.payload.capabilities) == (["a.txt"], ClientCapabilities())


def test_capabilities_of_a_request_replace_those_of_the_client(drive: Drive):
    spoken = ClientCapabilities(supported_events=[], prefers_markdown=False)
    with FaultyServer(answer) as server, drive(server.url, user=Identity(id="a", name="Ann", role="chef")) as driver:
        driver.run("ask", "hi", capabilities=spoken)
        driver.run("ask", "hi")
    first, second = (ServiceRequest.parse(seen.body) for seen in server.seen)
    assert first.context.user == Identity(id="a", name="Ann", role="chef")
    assert (first.payload.capabilities, second.payload.capabilities) == (spoken, None)
    assert first.context.session_id == second.context.session_id
    assert first.request_id != second.request_id


def test_users_and_capabilities_may_be_dicts(drive: Drive):
    voice: dict[str, Any] = {"supported_events": [], "prefers_markdown": False}
    with (
        FaultyServer(answer) as server,
        drive(server.url, user={"id": "a", "name": "Ann"}, capabilities=voice) as driver,
    ):
        driver.run("ask", "hi")
        driver.run("ask", "hi", capabilities={"supported_events": ["citation_block"]})
    first, second = (ServiceRequest.parse(seen.body) for seen in server.seen)
    assert first.context.user == Identity(id="a", name="Ann")
    assert first.payload.capabilities == ClientCapabilities(supported_events=[], prefers_markdown=False)
    assert second.payload.capabilities == ClientCapabilities(supported_events=["citation_block"])


@pytest.mark.parametrize("method", ["ask", "stream"])
def test_an_unknown_keyword_of_a_question_is_an_error_that_names_the_closest(drive: Drive, method: str):
    with drive("http://127.0.0.1:1") as driver:
        with pytest.raises(UsageError, match='unknown keyword "capabilites"; did you mean capabilities\\?'):
            driver.run(method, "hi", capabilites={})
        with pytest.raises(UsageError, match='unknown keyword "colour"; known are files, conversation_id, meta'):
            driver.run(method, "hi", colour="red")


def test_an_invalid_request_is_refused_before_it_is_sent(drive: Drive):
    with FaultyServer(answer) as server, drive(server.url) as driver:
        for wrong in (
            {"files": 7},
            {"meta": {"a": float("nan")}},
            {"request_id": "x"},
            {"files": 7, "content": [{"type": "text"}]},
        ):
            with pytest.raises(InvalidMessageError, match="Not a valid ServiceRequest"):
                driver.run("ask", "hi", **wrong)
        with pytest.raises(RefusedError, match="Missing required field: text") as refused:
            driver.run("ask", "hi", content=[{"type": "text"}])
        assert refused.value.code is ErrorCode.CONTENT_INVALID
    assert server.seen == []


def test_a_large_question_arrives_whole(drive: Drive):
    with FaultyServer(answer) as server, drive(server.url) as driver:
        assert driver.run("ask", "ü" * 3_000_000).output == {"text": "Ü" * 3_000_000}


def test_a_json_answer_survives_temporary_failures(drive: Drive):
    troubles: list[list[Step]] = [
        [Do.RESET],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", Do.CLOSE],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Do.BEAT, b"zz\r\nnot a chunk", Do.CLOSE],
        [problem(503, "unavailable")],
    ]
    waits = Waits()

    def in_the_end(seen: Seen) -> list[Step]:
        return troubles[seen.number] if seen.number < len(troubles) else answer(seen)

    with FaultyServer(in_the_end) as server, drive(server.url, wait=waits) as driver:
        assert driver.run("ask", "hi").output == {"text": "HI"}
    assert waits.seconds_waited == [0.5, 1, 2, 4]
    assert len({seen.body for seen in server.seen}) == 1


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        (problem(502, "backend_failed", attempt=1), BackendError, ErrorCode.BACKEND_FAILED),
        (problem(504, "timed_out"), TimedOutError, ErrorCode.TIMED_OUT),
        (problem(422, "CAPABILITY_UNSUPPORTED"), RefusedError, ErrorCode.CAPABILITY_UNSUPPORTED),
        (as_json({"no": "answer"}), InvalidMessageError, ErrorCode.INVALID_MESSAGE),
        (whole(200, b"<html>", kind="text/html"), InvalidMessageError, ErrorCode.INVALID_MESSAGE),
        (as_json("x" * 1000), InvalidMessageError, ErrorCode.INVALID_MESSAGE),
    ],
    ids=["backend", "timed out", "refused", "another shape", "a page", "too large"],
)
def test_a_refusal_of_the_service_is_raised_at_once(
    drive: Drive, answer: bytes, error: type[Exception], code: ErrorCode
):
    with FaultyServer(in_turn([answer])) as server, drive(server.url, max_answer_bytes=500) as driver:
        with pytest.raises(error) as caught:
            driver.run("ask", "hi")
        assert vars(caught.value).get("code", code) == code
    assert len(server.seen) == 1


def test_a_service_that_never_answers_is_a_time_out(drive: Drive):
    with FaultyServer(in_turn([Do.HOLD])) as server, drive(server.url, timeout_s=0.2) as driver:
        for method in ("capabilities", "health"):
            with pytest.raises(TimedOutError, match=r"The service did not answer within 0\.2 s"):
                driver.run(method)
        assert server.left.wait(10)


def test_a_response_that_stops_in_the_middle_is_requested_again(drive: Drive):
    silent: list[Step] = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", Do.HOLD]
    with (
        FaultyServer(lambda seen: silent if seen.number == 0 else answer(seen)) as server,
        drive(server.url, idle_s=0.2) as driver,
    ):
        assert driver.run("ask", "hi").output == {"text": "HI"}
    assert len(server.seen) == 2


def free_port() -> int:
    """A port of loopback that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


CALLS: dict[str, Callable[[Driver], Any]] = {
    "ask": lambda driver: driver.run("ask", "hi"),
    "stream": lambda driver: driver.read(driver.client.stream("hi"), []),
    "resume": lambda driver: driver.read(driver.client.resume(REQUEST_ID), []),
    "capabilities": lambda driver: driver.run("capabilities"),
    "health": lambda driver: driver.run("health"),
}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("call", CALLS)
def test_a_service_that_does_not_run_is_an_error_at_once(drive: Drive, call: str, host: str):
    waits = Waits()
    address = f"http://{host}:{free_port()}"
    with drive(address, wait=waits) as driver, pytest.raises(ConnectionFailedError) as caught:
        CALLS[call](driver)
    assert f"nothing listens at {address} (connection refused)" in caught.value.message
    assert "Start it with `accord serve`, or correct the address" in caught.value.message
    assert waits.seconds_waited == []


def test_an_unknown_host_fails_at_once_and_the_error_has_no_password(drive: Drive):
    waits = Waits()
    with drive("http://me:secret@service.invalid/under", wait=waits) as driver:
        with pytest.raises(ConnectionFailedError, match=r"no connection to http://service\.invalid/under") as caught:
            driver.run("capabilities")
        assert "secret" not in str(caught.value)
    assert waits.seconds_waited == []


def test_a_proxy_that_does_not_run_is_named(drive: Drive, monkeypatch: pytest.MonkeyPatch):
    port = free_port()
    monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{port}")
    with drive("http://service.invalid") as driver:
        with pytest.raises(ConnectionFailedError, match=f"the proxy at 127.0.0.1:{port}") as caught:
            driver.run("capabilities")
        assert "secret" not in str(caught.value)


def test_an_unreachable_service_is_tried_again_with_retry_connect(drive: Drive):
    waits = Waits()
    with drive(f"http://127.0.0.1:{free_port()}", wait=waits, max_attempts=3, retry_connect=True) as driver:
        with pytest.raises(ConnectionFailedError, match="The service cannot be reached") as caught:
            driver.run("ask", "hi")
        assert caught.value.details == {"attempts": 3}
        assert waits.seconds_waited == [0.5, 1]
        with pytest.raises(ConnectionFailedError):
            driver.run("health")
        assert waits.seconds_waited == [0.5, 1]


def test_a_service_that_goes_away_after_an_answer_is_waited_for(drive: Drive):
    waits = Waits()
    with FaultyServer(in_turn([problem(503, "unavailable")])) as server:

        async def stop_first(seconds: float) -> None:
            await waits(seconds)
            await asyncio.to_thread(server.stop)

        with drive(server.url, wait=stop_first, max_attempts=3) as driver:
            with pytest.raises(ConnectionFailedError) as caught:
                driver.run("ask", "hi")
            assert caught.value.details == {"attempts": 3}
    assert waits.seconds_waited == [0.5, 1]


def test_receipt_adaptation_and_items_of_a_turn_can_be_read(drive: Drive):
    report = AdaptationReport(totals={}, entries=[])
    answer = {
        f"/v1/requests/{REQUEST_ID}/receipt": whole(200, RECEIPT.to_json().encode()),
        f"/v1/requests/{REQUEST_ID}/adaptation": whole(200, report.to_json().encode()),
        f"/v1/requests/{REQUEST_ID}/items/a%2Fb": as_json({"type": "chart"}),
        "/v1/capabilities": as_json({"agent": {"name": "demo"}}),
        "/health": as_json(HEALTH),
    }
    with FaultyServer(lambda seen: [answer[seen.target]]) as server, drive(server.url) as driver:
        assert driver.run("receipt", REQUEST_ID) == RECEIPT
        assert driver.run("adaptation", str(REQUEST_ID)) == report
        assert driver.run("item", REQUEST_ID, "a/b") == {"type": "chart"}
        assert driver.run("capabilities") == {"agent": {"name": "demo"}}
        assert driver.run("health").status is HealthCheckStatus.OK
    assert server.connections == 1


def test_a_turn_is_stopped_by_its_id(drive: Drive):
    with FaultyServer(in_turn([b"HTTP/1.1 204 No Content\r\n\r\n"])) as server, drive(server.url) as driver:
        driver.run("cancel", REQUEST_ID)
    assert server.lines == [f"DELETE /v1/requests/{REQUEST_ID}"]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"a": NaN}', b"\xff", b""])
def test_an_answer_that_is_not_an_object_is_an_error(drive: Drive, body: bytes):
    with FaultyServer(in_turn([whole(200, body)])) as server, drive(server.url) as driver:
        with pytest.raises(InvalidMessageError, match="a JSON object"):
            driver.run("capabilities")
        with pytest.raises(InvalidMessageError, match="Not a valid HealthCheckResponse"):
            driver.run("health")


def test_maintenance_is_an_answer_and_a_failing_service_an_error(drive: Drive):
    resting = as_json({**HEALTH, "status": "maintenance"}, 503, "Retry-After: 9")
    with FaultyServer(in_turn([resting], [problem(503, "unavailable")])) as server, drive(server.url) as driver:
        assert driver.run("health").status is HealthCheckStatus.MAINTENANCE
        with pytest.raises(RefusedError, match="Told unavailable"):
            driver.run("health")


@pytest.mark.parametrize(
    "url", ["", "localhost:1", "ftp://a", "http://", "http://a?b", "http://a#b", "http://[", "//a"]
)
def test_an_invalid_address_is_a_usage_error(url: str):
    with pytest.raises(UsageError, match="base_url: expected an http or https address"):
        AsyncClient(url, user="ann")


# --- what only concerns tasks ---


def within(work: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(bounded())


def held_open(seen: Seen) -> list[Step]:
    return [STREAM_HEAD, chunk(EVENTS[0]), Do.HOLD] if seen.last_id == 0 else [STREAM_HEAD, Do.HOLD]


def test_cancelling_the_task_that_reads_closes_the_connection_at_once():
    async def read(url: str, server: FaultyServer) -> None:
        async with AsyncClient(url, user="ann") as client:
            stream = client.stream("Hi")
            assert (await anext(stream)).p == "Grüße, "
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert await asyncio.to_thread(server.left.wait, 10)

    with FaultyServer(held_open) as server:
        within(read(server.url, server))


def test_leaving_a_stream_closes_its_connection_and_the_client_lives_on():
    async def read(url: str, server: FaultyServer) -> None:
        async with AsyncClient(url, user="ann") as client:
            async with client.stream("Hi") as stream:
                await anext(stream)
            assert await asyncio.to_thread(server.left.wait, 10)
            with pytest.raises(UsageError, match="This stream is closed"):
                await anext(stream)
            assert (await anext(client.stream("Again"))).p == "Grüße, "

    with FaultyServer(held_open) as server:
        within(read(server.url, server))


def test_a_stream_closed_under_its_reader_says_so():
    async def read(url: str) -> None:
        async with AsyncClient(url, user="ann") as client:
            stream = client.stream("Hi")
            await anext(stream)
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="already being read by another task"):
                await anext(stream)
            await stream.aclose()
            with pytest.raises(UsageError, match="This stream is closed"):
                await reading

    with FaultyServer(held_open) as server:
        within(read(server.url))


def test_reading_on_after_a_break_goes_on_where_it_was():
    async def read(url: str) -> list[Any]:
        async with AsyncClient(url, user="ann") as client:
            stream = client.stream("Hi")
            ops: list[Any] = []
            async for packet in stream:
                ops.append(packet.op)
                break
            return [*ops, *[packet.op async for packet in stream]]

    with FaultyServer(in_turn([STREAM_HEAD, chunk(b"".join(EVENTS)), b"0\r\n\r\n"])) as server:
        assert within(read(server.url)) == ["delta", "event", "delta", "close"]


def test_many_streams_at_once_do_not_wait_for_each_other():
    async def read(url: str) -> None:
        async with AsyncClient(url, user="ann") as client:
            streams = [client.stream("Hi") for _ in range(120)]
            packets = await asyncio.gather(*(anext(stream) for stream in streams))
            assert [packet.p for packet in packets] == ["Grüße, "] * 120

    with FaultyServer(held_open) as server:
        within(read(server.url))
    assert server.connections == 120
