"""Makes the pictures of the page in `docs/`, with the demo agent and a headless Chromium: `make screenshots`.

    python -m scripts.screenshots docs

Look at them before you commit them.
"""

import asyncio
import io
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.async_api import Browser, Page, expect
from tests.page.browser import chromium
from tests.servers.process import accord_serve

DESKTOP: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 900}}
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {**DESKTOP, "color_scheme": "light"},
    "dark": {**DESKTOP, "color_scheme": "dark"},
    "phone": {**PHONE, "color_scheme": "light"},
}
VIEWS: Final = {"chat": "Chat", "side-by-side": "Side by side", "what-happened": "What happened"}
TURN_MS: Final = 120_000
COLOURS: Final = 128
MAX_BYTES: Final = 200_000


async def show_view(page: Page, title: str, look: str) -> None:
    """Choose a view, wait for what it loads, and show a part of it that says something."""
    await page.get_by_role("tab", name=title).click()
    panel = page.get_by_role("tabpanel", name=title)
    await expect(panel).to_be_visible()
    if title == "Side by side":
        for column in await panel.get_by_role("region").all():
            await expect(column.get_by_role("button", name="Media").first).to_be_visible()
        if look != "phone":  # there, this client is further down
            await panel.get_by_role("region", name="Terminal").get_by_role("button", name="Markdown block").hover()
    if title == "Chat":
        await panel.get_by_role("heading", name="A chart").evaluate("heading => heading.scrollIntoView()")
    if title == "What happened":
        await expect(panel.get_by_role("heading", name="Receipt")).to_be_visible()


async def take_pictures(browser: Browser, address: str, folder: Path) -> None:
    """Run one turn for each look, and write a picture of each view of it."""
    for look, options in LOOKS.items():
        async with await browser.new_context(**options) as context:
            page = await context.new_page()
            await page.goto(address)
            await page.get_by_role("button", name="Send “Hello”").click()
            await expect(page.locator("#status")).to_have_text("The answer is complete.", timeout=TURN_MS)
            for name, title in VIEWS.items():
                await show_view(page, title, look)
                write_picture(await page.screenshot(animations="disabled"), folder / f"page-{name}-{look}.png")


def write_picture(screenshot: bytes, file: Path) -> None:
    """Write a picture with few colours, which is a third of the size."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file}: {picture.width} × {picture.height}, {size:,} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"{file} has more than {MAX_BYTES:,} bytes")


async def main(folder: Path) -> None:
    """Serve the demo agent and take its pictures."""
    with tempfile.TemporaryDirectory() as served:
        async with accord_serve(Path(served)) as service, chromium() as browser:
            await take_pictures(browser, service.address, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
