"""What was received, in one form: the same conversation in each API."""

import base64
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.acp_tools.inspect.blocks import PNG
from accord.acp_tools.inspect.fake_model import ReceivedRequest
from accord.acp_tools.inspect.fake_model.received_request import ReceivedMedia, message_media, message_text
from accord.acp_tools.inspect.fake_model.script import ErrorReply, answer_pieces, choose_reply
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from accord.acp_tools.json_values import Json, as_object
from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import AnswerLabels, ServedApi
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.core.work.fields import ModelRequest
from accord.errors import RefusedError
from accord.wire.conversation import ToolUsePart
from accord.wire.work import ToolSpec
from tests.acp_tools.inspect.fake_model.chat_requests import chat_request

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
    "max_tokens": 9,
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
APIS: dict[str, tuple[ServedApi, Callable[[Json], ModelRequest], Json]] = {
    "chat": (ChatCodec(), ChatCodec().read_request, CHAT),
    "responses": (ResponsesCodec(), ResponsesCodec().read_request, RESPONSES),
    "messages": (MessagesCodec(), MessagesCodec().read_request, MESSAGES),
    "gemini": (GeminiCodec(), partial(GeminiCodec().read_request, model="m", streaming=True), GEMINI),
}


@pytest.mark.parametrize("api", APIS)
def test_every_api_is_read_into_the_same_messages(api: str):
    _, read, body = APIS[api]
    request = ReceivedRequest(read(body))
    image = ReceivedMedia("image", "image/png", PNG)
    assert (request.model, request.request.order.stream) == ("m", True)
    assert [(str(each.role), message_text(each), message_media(each)) for each in request.messages] == [
        ("system", "Be brief.", []),
        ("user", PROMPT, [image]),
        ("assistant", "", []),
        ("tool", "heliotrope", []),
    ]
    calls = [part for part in request.messages[2].content if isinstance(part, ToolUsePart)]
    assert [(call.id, call.name, call.input) for call in calls] == [("c1", "read", {"path": "/a"})]
    assert request.tools == [ToolSpec(name="read", input_schema=SCHEMA, description="Read a file")]
    assert request.text == f"Be brief.\n{PROMPT}\n\nheliotrope"
    assert request.media == [image]
    assert request.schema is request.forced_tool is None


PARTS: list[tuple[Json, str | ReceivedMedia]] = [
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
    (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,_-8"}},
        ReceivedMedia("image", "image/png", b"\xff\xef"),
    ),
    ({"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}, ReceivedMedia("image", "image/png", b"")),
    ({"type": "file", "file": {"file_id": "file-1"}}, ReceivedMedia("file", "application/pdf", b"", "file-1")),
    ({"type": "text", "text": "No."}, "No."),
]


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_other_parts_are_read(part: Json, expected: str | ReceivedMedia):
    request = chat_request({"role": "user", "content": [part]})
    assert [expected] == (request.media or [request.text])


def messages_request(content: Any, **members: Any) -> ReceivedRequest:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}], **members}
    return ReceivedRequest(MessagesCodec().read_request(body))


def test_documents_of_the_messages_api_are_text_and_files():
    sources: list[Json] = [
        {"type": "text", "media_type": "text/plain", "data": "a note"},
        {"type": "content", "content": [{"type": "text", "text": "a list"}]},
        {"type": "base64", "media_type": "application/pdf", "data": DATA},
        {"type": "url", "url": "https://example.com/a.pdf"},
    ]
    request = messages_request([{"type": "document", "title": "t", "source": source} for source in sources])
    assert request.text == "a note\na list"
    assert request.media == [
        ReceivedMedia("file", "", b"a note", "t"),
        ReceivedMedia("file", "", b"a list", "t"),
        ReceivedMedia("file", "application/pdf", PNG, "t"),
        ReceivedMedia("file", "application/pdf", b"", "https://example.com/a.pdf"),
    ]


def test_tools_that_anthropic_defines_have_a_schema():
    tools = [
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    for prompt, name in (("accord:read /a", "str_replace_based_edit_tool"), ("accord:run ls", "bash")):
        reply = choose_reply(messages_request(prompt, tools=tools))
        assert isinstance(reply, ChosenCall)
        assert reply.tool.name == name


def test_codex_offers_tools_in_namespaces_and_in_the_input():
    namespace = {"type": "namespace", "name": "files", "tools": [{"type": "function", **FUNCTION}]}
    item = {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}
    prompt = {"role": "user", "content": PROMPT}
    body = {"model": "m", "input": [item, prompt], "tools": [namespace, {"type": "local_shell"}]}
    request = ReceivedRequest(ResponsesCodec().read_request(body))
    assert [tool.name for tool in request.tools] == ["files__read", "exec", "local_shell"]
    reply = choose_reply(request)
    assert isinstance(reply, ChosenCall)
    pieces = answer_pieces(request, reply)
    (call,) = ResponsesCodec().write_answer(request.request, AnswerLabels("0" * 32, 0, "m", {}), [pieces])["output"]
    assert (call["name"], call["namespace"]) == ("read", "files")


@pytest.mark.parametrize(
    ("members", "schema", "forced"),
    [
        ({"response_format": {"type": "json_object"}}, {}, None),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}, SCHEMA, None),
        ({"tool_choice": "none"}, None, None),
        ({"tool_choice": "required"}, None, ""),
        ({"tool_choice": {"type": "function", "function": {"name": "read"}}}, None, "read"),
    ],
)
def test_what_the_answer_has_to_be_is_read(members: Json, schema: Json | None, forced: str | None):
    request = chat_request(*CHAT["messages"], tools=CHAT["tools"], **members)
    assert (request.schema, request.forced_tool) == (schema, forced)


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


@given(PATHS, JSON)
def test_no_change_of_a_body_leaves_it_without_a_reply(path: list[int], other: Any):
    for codec, read, body in APIS.values():
        try:
            request = read(as_object(changed(body, path, other)))
        except RefusedError:
            continue  # the client gets the error of the API
        messages = request.order.conversation.messages
        for count in (len(messages), 2):  # with the result of the tool, and without
            order = request.order.model_copy(
                update={"conversation": request.order.conversation.model_copy(update={"messages": messages[:count]})}
            )
            received = ReceivedRequest(ModelRequest(request.api, request.model, order, request.fields, request.body))
            reply = choose_reply(received)
            if not isinstance(reply, ErrorReply):
                labels = AnswerLabels(received.answer_id, 0, request.model, {})
                assert codec.write_answer(request, labels, [answer_pieces(received, reply)])
