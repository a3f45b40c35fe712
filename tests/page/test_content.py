"""What an answer contains besides text, files that are attached, and answers that try to run something."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, FilePayload, expect

from accord.agent import Turn, Yielded
from tests.page.serving import echo, open_tab, show_everything

pytestmark = pytest.mark.anyio

TEXT: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"some notes"}
IMAGE: FilePayload = {"name": "cat.png", "mimeType": "image/png", "buffer": b"\x89PNG"}
SOUND: FilePayload = {"name": "hum.mp3", "mimeType": "audio/mpeg", "buffer": b"ID3"}
DROP = """(area, [name, type]) => {
  const dropped = new DataTransfer();
  dropped.items.add(new File(["content"], name, { type }));
  area.dispatchEvent(new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true }));
}"""


async def test_every_kind_of_event_is_shown(browser: Browser):
    async with open_tab(browser, show_everything) as tab:
        shown = await tab.ask("Show")
        await expect(shown.get_by_role("table")).to_contain_text("Sales")
        await expect(shown.get_by_role("button", name="Source 1: A first source")).to_have_text("1")
        await expect(shown.get_by_role("link", name="A second source")).to_have_attribute(
            "href", "https://two.example/"
        )
        await expect(shown.get_by_role("img", name="A red dot")).to_be_visible()
        assert await shown.get_by_role("img").evaluate("image => image.naturalWidth") == 1
        await expect(shown.get_by_role("alert")).to_contain_text("The weather is unknown")
        thoughts = shown.get_by_text("1 thought")
        await expect(shown.get_by_text("Think first.")).to_be_hidden()
        await thoughts.click()
        await expect(shown.get_by_text("Think first.")).to_be_visible()
        await shown.get_by_role("button", name="Source 2: A second source").click()
        await expect(shown.get_by_role("listitem").filter(has_text="A second source")).to_be_focused()


async def test_progress_is_shown_until_the_end(browser: Browser):
    goes_on = asyncio.Event()

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        yield turn.progress("Reading the files", 0.25)
        await goes_on.wait()
        yield "Read."

    async with open_tab(browser, answer) as tab:
        shown = await tab.send("Read")
        bar = shown.get_by_role("progressbar", name="Reading the files", include_hidden=True)
        await expect(bar).to_be_visible()
        await expect(bar).to_have_js_property("value", 0.25)
        goes_on.set()
        await tab.completed()
        await expect(bar).to_be_hidden()


@pytest.mark.parametrize(
    ("file", "kind"), [(TEXT, "embedded files"), (IMAGE, "images"), (SOUND, "audio")], ids=lambda each: str(each)[:20]
)
async def test_a_dropped_file_that_the_agent_does_not_accept_is_explained_and_not_sent(
    browser: Browser, file: FilePayload, kind: str
):
    async with open_tab(browser, echo) as tab:
        await expect(tab.page.get_by_role("button", name="Attach")).to_be_hidden()
        await tab.page.locator("#chat").evaluate(DROP, [file["name"], file["mimeType"]])
        alert = tab.page.get_by_role("alert").filter(has_text=file["name"])
        await expect(alert).to_contain_text(f"tested does not accept {kind}. It accepts text and links")
        await expect(tab.page.get_by_label("Attachments").get_by_role("listitem")).to_have_count(0)
        await tab.ask("Hello")
        await expect(alert).to_be_hidden()


async def test_the_service_gives_the_same_reason_when_the_file_is_sent_anyway(browser: Browser):
    async with open_tab(browser, echo, accepts=("image",)) as tab:
        tab.log.expected.append("status of 4.. .*/v1/assist")
        await tab.page.locator("#chat").evaluate(DROP, [SOUND["name"], SOUND["mimeType"]])
        await tab.page.get_by_role("button", name="Send it anyway").click()
        await expect(tab.turns.get_by_role("alert")).to_contain_text("agent does not support audio content")


async def test_files_that_the_agent_accepts_are_attached_and_sent(browser: Browser):
    types: list[str] = []

    async def answer(turn: Turn) -> AsyncIterator[Yielded]:
        types.extend(block.type for block in turn.content)
        yield "Thank you."

    async with open_tab(browser, answer, accepts=("image", "embeddedContext")) as tab:
        async with tab.page.expect_file_chooser() as chooser:
            await tab.page.get_by_role("button", name="Attach").click()
        await (await chooser.value).set_files([TEXT, IMAGE])
        attached = tab.page.get_by_label("Attachments").get_by_role("listitem")
        await expect(attached).to_contain_text(["notes.txt (resource, 10 B)", "cat.png (image, 4 B)"])
        await tab.page.get_by_role("button", name="Remove notes.txt").click()
        await expect(attached).to_have_count(1)
        await tab.ask("Look")
        await expect(attached).to_have_count(0)
        await tab.turns.get_by_role("button", name="Send again").click()
        await expect(tab.turns).to_have_count(2)
        await tab.completed()
        await tab.turns.last.get_by_role("button", name="Edit").click()
        await expect(attached).to_contain_text(["cat.png (image, 4 B)"])
    assert types == ["image", "image"]


ATTACKS = {
    "script": "<script>globalThis.wasRun = true</script>",
    "image": '<img src="x" onerror="globalThis.wasRun = true">',
    "svg": '<svg onload="globalThis.wasRun = true"><script>globalThis.wasRun = true</script></svg>',
    "frame": '<iframe src="javascript:parent.wasRun = true"></iframe>',
    "javascript link": "[click me](javascript:globalThis.wasRun=true)",
    "javascript link in capitals": "[click me](JaVaScRiPt:globalThis.wasRun=true)",
    "javascript link with a tab": "[click me](java\tscript:globalThis.wasRun=true)",
    "javascript link in angle brackets": "[click me](<javascript:globalThis.wasRun=true>)",
    "data link": "[click me](data:text/html,<script>globalThis.wasRun=true</script>)",
    "autolink": "<javascript:globalThis.wasRun=true>",
    "image of another host": "![a picture](https://other.example/pixel.png)",
    "image as svg": "![a picture](data:image/svg+xml,<svg onload='globalThis.wasRun=true'/>)",
    "image with an attribute": '![" onerror="globalThis.wasRun=true](x)',
    "link with an attribute": '[click me](https://a.example/"onmouseover="globalThis.wasRun=true")',
    "code": "```html\n<script>globalThis.wasRun = true</script>\n```",
    "language of code": '```"><img/src/onerror=globalThis.wasRun=true>\ncode\n```',
    "table": "| a |\n|---|\n| <img src=x onerror=globalThis.wasRun=true> |",
    "style": "<style>body { display: none }</style><link rel=stylesheet href=https://other.example/a.css>",
    "form": '<form action="https://other.example/"><input name=a autofocus onfocus="globalThis.wasRun=true"></form>',
    "template": "${globalThis.wasRun = true} {{globalThis.wasRun = true}}",
}
"""Texts that a model may write."""


async def repeat_everywhere(turn: Turn) -> AsyncIterator[Yielded]:
    """Answer with the prompt: as text, in single characters, and in each event that has text."""
    attack = turn.text
    yield f"before\n\n{attack}\n\n"
    for character in attack:
        yield character
    yield "\n\n"
    yield turn.markdown(attack)
    yield turn.thought(attack)
    yield turn.user_error(attack)
    yield turn.citation({"source_id": "s", "uri": "https://a.example/", "title": attack, "snippet": attack})
    yield turn.progress(attack, status="failed")
    yield turn.media({"url": "https://other.example/a.png", "mime_type": "image/png", "alt_text": attack})
    yield "after"


INSPECT = """root => {
  const all = [...root.querySelectorAll("*")];
  for (const each of all) if (!each.closest("a[href]")) each.click();
  const bad = "script, iframe, object, embed, style, link, svg, form, area, base, img:not([src^='data:image/png'])";
  return {
    elements: all.filter((each) => each.matches(bad)).map((each) => each.outerHTML),
    handlers: all.filter((each) => each.getAttributeNames().some((name) => name.startsWith("on"))).map((each) => each.outerHTML),
    links: [...root.querySelectorAll("[href]")].filter((each) => !/^https:/.test(each.href) || each.rel !== "noopener noreferrer nofollow").map((each) => each.outerHTML),
    wasRun: globalThis.wasRun ?? false,
  };
}"""
"""Click everything that is not a link, and collect what may not be in an answer."""


async def test_nothing_in_an_answer_is_run_or_loaded(browser: Browser):
    async with open_tab(browser, repeat_everywhere) as tab:
        for name, attack in ATTACKS.items():
            shown = await tab.ask(attack)
            found = await shown.evaluate(INSPECT)
            assert found == {"elements": [], "handlers": [], "links": [], "wasRun": False}, name
            await tab.completed()  # a click on a button may have sent the prompt again
