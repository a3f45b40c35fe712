"""What every HTTP client of ours shares: the proxy of the environment, and reading a body within a time limit."""

import asyncio
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from aiohttp import ClientPayloadError, ClientResponse

from accord.errors import UsageError

# Which proxy the environment names for an address. Looks at the environment, opens nothing, knows no library of HTTP.
#
# aiohttp's `trust_env` would do this and also send what it finds in a netrc file, in the place of a key or a token.


def environment_proxy(address: str) -> str | None:
    """The proxy for this address, if one is named; raises `UsageError` for what is no address of a proxy."""
    parts = urlsplit(address)
    named = getproxies().get(parts.scheme)
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    if urlsplit(named).scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme}_proxy: expected the http or https address of a proxy")
    return named


# Read the body of an aiohttp response without ever waiting for ever. Knows no messages and opens nothing.
#
# aiohttp 3.14 loses a chunk that it cannot parse: its parser forgets the body before it reports the error, so neither
# the error nor the close of the connection reaches the reader, and aiohttp's own read timer is stopped as well.
# Clients and model backends therefore read every body here.

CHECK_S: Final = 0.25
"""How often a silent connection is checked for having been closed."""


async def read_piece(response: ClientResponse, limit_s: float) -> bytes:
    """Return what has arrived, at least one byte; nothing at the end of the body.

    Raises `TimeoutError` when nothing comes for this long, and `ClientPayloadError` when the connection is gone and the
    body has no end.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while True:
        wait = asyncio.timeout_at(min(deadline, loop.time() + CHECK_S))
        try:
            async with wait:
                return await response.content.readany()
        except TimeoutError:
            if not wait.expired():
                raise
        if _is_cut_off(response):
            # What was parsed before the connection went is part of the body.
            if last := response.content.read_nowait():
                return last
            raise ClientPayloadError("the connection was closed in the middle of the answer")
        if loop.time() >= deadline:
            raise TimeoutError(f"nothing came for {limit_s:g} s")


def _is_cut_off(response: ClientResponse) -> bool:
    if response.content.is_eof() or response.content.exception() is not None:
        return False
    connection = response.connection
    return connection is None or connection.transport is None or connection.transport.is_closing()
