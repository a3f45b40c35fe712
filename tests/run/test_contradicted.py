"""Answers are checked against the manifest: JSON that does not match is requested again or fails, and is counted."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from accord.agent import Turn, Yielded
from accord.backends.scripted import ScriptedBackend, Step
from accord.config import ServerConfig
from accord.core.work.emulation.choose import EmulationSettings
from accord.core.work.plan import CONTRADICTED, PlanConfig
from accord.run import Dispatcher, Engine, Sessions
from accord.run.costs import RunCosts
from accord.run.dispatch import WorkRecord
from accord.run.limits import RunTimer
from accord.run.refusals import CONTRADICTIONS
from accord.servers.http.information import service_capabilities
from accord.servers.service import AllowAll, NullObserver, Service
from accord.stores.memory import MemoryStore
from accord.wire.emulation import EmulationConfig
from accord.wire.keys import Payer
from accord.wire.packet import ErrorPacket
from accord.wire.plan import Plan, WorkPolicy
from accord.wire.receipt import Receipt
from accord.wire.request import ServiceRequest
from accord.wire.work import EndPiece, TextPiece, ToolCallPiece, WorkOrder
from tests.run.playing import STREAMS, asking, engine, played, said, within

SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
NATIVE = {**STREAMS, "structured_output_json_schema": "native", "json_mode": "native"}
WRONG, RIGHT = ['{"colour":', '"red"}'], ['{"n":', " 4}"]
NAME = "structured_output_json_schema"


async def extract(turn: Turn) -> AsyncIterator[Yielded]:
    async for text in turn.ask(schema=SCHEMA):
        yield text


def native(*answers: Sequence[Step], name: str = "a") -> ScriptedBackend:
    return ScriptedBackend(name, answers, NATIVE)


def test_native_json_that_fits_goes_on_and_is_not_called_emulated():
    backend = native(RIGHT)
    running = engine(extract, backend).begin(asking())
    assert said(played(running)) == '{"n": 4}'
    assert backend.orders[0].response_schema == SCHEMA
    record = running.work[0].emulation
    assert record is not None
    assert (record.emulated, record.effects, len(record.attempts)) == ([], [], 1)


def test_native_json_that_does_not_match_is_requested_again_and_recorded():
    backend = native(WRONG, ["Sure: ", *RIGHT], RIGHT)
    running = engine(extract, backend).begin(asking())
    assert said(played(running)) == '{"n": 4}'
    assert [order.response_schema for order in backend.orders] == [SCHEMA] * 3
    record = running.work[0].emulation
    assert record is not None
    assert [(attempt.ok, attempt.capability) for attempt in record.attempts] == [
        (False, NAME),
        (False, NAME),
        (True, None),
    ]
    assert "colour" not in record.to_json()


def test_a_backend_that_never_gives_what_it_declares_fails_the_turn():
    running = engine(extract, native(WRONG)).begin(asking())
    packets = played(running)
    assert said(packets) == ""
    (error,) = [packet.p for packet in packets if isinstance(packet, ErrorPacket)]
    assert error.code == "backend_failed"
    assert error.message == (
        f"The backend did not give the {NAME} that it declares in 3 attempts: "
        "does not meet /required of the schema (required)"
    )


def test_the_next_backend_gets_the_work_when_the_first_contradicts_its_manifest():
    wrong, right = native(WRONG), native(RIGHT, name="b")
    running = engine(extract, wrong, right).begin(asking())
    assert said(played(running)) == '{"n": 4}'
    assert [name for name, _ in running.work[0].failures] == ["a"]


def test_without_retries_text_streams_and_a_wrong_answer_never_counts_as_done():
    dispatcher = Dispatcher([native(WRONG)], settings=EmulationSettings(max_retries=0))
    running = Engine(engine(extract).agent, dispatcher).begin(asking())
    packets = played(running)
    assert said(packets) == '{"colour":"red"}'
    assert isinstance(packets[-2], ErrorPacket)
    assert running.failure is not None


@pytest.mark.parametrize("answer", [["[1]"], ["words"], ['{"a": 1} and more']])
def test_native_json_mode_is_held_to_an_object(answer: Sequence[Step]):
    dispatcher = Dispatcher([native(answer, ['{"a": 1}'])])
    conversation = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    order = WorkOrder.model_validate({"conversation": conversation, "json_mode": True})

    async def answered() -> list[str]:
        pieces = dispatcher.answer(order, WorkRecord(), RunTimer(), RunCosts(None, Payer(), dispatcher))
        return [piece.text async for piece in pieces if isinstance(piece, TextPiece)]

    assert within(answered) == ['{"a": 1}']


@pytest.mark.parametrize(
    "answer",
    [
        [ToolCallPiece(id="1", name="t", input={}), EndPiece(reason="tool_use")],
        ["No.", EndPiece(reason="refusal")],
    ],
)
def test_calls_and_refusals_are_not_judged(answer: Sequence[Step]):
    backend = native(answer)
    running = engine(extract, backend).begin(asking())
    played(running)
    assert len(backend.orders) == 1
    assert running.failure is None


def numbered(number: int) -> ServiceRequest:
    return asking().model_copy(update={"request_id": UUID(int=number)})


def served(*backends: ScriptedBackend, **options: Any) -> tuple[Sessions, Service]:
    agent = engine(extract).agent
    sessions = Sessions(Engine(agent, Dispatcher(backends, config=PlanConfig(**options))), MemoryStore())
    return sessions, Service(sessions, ServerConfig(port=0), AllowAll(), NullObserver(), "1.0")


def test_a_contradicted_capability_is_emulated_from_then_on_and_reported():
    backend = native(*[WRONG] * 2 * CONTRADICTIONS, ["Here you are:\n", *RIGHT])
    sessions, service = served(backend)
    for number in (1, 2):
        played(sessions.engine.begin(numbered(number)))
    again = sessions.engine.begin(numbered(3))
    assert said(played(again)) == '{"n": 4}'
    assert backend.orders[-1].response_schema is None
    plan = again.work[0].outcome
    assert isinstance(plan, Plan)
    (rescue,) = plan.offer.rescues
    assert rescue.capability == NAME
    assert rescue.instead_of.startswith(f"{CONTRADICTED} (6 times since 20")
    found = service_capabilities(service, EmulationConfig())
    assert [(each.backend, each.capability, each.contradicted) for each in found.remembered] == [("a", NAME, True)]
    (party,) = found.backends
    assert party.contradicted is None, "one caller met it, so the others are not told"
    assert party.manifest[NAME].kind == "native"


def test_the_receipt_names_what_was_contradicted():
    async def run() -> list[Receipt]:
        sessions, _ = served(native(WRONG))
        await sessions.store.open()
        found: list[Receipt] = []
        for number in (1, 2):
            request = numbered(number)
            turn = await sessions.begin(request)
            async for _ in turn.read():
                pass
            found.append(await sessions.receipt(str(request.request_id)))
        await sessions.store.close()
        return found

    first, second = within(run)
    assert first.outcome.status == "failed"
    backends = [json.loads(each.to_json())["work"][0]["backend"] for each in (first, second)]
    assert [each.get("contradicted") for each in backends] == [None, [NAME]]


def test_strict_work_is_refused_once_the_capability_was_contradicted():
    built = engine(extract, native(WRONG), policy=WorkPolicy.STRICT)
    for number in (1, 2):
        played(built.begin(numbered(number)))
    packets = played(built.begin(numbered(3)))
    (error,) = [packet.p for packet in packets if isinstance(packet, ErrorPacket)]
    assert error.code == "CAPABILITY_UNSUPPORTED"
    assert CONTRADICTED in error.message


def test_an_answer_that_fits_clears_the_count():
    script = [answer for _ in range(CONTRADICTIONS) for answer in (WRONG, RIGHT)]
    built = engine(extract, native(*script))
    for _ in range(CONTRADICTIONS):
        assert said(played(built.begin(asking()))) == '{"n": 4}'
    assert not built.dispatcher.candidate("a", asking().context.user.id).contradicted


def test_an_answer_that_was_cut_off_is_no_evidence():
    cut_off: Sequence[Step] = ['{"n": ', EndPiece(reason="max_tokens")]
    built = engine(extract, native(cut_off))
    played(built.begin(asking()))
    assert not built.dispatcher.candidate("a", asking().context.user.id).contradicted
