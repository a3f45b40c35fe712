"""A view of a whole service for commands: what its processes publish, and what its store lists."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from accord.assembly.links import open_links
from accord.assembly.store import is_store_missing, make_store
from accord.config import LoadedConfig, StoreKind
from accord.errors import StoreError, UsageError
from accord.ports import Channel, LongestRuns, Store
from accord.run.refusals import FORGET_TOPIC, FORGOTTEN_TOPIC, LIST_TOPIC, LISTED_TOPIC
from accord.servers.observability.overview import Overview, ProcessTable
from accord.servers.observability.status import REQUEST_TOPIC, STATUS_TOPIC, decode_status
from accord.wire.disposition import RememberedRefusal

ANSWER_S: Final = 1.0
"""How long the first statuses are waited for; a process answers within milliseconds unless its loop is blocked."""
MAX_TURNS: Final = 100
NOT_SHARED: Final = (
    "There is no service to look at here: `{}` reaches processes that share a store. Give the --store of the "
    "service, an existing SQLite file or postgresql://…, and its --queue if it has one"
)


class ServiceView:
    """Takes the statuses of a service's processes and reads its store."""

    def __init__(self, channel: Channel, store: Store) -> None:
        self._channel: Final = channel
        self._store: Final = store
        self._processes: Final = ProcessTable()
        channel.subscribe(STATUS_TOPIC, self._received)
        channel.on_gap(self._request)

    async def wait_for_answers(self) -> None:
        """Request a status of every process and wait a moment for the answers."""
        self._request()
        await asyncio.sleep(ANSWER_S)

    async def read(self) -> Overview:
        """The service now; a store that cannot be read is reported in the overview."""
        turns, depths, problem = LongestRuns(0, ()), [], None
        try:
            turns = await self._store.running_turns(limit=MAX_TURNS)
            depths = await self._store.queue_depths()
        except StoreError as error:
            problem = error.message
        return Overview(self._processes.rows(monotonic()), turns, depths, problem)

    def _request(self) -> None:
        self._channel.publish(REQUEST_TOPIC, b"")

    def _received(self, payload: bytes) -> None:
        if (status := decode_status(payload)) is not None:
            self._processes.add(status, monotonic())


@asynccontextmanager
async def open_service_view(loaded: LoadedConfig) -> AsyncGenerator[ServiceView]:
    """Connect to the store and the channel of this configuration; raise `UsageError` if no process can share them."""
    async with _open_channel(loaded, "accord top") as (channel, store):
        yield ServiceView(channel, store)


async def read_refusals(loaded: LoadedConfig) -> list[RememberedRefusal]:
    """What the processes of a service keep of the refusals of endpoints; nothing if no process can be reached."""
    try:
        messages = await _request(loaded, LIST_TOPIC, b"", LISTED_TOPIC)
    except (UsageError, StoreError):
        return []
    return [RememberedRefusal.parse(each) for each in messages]


async def forget_refusals(loaded: LoadedConfig, backend: str) -> list[int]:
    """Have every process of a service forget what this backend's endpoint refused; returns how much each forgot."""
    return [int(each) for each in await _request(loaded, FORGET_TOPIC, backend.encode(), FORGOTTEN_TOPIC)]


async def _request(loaded: LoadedConfig, topic: str, payload: bytes, answers: str) -> list[bytes]:
    """The messages with which the processes of a service answer this one within a moment."""
    messages: list[bytes] = []
    async with _open_channel(loaded, "accord backends") as (channel, _):
        channel.subscribe(answers, messages.append)
        channel.publish(topic, payload)
        await asyncio.sleep(ANSWER_S)
    return messages


@asynccontextmanager
async def _open_channel(loaded: LoadedConfig, name: str) -> AsyncGenerator[tuple[Channel, Store]]:
    if loaded.config.store.kind is StoreKind.MEMORY or is_store_missing(loaded):
        raise UsageError(NOT_SHARED.format(name))
    store = make_store(loaded, create=False)
    await store.open()
    try:
        async with open_links(loaded, store, name=name) as links:
            if links.channel is None:
                raise UsageError(NOT_SHARED.format(name))
            yield links.channel, store
    finally:
        await store.close()
