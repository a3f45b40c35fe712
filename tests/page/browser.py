"""Starts Chromium without a window, and records what no page of the service may do.

`make .venv/chromium/.ready` brings the program (`scripts/fetch_chromium.py`).
"""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Request, WebError, async_playwright, expect

CHROMIUM: Final = Path(__file__).parent.parent.parent / ".venv" / "chromium" / "chromium"
FLAGS: Final = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
START_MS: Final = 30_000
WAIT_MS: Final = 15_000
"""How long a page may take to show something, on a machine that runs other tests as well."""
LOCAL_SCHEMES: Final = {"about", "blob", "data"}
VIOLATION: Final = "security policy: "
REPORT_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) => {
  const { violatedDirective, blockedURI, sample } = event;
  console.error(`security policy: ${violatedDirective} blocked ${blockedURI} ${sample}`);
});
"""

expect.set_options(timeout=WAIT_MS)


@asynccontextmanager
async def chromium(executable: Path = CHROMIUM) -> AsyncGenerator[Browser]:
    """A browser with a new, empty profile."""
    assert executable.exists(), f"{executable} is missing: run `make .venv/chromium/.ready`"  # noqa: ASYNC240 - once
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=FLAGS, chromium_sandbox=False, timeout=START_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass  # without slots: Playwright adds attributes to the owner of a handler
class PageLog:
    """What a page did that it may not do; a test names the errors that it provokes in `expected`."""

    host: str
    expected: list[str] = field(default_factory=list[str])
    """Regular expressions of console errors."""
    foreign_requests: list[str] = field(default_factory=list[str])
    violations: list[str] = field(default_factory=list[str])
    exceptions: list[str] = field(default_factory=list[str])
    console_errors: list[str] = field(default_factory=list[str])

    async def watch(self, context: BrowserContext) -> None:
        """Record what the pages of this context do, also those in tabs that they open."""
        context.on("request", self._add_request)
        context.on("console", self._add_message)
        context.on("weberror", self._add_exception)
        await context.add_init_script(REPORT_VIOLATIONS)

    def problems(self) -> dict[str, list[str]]:
        """Everything that was not expected, by its kind."""
        errors = [text for text in self.console_errors if not any(re.search(each, text) for each in self.expected)]
        found = {
            "requests to other hosts": self.foreign_requests,
            "violations of the security policy": self.violations,
            "uncaught exceptions": self.exceptions,
            "console errors": errors,
        }
        return {kind: texts for kind, texts in found.items() if texts}

    def _add_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in LOCAL_SCHEMES and address.netloc != self.host:
            self.foreign_requests.append(request.url)

    def _add_message(self, message: ConsoleMessage) -> None:
        if message.text.startswith(VIOLATION):
            self.violations.append(message.text)
        elif message.type == "error":
            self.console_errors.append(f"{message.text} ({message.location['url']})")

    def _add_exception(self, error: WebError) -> None:
        self.exceptions.append(str(error.error))
