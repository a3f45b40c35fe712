"""What the page costs: bytes to load it, and the time of the browser's main thread while a long answer streams."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Browser

from accord.agent import Turn, Yielded
from tests.page.serving import echo, open_tab

pytestmark = pytest.mark.anyio

MAX_PAGE_BYTES = 150_000
LOADED = """() => Object.fromEntries(
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter(({ name }) => !name.includes("/v1/"))
    .map(({ name, transferSize, decodedBodySize }) => [name, [transferSize, decodedBodySize]]),
)"""
"""The files of the page with their sizes."""
TOKENS = 10_000
PARTS = 5
TOKENS_PER_SECOND = 1_000
"""Five times what fast models write; a slower stream keeps the main thread less busy."""
PARAGRAPH = (
    "A **paragraph** of an answer, with `code`, a [link](https://a.example/) and *emphasis*. It has some sentences, as "
    "answers have. Then comes the next one.\n\n- a list\n- of two items\n\n```python\nprint('and code')\n```\n\n"
)


async def test_the_whole_page_is_small(browser: Browser):
    async with open_tab(browser, echo) as tab:
        files: dict[str, list[int]] = await tab.page.evaluate(LOADED)
        transferred, unpacked = map(sum, zip(*files.values(), strict=True))
        print(f"\nThe page: {len(files)} files, {transferred:,} bytes transferred, {unpacked:,} bytes unpacked")
        assert len(files) > 10
        assert min(size for size, _ in files.values()) > 0  # none of them is cached
        assert transferred < MAX_PAGE_BYTES


async def test_a_long_answer_keeps_the_main_thread_free(browser: Browser):
    parts: asyncio.Queue[None] = asyncio.Queue()

    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        text = PARAGRAPH * (TOKENS * 5 // len(PARAGRAPH))
        tokens = [text[at : at + 4] for at in range(0, TOKENS * 4, 4)]
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        for number, token in enumerate(tokens):
            if number % (TOKENS // PARTS) == 0:
                parts.put_nowait(None)
            if (ahead_s := began_at + number / TOKENS_PER_SECOND - loop.time()) > 0.01:
                await asyncio.sleep(ahead_s)
            yield token
        parts.put_nowait(None)

    async with open_tab(browser, answer) as tab:
        devtools: Any = await tab.page.context.new_cdp_session(tab.page)
        await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        await tab.send("Write")
        busy_s: list[float] = []
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        for _ in range(PARTS + 1):
            await asyncio.wait_for(parts.get(), 30)
            metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
            busy_s.append(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))
        lasted_s = loop.time() - began_at
        await tab.completed()
        each_s = [after - before for before, after in pairwise(busy_s)]
        share = sum(each_s) / lasted_s
        print(f"\n{TOKENS:,} tokens in {lasted_s:.1f} s: main thread busy for {share:.1%};", end=" ")
        print("ms per 1,000 tokens:", *(f"{part / TOKENS * PARTS * 1e6:.0f}" for part in each_s))
        assert share < 0.2
        assert each_s[-1] < 3 * each_s[0]
