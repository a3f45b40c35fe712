"""What every backend must do. A new backend adds a row to BACKENDS and passes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, cast

import pytest

from accord.backends.scripted import EchoBackend, Pause, ScriptedBackend, ScriptedFault
from accord.errors import BackendError
from accord.ports import Backend, ManagedBackend
from accord.wire.conversation import Conversation
from accord.wire.manifest import CapabilityManifest
from accord.wire.work import AnyPiece, EndPiece, TextPiece, WorkOrder
from tests.backends.acp.agents import agent
from tests.backends.models.simulator import SPOKEN, TELLS_NOTHING_OF_MODELS, simulated, simulator

BACKENDS: dict[str, Callable[[], Backend]] = {
    "scripted": lambda: ScriptedBackend("scripted", [["Hello ", Pause(0), "there."]], {"streaming": "native"}),
    "echo": EchoBackend,
    "acp": lambda: agent("echo"),
}

ORDER = WorkOrder(
    conversation=Conversation.model_validate(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello there."}]}]}
    ),
    stream=True,
)


@pytest.fixture(scope="module")
def simulator_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with simulator(tmp_path_factory.mktemp("simulator")) as url:
        yield url


@pytest.fixture(params=[*BACKENDS, *SPOKEN])
def backend(request: pytest.FixtureRequest) -> Backend:
    if request.param in SPOKEN:
        return simulated(request.param, request.getfixturevalue("simulator_url"))
    return BACKENDS[request.param]()


def within(task: Callable[[], Awaitable[Any]], *used: Backend) -> Any:
    async def bounded() -> Any:
        try:
            return await asyncio.wait_for(task(), 20)
        finally:
            for backend in used:
                if isinstance(backend, ManagedBackend):
                    await backend.aclose()

    return asyncio.run(bounded())


async def answer(backend: Backend) -> list[AnyPiece]:
    return [piece async for piece in backend.answer(ORDER)]


def test_it_has_a_name_and_a_manifest(backend: Backend):
    assert backend.name
    assert isinstance(backend.manifest, CapabilityManifest)


def test_it_can_be_probed(backend: Backend):
    if backend.name in TELLS_NOTHING_OF_MODELS:
        with pytest.raises(BackendError, match="no such model or address"):
            within(backend.probe, backend)
    else:
        within(backend.probe, backend)


def test_an_answer_ends_with_its_end_and_has_no_other(backend: Backend):
    pieces = within(lambda: answer(backend), backend)
    assert isinstance(pieces[-1], EndPiece)
    assert sum(isinstance(piece, EndPiece) for piece in pieces) == 1
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)).strip() == "Hello there."


def test_an_answer_that_is_not_streamed_has_the_same_text(backend: Backend):
    async def at_once() -> list[AnyPiece]:
        return [piece async for piece in backend.answer(ORDER.model_copy(update={"stream": False}))]

    pieces = within(at_once, backend)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)).strip() == "Hello there."
    assert isinstance(pieces[-1], EndPiece)


def test_an_answer_that_is_closed_stops_and_the_next_one_is_whole(backend: Backend):
    async def close_early() -> list[AnyPiece]:
        async with aclosing(cast("Any", backend.answer(ORDER))) as pieces:
            await anext(pieces)
        return await answer(backend)

    assert isinstance(within(close_early, backend)[-1], EndPiece)


def test_answers_at_the_same_time_do_not_mix(backend: Backend):
    async def several() -> list[list[AnyPiece]]:
        return list(await asyncio.gather(*(answer(backend) for _ in range(5))))

    answers = within(several, backend)
    assert all(pieces == answers[0] for pieces in answers)


def test_the_work_order_is_not_changed(backend: Backend):
    before = ORDER.to_json()
    within(lambda: answer(backend), backend)
    assert ORDER.to_json() == before


def test_a_failure_is_a_backend_error_with_retryable():
    backend = ScriptedBackend("a", [["so far", ScriptedFault("gone", retryable=False, refused="streaming")]])
    with pytest.raises(BackendError) as caught:
        within(lambda: answer(backend))
    assert (caught.value.retryable, caught.value.refused) == (False, "streaming")


def test_a_script_may_hold_any_piece_and_its_own_end():
    end = EndPiece(reason="max_tokens", usage={"output_tokens": 2})
    assert within(lambda: answer(ScriptedBackend("a", [[TextPiece(text="a"), end, "never"]]))) == [
        TextPiece(text="a"),
        end,
    ]
    assert isinstance(within(lambda: answer(ScriptedBackend("a", [])))[-1], EndPiece)
