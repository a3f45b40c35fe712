"""One browser for all tests of a process; each test opens its own tab in a context of its own."""

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser

from tests.page.browser import chromium


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of all tests here: the browser's connection belongs to it."""
    return "asyncio"


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncGenerator[Browser]:  # noqa: ARG001 - it makes this fixture asynchronous
    async with chromium() as started:
        yield started
