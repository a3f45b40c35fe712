"""Backends that are down are skipped for a while, tried again by one request at a time, and never the reason to refuse."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.failure import EndpointError, Failure, FailureReport
from accord.backends.scripted import Script, ScriptedBackend, ScriptedFault
from accord.errors import AccordError, BackendError, BackendSkippedError, EmulationError, TimedOutError
from accord.run.circuit import MAX_RETRY_AFTER_S, BackendAttempt, CircuitChange, Circuits, CircuitSettings
from accord.run.costs import RunCosts
from accord.run.dispatch import Dispatcher, WorkRecord
from accord.run.limits import RunTimer
from accord.wire.keys import Payer
from accord.wire.work import TextPiece
from tests.backends.models.toy_server import STREAMED, Waits, model, order, refusal
from tests.client.faulty_server import FaultyServer
from tests.run.playing import STREAMS
from tests.servers.clock import ManualClock

SETTINGS = CircuitSettings(failures=3, pause_s=4.0, max_pause_s=16.0)
DOWN = BackendError("a: down")
FAULTY = BackendError("a: bad request", retryable=False)


def failure(kind: Failure, retry_after_s: float | None = None) -> EndpointError:
    return EndpointError("a", FailureReport(kind, retry_after_s=retry_after_s))


def circuits(clock: ManualClock, **given_settings: Any) -> Circuits:
    # With jitter 1, a pause has its full length.
    return Circuits(clock, CircuitSettings(**given_settings) if given_settings else SETTINGS, jitter=lambda: 1.0)


def fail(state: Circuits, name: str, error: AccordError = DOWN, times: int = 1) -> None:
    for _ in range(times):
        state.failed(name, error)


def tried(state: Circuits, names: str, error: AccordError = DOWN) -> str:
    """The backends that a request tries if each fails with this error, those that may resend in capitals."""
    order_of_attempts = ""
    for attempt in state.attempts(names, []):
        # Whether it may resend at first: asking counts outages.
        order_of_attempts += attempt.backend.upper() if attempt.may_resend(FAULTY) else attempt.backend
        if attempt.is_final(error):
            break
    return order_of_attempts


COUNTED = "overloaded failed unreachable untrusted broken_off timed_out".split()


@pytest.mark.parametrize("kind", list(Failure))
def test_each_failure_counts_only_if_it_speaks_against_the_backend(kind: Failure):
    state = circuits(ManualClock())
    fail(state, "a", failure(kind), times=3)
    assert state.is_open("a") is (kind in COUNTED)


@pytest.mark.parametrize(
    ("errors", "is_open"),
    [
        ([DOWN, DOWN], False),
        ([DOWN, DOWN, DOWN], True),
        ([TimedOutError("slow")] * 3, True),
        ([DOWN, DOWN, FAULTY, DOWN], False),  # it answered in between, if only to refuse
        ([DOWN, DOWN, failure(Failure.RATE_LIMITED), DOWN], True),  # which says nothing
        ([failure(Failure.RATE_LIMITED)] * 9, False),
        ([failure(Failure.RATE_LIMITED, 30.0)], True),
        ([failure(Failure.OVERLOADED, 30.0)], True),
    ],
)
def test_a_circuit_opens_after_outages_in_a_row_or_when_the_endpoint_wants_a_pause(
    errors: list[AccordError], is_open: bool
):
    state = circuits(ManualClock())
    for error in errors:
        fail(state, "a", error)
    assert state.is_open("a") is is_open


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_longest():
    clock = ManualClock()
    changes: list[CircuitChange] = []
    state = Circuits(clock, SETTINGS, jitter=lambda: 1.0, on_change=changes.append)
    fail(state, "a", times=3)
    for _ in range(4):
        clock.elapsed_s += changes[-1].pause_s or 0.0
        assert not state.is_open("a")
        with pytest.raises(BackendError), _attempt(state, "a"):
            raise DOWN
        assert state.is_open("a")
    assert [change.pause_s for change in changes] == [4.0, 8.0, 16.0, 16.0, 16.0]
    clock.elapsed_s += 16.0
    with _attempt(state, "a"):
        pass
    assert changes[-1] == CircuitChange("a", None)
    fail(state, "a", times=3)
    assert changes[-1].pause_s == 4.0


@pytest.mark.parametrize(("retry_after_s", "pause_s"), [(30.0, 30.0), (86_400.0, MAX_RETRY_AFTER_S)])
def test_a_pause_that_the_endpoint_wants_is_kept_up_to_a_limit(retry_after_s: float, pause_s: float):
    clock = ManualClock()
    state = circuits(clock)
    fail(state, "a", failure(Failure.RATE_LIMITED, retry_after_s))
    clock.elapsed_s = pause_s - 0.001
    assert state.is_open("a")
    clock.elapsed_s = pause_s
    assert not state.is_open("a")


@given(st.floats(0.0, 1.0))
def test_half_of_a_pause_is_random(jitter: float):
    changes: list[CircuitChange] = []
    state = Circuits(ManualClock(), SETTINGS, jitter=lambda: jitter, on_change=changes.append)
    fail(state, "a", times=3)
    assert 2.0 <= (changes[0].pause_s or 0.0) <= 4.0


@pytest.mark.parametrize(
    ("is_down", "bad_request", "outage"),
    [
        ("", "abC", "abC"),
        ("a", "bC", "bCa"),
        ("b", "aC", "aCb"),
        ("c", "aB", "aBc"),
        ("ab", "C", "Ca"),  # of several, only the one whose pause ends first
        ("abc", "a", "a"),
    ],
)
def test_backends_that_are_down_are_tried_last_and_only_if_all_others_are_down(
    is_down: str, bad_request: str, outage: str
):
    clock = ManualClock()
    state = circuits(clock)
    for name in is_down:
        fail(state, name, times=3)
        clock.elapsed_s += 0.5
    assert tried(state, "abc", FAULTY) == bad_request
    assert tried(state, "abc", DOWN) == outage


def test_what_is_skipped_is_recorded_with_the_time_since_when_it_is_down():
    clock = ManualClock()
    state = circuits(clock)
    fail(state, "a", times=3)
    clock.elapsed_s += 2
    failures: list[tuple[str, AccordError]] = []
    assert next(state.attempts("ab", failures)).backend == "b"
    ((name, error),) = failures
    assert (name, type(error), error.code) == ("a", BackendSkippedError, "unavailable")
    assert error.message == "a: skipped: down since 2026-01-31 12:00:00 UTC"


@pytest.mark.parametrize("end", [asyncio.CancelledError(), GeneratorExit(), RuntimeError()])
def test_a_trial_that_is_given_up_leaves_the_next_one_to_another_request(end: BaseException):
    clock = ManualClock()
    state = circuits(clock)
    fail(state, "a", times=3)
    clock.elapsed_s += 4.0
    attempt = _attempt(state, "a")
    attempt.__enter__()
    assert state.is_open("a")
    assert tried(state, "ab") == "Ba"
    attempt.__exit__(type(end), end, None)
    assert not state.is_open("a")


def test_an_answer_that_has_begun_ends_the_trial_and_opens_the_circuit_again_if_it_breaks_off():
    clock = ManualClock()
    state = circuits(clock)
    fail(state, "a", times=3)
    clock.elapsed_s += 4.0
    attempt = _attempt(state, "a")
    attempt.__enter__()
    attempt.began()
    assert not state.is_open("a")
    attempt.__exit__(BackendError, DOWN, None)
    clock.elapsed_s += 7.9
    assert state.is_open("a")  # for twice as long as before
    clock.elapsed_s += 0.1
    with _attempt(state, "a") as attempt:
        attempt.began()
    fail(state, "a", times=2)
    assert not state.is_open("a")


def test_an_answer_that_cannot_be_used_closes_the_circuit_all_the_same():
    clock = ManualClock()
    state = circuits(clock)
    fail(state, "a", times=3)
    clock.elapsed_s += 4.0
    with pytest.raises(EmulationError), _attempt(state, "a"):
        raise EmulationError("no JSON")
    assert state.down_since("a") is None


def _attempt(state: Circuits, name: str) -> BackendAttempt:
    return next(state.attempts([name], []))


ENDS: dict[str, BaseException | None] = {
    "answers": None, "down": DOWN, "faulty": FAULTY, "slow": TimedOutError("slow"), "given up": asyncio.CancelledError(),
    "busy": failure(Failure.RATE_LIMITED, 3.0), "fails as emulated": EmulationError("no"),
}  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.lists(st.sampled_from("abc"), min_size=1, unique=True)),
        st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(sorted(ENDS))),
        st.tuples(st.just("wait"), st.floats(0.0, 20.0)),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_happens_one_trial_at_a_time_an_answer_closes_and_something_is_tried(history: list[tuple[Any, ...]]):
    clock = ManualClock()
    state = circuits(clock)
    running: list[tuple[BackendAttempt, bool]] = []
    """Each request that runs, and whether it is the trial of an open circuit."""
    for step in history:
        match step:
            case ("request", names):
                attempt = next(state.attempts(names, []), None)
                assert attempt is not None, "with all circuits open, something is still tried"
                if any(not state.is_open(name) for name in names):
                    assert not state.is_open(attempt.backend)
                is_trial = state.down_since(attempt.backend) is not None and not state.is_open(attempt.backend)
                attempt.__enter__()
                running.append((attempt, is_trial))
                trials = [each.backend for each, is_trial in running if is_trial]
                assert len(trials) == len(set(trials)), "never more than one trial of a backend at a time"
            case ("end", number, how) if running:
                attempt, _ = running.pop(number % len(running))
                error = ENDS[how]
                attempt.__exit__(type(error) if error else None, error, None)
                if error is None:
                    assert not state.is_open(attempt.backend), "an answer closes the circuit"
                    # The trial that still runs is none any more.
                    running = [(each, is_trial and each.backend != attempt.backend) for each, is_trial in running]
            case ("wait", seconds):
                clock.elapsed_s += seconds
            case _:
                pass
    clock.elapsed_s += MAX_RETRY_AFTER_S
    while running:
        attempt, _ = running.pop()
        attempt.__exit__(asyncio.CancelledError, asyncio.CancelledError(), None)
    assert not any(map(state.is_open, "abc")), "no circuit stays open for ever"


def dispatcher(clock: ManualClock, *backends: Any) -> Dispatcher:
    return Dispatcher(backends, clock=clock, circuits=circuits(clock))


def scripted(name: str, *scripts: Script) -> ScriptedBackend:
    return ScriptedBackend(name, scripts, STREAMS)


async def answer(by: Dispatcher) -> tuple[str, WorkRecord, AccordError | None]:
    record, timer = WorkRecord(), RunTimer()
    text, error = "", None
    try:
        async with asyncio.timeout(20):
            async for piece in by.answer(order(), record, timer, RunCosts(None, Payer(), by)):
                text += piece.text if isinstance(piece, TextPiece) else ""
    except AccordError as raised:
        error = raised
    return text, record, error


def names(failures: Sequence[tuple[str, AccordError]]) -> list[str]:
    return [f"{name} skipped" if isinstance(error, BackendSkippedError) else name for name, error in failures]


def test_a_dead_first_backend_costs_later_questions_nothing_and_is_used_again_when_it_answers():
    clock = ManualClock()
    first = scripted("first", [ScriptedFault()], [ScriptedFault()], [ScriptedFault()], ["back"])
    by = dispatcher(clock, first, scripted("second", ["spare"]))

    async def run() -> list[tuple[str, list[str]]]:
        outcomes: list[tuple[str, list[str]]] = []
        for elapsed_s in (0, 0, 0, 0, 3.9, 4.0, 4.0):
            clock.elapsed_s = elapsed_s
            text, record, _ = await answer(by)
            outcomes.append((text, names(record.failures)))
        return outcomes

    failed, skipped = ("spare", ["first"]), ("spare", ["first skipped"])
    assert asyncio.run(run()) == [failed, failed, failed, skipped, skipped, ("back", []), ("back", [])]
    assert len(first.orders) == 5


def test_a_question_that_only_dead_backends_can_answer_gets_the_error_of_one_of_them():
    clock = ManualClock()
    first, second = scripted("first", [ScriptedFault("no")]), scripted("second", [ScriptedFault("neither")])
    by = dispatcher(clock, first, second)

    async def run() -> tuple[list[str], AccordError | None]:
        for _ in range(3):
            await answer(by)
        _, record, error = await answer(by)
        return names(record.failures), error

    tried_last, error = asyncio.run(run())
    assert tried_last == ["first skipped", "second skipped", "first"]
    assert str(error) == "no"
    assert (len(first.orders), len(second.orders)) == (4, 3)


def test_a_fault_in_the_middle_of_an_answer_counts_but_is_not_repeated():
    clock = ManualClock()
    first, second = scripted("first", ["half", ScriptedFault()]), scripted("second", ["spare"])
    by = dispatcher(clock, first, second)

    async def run() -> list[str]:
        return [(await answer(by))[0] for _ in range(4)]

    assert asyncio.run(run()) == ["half", "half", "half", "spare"]


def test_a_backend_resends_only_if_no_other_one_is_left():
    waits = [Waits(), Waits()]

    async def run(*urls: str) -> tuple[str, list[str]]:
        backends = [
            model(url, waits=wait, name=name) for url, wait, name in zip(urls, waits, ("first", "second"), strict=False)
        ]
        text, record, _ = await answer(dispatcher(ManualClock(), *backends))
        for backend in backends:
            await backend.aclose()
        return text, names(record.failures)

    def in_turn(*answers: Any) -> FaultyServer:
        left = [*answers]
        return FaultyServer(lambda _: left.pop(0) if len(left) > 1 else left[0])

    with in_turn(refusal(503)) as busy, in_turn(refusal(503), refusal(503), STREAMED) as recovering:
        assert asyncio.run(run(busy.url, recovering.url)) == ("Hello there.", ["first"])
        assert (len(busy.seen), len(recovering.seen)) == (1, 3)
    assert [len(each.waited) for each in waits] == [0, 2]


def test_two_dead_backends_cost_no_wait_from_the_first_question_on():
    with FaultyServer(lambda _: STREAMED) as server, FaultyServer(lambda _: STREAMED) as gone:
        gone.stop()  # nothing listens at its address any more
        waits = Waits()

        async def run() -> list[list[str]]:
            dead = [model(gone.url, waits=waits, name=f"dead-{number}") for number in (1, 2)]
            by = dispatcher(ManualClock(), *dead, model(server.url, waits=waits, name="good"))
            outcomes = [await answer(by) for _ in range(5)]
            for backend in by.backends.values():
                await backend.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            assert {text for text, _, _ in outcomes} == {"Hello there."}
            return [names(record.failures) for _, record, _ in outcomes]

        failed, skipped = ["dead-1", "dead-2"], ["dead-1 skipped", "dead-2 skipped"]
        assert asyncio.run(run()) == [failed, failed, failed, skipped, skipped]
    assert waits.waited == []
