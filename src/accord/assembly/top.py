"""A view of a whole service for `accord top`: the statuses that its processes publish, and what its store lists."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from accord.assembly.links import open_links
from accord.assembly.store import is_store_missing, make_store
from accord.config import LoadedConfig, StoreKind
from accord.errors import StoreError, UsageError
from accord.ports import Channel, QueueStore, RunningTurns
from accord.servers.observability.overview import Overview, ProcessTable
from accord.servers.observability.status import REQUEST_TOPIC, STATUS_TOPIC, decode_status

ANSWER_S: Final = 1.0
"""How long the first statuses are waited for; a process answers within milliseconds unless its loop is blocked."""
MAX_TURNS: Final = 100
NOT_SHARED: Final = (
    "There is no service to look at here: `accord top` shows processes that share a store. Give the --store of the "
    "service, an existing SQLite file or postgresql://…, and its --queue if it has one"
)


class ServiceView:
    """Takes the statuses of a service's processes and reads its store."""

    def __init__(self, channel: Channel, store: QueueStore) -> None:
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
        turns, depths, problem = RunningTurns(0, ()), [], None
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
    if loaded.config.store.kind is StoreKind.MEMORY or is_store_missing(loaded):
        raise UsageError(NOT_SHARED)
    store = make_store(loaded, create=False)
    await store.open()
    try:
        async with open_links(loaded, store, name="accord top") as links:
            if links.channel is None or not isinstance(store, QueueStore):
                raise UsageError(NOT_SHARED)
            yield ServiceView(links.channel, store)
    finally:
        await store.close()
