"""The demo agent of `accord serve`, as a user sees it first: the tour, without a problem on the page."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from tests.page.browser import PageLog
from tests.servers.process import accord_serve

pytestmark = pytest.mark.anyio


async def test_the_tour_shows_an_answer_of_a_model_a_chart_sources_and_a_failure(browser: Browser, tmp_path: Path):
    async with (
        accord_serve(tmp_path, environ={"ACCORD_DEMO_PACE": "0"}) as service,
        await browser.new_context() as context,
    ):
        log = PageLog(urlsplit(service.address).netloc)
        await log.watch(context)
        page = await context.new_page()
        await page.goto(service.address)
        await page.get_by_role("button", name="Send “Hello”").click()
        await expect(page.locator("#status")).to_have_text("The answer is complete.")
        answer = page.locator(".answer")
        await expect(answer.get_by_role("table")).to_contain_text("North")
        await expect(answer.get_by_role("img", name="Bar chart")).to_be_visible()
        assert await answer.get_by_role("img").evaluate("image => image.naturalWidth") > 100
        await expect(answer.get_by_role("heading", name="Sources").last).to_be_visible()
        await expect(answer.get_by_role("alert")).to_contain_text("part of the demo")
        await page.get_by_role("button", name="What happened").click()
        steps = page.get_by_role("list", name="The pipeline of this turn").get_by_role("listitem")
        await expect(steps.nth(2)).to_contain_text("structured_output_json_schema")
        await expect(page.get_by_text("verified: 1 receipt")).to_be_visible()
        problems = log.problems()
        assert not problems, problems
