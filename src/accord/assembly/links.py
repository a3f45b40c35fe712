"""What connects the processes of a configuration: the channel, the log of packets, and the queue of turns."""

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from accord.assembly.store import store_path
from accord.config import LoadedConfig, QueueKind, StoreKind
from accord.errors import StoreError, UsageError
from accord.extras import naming_extra
from accord.ports import Channel, LinkCounts, Store
from accord.run import Links
from accord.run.packet_log import StoreLog

LOG: Final = logging.getLogger("accord.queues")
NOT_SHARED: Final = (
    "A queue needs a store that servers and workers share: use --store postgresql://…, or set store.kind to postgres "
    "and ACCORD_STORE_URL to its address"
)


@asynccontextmanager
async def open_links(loaded: LoadedConfig, store: Store, *, name: str) -> AsyncGenerator[Links]:
    """Connect this process to the others that share its store and queue; `name` is shown by the server of the queue."""
    if loaded.config.queue.kind is not QueueKind.NONE and loaded.config.store.kind is not StoreKind.POSTGRES:
        raise UsageError(NOT_SHARED)
    match loaded.config.queue.kind:
        case QueueKind.NATS:
            async with _nats_links(loaded, store, name) as links:
                yield links
        case QueueKind.POSTGRES:
            from accord.queues.postgres import ChannelWorkQueue  # noqa: PLC0415 - an extra

            channel = _postgres_channel(loaded)
            queue = ChannelWorkQueue(channel)
            await channel.open()
            try:
                yield Links(channel, StoreLog(store, channel, announces_all=True), queue)
            finally:
                await channel.close()
        case QueueKind.NONE:
            channel = await _open_channel(loaded)
            try:
                yield Links(channel)
            finally:
                if channel is not None:
                    await channel.close()


async def _open_channel(loaded: LoadedConfig) -> Channel | None:
    """The channel of processes that share a store; None if nothing can share it, or if they have to poll it."""
    match loaded.config.store.kind:
        case StoreKind.POSTGRES:
            channel = _postgres_channel(loaded)
            await channel.open()
            return channel
        case StoreKind.SQLITE if os.name == "posix":
            from accord.queues.local import LocalChannel, channel_folder  # noqa: PLC0415 - not on every system

            local = LocalChannel(channel_folder(store_path(loaded)))
            try:
                await local.open()
            except StoreError as error:
                # The store works without it: other processes only learn later what this one does.
                LOG.warning("No messages to other processes on this store: %s", error.message)
                return None
            return local
        case _:
            return None


def _postgres_channel(loaded: LoadedConfig) -> Channel:
    from accord.queues.postgres import PostgresChannel  # noqa: PLC0415 - an extra

    return PostgresChannel(os.environ.get(loaded.config.store.url_env, ""))


@asynccontextmanager
async def _nats_links(loaded: LoadedConfig, store: Store, name: str) -> AsyncGenerator[Links]:
    queue = loaded.config.queue
    address = os.environ.get(queue.url_env)
    if not address:
        raise UsageError(f"The queue is nats: set {queue.url_env} to its address, such as nats://localhost:4222")
    with naming_extra("The queue nats"):
        from accord.queues.nats.connection import NatsConnection, NatsSettings  # noqa: PLC0415 - an extra
        from accord.queues.nats.log import JetStreamLog  # noqa: PLC0415
        from accord.queues.nats.work import NatsWorkQueue  # noqa: PLC0415
    files = [None if each is None else str(loaded.path_of(each)) for each in (queue.credentials_file, queue.ca_file)]
    settings = NatsSettings(address, queue.prefix, queue.replicas, *files)
    connection = NatsConnection(settings, name=name)
    await connection.open()
    try:
        counts = LinkCounts()
        yield Links(connection, JetStreamLog(connection, store, counts), NatsWorkQueue(connection), counts)
    finally:
        await connection.close()
