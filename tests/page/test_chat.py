"""The chat: answers appear as they come, survive cut connections, and can be stopped, repeated and changed."""

import asyncio
import io
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest
from PIL import Image
from playwright.async_api import Browser, expect

from accord.agent import Turn, Yielded
from tests.page.serving import echo, open_tab

pytestmark = pytest.mark.anyio


def tall_image() -> str:
    """A PNG that is higher than the window."""
    file = io.BytesIO()
    Image.new("RGB", (20, 1_500), "teal").save(file, "PNG")
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


WORDS = [f"word{number} " for number in range(400)]
LOST = r"ERR_(CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_CLOSED)"


async def test_text_appears_as_it_comes(browser: Browser):
    goes_on = asyncio.Event()

    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        yield "The **first** half, "
        await goes_on.wait()
        yield "and the second."

    async with open_tab(browser, answer) as tab:
        shown = await tab.send("Hello")
        await expect(shown).to_have_text("The first half,")
        await expect(shown.locator("strong")).to_have_text("first")
        await expect(shown).to_have_attribute("aria-busy", "true")
        goes_on.set()
        await expect(shown).to_have_text("The first half, and the second.")
        await tab.completed()


async def test_a_cut_connection_is_resumed_where_it_was_cut(browser: Browser):
    goes_on = asyncio.Event()

    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        for word in WORDS[:200]:
            yield word
        await goes_on.wait()
        for word in WORDS[200:]:
            yield word

    async with open_tab(browser, answer) as tab:
        tab.log.expected.append(LOST)
        shown = await tab.send("Count")
        await expect(shown).to_contain_text("word199")
        tab.site.proxy.cut()
        await expect(tab.status).to_have_text("The connection was lost; resuming…")
        goes_on.set()
        await tab.completed()
        await expect(shown).to_have_text("".join(WORDS).strip())


async def test_no_word_is_repeated_or_lost_wherever_a_stream_is_cut(browser: Browser):
    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        for word in WORDS:
            yield word

    async with open_tab(browser, answer) as tab:
        tab.log.expected.append(LOST)
        tab.site.proxy.cut_streams_after(0, 3_001, 4_007, 1_503)
        shown = await tab.ask("Count")
        assert tab.site.proxy.cuts_to_come == 0
        await expect(shown).to_have_text("".join(WORDS).strip())


async def test_the_end_of_an_answer_stays_in_view_unless_the_user_scrolls_up(browser: Browser):
    parts = asyncio.Semaphore(0)

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        yield "The first line.\n\n"
        yield turn.media({"url": tall_image(), "mime_type": "image/png", "alt_text": "a column"})
        await parts.acquire()
        yield "The second line.\n\n" + "more\n\n" * 50
        await parts.acquire()
        yield "The last line."

    async with open_tab(browser, answer) as tab:
        shown = await tab.send("Show")
        await expect(shown.get_by_role("img")).to_be_in_viewport()
        await expect(shown.get_by_text("The first line.")).not_to_be_in_viewport()
        parts.release()
        await expect(shown.get_by_text("more").last).to_be_in_viewport()
        await tab.page.get_by_role("region", name="Conversation").hover()
        await tab.page.mouse.wheel(0, -5_000)
        await expect(shown.get_by_text("The first line.")).to_be_in_viewport()
        parts.release()
        await tab.completed()
        await expect(shown.get_by_text("The first line.")).to_be_in_viewport()
        await expect(shown.get_by_text("The last line.")).not_to_be_in_viewport()
        await tab.show("Backends")
        await tab.show("Chat")
        await expect(shown.get_by_text("The first line.")).to_be_in_viewport()


@pytest.mark.parametrize("how", ["button", "Escape"])
async def test_stop_cancels_the_turn_at_the_service(browser: Browser, how: str):
    ended = asyncio.Event()

    async def answer(_: Turn) -> AsyncIterator[Yielded]:
        try:
            yield "One moment "
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with open_tab(browser, answer) as tab:
        shown = await tab.send("Wait")
        await expect(shown).to_contain_text("One moment")
        await expect(tab.page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        if how == "button":
            await tab.page.get_by_role("button", name="Stop").click()
        else:
            await tab.page.keyboard.press("Escape")
        await expect(tab.status).to_have_text("Stopped.")
        await expect(tab.page.get_by_role("button", name="Stop")).to_be_hidden()
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_prompt_can_be_sent_again_and_edited(browser: Browser):
    async with open_tab(browser, echo) as tab:
        await tab.ask("the first")
        await tab.turns.first.get_by_role("button", name="Send again").click()
        await expect(tab.turns).to_have_count(2)
        await expect(tab.turns.last.locator(".answer")).to_have_text("You wrote: the first")
        await tab.completed()
        await tab.turns.last.get_by_role("button", name="Edit").click()
        await expect(tab.prompt).to_be_focused()
        await expect(tab.prompt).to_have_value("the first")
        await tab.prompt.fill("the second")
        await tab.prompt.press("Enter")
        await expect(tab.turns.last.locator(".answer")).to_have_text("You wrote: the second")


async def test_a_failed_turn_can_be_tried_again(browser: Browser):
    tries: list[str] = []

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        tries.append(turn.text)
        if len(tries) == 1:
            raise RuntimeError
        yield "Now it works."

    async with open_tab(browser, answer) as tab:
        shown = await tab.send("Try")
        await shown.get_by_role("button", name="Try again").click()
        await expect(tab.turns.last.locator(".answer")).to_have_text("Now it works.")
        assert tries == ["Try", "Try"]


async def test_a_new_chat_is_a_new_session(browser: Browser):
    sessions: list[str] = []

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        sessions.append(turn.request.context.session_id)
        yield "An answer."

    async with open_tab(browser, answer) as tab:
        await tab.ask("one")
        await tab.ask("two")
        await tab.page.get_by_role("button", name="New chat").click()
        await expect(tab.turns).to_have_count(0)
        await expect(tab.prompt).to_be_focused()
        await tab.ask("three")
    assert sessions[0] == sessions[1] != sessions[2]


async def test_a_line_break_is_typed_with_shift_and_sent_with_the_rest(browser: Browser):
    async with open_tab(browser, echo) as tab:
        await tab.prompt.press_sequentially("a")
        await tab.prompt.press("Shift+Enter")
        await tab.prompt.press_sequentially("b")
        await tab.prompt.press("Enter")
        await expect(tab.turns.locator(".question p")).to_have_text("a\nb")
        await expect(tab.prompt).to_have_value("")
