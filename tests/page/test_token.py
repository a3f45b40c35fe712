"""A service with authentication: the page asks for a token, and keeps it in memory only."""

import pytest
from playwright.async_api import Browser, expect

from tests.page.serving import Tab, echo, open_tab

pytestmark = pytest.mark.anyio

STORED = """async () => [
  location.href, document.cookie, JSON.stringify({ ...localStorage }), JSON.stringify({ ...sessionStorage }),
  JSON.stringify(history.state), JSON.stringify(await indexedDB.databases()), JSON.stringify(await caches.keys()),
  document.documentElement.outerHTML, [...document.querySelectorAll("input")].map((each) => each.value).join(),
].join("\\n")"""


async def enter(tab: Tab, token: str) -> None:
    dialog = tab.page.get_by_role("dialog", name="This service needs a token")
    await dialog.get_by_label("User").fill("ada")
    await dialog.get_by_label("Token", exact=True).fill(token)
    await dialog.get_by_role("button", name="Continue").click()


async def test_the_page_asks_for_a_token_and_keeps_it_in_memory_only(browser: Browser):
    async with open_tab(browser, echo, needs_token=True) as tab:
        tab.log.expected.append("status of 401")
        assert tab.site.token is not None
        dialog = tab.page.get_by_role("dialog", name="This service needs a token")
        await expect(dialog).to_be_visible()
        await expect(dialog.get_by_label("User")).to_be_focused()
        await enter(tab, tab.site.token)
        await expect(tab.page.locator("#agent-name")).to_have_text("tested")
        await expect(dialog).to_be_hidden()
        await expect(await tab.ask("Hello")).to_have_text("You wrote: Hello")
        await tab.show("What happened")
        await expect(tab.page.get_by_role("heading", name="Receipt")).to_be_visible()
        assert tab.site.token not in await tab.page.evaluate(STORED)
        assert await tab.page.context.cookies() == []
        await tab.page.reload()
        await expect(dialog).to_be_visible()


async def test_a_wrong_token_is_asked_for_again_with_the_reason(browser: Browser):
    async with open_tab(browser, echo, needs_token=True) as tab:
        tab.log.expected.append("status of 401")
        assert tab.site.token is not None
        await enter(tab, "accord_wrong")
        await expect(tab.page.locator("#token-problem")).not_to_be_empty()
        await enter(tab, tab.site.token)
        await expect(tab.page.locator("#agent-name")).to_have_text("tested")
