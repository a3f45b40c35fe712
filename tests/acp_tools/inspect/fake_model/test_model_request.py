"""What was received, in one form: the same conversation in each API."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.inspect.blocks import PNG
from accord.acp_tools.inspect.fake_model import chat_api, gemini_api, messages_api, responses_api
from accord.acp_tools.inspect.fake_model.model_request import (
    OfferedTool,
    ReceivedCall,
    ReceivedMedia,
    ReceivedMessage,
    ReceivedRequest,
    ReceivedResult,
    ReceivedText,
    media_part,
)
from accord.acp_tools.inspect.fake_model.script import ErrorReply, choose_reply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_object

DATA = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{DATA}"
PROMPT = "accord:read /a"
SCHEMA: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
FUNCTION: Json = {"name": "read", "description": "Read a file", "parameters": SCHEMA}

CHAT: Json = {
    "model": "m",
    "stream": True,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": PROMPT}, {"type": "image_url", "image_url": {"url": URL}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "/a"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "heliotrope"}]},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
}
RESPONSES: Json = {
    "model": "m",
    "stream": True,
    "instructions": "Be brief.",
    "input": [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": PROMPT}, {"type": "input_image", "image_url": URL}],
        },
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "/a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "heliotrope"},
    ],
    "tools": [{"type": "function", **FUNCTION}, {"type": "web_search"}],
}
MESSAGES: Json = {
    "model": "m",
    "stream": True,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": PROMPT},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "/a"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "heliotrope"}]},
    ],
    "tools": [{"name": "read", "description": "Read a file", "input_schema": SCHEMA}],
}
GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": PROMPT}, {"inlineData": {"mimeType": "image/png", "data": DATA}}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "read", "args": {"path": "/a"}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "heliotrope"}}}],
        },
    ],
    "tools": [{"functionDeclarations": [FUNCTION]}],
}
REQUESTS = {
    "chat": lambda: chat_api.read_request(CHAT),
    "responses": lambda: responses_api.read_request(RESPONSES),
    "messages": lambda: messages_api.read_request(MESSAGES),
    "gemini": lambda: gemini_api.read_request(GEMINI, "m", streaming=True),
}


@pytest.mark.parametrize("api", REQUESTS)
def test_every_api_is_read_into_the_same_messages(api: str):
    request = REQUESTS[api]()
    assert (request.model, request.streaming) == ("m", True)
    assert list(request.messages) == [
        ReceivedMessage("system", [ReceivedText("Be brief.")]),
        ReceivedMessage("user", [ReceivedText(PROMPT), ReceivedMedia("image", "image/png", PNG)]),
        ReceivedMessage("assistant", [ReceivedCall("c1", "read", '{"path": "/a"}')]),
        ReceivedMessage("tool", [ReceivedResult("c1", [ReceivedText("heliotrope")])]),
    ]
    assert list(request.tools) == [OfferedTool("read", SCHEMA, "Read a file")]
    assert request.text == f"Be brief.\n{PROMPT}\n\nheliotrope"
    assert [media.sha256 for media in request.media] == [ReceivedMedia("image", "", PNG).sha256]


PARTS: list[tuple[Json, ReceivedText | ReceivedMedia]] = [
    (
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        ReceivedMedia("audio", "audio/wav", PNG),
    ),
    (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}},
        ReceivedMedia("file", "application/pdf", PNG, "a.pdf"),
    ),
    (
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ReceivedMedia("image", "", b"", "https://example.com/a.png"),
    ),
    ({"type": "refusal", "refusal": "No."}, ReceivedText("No.")),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_other_parts_are_read(part: Json, expected: ReceivedText | ReceivedMedia):
    assert chat_api.read_content([part]) == [expected]


def test_documents_of_the_messages_api_are_text_or_files():
    sources: list[Json] = [
        {"type": "text", "media_type": "text/plain", "data": "a note"},
        {"type": "content", "content": [{"type": "text", "text": "a list"}]},
        {"type": "base64", "media_type": "application/pdf", "data": DATA},
    ]
    blocks = [{"type": "document", "title": "t", "source": source} for source in sources]
    request = messages_api.read_request({"messages": [{"role": "user", "content": blocks}]})
    assert list(request.messages[0].parts) == [
        ReceivedText("a note"),
        ReceivedText("a list"),
        ReceivedMedia("file", "application/pdf", PNG, "t"),
    ]


def test_tools_that_anthropic_defines_have_a_schema():
    offered = [
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    for prompt, name in (("accord:read /a", "str_replace_based_edit_tool"), ("accord:run ls", "bash")):
        request = messages_api.read_request({"messages": [{"role": "user", "content": prompt}], "tools": offered})
        reply = choose_reply(request)
        assert isinstance(reply, ChosenCall)
        assert reply.tool.name == name


def test_codex_offers_tools_in_namespaces_and_in_the_input():
    namespace = {"type": "namespace", "name": "files", "tools": [{"type": "function", **FUNCTION}]}
    item = {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}
    tools = responses_api.read_request({"input": [item], "tools": [namespace, {"type": "local_shell"}]}).tools
    assert [(tool.name, tool.form, tool.namespace) for tool in tools] == [
        ("read", "function", "files"),
        ("local_shell", "local_shell", None),
        ("exec", "custom", None),
    ]


def test_base64_may_be_for_urls_without_padding_or_broken():
    assert media_part("image", "_-8").data == b"\xff\xef"
    assert media_part("image", "A").data == b""


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PATHS = st.lists(st.integers(0, 7), min_size=1, max_size=6)


def changed(value: Any, path: list[int], other: Any) -> Any:
    """The value with another one somewhere in it."""
    if not path or not isinstance(value, dict | list) or not value:
        return other
    inner: dict[Any, Any] = cast("Any", value if isinstance(value, dict) else dict(enumerate(cast("list[Any]", value))))
    name = list(inner)[path[0] % len(inner)]
    inner = {**inner, name: changed(inner[name], path[1:], other)}
    return inner if isinstance(value, dict) else list(inner.values())


BODIES: list[tuple[Json, Callable[[Json], ReceivedRequest], Callable[..., Json]]] = [
    (CHAT, chat_api.read_request, chat_api.write_whole),
    (RESPONSES, responses_api.read_request, responses_api.write_whole),
    (MESSAGES, messages_api.read_request, messages_api.write_whole),
    (GEMINI, partial(gemini_api.read_request, model="m", streaming=False), gemini_api.write_whole),
]


@given(PATHS, JSON)
def test_no_change_of_a_body_leaves_it_without_a_reply(path: list[int], other: Any):
    for body, read, write in BODIES:
        request = read(as_object(changed(body, path, other)))
        for messages in (request.messages, request.messages[:2]):  # with the result of the tool, and without
            reply = choose_reply(replace(request, messages=messages))
            assert isinstance(reply, ErrorReply) or json.dumps(write(request, reply))
