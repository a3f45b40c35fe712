"""What became of content, by what arrives at the model: requests as real agents send them."""

import base64
from typing import Any

import pytest

from accord.acp.content import ContentType
from accord.acp_tools.inspect.blocks import PNG, WAV
from accord.acp_tools.inspect.fake_model import FateKind, ProbeContent, find_content
from tests.acp_tools.inspect.fake_model.chat_requests import chat_request

MARKER = "accord-marker-7f3a"
PROMPT = f"Look at this. {MARKER}"
JPEG = b"\xff\xd8\xff\xe0 smaller"
NOTE = "accord-embedded-5c"
URI = "file:///folder/rhubarb%20pie.txt"
IMAGE = ProbeContent(ContentType.IMAGE, MARKER, data=PNG, media_type="image/png")
SOUND = ProbeContent(ContentType.AUDIO, MARKER, data=WAV, media_type="audio/wav")
TEXT = ProbeContent(ContentType.TEXT, MARKER, MARKER)
EMBEDDED = ProbeContent(ContentType.RESOURCE, MARKER, NOTE, media_type="text/plain", uri=URI)
EMBEDDED_BYTES = ProbeContent(ContentType.RESOURCE, MARKER, data=b"%PDF-1.7 x", media_type="application/pdf", uri=URI)
LINK = ProbeContent(ContentType.RESOURCE_LINK, MARKER, uri=URI, name="rhubarb pie.txt")
Part = dict[str, Any]


def text(words: str) -> Part:
    return {"type": "text", "text": words}


def image(data: bytes, media_type: str = "image/png") -> Part:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{base64.b64encode(data).decode()}"}}


def sound(data: bytes) -> Part:
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "wav"}}


def file(data: bytes, media_type: str) -> Part:
    address = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": "a", "file_data": address}}


TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
REMINDER = text("<system-reminder>Images (PNG, JPEG) in files are not supported; audio cannot be read. " + "x" * 500)

FATES: list[tuple[ProbeContent, list[Part], FateKind, str]] = [
    (TEXT, [text(PROMPT)], FateKind.ACCEPTED, MARKER),
    (TEXT, [text("another prompt")], FateKind.NOT_SENT, "no request"),
    # Claude Agent, Codex, Gemini CLI, OpenCode, pi, OpenHands
    (IMAGE, [text(PROMPT), image(PNG)], FateKind.ACCEPTED, f"image image/png {len(PNG)} bytes, the same bytes"),
    (IMAGE, [image(PNG)], FateKind.ACCEPTED, "the same bytes"),
    (IMAGE, [text(PROMPT), image(JPEG, "image/jpeg")], FateKind.ACCEPTED, "image image/jpeg 12 bytes, other bytes"),
    (IMAGE, [text(PROMPT), text("[image]"), image(JPEG)], FateKind.ACCEPTED, "other bytes"),
    (IMAGE, [text(PROMPT), file(PNG, "image/png")], FateKind.ACCEPTED, "file image/png"),
    # Reasonix, Grok
    (IMAGE, [text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
    (IMAGE, [REMINDER, text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
    # Vibe
    (IMAGE, [text(f"{PROMPT}\n\n[image]")], FateKind.PLACEHOLDER, "[image]"),
    (IMAGE, [text(PROMPT), text("[Image: image/png]")], FateKind.PLACEHOLDER, "[Image: image/png]"),
    (IMAGE, [text(PROMPT), text("<image omitted>")], FateKind.PLACEHOLDER, "<image omitted>"),
    (IMAGE, [text(PROMPT), text("(attached image)")], FateKind.PLACEHOLDER, "(attached image)"),
    (IMAGE, [text("[unsupported content]"), text(PROMPT)], FateKind.PLACEHOLDER, "unsupported content"),
    (IMAGE, [text(PROMPT), text("An image was skipped.")], FateKind.PLACEHOLDER, "image was skipped"),
    (IMAGE, [text(PROMPT), text(base64.b64encode(PNG).decode())], FateKind.PLACEHOLDER, "iVBORw0KGgo"),
    (SOUND, [text(PROMPT), sound(WAV)], FateKind.ACCEPTED, "the same bytes"),
    (SOUND, [text(PROMPT), sound(b"other")], FateKind.ACCEPTED, "audio audio/wav 5 bytes, other bytes"),
    (SOUND, [text(PROMPT), image(PNG)], FateKind.DROPPED, "nothing of the content"),
    # Claude Agent, OpenCode, Cline
    (SOUND, [text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
    # fast-agent
    (
        SOUND,
        [text(PROMPT), text("[Unsupported audio content: audio/wav]")],
        FateKind.PLACEHOLDER,
        "[Unsupported audio content: audio/wav]",
    ),
    # pi
    (
        SOUND,
        [text(f"{PROMPT}\n[Audio] (audio/wav, 48 bytes) not supported by pi-acp")],
        FateKind.PLACEHOLDER,
        "[Audio] (audio/wav, 48 bytes) not supported by pi-acp",
    ),
    # Qwen Code
    (
        SOUND,
        [text(PROMPT), text("[Voice bridge could not transcribe attached audio: no voice model is configured.]")],
        FateKind.PLACEHOLDER,
        "[Voice bridge could not transcribe attached audio",
    ),
    (EMBEDDED, [text(PROMPT), text(f"<context>{NOTE} zebra</context>")], FateKind.ACCEPTED, NOTE),
    (EMBEDDED, [text(PROMPT), file(NOTE.encode(), "text/plain")], FateKind.ACCEPTED, NOTE),
    (EMBEDDED, [text(PROMPT), text(f"[@rhubarb pie.txt]({URI})")], FateKind.PLACEHOLDER, URI),
    (
        EMBEDDED,
        [text(f"{PROMPT}\n<tagged_files>\n* /var/acp-resource-b00645f0.txt (1 lines)\n</tagged_files>")],
        FateKind.PLACEHOLDER,
        "acp-resource-b00645f0.txt",
    ),
    (EMBEDDED, [text(PROMPT), text("[embedded resource]")], FateKind.PLACEHOLDER, "[embedded resource]"),
    # Copilot
    (
        EMBEDDED,
        [text(f"{PROMPT}\n<tagged_files>\n* /tmp/acp-resource-a19f.txt (1 lines)\n</tagged_files>")],
        FateKind.PLACEHOLDER,
        "/tmp/acp-resource-a19f.txt",  # noqa: S108 - what Copilot writes
    ),
    (EMBEDDED, [text("Resources: /skills/resource.md"), text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
    (EMBEDDED, [text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
    (EMBEDDED_BYTES, [text(PROMPT), file(b"%PDF-1.7 x", "application/pdf")], FateKind.ACCEPTED, "the same bytes"),
    (EMBEDDED_BYTES, [text(PROMPT), text(f"See {URI}")], FateKind.PLACEHOLDER, URI),
    # Claude Agent, Codex, pi, OpenHands; then Gemini CLI, OpenCode, which write the path
    (LINK, [text(f"{PROMPT}\n[@rhubarb pie.txt]({URI})")], FateKind.ACCEPTED, URI),
    (LINK, [text(f"{PROMPT}\n@/folder/rhubarb pie.txt")], FateKind.ACCEPTED, "/folder/rhubarb pie.txt"),
    (LINK, [text(PROMPT), text("Attached: rhubarb pie.txt")], FateKind.PLACEHOLDER, "Attached: rhubarb pie.txt"),
    # An address that no message of a work order can hold
    (LINK, [text(PROMPT), {"type": "file_url", "file_url": {"url": URI}}], FateKind.ACCEPTED, URI),
    # Qwen Code, Cline
    (LINK, [text(PROMPT)], FateKind.DROPPED, "nothing of the content"),
]


@pytest.mark.parametrize(("sent", "parts", "kind", "evidence"), FATES)
def test_each_content_has_its_fate(sent: ProbeContent, parts: list[Part], kind: FateKind, evidence: str):
    request = chat_request({"role": "user", "content": parts}, tools=TOOLS)
    fate = find_content([request], sent)
    assert (fate.kind, evidence in fate.evidence) == (kind, True), fate


TITLE = chat_request(
    {"role": "system", "content": "Generate a short title."},
    {"role": "user", "content": f"{PROMPT} [image]"},
)
TURN = chat_request({"role": "user", "content": [text(PROMPT)]}, tools=TOOLS)


def test_a_request_for_a_title_counts_only_if_there_is_no_other():
    assert find_content([TITLE, TURN], IMAGE).kind is FateKind.DROPPED
    assert find_content([TITLE], IMAGE).kind is FateKind.PLACEHOLDER
    assert find_content([], IMAGE).kind is FateKind.NOT_SENT


def test_only_media_beside_the_prompt_are_its_own():
    earlier = [{"role": "user", "content": [image(JPEG)]}, {"role": "assistant", "content": "ok"}]
    now = {"role": "user", "content": [text(PROMPT)]}
    assert find_content([chat_request(*earlier, now, tools=TOOLS)], IMAGE).kind is FateKind.DROPPED
    split = [{"role": "user", "content": [image(JPEG)]}, now]
    assert find_content([chat_request(*split, tools=TOOLS)], IMAGE).kind is FateKind.ACCEPTED
