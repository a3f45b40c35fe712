"""The replacement of each kind of content that an agent did not declare: one row for each rung and each detail."""

import json
from typing import Any

import pytest

from accord.acp_tools.proxy.degrade import (
    MAX_ADDRESS_CHARS,
    MAX_TEXT_CHARS,
    Degraded,
    FileToSave,
    degrade_prompt,
    user_notice,
)
from accord.core.prompt import ContentValidator

STORED = ", where the agent reads the stored version (unsaved changes are lost)"
NOTHING = ContentValidator(None).declaration
LONG_TEXT = "w" * (MAX_TEXT_CHARS + 1)


def image(**more: Any) -> dict[str, Any]:
    return {"type": "image", "data": "aGk=", "mimeType": "image/png", **more}


def audio(**more: Any) -> dict[str, Any]:
    return {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", **more}


def resource(**inner: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": inner}


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": content, **more}


def link(uri: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name, **more}


def file_link(name: str, **more: Any) -> dict[str, Any]:
    return link(f"file:///a%20b/{name}", name, **more)


ROWS: dict[str, tuple[dict[str, Any], str | None, Degraded | None]] = {
    "embedded text is sent as text": (
        resource(uri="file:///d/b.txt", text="words"),
        None,
        Degraded(text("[file:///d/b.txt]\nwords"), "substituted", "the embedded resource b.txt was sent as text"),
    ),
    "the longest text that is sent whole": (
        resource(uri="untitled:1", text=LONG_TEXT[1:]),
        None,
        Degraded(
            text(f"[untitled:1]\n{LONG_TEXT[1:]}"), "substituted", "the embedded resource untitled:1 was sent as text"
        ),
    ),
    "a longer text with an address is a link": (
        resource(uri="https://a.example/x/b.txt?q=1#f", text=LONG_TEXT, mimeType="text/plain"),
        None,
        Degraded(
            link("https://a.example/x/b.txt?q=1#f", "b.txt", mimeType="text/plain"),
            "substituted",
            f"an embedded resource was sent as a link to b.txt{STORED}",
        ),
    ),
    "a longer text without an address is cut": (
        resource(uri="untitled:1", text=LONG_TEXT),
        "/a b",
        Degraded(
            text(f"[untitled:1, the first 65536 of 65537 characters]\n{LONG_TEXT[1:]}"),
            "substituted",
            "the embedded resource untitled:1 was sent as text, cut after 65536 characters",
        ),
    ),
    "a binary resource with an address is a link": (
        resource(uri="file:///d/c.bin", blob="aGk="),
        "/a b",
        Degraded(
            link("file:///d/c.bin", "c.bin"), "substituted", f"an embedded resource was sent as a link to c.bin{STORED}"
        ),
    ),
    "a binary resource without an address is saved": (
        resource(uri="memory:c", blob="aGk=", mimeType="audio/mpeg"),
        "/a b",
        Degraded(
            file_link("p-0-resource.mp3", mimeType="audio/mpeg"),
            "substituted",
            "an embedded resource was saved and sent as a link to the file p-0-resource.mp3",
            FileToSave("/a b/p-0-resource.mp3", b"hi"),
        ),
    ),
    "an image with an address is a link": (
        image(uri="HTTP://a.example/"),
        None,
        Degraded(
            link("HTTP://a.example/", "a.example", mimeType="image/png"),
            "substituted",
            "an image was sent as a link to a.example",
        ),
    ),
    "an image without an address is saved": (
        image(alt="a cat"),
        "/a b",
        Degraded(
            file_link("p-0-image.png", mimeType="image/png", description="a cat"),
            "substituted",
            "an image was saved and sent as a link to the file p-0-image.png",
            FileToSave("/a b/p-0-image.png", b"hi"),
        ),
    ),
    "audio is saved": (
        audio(uri="cid:1"),
        "/a b",
        Degraded(
            file_link("p-0-audio.wav", mimeType="audio/wav"),
            "substituted",
            "audio was saved and sent as a link to the file p-0-audio.wav",
            FileToSave("/a b/p-0-audio.wav", b"hi"),
        ),
    ),
    "an image that cannot be saved is described": (
        image(alt=" a cat "),
        None,
        Degraded(text("[image: a cat]"), "described", "an image was sent as its description"),
    ),
    "audio that cannot be saved is described": (
        audio(_meta={"title": "a bell"}),
        None,
        Degraded(text("[audio: a bell]"), "described", "audio was sent as its description"),
    ),
    "a binary resource that cannot be saved is described": (
        {**resource(uri="memory:c", blob="aGk="), "annotations": {"name": "a key"}},
        None,
        Degraded(
            text("[resource: a key]", annotations={"name": "a key"}),
            "described",
            "an embedded resource was sent as its description",
        ),
    ),
    "nothing is invented": (image(), None, None),
    "a blank text describes nothing": (image(alt="  "), None, None),
    "a value that is not text describes nothing": (image(alt=7, annotations=[]), None, None),
    "an address that cannot be parsed is ignored": (image(uri="http://["), None, None),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_replacement(name: str):
    block, folder, expected = ROWS[name]
    replacements = degrade_prompt([block], NOTHING, folder=folder, prefix="p")
    assert replacements == (None if expected is None else {0: expected})


@pytest.mark.parametrize("place", ["block", "annotations", "_meta"])
@pytest.mark.parametrize("key", ["alt", "description", "title", "name"])
def test_a_description_is_found_in_every_place(place: str, key: str):
    block = image(**{key: "a cat"}) if place == "block" else image(**{place: {key: "a cat"}})
    replacements = degrade_prompt([block], NOTHING, folder=None, prefix="p")
    assert replacements is not None
    assert replacements[0].block["text"] == "[image: a cat]"


def test_the_nearest_description_wins():
    block = image(name="4", title="3", annotations={"alt": "5"}, _meta={"alt": "6"})
    for key, value in (("title", "3"), ("description", "2"), ("alt", "1")):
        block[key] = value
        replacements = degrade_prompt([block], NOTHING, folder=None, prefix="p")
        assert replacements is not None
        assert replacements[0].block["text"] == f"[image: {value}]"


@pytest.mark.parametrize(
    ("media_type", "suffix"),
    [
        ("image/png", ".png"),
        ("image/jpeg", ".jpg"),
        ("image/gif", ".gif"),
        ("image/webp", ".webp"),
        ("image/svg+xml", ".svg"),
        ("audio/wav", ".wav"),
        ("audio/mpeg", ".mp3"),
        ("audio/flac", ".flac"),
        ("audio/ogg", ".ogg"),
        ("IMAGE/PNG; q=1", ".png"),
        ("image/unknown", ".bin"),
        (None, ".bin"),
    ],
)
def test_a_saved_file_has_the_suffix_of_its_media_type(media_type: str | None, suffix: str):
    replacements = degrade_prompt([image(mimeType=media_type)], NOTHING, folder="/f", prefix="p")
    assert replacements is not None
    assert replacements[0].file == FileToSave(f"/f/p-0-image{suffix}", b"hi")


def test_only_undeclared_content_is_replaced_and_each_block_keeps_its_place():
    blocks = [text("a"), image(), audio(), resource(uri="untitled:1", text="x"), link("file:///l", "l")]
    replacements = degrade_prompt(blocks, ContentValidator({"image": True}).declaration, folder="/f", prefix="p")
    assert replacements is not None
    assert [(index, degraded.file) for index, degraded in replacements.items()] == [
        (2, FileToSave("/f/p-2-audio.wav", b"hi")),
        (3, None),
    ]


def test_one_block_without_a_replacement_refuses_the_whole_prompt():
    assert degrade_prompt([image(alt="a"), image()], NOTHING, folder=None, prefix="p") is None


def test_annotations_are_kept():
    annotations = {"audience": ["user"]}
    for block, folder in ((image(), "/f"), (image(alt="a"), None), (resource(uri="x:1", text="x"), None)):
        replacements = degrade_prompt([{**block, "annotations": annotations}], NOTHING, folder=folder, prefix="p")
        assert replacements is not None
        assert replacements[0].block["annotations"] == annotations


@pytest.mark.parametrize(
    ("uri", "label", "name"),
    [
        ("x:a\nb", "x:a\\u000ab", "x:a\\u000ab"),
        ("x:" + "y" * 2_000, "x:" + "y" * (MAX_ADDRESS_CHARS - 2), "x:" + "y" * 78),
        ("x:/p/q/", "x:/p/q/", "q"),
        ("?", "?", "?"),
        ("x:/p/q.txt?a=/1?b=/2#c", "x:/p/q.txt?a=/1?b=/2#c", "q.txt"),
        ("x:/p/q.txt#a/1#b/2?c", "x:/p/q.txt#a/1#b/2?c", "q.txt"),
    ],
)
def test_an_address_is_escaped_and_shortened(uri: str, label: str, name: str):
    replacements = degrade_prompt([resource(uri=uri, text="words")], NOTHING, folder=None, prefix="p")
    assert replacements is not None
    assert replacements[0].block["text"] == f"[{label}]\nwords"
    assert replacements[0].sentence == f"the embedded resource {name} was sent as text"


@pytest.mark.parametrize(("version", "more"), [(1, {}), (2, {"messageId": "accord-7"})])
def test_the_notice_to_the_user_names_each_replacement_once(version: int, more: dict[str, str]):
    replacements = [Degraded({}, "described", sentence) for sentence in ("a was b", "c was d", "a was b")]
    notice = json.loads(user_notice(replacements, b'"s"', version, 7))
    content = text("[Accord: the agent did not declare this content, so a was b; c was d.]\n\n")
    update = {"sessionUpdate": "agent_message_chunk", "content": content, **more}
    assert (notice["method"], notice["params"]) == ("session/update", {"sessionId": "s", "update": update})


def test_without_a_session_there_is_no_notice():
    assert user_notice([Degraded({}, "described", "a")], None, 1, 7) == b""
