"""The views beside the chat: what happened in a turn, the backends, and the playground of the model APIs."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from accord.agent import Turn, Yielded
from tests.page.serving import echo, open_tab, show_everything

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NEEDS = {"required": [{"capability": "code_execution", "min_support": "native"}]}
STEPS = ("Admit", "Plan", "Emulate", "Dispatch", "Adapt")


def steps(view: Locator) -> Locator:
    return view.get_by_role("list", name="The pipeline of this turn").get_by_role("listitem")


async def test_the_pipeline_of_a_turn_has_the_values_of_its_receipt(browser: Browser):
    async with open_tab(browser, show_everything) as tab:
        await tab.ask("Show")
        await tab.turns.get_by_role("button", name="What happened").click()
        view = tab.page.get_by_role("tabpanel", name="What happened")
        await expect(steps(view).get_by_role("heading")).to_have_text(STEPS)
        await expect(steps(view).locator(".value")).to_have_text(
            ["accepted", "1 question", "nothing", "plain", "all native"]
        )
        rows = view.get_by_role("region", name="Backends").get_by_role("row")
        await expect(rows).to_contain_text(["backend", "plain chosen", "seeing lost"], use_inner_text=True)
        await expect(view.get_by_text("verified: 1 receipt of this session, unaltered and in order")).to_be_visible()


async def test_an_emulation_is_shown_with_its_attempts(browser: Browser):
    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask("Name a city.", schema=SCHEMA):
            yield text

    scripted = """
    [store]
    kind = "memory"
    [[backends]]
    name = "plain"
    kind = "scripted"
    manifest = "declared"
    overrides = { streaming = "native" }
    options = { script = ['{"city": "Oslo"}'] }
    """
    async with open_tab(browser, answer, config=scripted) as tab:
        await tab.ask("Ask")
        view = await tab.show("What happened")
        await expect(steps(view).nth(2)).to_contain_text("structured_output_json_schema")
        await expect(view.get_by_role("region", name="Attempts")).to_contain_text("accepted")


async def test_a_refused_turn_is_shown_with_its_refusal(browser: Browser):
    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        async for text in turn.ask("Run it", requirements=NEEDS):
            yield text

    async with open_tab(browser, answer) as tab:
        await tab.send("Ask")
        await expect(tab.turns.get_by_role("alert")).to_contain_text("code_execution")
        view = await tab.show("What happened")
        await expect(steps(view).locator(".value")).to_contain_text(["no backend"])


async def test_the_receipt_can_be_saved_and_the_request_repeated(browser: Browser, tmp_path: Path):
    prompts: list[str] = []

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        prompts.append(turn.text)
        yield "An answer."

    async with open_tab(browser, answer, permissions=["clipboard-read", "clipboard-write"]) as tab:
        await tab.ask("it's me")
        view = await tab.show("What happened")
        async with tab.page.expect_download() as download:
            await view.get_by_role("button", name="Save as JSON").click()
        await (await download.value).save_as(tmp_path / "receipt.json")
        receipt = json.loads((tmp_path / "receipt.json").read_bytes())
        await expect(view.get_by_text(receipt["hash"], exact=True)).to_be_visible()
        await view.get_by_role("button", name="Copy a curl line").click()
        await expect(view.get_by_role("button", name="Copied")).to_be_visible()
        line = await tab.page.evaluate("navigator.clipboard.readText()")
        for _ in range(2):
            process = await asyncio.create_subprocess_shell(
                line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            output, _ = await asyncio.wait_for(process.communicate(), 10)
            assert b"An answer." in output
        assert prompts == ["it's me"] * 3


async def test_the_matrix_shows_what_each_backend_declares(browser: Browser):
    async with open_tab(browser, echo) as tab:
        view = await tab.show("Backends")
        table = view.get_by_role("region", name="Backends and capabilities")
        await expect(table.get_by_role("columnheader")).to_contain_text(["capability", "plain", "seeing", "by Accord"])
        row = table.get_by_role("row").filter(has=tab.page.get_by_role("rowheader", name="image_input", exact=True))
        await expect(row.get_by_role("cell")).to_contain_text(["unsupported", "native", "–"])


async def test_the_picker_shows_at_once_which_backend_does_the_work(browser: Browser):
    async with open_tab(browser, echo) as tab:
        view = await tab.show("Backends")
        verdict = tab.page.locator("#verdict")
        await expect(verdict.get_by_role("heading", level=3)).to_have_text("plain does this work")
        await view.get_by_label("image_input").select_option("native")
        await expect(verdict.get_by_role("heading", level=3)).to_have_text("seeing does this work")
        await expect(verdict.get_by_role("listitem").filter(has_text="plain: cannot do it")).to_contain_text(
            "image_input"
        )
        await view.get_by_label("tool_use").select_option("native")
        await expect(verdict.get_by_role("heading", level=3)).to_have_text("No backend can do this")
        await view.get_by_label("tool_use").select_option("emulated")
        await expect(verdict.get_by_role("heading", level=3)).to_have_text("seeing does this work")
        await view.get_by_label("image_input").select_option("")
        await view.get_by_label("tool_use").select_option("")
        await expect(verdict.get_by_role("heading", level=3)).to_have_text("plain does this work")


async def test_the_playground_sends_one_request_in_three_forms(browser: Browser):
    async with open_tab(browser, echo) as tab:
        view = await tab.show("Playground")
        await view.get_by_label("Prompt").fill("What is it?")
        for title, path in {"OpenAI": "/v1/chat/completions", "Anthropic": "/v1/messages", "CAP": "/v1/assist"}.items():
            form = view.get_by_role("region", name=title, exact=True)
            await expect(form).to_contain_text(f"POST {path}")
            await expect(form.locator("pre").first).to_contain_text('"What is it?"')
            await form.get_by_role("button", name="Send").click()
            await expect(form.get_by_role("status")).to_contain_text("200")
        openai = view.get_by_role("region", name="OpenAI", exact=True)
        await expect(openai.get_by_role("status")).to_contain_text("An answer of the model.")
        fields = openai.get_by_role("region", name="Fields of OpenAI")
        await expect(fields.get_by_role("row").filter(has_text="seed").first).to_contain_text("dropped")
        await expect(fields).not_to_contain_text("response_format")
        await view.get_by_label("JSON that matches a schema").check()
        await expect(fields).to_contain_text("response_format")
