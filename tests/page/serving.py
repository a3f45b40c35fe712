"""The page of a real service in a tab of a real browser.

`open_tab` serves an agent in this process, so that a test decides when the agent goes on, and fails for what no page of
ours may do: a request to another host, a violation of the security policy, an uncaught exception, a console error.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import Browser, Locator, Page, expect

from accord.agent import Agent, AgentFunction, Turn, Yielded
from accord.assembly.parts import build_engine
from accord.assembly.reload import make_model_calls
from accord.assembly.service import make_application, make_authenticator, make_service
from accord.assembly.store import open_store_and_backends
from accord.config import read_config
from accord.ports import Store
from accord.run.keys import make_key
from accord.run.model_calls import ModelCallsRef
from accord.wire.keys import KeyRequest
from tests.page.browser import WAIT_MS, PageLog
from tests.page.proxy import Proxy
from tests.servers.transports import served

CONFIG: Final = """
[store]
kind = "memory"

[[backends]]
name = "plain"
kind = "scripted"
manifest = "declared"
options = { script = ["An answer ", "of the model."] }
overrides = { streaming = "native", tool_use = "unsupported", image_input = "unsupported" }

[[backends]]
name = "seeing"
kind = "scripted"
manifest = "declared"
options = { script = ["A picture."] }
overrides = { streaming = "native", tool_use = "emulated", image_input = "native" }
"""


async def echo(turn: Turn) -> AsyncIterator[Yielded]:
    """Answer with the prompt."""
    yield f"You wrote: {turn.text}"


PIXEL: Final = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="


async def show_everything(turn: Turn) -> AsyncIterator[Yielded]:
    """Ask a model, and yield every kind of event."""
    yield turn.progress("Reading", 0.5)
    yield turn.thought("Think first.")
    async for text in turn.ask(turn.text):
        yield text
    yield "\n\n## Figures\n\n| Sales | Units |\n|---|---|\n| North | 42 |\n\nA **bold** claim"
    yield turn.citation(
        {"source_id": "one", "uri": "https://one.example/", "title": "A first source", "snippet": "As it says."},
        {"source_id": "two", "uri": "https://two.example/", "title": "A second source"},
    )
    yield ".\n\n"
    yield turn.media({"url": PIXEL, "mime_type": "image/png", "alt_text": "A red dot"})
    yield turn.user_error("The weather is unknown", domain="tool", retryable=True)
    yield turn.markdown("> A *block* of its own.")


@dataclass(slots=True)
class ServedPage:
    """A service with a page, the proxy between it and the browser, and the token of the user "ada" if it needs one."""

    address: str
    proxy: Proxy
    token: str | None


@asynccontextmanager
async def serve_page(
    run: AgentFunction, *, accepts: tuple[str, ...] = (), config: str = CONFIG, needs_token: bool = False
) -> AsyncGenerator[ServedPage]:
    """Serve an agent in this process as `accord serve` does."""
    loaded = read_config(config)
    settings = loaded.config.server.model_copy(update={"port": 0})
    engine = build_engine(loaded, agent=Agent(run, name="tested", accepts=accepts))
    async with open_store_and_backends(loaded, engine) as store:
        service, metrics = make_service(loaded, settings, engine, store, make_authenticator(settings, store))
        calls = ModelCallsRef(make_model_calls(loaded, engine.dispatcher, engine.clock))
        application = make_application(loaded, service, metrics, calls, loopback_only=True)
        async with served(application) as direct:
            proxy = Proxy(direct)
            async with proxy.running() as address:
                yield ServedPage(address, proxy, await add_token(store) if needs_token else None)


async def add_token(store: Store) -> str:
    """Add a key of the user "ada"; from now on the service needs one."""
    token, record = make_key(KeyRequest(user="ada"), datetime.now(UTC))
    await store.put_token(record)
    return token


@dataclass(slots=True)
class Tab:
    """A tab with the page, and what a user does in it."""

    page: Page
    log: PageLog
    site: ServedPage

    async def send(self, text: str) -> Locator:
        """Send a prompt; returns the answer, which goes on."""
        count = await self.turns.count()
        await self.prompt.fill(text)
        await self.prompt.press("Enter")
        await expect(self.turns).to_have_count(count + 1)
        return self.turns.last.locator(".answer")

    async def ask(self, text: str) -> Locator:
        """Send a prompt; returns the answer when it is complete."""
        answer = await self.send(text)
        await self.completed()
        return answer

    async def completed(self) -> None:
        """Wait until the answer is complete."""
        await expect(self.status).to_have_text("The answer is complete.")

    async def show(self, view: str) -> Locator:
        """Choose a view."""
        await self.page.get_by_role("tab", name=view).click()
        return self.page.get_by_role("tabpanel", name=view)

    @property
    def prompt(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message")

    @property
    def status(self) -> Locator:
        return self.page.locator("#status")

    @property
    def turns(self) -> Locator:
        return self.page.get_by_role("article", name="Question and answer")


@asynccontextmanager
async def open_tab(
    browser: Browser,
    run: AgentFunction,
    *,
    accepts: tuple[str, ...] = (),
    config: str = CONFIG,
    needs_token: bool = False,
    **options: Any,
) -> AsyncGenerator[Tab]:
    """Serve this agent and open its page in a new context of the browser, which gets the options."""
    async with (
        serve_page(run, accepts=accepts, config=config, needs_token=needs_token) as site,
        await browser.new_context(**options) as context,
    ):
        context.set_default_timeout(WAIT_MS)
        log = PageLog(urlsplit(site.address).netloc)
        await log.watch(context)
        page = await context.new_page()
        await page.goto(site.address)
        if not needs_token:
            await expect(page.locator("#agent-name")).to_have_text("tested")
        yield Tab(page, log, site)
        problems = log.problems()
        assert not problems, problems
