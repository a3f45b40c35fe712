"""Permission requests in the middle of a turn: the answer, the receipt, and the time limits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from pydantic_core import from_json

from accord.agent import Agent, Turn, Yielded
from accord.backends.scripted import Pause, ScriptedBackend
from accord.core.output.agent_work import read_permission
from accord.core.receipt import seal_members, verify
from accord.errors import TimedOutError, TurnCancelledError
from accord.ports import PermissionChannel, SystemClock
from accord.run import Dispatcher, Engine, Run, Sessions, TimeLimits
from accord.run.record import ended_turn, record_request
from accord.stores.memory import MemoryStore
from accord.wire.agent_work import Permission, PermissionRequest
from accord.wire.packet import ClosePacket, StreamPacket
from accord.wire.receipt import Receipt
from tests.run.playing import STREAMS, asking, collected, engine, read_turn, said, within
from tests.run.test_freed import left_behind

ALLOW = {"outcome": {"outcome": "selected", "optionId": "allow"}}


class User:
    """A user who answers when told to; `asked` says what was asked, and after how many packets."""

    def __init__(self, answer: Any = ALLOW, *, thinks: bool = False) -> None:
        self.asked: list[tuple[str, int]] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.gave_up = 0
        self._answer = answer
        if not thinks:
            self.may_answer.set()

    async def __call__(self, question: PermissionRequest, after: int) -> Permission:
        self.asked.append((question.title, after))
        self.is_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # taking a question back takes a moment, and a turn is not over before
            self.gave_up += 1
            raise
        return read_permission(question, self._answer)


async def deletes(turn: Turn) -> AsyncIterator[Yielded]:
    yield "Well, "
    yield turn.tool_call("1", "Delete build/", kind="delete", status="pending")
    granted = await turn.permission("Delete build/", call_id="1")
    yield f"{granted.status} {granted.option.id if granted.option else granted.why}"


def receipt_of(running: Run) -> Receipt:
    report = running.engine.new_view(None).adapter.report_json()
    content = ended_turn(running, report, record_request(running.request.payload), SystemClock().now()).content()
    sealed = seal_members(content.encoded)
    assert verify([from_json(sealed.json)]).ok
    receipt = Receipt.parse(sealed.json)
    assert seal_members(receipt.hashed()).hash == sealed.hash
    return receipt


def run(made: Engine, permits: PermissionChannel | None) -> tuple[Run, list[StreamPacket]]:
    running = made.begin(asking(), permits=permits)
    return running, within(lambda: collected(running))


@pytest.mark.parametrize(
    ("answer", "words", "status", "chosen"),
    [
        (ALLOW, "allowed allow", "allowed", "allow"),
        ({"outcome": {"outcome": "selected", "optionId": "reject"}}, "rejected reject", "rejected", "reject"),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled The client cancelled", "cancelled", None),
        ({"outcome": {"outcome": "selected", "optionId": "sudo"}}, "failed The client chose", "failed", None),
        ("yes", "failed The client's response is not valid", "failed", None),
    ],
)
def test_the_agent_and_the_receipt_get_the_answer(answer: Any, words: str, status: str, chosen: str | None):
    made, user = engine(deletes), User(answer)
    running, packets = run(made, user)
    assert said(packets).startswith(f"Well, {words}")
    assert user.asked == [("Delete build/", 2)]
    (record,) = receipt_of(running).permissions or []
    assert (record.title, record.status, record.chosen) == ("Delete build/", status, chosen)
    assert [(option.id, option.kind) for option in record.options] == [
        ("allow", "allow_once"),
        ("reject", "reject_once"),
    ]
    assert (record.why is None) is (chosen is not None)


def test_a_permission_that_cannot_be_requested_is_denied_and_recorded():
    made = engine(deletes)
    running, packets = run(made, None)
    assert said(packets) == "Well, nobody This client cannot be asked"
    (record,) = receipt_of(running).permissions or []
    assert (record.status, record.why) == ("nobody", "This client cannot be asked")
    answer = within(lambda: made.respond(asking()))
    assert "nobody" in str(answer.output)


def test_a_receipt_without_permission_requests_has_no_permissions_member():
    async def silent(_: Turn) -> AsyncIterator[Yielded]:
        yield "Hi"

    made = engine(silent)
    running, _ = run(made, User())
    assert "permissions" not in receipt_of(running).dump()


def test_an_invalid_permission_request_fails_the_turn_and_is_not_sent():
    async def confused(turn: Turn) -> AsyncIterator[Yielded]:
        await turn.permission("Go", options=[])
        yield "never"

    user = User()
    _, packets = run(engine(confused), user)
    assert packets[0].p.message == "The agent failed (ValidationError)"
    assert user.asked == []


def test_concurrent_permission_requests_each_get_their_answer():
    async def both(turn: Turn) -> AsyncIterator[Yielded]:
        first, second = await asyncio.gather(turn.permission("One"), turn.permission("Two"))
        yield f"{bool(first)} {bool(second)}"

    made, user = engine(both), User()
    running, packets = run(made, user)
    assert said(packets) == "True True"
    assert [record.title for record in running.permissions] == ["One", "Two"]


# --- time ---

LIMITS = TimeLimits(first_packet_s=0.4, gap_s=0.4, turn_s=0.5, backend_first_s=0.2, backend_gap_s=0.2)


async def asks_first(turn: Turn) -> AsyncIterator[Yielded]:
    yield str(bool(await turn.permission("Go")))


async def asks_later(turn: Turn) -> AsyncIterator[Yielded]:
    await asyncio.sleep(0)
    yield "a"
    granted = await turn.permission("Go")
    yield "b"
    await asyncio.sleep(0.02)
    yield str(bool(granted))


async def asks_beside(turn: Turn) -> AsyncIterator[Yielded]:
    asked = asyncio.create_task(turn.permission("Go"))
    yield "a"
    yield str(bool(await asked))


@pytest.mark.parametrize("agent", [asks_first, asks_later, asks_beside])
def test_no_limit_of_the_agent_runs_out_while_the_user_thinks(agent: Any):
    async def task() -> list[StreamPacket]:
        user = User(thinks=True)
        running = engine(agent, limits=LIMITS).begin(asking(), permits=user)
        answer = asyncio.create_task(collected(running))
        await user.is_asked.wait()
        asyncio.get_running_loop().call_later(1.3 * LIMITS.turn_s, user.may_answer.set)
        packets = await answer
        assert running.failure is None
        assert running.permissions[0].waited_ms >= 1_000 * LIMITS.turn_s
        return packets

    assert said(within(task)).endswith("True")


async def then_hangs(turn: Turn) -> AsyncIterator[Yielded]:
    await turn.permission("Go")
    await asyncio.Event().wait()
    yield "never"


async def hangs_before_too(turn: Turn) -> AsyncIterator[Yielded]:
    await asyncio.sleep(0.3)
    await turn.permission("Go")
    await asyncio.sleep(0.3)
    yield "never"


@pytest.mark.parametrize("agent", [then_hangs, hangs_before_too])
def test_limits_count_on_from_where_they_were_once_there_is_an_answer(agent: Any):
    made = engine(agent, limits=LIMITS)
    running, _ = run(made, User())
    assert isinstance(running.failure, TimedOutError)
    assert running.permissions[0].status == "allowed"


def test_the_limit_of_the_whole_turn_counts_on_as_well():
    async def slow(turn: Turn) -> AsyncIterator[Yielded]:
        for number in range(20):
            await turn.permission("Go")
            await asyncio.sleep(0.1)
            yield str(number)

    running, packets = run(engine(slow, limits=LIMITS), User())
    assert isinstance(running.failure, TimedOutError)
    assert 1 <= len(said(packets)) <= 8


@pytest.mark.parametrize("is_asked_first", [True, False])
def test_a_backend_that_hangs_meanwhile_is_not_waited_for(is_asked_first: bool):
    async def both(turn: Turn) -> AsyncIterator[Yielded]:
        asked = asyncio.create_task(turn.permission("Go"))
        if is_asked_first:
            await user.is_asked.wait()
        async for text in turn.ask():
            yield text
        yield str(await asked)

    backend = ScriptedBackend("a", [[Pause(30)]], STREAMS)
    user = User(thinks=True)
    running, _ = run(engine(both, backend, limits=LIMITS), user)
    assert str(running.failure) == "Nothing came from a for 0.2 seconds"


# --- the end ---


def test_a_turn_that_is_cancelled_stops_asking_at_once():
    async def task() -> None:
        made, user = engine(deletes), User(thinks=True)
        running = made.begin(asking(), permits=user)
        answer = asyncio.create_task(collected(running))
        await user.is_asked.wait()
        running.cancel()
        packets = await answer
        assert isinstance(running.failure, TurnCancelledError)
        assert isinstance(packets[-1], ClosePacket)
        assert user.gave_up == 1
        (record,) = receipt_of(running).permissions or []
        assert (record.status, record.chosen) == ("cancelled", None)

    within(task)


def test_open_permission_requests_are_cancelled_when_the_turn_ends():
    left: list[asyncio.Task[Any]] = []
    turns: list[Turn] = []

    async def forgets(turn: Turn) -> AsyncIterator[Yielded]:
        turns.append(turn)
        left.append(asyncio.create_task(turn.permission("Go")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        yield "bye"

    made, user = engine(forgets), User(thinks=True)
    running, _ = run(made, user)
    assert (user.gave_up, running.permissions[0].status) == (1, "cancelled")
    assert left[0].cancelled()
    assert within(lambda: turns[0].permission("And now?")).status == "cancelled"
    assert [title for title, _ in user.asked] == ["Go"]


def test_a_permission_request_names_the_number_of_packets_before_it():
    async def talks(turn: Turn) -> AsyncIterator[Yielded]:
        for _ in range(300):
            yield "word "
        yield turn.tool_call("1", "Delete", status="pending")
        yield str(bool(await turn.permission("Delete", call_id="1")))

    async def task() -> None:
        store, user = MemoryStore(), User()
        await store.open()
        kept = Sessions(Engine(Agent(talks), Dispatcher([])), store)
        turn = await kept.begin(asking(), permits=user)
        packets = [StreamPacket.parse(record.body) async for record in read_turn(turn)]
        (_, after), *_ = user.asked
        assert packets[after].p == "True"
        assert (await kept.receipt(turn.request_id)).permissions
        await store.close()

    within(task)


def test_a_turn_with_a_permission_request_leaves_no_reference_cycles():
    async def task() -> list[str]:
        store = MemoryStore()
        await store.open()
        kept = Sessions(Engine(Agent(deletes), Dispatcher([])), store)

        async def one(number: int) -> None:
            request = asking().model_copy(update={"request_id": UUID(int=number)})
            turn = await kept.begin(request, permits=User())
            assert [packet async for packet in read_turn(turn)]

        return await left_behind(one)

    assert within(task) == []
