"""Views: what a reader gets depends on its declaration and the agent's packets, not on when and where it reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.agent import Agent, Turn, Yielded
from accord.core.output import ClientAdapter, ImageLimits, ShrunkImage
from accord.core.sizes import SizeLimits
from accord.errors import StoreError
from accord.ports import SessionStore
from accord.run import Dispatcher, Engine, Reader, Run, SessionRules, Sessions, StoredRun
from accord.run.recent import RECENT
from accord.run.run import AHEAD
from accord.run.views import View
from accord.stores.memory import MemoryStore
from accord.stores.sqlite import SqliteStore
from accord.wire.packet import ClosePacket, DeltaPacket, ErrorPacket, EventPacket, StreamError, StreamPacket
from accord.wire.request import ClientCapabilities, MinFidelity, SpeechFormat
from accord.wire.session import PacketRecord
from tests.core.output import CLI, CLIENTS, EVENTS, MARKDOWN, SOURCES, VOICE, event
from tests.laws import examples
from tests.run.playing import asking, within
from tests.run.test_store_failure import Away, ended

Declared = ClientCapabilities | None
CUSTOM = ClientCapabilities(supported_events=["poll"], prefers_markdown=False)
PIECES = st.lists(MARKDOWN | EVENTS, max_size=8)


def stricter(
    client: ClientCapabilities, fidelity: MinFidelity | None, speech: SpeechFormat | None
) -> ClientCapabilities:
    return client.model_copy(update={"min_fidelity": fidelity, "speech_format": speech})


DECLARED = st.none() | st.builds(
    stricter, CLIENTS, st.none() | st.sampled_from(MinFidelity), st.none() | st.sampled_from(SpeechFormat)
)


class CountingEngine(Engine):
    """Counts the views that are made, and the packets that they adapt."""

    views = 0
    adapted = 0

    def new_view(self, declared: Declared) -> View:
        self.views += 1
        return CountingView(self, declared)


class CountingView(View):
    """A view of such an engine."""

    def __init__(self, engine: CountingEngine, declared: Declared) -> None:
        super().__init__(
            declared,
            packet_bytes=engine.size_limits.packet_bytes,
            images=engine.images,
            image_threads=engine.image_threads,
        )
        self._engine = engine

    def feed(self, packet: StreamPacket) -> Sequence[StreamPacket]:
        self._engine.adapted += 1
        return super().feed(packet)


def sessions_of(run: Callable[[Turn], AsyncIterator[Yielded]], store: SessionStore, **options: Any) -> Sessions:
    return Sessions(CountingEngine(Agent(run), Dispatcher([]), **options), store)


def agent_of(packets: Sequence[StreamPacket]) -> Callable[[Turn], AsyncIterator[Yielded]]:
    async def run(_: Turn) -> AsyncIterator[Yielded]:
        for number, packet in enumerate(packets):
            yield packet
            if number % 3 == 2:
                await asyncio.sleep(0)

    return run


def alone(declared: Declared, packets: Sequence[StreamPacket], **options: Any) -> list[PacketRecord]:
    """What a client with this declaration gets of these packets if it is the only one."""
    adapter = ClientAdapter(declared, **options)
    adapted = [each for packet in packets for each in adapter.feed(packet)]
    return [PacketRecord(number, packet.to_json()) for number, packet in enumerate(adapted, 1)]


async def read(sessions: Sessions, turn: Run | StoredRun, after: int = 0, *declared: Declared) -> list[PacketRecord]:
    """The packets of a turn: in the view of its requester, or of the reader that is given."""
    reader = Reader(declared[0]) if declared else None
    return [record async for batch in sessions.read(turn, after, reader) for record in batch.packets]


async def read_in_two(sessions: Sessions, turn: Run | StoredRun, cut: int, declared: Declared) -> list[PacketRecord]:
    """The packets of a turn by a client that disconnects after so many and resumes."""
    batches, seen = sessions.read(turn, 0, Reader(declared)), list[PacketRecord]()
    async for batch in batches:
        seen += batch.packets
        if len(seen) >= cut:
            break
    await batches.aclose()
    seen = seen[:cut]
    return seen + await read(sessions, turn, len(seen), declared)


async def stored_packets(store: SessionStore) -> list[StreamPacket]:
    records = await store.packets(str(asking().request_id), after_seq=0, limit=10_000)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return [StreamPacket.parse(record.body) for record in records]


async def find(sessions: Sessions) -> Run | StoredRun:
    found = await sessions.find(str(asking().request_id), None)
    assert found is not None
    return found


async def check_views(
    packets: list[StreamPacket], requester: Declared, reader: Declared, cut: int, new_store: Callable[[], SessionStore]
) -> None:
    store = new_store()
    await store.open()
    sessions = sessions_of(agent_of(packets), store)
    turn = await sessions.begin(asking(capabilities=requester))
    assert isinstance(turn, Run)
    live = await asyncio.gather(
        read(sessions, turn),
        read(sessions, turn, 0, reader),
        read_in_two(sessions, turn, cut, requester),
        read_in_two(sessions, turn, cut, reader),
        read(sessions, turn, cut, reader),
    )
    made = await stored_packets(store)
    if not any(isinstance(packet, ErrorPacket) for packet in made):  # some events have content that is not declared
        assert made == [*packets, ClosePacket()]
    default, other = alone(requester, made), alone(reader, made)
    assert live == [default, other, default, other, other[cut:]]
    if isinstance(store, SqliteStore):
        await store.close()
        store = new_store()
        await store.open()
    for engine in (sessions.engine, sessions_of(agent_of([]), store).engine):
        process = Sessions(engine, store)
        stored = await find(process)
        assert isinstance(stored, StoredRun)
        assert await read(process, stored) == default
        assert await read(process, stored, cut) == default[cut:]
        assert await read(process, stored, 0, reader) == other
        assert await read_in_two(process, stored, cut, reader) == other
        assert await process.report(stored, Reader(reader)) == report_of(reader, made)
    await store.close()


def report_of(declared: Declared, packets: Sequence[StreamPacket]) -> Any:
    adapter = ClientAdapter(declared)
    for packet in packets:
        adapter.feed(packet)
    return adapter.report


def packets_of(pieces: Sequence[str | dict[str, Any]]) -> list[StreamPacket]:
    return [DeltaPacket(p=piece) if isinstance(piece, str) else EventPacket(p=piece) for piece in pieces]


@given(PIECES, DECLARED, DECLARED, st.integers(0, 12))
def test_a_view_is_the_same_live_stored_and_resumed(
    pieces: list[str | dict[str, Any]], requester: Declared, reader: Declared, cut: int
):
    within(lambda: check_views(packets_of(pieces), requester, reader, cut, MemoryStore))


@given(PIECES, DECLARED, DECLARED, st.integers(0, 12))
@settings(max_examples=examples(8))
def test_a_view_is_the_same_after_the_store_was_closed_and_opened(
    pieces: list[str | dict[str, Any]], requester: Declared, reader: Declared, cut: int
):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "accord.db"
        within(lambda: check_views(packets_of(pieces), requester, reader, cut, lambda: SqliteStore(path)))


class NamedSizes:
    """Makes an image that names the limits it was made for."""

    def shrink(self, data: bytes, mime_type: str, limits: ImageLimits, /) -> ShrunkImage:
        del data, mime_type
        return ShrunkImage(f"{limits}".encode(), "image/png")


def test_one_run_has_images_for_the_resolution_of_each_reader():
    picture = {"url": f"data:image/png;base64,{'AAAA' * 400}", "mime_type": "image/png"}
    resolutions = ["low", "auto", "high", None]
    readers = [
        ClientCapabilities(supported_events=["media_carousel"], image_resolution=resolution)
        for resolution in resolutions
    ]

    async def run() -> None:
        store = MemoryStore()
        await store.open()
        items = [
            event("media_carousel", {"items": [picture] * 2}),
            DeltaPacket(p="Text"),
            event("media_carousel", {"items": [picture]}),
        ]
        sessions = sessions_of(agent_of(items), store, images=NamedSizes())
        turn = await sessions.begin(asking(capabilities=readers[0]))
        live = await asyncio.gather(*(read(sessions, turn, 0, reader) for reader in readers))
        made, stored = await stored_packets(store), await find(sessions)
        assert made == [*items, ClosePacket()]
        expected = [alone(reader, made, images=NamedSizes()) for reader in readers]
        assert live == expected == [await read(sessions, stored, 0, reader) for reader in readers]
        assert expected[0] != expected[3]

    within(run)


PYTHON_VALUES: list[tuple[str, dict[str, Any]]] = [
    ("a UUID as the id", {"id": UUID(int=5), "type": "poll", "data": {}}),
    ("a tuple of items", {"type": "citation_block", "data": {"items": (SOURCES["items"][0], {"uri": "javascript:x"})}}),
    ("a date in a title", {"type": "citation_block", "data": {"items": [SOURCES["items"][0] | {"title": datetime(2026, 1, 2, tzinfo=UTC)}]}}),
    ("bytes as a message", {"type": "user_error", "data": {"message": b"text"}}),
]  # fmt: skip


@pytest.mark.parametrize("members", [row[1] for row in PYTHON_VALUES], ids=[row[0] for row in PYTHON_VALUES])
@pytest.mark.parametrize("declared", [None, CLI, VOICE], ids=["web", "cli", "voice"])
def test_values_that_json_writes_in_another_form_do_not_make_the_live_view_another_one(
    members: dict[str, Any], declared: Declared
):
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        sessions = sessions_of(agent_of([DeltaPacket(p="Text. "), EventPacket(p=members)]), store)
        live = await read(sessions, await sessions.begin(asking(capabilities=declared)))
        assert live == await read(sessions, await find(sessions)) == alone(declared, await stored_packets(store))

    within(run)


@pytest.mark.parametrize(
    "message", ["\ud800", "x" * 2_000], ids=["a message that is not text", "a message that is too long"]
)
def test_an_error_of_the_agent_that_cannot_be_sent_is_still_an_error(message: str):
    wrong = ErrorPacket(p=StreamError.model_construct(code="mine", message=message, severity="fatal"))

    async def run() -> None:
        store = MemoryStore()
        await store.open()
        sessions = sessions_of(
            agent_of([DeltaPacket(p="Text"), wrong]), store, size_limits=SizeLimits(packet_bytes=1_000)
        )
        turn = await sessions.begin(asking())
        packets = [StreamPacket.parse(record.body) for record in await read(sessions, turn)]
        assert [packet.op for packet in packets] == ["delta", "error", "close"]
        assert packets[1].p.code == "agent_failed"
        assert (await sessions.receipt(turn.request_id)).outcome.status == "failed"

    within(run)


class Gated:
    """An agent that sends so many packets, and then each time the gate is opened as many again."""

    def __init__(self, count: int, times: int = 2, *, events: bool = True) -> None:
        self.count, self.times, self.events = count, times, events
        self.opened = asyncio.Semaphore(0)

    async def __call__(self, _: Turn) -> AsyncIterator[Yielded]:
        for part in range(self.times):
            for number in range(self.count):
                yield f"**{part}** {number} "
                if self.events and number % 7 == 3:
                    yield event("citation_block", SOURCES)
            if part < self.times - 1:
                await self.opened.acquire()

    async def until_stored(self, store: SessionStore, parts: int = 1) -> None:
        """Return once so many parts are stored; the caller bounds the wait."""
        each = self.count + (len(range(3, self.count, 7)) if self.events else 0)
        while (turn := await store.turn(str(asking().request_id))) is None or turn.last_seq < parts * each:  # noqa: ASYNC110 - a store tells nobody
            await asyncio.sleep(0.002)


def gated_sessions(gated: Gated, store: SessionStore) -> Sessions:
    async def run(turn: Turn) -> AsyncIterator[Yielded]:
        async for item in gated(turn):
            yield item

    return sessions_of(run, store)


def test_readers_with_the_declaration_of_the_requester_share_one_view():
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        gated = Gated(10, times=3)
        sessions = gated_sessions(gated, store)
        turn = await sessions.begin(asking(capabilities=VOICE))
        reading = [asyncio.create_task(read(sessions, turn, 0, VOICE)) for _ in range(5)]
        for parts in (1, 2):
            await gated.until_stored(store, parts)
            gated.opened.release()
        seen = await asyncio.gather(*reading)
        assert seen == [alone(VOICE, await stored_packets(store))] * 5
        assert isinstance(sessions.engine, CountingEngine)
        assert (sessions.engine.views, sessions.engine.adapted) == (1, len(await stored_packets(store)))

    within(run)


@pytest.mark.parametrize("after", [0, 1, 9, RECENT + 5])
@pytest.mark.parametrize("requester", [None, VOICE], ids=["web", "voice"])
def test_a_late_reader_catches_up_in_a_view_of_its_own_and_then_shares_the_other(requester: Declared, after: int):
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        gated = Gated(2 * RECENT, times=3)
        sessions = gated_sessions(gated, store)
        turn = await sessions.begin(asking(capabilities=requester))
        await gated.until_stored(store)
        late = len(await stored_packets(store))
        batches, seen = sessions.read(turn, after), list[PacketRecord]()
        async for batch in batches:
            seen += batch.packets
            if batch.made == late:
                break
        gated.opened.release()
        gated.opened.release()
        async for batch in batches:
            seen += batch.packets
        made = await stored_packets(store)
        assert seen == alone(requester, made)[after:]
        engine = sessions.engine
        assert isinstance(engine, CountingEngine)
        assert (engine.views, engine.adapted) == (2, len(made) + late)

    within(run)


@pytest.mark.parametrize("count", [*range(AHEAD + RECENT - 2, AHEAD + RECENT + 4), 5 * RECENT])
@pytest.mark.parametrize("declared", [None, VOICE], ids=["the same view", "another view"])
def test_a_reader_that_is_slower_than_the_window_loses_and_repeats_nothing(declared: Declared, count: int):
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        gated = Gated(count, events=count > 4 * RECENT)
        sessions = gated_sessions(gated, store)
        turn = await sessions.begin(asking())
        slow, fast = sessions.read(turn, 0, Reader(declared)), asyncio.create_task(read(sessions, turn))
        seen = list((await anext(slow)).packets)
        await gated.until_stored(store)  # the other reader has read what this one has not
        seen += (await anext(slow)).packets
        gated.opened.release()
        await fast
        async for batch in slow:
            seen += batch.packets
        made = await stored_packets(store)
        assert seen == alone(declared, made)
        assert await fast == alone(None, made)

    within(run)


@pytest.mark.parametrize("declared", [VOICE, CUSTOM], ids=["the requester's view", "another view"])
def test_a_reader_whose_view_drops_everything_does_not_stop_the_agent(declared: Declared):
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        thoughts = [event("thought_trace", {"thought": f"{number}"}) for number in range(5 * AHEAD)]
        sessions = sessions_of(agent_of(thoughts), store)
        turn = await sessions.begin(asking(capabilities=VOICE))
        assert [StreamPacket.parse(record.body).op for record in await read(sessions, turn, 0, declared)] == ["close"]

    within(run)


@pytest.mark.parametrize("declared", [None, VOICE], ids=["the requester's view", "another view"])
def test_a_reader_that_does_not_read_stops_the_agent_in_whichever_view_it_reads(declared: Declared):
    async def run() -> None:
        store, has_run_away = MemoryStore(), asyncio.Event()
        await store.open()

        async def count(_: Turn) -> AsyncIterator[Yielded]:
            for number in range(6 * AHEAD):
                yield f"{number} "
            has_run_away.set()

        sessions = sessions_of(count, store)
        batches = sessions.read(await sessions.begin(asking()), 0, Reader(declared))
        seen = list((await anext(batches)).packets)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(has_run_away.wait(), 0.1)
        async for batch in batches:
            seen += batch.packets
        assert seen == alone(declared, await stored_packets(store))

    within(run)


@pytest.mark.parametrize("loses", [True, False], ids=["after it wrote", "before it writes"])
@pytest.mark.parametrize("declared", [None, CLI, VOICE], ids=["web", "cli", "voice"])
def test_after_the_store_failed_in_mid_turn_every_reader_has_what_is_stored(declared: Declared, loses: bool):
    async def run() -> None:
        store = Away()
        await store.open()
        gated = Gated(5, times=3)
        sessions = gated_sessions(gated, store)
        turn = await sessions.begin(asking(capabilities=VOICE))
        batches, seen = sessions.read(turn, 0, Reader(declared)), list[PacketRecord]()
        seen += (await anext(batches)).packets
        if loses:
            store.loses = {"append"}
        else:
            store.is_away = True
        gated.opened.release()
        try:
            async for batch in batches:
                seen += batch.packets
        except StoreError:
            assert not loses
        store.is_away = False
        await ended(store, asking().request_id.int)
        made = await stored_packets(store)
        assert [packet.op for packet in made[-2:]] == ["error", "close"]
        expected = alone(declared, made)
        assert seen == expected[: len(seen)]
        assert (seen == expected) is loses
        assert await read(sessions, await find(sessions), len(seen), declared) == expected[len(seen) :]
        receipt = await sessions.receipt(turn.request_id)
        assert receipt.adaptation == report_of(VOICE, made)

    within(run)


@pytest.mark.parametrize("times", [2, 3], ids=["while it ends", "in the middle"])
@pytest.mark.parametrize("declared", [None, CLI, VOICE], ids=["web", "cli", "voice"])
def test_after_another_process_ended_the_turn_every_reader_has_what_is_stored(declared: Declared, times: int):
    async def run() -> None:
        store = MemoryStore()
        await store.open()
        gated = Gated(5, times=times)
        sessions = gated_sessions(gated, store)
        other = Sessions(sessions.engine, store, SessionRules(lease_s=0))
        turn = await sessions.begin(asking(capabilities=VOICE))
        batches, seen = sessions.read(turn, 0, Reader(declared)), list[PacketRecord]()
        seen += (await anext(batches)).packets
        await gated.until_stored(store)
        assert await other.recover() == 1
        gated.opened.release()
        async for batch in batches:
            seen += batch.packets
        made = await stored_packets(store)
        assert [packet.op for packet in made[-2:]] == ["error", "close"]
        assert seen == alone(declared, made)

    within(run)
