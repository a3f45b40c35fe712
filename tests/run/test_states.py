"""The states of a run: what is in the table happens, and nothing else."""

import asyncio

import pytest

from accord.backends.scripted import Pause, ScriptedBackend
from accord.errors import RefusedError, StoreError
from accord.run import Run
from accord.run.states import MAKING, OVER, TRANSITIONS, RunState
from accord.stores.memory import MemoryStore
from accord.wire.session import StoredState
from tests.run.playing import IMAGE, STREAMS, asking, engine, relay, within
from tests.run.test_sessions import request, sessions
from tests.run.test_sessions import within as within_store
from tests.run.test_store_failure import Away, ended


def test_only_an_end_that_was_lost_is_followed_by_another_state():
    after = {state: {to for before, to in TRANSITIONS if before is state} for state in RunState}
    assert {state for state in OVER if after[state]} == {RunState.LOST}
    assert {*MAKING, RunState.ENDING, *OVER} == {*RunState}
    assert {before for before, to in TRANSITIONS if to is RunState.RELEASED} == {*MAKING}


def test_a_run_without_a_store_runs_while_it_is_read():
    async def states() -> list[RunState]:
        run = engine(relay, ScriptedBackend("a", [["one"]], STREAMS)).begin(asking())
        return [run.state, *[run.state async for _ in run.packets()], run.state]

    running = RunState.RUNNING
    assert within(states) == [RunState.ADMITTED, running, running, RunState.ENDED]


def test_the_agent_of_a_request_that_may_not_run_never_does():
    async def states() -> list[RunState]:
        run = engine(relay).begin(asking(content=[IMAGE]))
        return [*[run.state async for _ in run.packets()], run.state]

    assert within(states) == [RunState.ADMITTED, RunState.ADMITTED, RunState.ENDED]


def test_a_run_that_is_ending_can_neither_be_cancelled_nor_released_and_a_lost_end_is_written_later():
    store = Away()
    made, _ = sessions(store, "one")

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        store.is_away = True
        with pytest.raises(StoreError):
            await turn.whole()
        assert turn.state is RunState.LOST
        turn.release()
        assert (turn.state, turn.cancel()) == (RunState.LOST, False)
        store.is_away = False
        assert (await ended(store)).state is StoredState.DONE
        await asyncio.sleep(0)
        assert turn.state is RunState.ENDED

    within_store(store, run)


def test_a_run_that_is_released_has_no_end():
    store = MemoryStore()
    made, _ = sessions(store, "one", Pause(30), "two")

    async def run() -> None:
        turn = await made.begin(request())
        assert isinstance(turn, Run)
        await asyncio.sleep(0.01)
        turn.release()
        await turn.task
        assert turn.state is RunState.RELEASED
        kept = await store.turn(turn.request_id)
        assert kept is not None
        assert kept.state is StoredState.RUNNING

    within_store(store, run)


def test_a_refusal_that_is_stored_is_another_state_than_an_end():
    store, seen = MemoryStore(), list[Run]()
    made, _ = sessions(store, "never")

    async def run() -> None:
        beginning = asyncio.create_task(made.begin(request(content=[IMAGE])))
        while not seen:
            await asyncio.sleep(0)
            seen.extend(each for each in [await made.find(str(request().request_id), None)] if isinstance(each, Run))
        with pytest.raises(RefusedError):
            await beginning

    within_store(store, run)
    assert seen[0].state is RunState.REFUSED
