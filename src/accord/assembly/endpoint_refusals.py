"""What the processes of a service keep of the refusals of endpoints, for commands: read it, and have it forgotten."""

import asyncio
from typing import Final

from accord.assembly.links import open_links
from accord.assembly.store import is_store_missing, make_store
from accord.config import LoadedConfig, StoreKind
from accord.errors import StoreError, UsageError
from accord.run.refusals import FORGET_TOPIC, FORGOTTEN_TOPIC, LIST_TOPIC, LISTED_TOPIC
from accord.wire.disposition import RememberedRefusal

ANSWER_S: Final = 1.0
"""How long answers are waited for; a process answers within milliseconds unless its loop is blocked."""
NAME: Final = "accord backends"
NOT_SHARED: Final = (
    f"There is no service to look at here: `{NAME}` reaches processes that share a store. Give the --store of the "
    "service, an existing SQLite file or postgresql://…, and its --queue if it has one"
)


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
    if loaded.config.store.kind is StoreKind.MEMORY or is_store_missing(loaded):
        raise UsageError(NOT_SHARED)
    messages: list[bytes] = []
    store = make_store(loaded, create=False)
    await store.open()
    try:
        async with open_links(loaded, store, name=NAME) as links:
            if links.channel is None:
                raise UsageError(NOT_SHARED)
            links.channel.subscribe(answers, messages.append)
            links.channel.publish(topic, payload)
            await asyncio.sleep(ANSWER_S)
    finally:
        await store.close()
    return messages
