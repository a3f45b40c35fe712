"""The checks that every test of the page makes can fail: small pages that do what no page may do."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from accord.agents import demo
from accord.servers.http.app import Application
from accord.servers.page.files import PageFiles, page_routes
from tests.page.browser import WAIT_MS, PageLog
from tests.servers.transports import make_service, served

pytestmark = pytest.mark.anyio

DOCUMENT = """<!doctype html><html lang="en"><title>Page</title><link rel="icon" href="data:,"><script type="module" src="page/main.js"></script>"""
END = "\nsetTimeout(() => document.body.append('the end'));"
POLICY, REQUEST, CONSOLE, EXCEPTION = (
    "violations of the security policy",
    "requests to other hosts",
    "console errors",
    "uncaught exceptions",
)


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        ("document.body.append('some text');", set[str]()),
        ("await (await fetch('page/main.js')).text();", set[str]()),
        ("fetch('http://localhost:9/').catch(() => {});", {POLICY, CONSOLE}),
        ("window.open('http://localhost:9/');", {REQUEST}),
        ("new Image().src = 'http://localhost:9/a.png';", {POLICY, CONSOLE, REQUEST}),
        ("setTimeout(() => { throw new Error('late'); });", {EXCEPTION}),
        ("Promise.reject(new Error('rejected'));", {EXCEPTION}),
        ("console.error('wrong');", {CONSOLE}),
        ("try { document.body.innerHTML = '<b>x</b>'; } catch {}", {POLICY, CONSOLE}),
        ("try { eval('1'); } catch {}", {POLICY, CONSOLE}),
    ],
    ids=["text", "own host", "fetch", "new tab", "image", "exception", "rejection", "console", "innerHTML", "eval"],
)
async def test_what_a_page_may_not_do_is_recorded(browser: Browser, tmp_path: Path, script: str, kinds: set[str]):
    (tmp_path / "index.html").write_text(DOCUMENT)
    (tmp_path / "main.js").write_text(script + END)
    application = Application(make_service(demo), page_routes(PageFiles(tmp_path, libraries=())))
    async with served(application) as address, await browser.new_context() as context:
        log = PageLog(urlsplit(address).netloc)
        await log.watch(context)
        page = await context.new_page()
        await page.goto(address)
        await expect(page.get_by_text("the end")).to_be_visible()
        async with asyncio.timeout(WAIT_MS / 1000):
            while len(log.problems()) < len(kinds):  # noqa: ASYNC110 - the new tab comes later than the text
                await asyncio.sleep(0.01)
        assert log.problems().keys() == kinds
