"""The page by keyboard, for screen readers, in light and dark, and on a phone."""

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, expect

from tests.page.serving import Tab, echo, open_tab, show_everything

pytestmark = pytest.mark.anyio

VIEWS = ("Chat", "Side by side", "What happened", "Backends", "Playground")
AXE = Path(__file__).parent.parent.parent / ".venv" / "peers" / "node_modules" / "axe-core" / "axe.min.js"
RUN_AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => [id, nodes.map((node) => node.html.slice(0, 200))])"""
FOCUSED = """() => {
  const { id, textContent, ariaLabel, labels, localName } = document.activeElement;
  return localName === "body" ? "(outside)" : ariaLabel || labels?.[0]?.textContent || textContent.trim() || id;
}"""
BRIGHTNESS = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .filter((each) => ["auto", "scroll", "hidden"].includes(getComputedStyle(each).overflowX) || each.localName === "html")
  .filter((each) => !each.matches("pre, .scroll, nav, .text table, .hidden-label"))
  .map((each) => `${each.localName}#${each.id}.${each.className}: ${each.scrollWidth} > ${each.clientWidth}`)"""
"""What can be scrolled sideways, but for code and tables, which are wide by nature."""


async def wait_for(tab: Tab, view: str) -> None:
    """Choose a view and wait for what it loads."""
    panel = await tab.show(view)
    content = {
        "Side by side": panel.get_by_role("button", name="Media").nth(3),
        "What happened": panel.get_by_role("heading", name="Receipt"),
        "Backends": panel.locator("#verdict > *").first,
        "Playground": panel.get_by_role("region", name="CAP"),
    }
    await expect(content.get(view, panel)).to_be_visible()


async def test_the_tab_key_visits_everything_in_the_order_of_the_page(browser: Browser):
    async with open_tab(browser, echo, accepts=("image",)) as tab:
        await expect(tab.prompt).to_be_focused()
        names: list[str] = []
        while not names or names[-1] != "Message":
            assert len(names) < 20, names
            await tab.page.keyboard.press("Tab")
            names.append(await tab.page.evaluate(FOCUSED))
        beside_chat = ["Attach", "New chat", "Send", "(outside)", "Skip to the content", "Chat", "Conversation"]
        assert names == [*beside_chat, "Send “Hello”", "Message"]


async def test_a_turn_and_its_views_need_only_the_keyboard(browser: Browser):
    async with open_tab(browser, show_everything) as tab:
        keyboard = tab.page.keyboard
        await keyboard.type("Show")
        await keyboard.press("Enter")
        await tab.completed()
        await keyboard.press("Shift+Tab")
        await expect(tab.page.get_by_role("button", name="What happened")).to_be_focused()
        await keyboard.press("Enter")
        await expect(tab.page.get_by_role("tab", name="What happened")).to_be_focused()
        await expect(tab.page.get_by_role("heading", name="Receipt")).to_be_visible()
        for key, view in {
            "ArrowLeft": "Side by side",
            "End": "Playground",
            "ArrowRight": "Chat",
            "Home": "Chat",
        }.items():
            await keyboard.press(key)
            await expect(tab.page.get_by_role("tab", name=view)).to_be_focused()
            await expect(tab.page.get_by_role("tabpanel", name=view)).to_be_visible()
            await expect(tab.page.get_by_role("tabpanel")).to_have_count(1)
        await keyboard.press("ArrowRight")
        # All columns are drawn then: Tab would not come to what is drawn after it has passed.
        await expect(tab.page.get_by_role("button", name="Media").nth(3)).to_be_visible()
        while await tab.page.evaluate(FOCUSED) != "Media":
            await keyboard.press("Tab")
        await expect(tab.page.get_by_role("tooltip", name="Media: native.")).to_be_visible()


async def test_the_skip_link_leads_to_the_content(browser: Browser):
    async with open_tab(browser, echo) as tab:
        link = tab.page.get_by_role("link", name="Skip to the content")
        await link.focus()
        await expect(link).to_be_in_viewport()
        await tab.page.keyboard.press("Enter")
        await expect(tab.page.get_by_role("main")).to_be_focused()
        await expect(tab.page.get_by_role("tabpanel", name="Chat")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_serious_problem_in_any_view(browser: Browser, scheme: Literal["light", "dark"]):
    async with open_tab(browser, show_everything, accepts=("image",), color_scheme=scheme) as tab:
        await tab.page.evaluate(AXE.read_text(encoding="utf-8"))
        await tab.ask("Show")
        for view in VIEWS:
            await wait_for(tab, view)
            assert await tab.page.evaluate(RUN_AXE) == [], view
        brightness = await tab.page.evaluate(BRIGHTNESS)
        assert min(brightness) > 200 if scheme == "light" else max(brightness) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_serious_problem_in_the_dialog(browser: Browser, scheme: Literal["light", "dark"]):
    async with open_tab(browser, echo, needs_token=True, color_scheme=scheme) as tab:
        tab.log.expected.append("status of 401")
        await expect(tab.page.get_by_role("dialog")).to_be_visible()
        await tab.page.evaluate(AXE.read_text(encoding="utf-8"))
        assert await tab.page.evaluate(RUN_AXE) == []


async def test_a_phone_need_not_be_scrolled_sideways(browser: Browser):
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    async with open_tab(browser, show_everything, accepts=("image",), **phone) as tab:
        await tab.ask("Show " + "averyveryverylongword" * 10)
        for view in VIEWS:
            await wait_for(tab, view)
            assert await tab.page.evaluate(TOO_WIDE) == [], view
