"""Shared by all HTTP clients of the package: the proxy of the environment, and reading a body within a time limit."""

import asyncio
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from accord.errors import UsageError

if TYPE_CHECKING:  # aiohttp takes longer to load than all of this package, and most backends do without it
    from aiohttp import ClientResponse

CHECK_S: Final = 0.25
"""How often a silent connection is checked for having been closed."""


def environment_proxy(address: str) -> str | None:
    """The proxy that the environment names for this address; raises `UsageError` if that is not an http(s) address.

    aiohttp's `trust_env` is not used: it would also send credentials of a netrc file, in place of a key or a token.
    """
    parts = urlsplit(address)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise UsageError(f"{parts.scheme}_proxy: expected the http or https address of a proxy")
    return proxy


async def read_piece(response: "ClientResponse", limit_s: float) -> bytes:
    """Return what has arrived of the body, at least one byte; nothing at its end.

    Raises `TimeoutError` when nothing arrives for this long, and `ClientPayloadError` when the connection is closed
    before the end of the body. Every body is read here because of aiohttp 3.14: if it cannot parse a chunk, neither the
    error nor the close of the connection reaches the reader, and its own read timer is stopped as well.
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
        connection, content = response.connection, response.content
        is_closed = connection is None or connection.transport is None or connection.transport.is_closing()
        if is_closed and not content.is_eof() and content.exception() is None:
            # What was parsed before the connection was closed is part of the body.
            if last := content.read_nowait():
                return last
            from aiohttp import ClientPayloadError  # noqa: PLC0415 - as above

            raise ClientPayloadError("the connection was closed in the middle of the answer")
        if loop.time() >= deadline:
            raise TimeoutError(f"nothing arrived for {limit_s:g} s")
