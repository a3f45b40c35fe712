"""Side by side: one run as four clients get it, live and afterwards."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from accord.agent import Turn, Yielded
from tests.page.serving import echo, open_tab, show_everything

pytestmark = pytest.mark.anyio

CLIENTS = ("Web page", "Terminal", "Voice", "Your client")


def column(page: Page, client: str) -> Locator:
    return page.get_by_role("region", name=client, exact=True)


def body(page: Page, client: str) -> Locator:
    return column(page, client).locator(".side-body")


def items(page: Page, client: str) -> Locator:
    """How each item of the run was adapted for this client."""
    return column(page, client).get_by_role("list", name=f'Items of the run as the client "{client}" gets them')


async def test_each_client_gets_the_run_in_its_own_form(browser: Browser):
    async with open_tab(browser, show_everything) as tab:
        await tab.ask("Show")
        await tab.show("Side by side")
        page = tab.page
        for client in CLIENTS:
            await expect(body(page, client)).to_contain_text("An answer of the model.")
            await expect(body(page, client)).to_contain_text("bold")
        await expect(body(page, "Web page").get_by_role("img", name="A red dot")).to_be_visible()
        await expect(body(page, "Web page").locator("strong")).to_have_text("bold")
        for client in ("Terminal", "Voice"):
            await expect(body(page, client).get_by_role("img")).to_have_count(0)
            await expect(body(page, client).locator("strong")).to_have_count(0)
            await expect(body(page, client)).to_contain_text("A red dot")
        await expect(body(page, "Terminal")).to_contain_text("A **bold** claim")
        await expect(body(page, "Voice")).to_contain_text("A bold claim")
        await expect(items(page, "Web page").get_by_role("button", name="Media")).to_have_class("rung rung-native")
        await expect(items(page, "Voice").get_by_role("button", name="Media")).to_have_class("rung rung-described")


async def test_a_run_that_goes_on_is_followed_by_every_client(browser: Browser):
    goes_on = asyncio.Event()

    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        yield "The first sentence. "
        await goes_on.wait()
        yield "The second sentence."

    async with open_tab(browser, answer) as tab:
        await tab.send("Go")
        await tab.show("Side by side")
        for client in CLIENTS:
            await expect(body(tab.page, client)).to_contain_text("The first sentence.")
        goes_on.set()
        for client in CLIENTS:
            await expect(body(tab.page, client)).to_contain_text("The first sentence. The second sentence.")


async def test_a_switch_renders_the_finished_run_again(browser: Browser):
    runs: list[str] = []

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        runs.append(turn.text)
        async for item in show_everything(turn):
            yield item

    async with open_tab(browser, answer) as tab:
        await tab.ask("Show")
        await tab.show("Side by side")
        mine = body(tab.page, "Your client")
        media = items(tab.page, "Your client").get_by_role("button", name="Media")
        await expect(mine.get_by_role("img", name="A red dot")).to_be_visible()
        await expect(media).to_have_class("rung rung-native")
        await tab.page.get_by_role("switch", name="Media").uncheck()
        await expect(mine.get_by_role("img")).to_have_count(0)
        await expect(mine).to_contain_text("A red dot")
        await expect(media).to_have_class("rung rung-described")
        await expect(mine.locator("strong")).to_have_text("bold")
        await tab.page.get_by_role("switch", name="Prefers markdown").uncheck()
        await expect(mine.locator("strong")).to_have_count(0)
        await expect(mine).to_contain_text("A bold claim")
        await tab.page.get_by_role("switch", name="Media").check()
        await expect(mine.get_by_role("img", name="A red dot")).to_be_visible()
    assert runs == ["Show"]


@pytest.mark.parametrize("how", ["hover", "focus"])
async def test_the_reason_for_a_change_is_shown_on_hover_and_on_focus(browser: Browser, how: str):
    async with open_tab(browser, show_everything) as tab:
        await tab.ask("Show")
        await tab.show("Side by side")
        media = items(tab.page, "Voice").get_by_role("button", name="Media")
        reason = items(tab.page, "Voice").get_by_role("tooltip", name="Media: described.", include_hidden=True)
        await expect(reason).to_be_hidden()
        await (media.hover() if how == "hover" else media.focus())
        await expect(reason).to_be_visible()
        await expect(reason).to_contain_text("The client did not declare this type of event.")
        await expect(media).to_have_accessible_description(await reason.inner_text())


async def test_an_item_that_is_chosen_is_marked_in_every_client(browser: Browser):
    async with open_tab(browser, show_everything) as tab:
        await tab.ask("Show")
        await tab.show("Side by side")
        for chip, shown in {"Media": "A red dot", "Thought": "Think first."}.items():
            await items(tab.page, "Web page").get_by_role("button", name=chip).click()
            for client in CLIENTS:
                await expect(items(tab.page, client).locator(".highlighted")).to_have_text(chip)
            await expect(body(tab.page, "Web page").locator(".highlighted")).to_have_text(shown)


async def test_what_the_voice_client_gets_can_be_played(browser: Browser):
    async with open_tab(browser, echo) as tab:
        await tab.page.evaluate("() => { speechSynthesis.speak = (spoken) => { globalThis.spoken = spoken.text; }; }")
        await tab.ask("**Hello**")
        await tab.show("Side by side")
        await expect(body(tab.page, "Voice")).to_have_text("You wrote: Hello")
        await column(tab.page, "Voice").get_by_role("button", name="Play").click()
        assert await tab.page.evaluate("globalThis.spoken") == "You wrote: Hello"
