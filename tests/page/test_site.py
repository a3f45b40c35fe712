"""The documentation site in a browser: search finds a page without any request to another host."""

import asyncio
import shutil
import threading
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect
from scripts.build_site import build_site

from tests.page.browser import PageLog

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def served_site(tmp_path: Path) -> Generator[str]:
    """The address of a site with two pages."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Accord\n", encoding="utf-8")
    shutil.copy(ROOT / "docs" / "glossary.md", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    assert build_site(tmp_path) == 0
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path / "build" / "site")
    )
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)


async def test_search_finds_a_page_without_the_internet(browser: Browser, served_site: str):
    log = PageLog(served_site.removeprefix("http://"))
    context = await browser.new_context()
    async with asyncio.timeout(40):
        await log.watch(context)
        page = await context.new_page()
        await page.goto(served_site)
        await page.get_by_role("button", name="Search").first.click()
        await page.get_by_role("combobox", name="Search").fill("shortfall")
        await expect(page.get_by_role("option").first).to_contain_text("Glossary")
        await context.close()
    assert log.problems() == {}
