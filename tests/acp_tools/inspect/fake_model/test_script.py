"""What the fake model replies: directives in the prompt, requests beside the turn, and answers that have a form."""

import json
from typing import Any

import pytest

from accord.acp_tools.inspect.fake_model.script import (
    PLAIN,
    REFUSAL,
    SIDE_ANSWER,
    ErrorReply,
    Reply,
    TextReply,
    choose_reply,
)
from accord.acp_tools.inspect.fake_model.tool_calls import ChosenCall
from tests.acp_tools.inspect.fake_model.chat_requests import chat_request

SCHEMA: Any = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
COMMAND: Any = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
READ: Any = {"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}
BASH: Any = {"type": "function", "function": {"name": "bash", "parameters": COMMAND}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def prompts(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def reply_to(*messages: dict[str, Any], **members: Any) -> Reply:
    return choose_reply(chat_request(*messages, **{"tools": [READ, BASH], **members}))


def called(reply: Reply) -> tuple[str, Any] | None:
    return (reply.tool.name, reply.arguments) if isinstance(reply, ChosenCall) else None


NUMBERED_CALL = ("read_file", {"path": "/a"})
REPLIES: dict[str, tuple[list[dict[str, Any]], Reply | tuple[str, Any]]] = {
    "no directive": ([user("Hello")], TextReply(PLAIN)),
    "no message of a user": ([{"role": "system", "content": "accord:refuse"}], TextReply(PLAIN)),
    "ok": ([user("accord:ok")], TextReply(PLAIN)),
    "an unknown directive": ([user("accord:fly")], TextReply(PLAIN)),
    "refuse": ([user("Please accord:refuse")], TextReply(REFUSAL, is_refusal=True)),
    "an error": ([user("accord:error 429")], ErrorReply(429)),
    "an error that is none": ([user("accord:error 200")], ErrorReply(500)),
    "read": ([user("accord:read /a")], NUMBERED_CALL),
    "read a path with blanks": ([user('accord:read "/a b" now')], ("read_file", {"path": "/a b"})),
    "a prompt in tags": ([user("<user_query>accord:read /a</user_query>")], NUMBERED_CALL),
    "a prompt with more lines": ([user("Look:\naccord:read /a\nThank you")], NUMBERED_CALL),
    "write": ([user("accord:write /a b c")], ("bash", {"command": "printf %s 'b c' > /a"})),
    "run": ([user("accord:run ls -l /a")], ("bash", {"command": "ls -l /a"})),
    "call": ([user('accord:call read_file {"path": "/a"}')], NUMBERED_CALL),
    "call with broken arguments": ([user("accord:call read_file {")], ("read_file", {"path": "ok"})),
    "the result has come": (
        [user("accord:read /a"), assistant(""), result("heliotrope " * 100)],
        TextReply(f"The tool returned: {('heliotrope ' * 100)[:500]}\nok"),
    ),
    "the next prompt": (
        [user("accord:read /a"), result("r"), assistant("ok"), user("accord-marker-2")],
        TextReply(PLAIN),
    ),
    "the next prompt in the same message": (
        [{"role": "user", "content": [{"type": "text", "text": text} for text in ("accord:slow", "accord-marker-2")]}],
        TextReply(PLAIN),
    ),
    "the next directive": ([user("accord:slow"), user("accord:read /a")], NUMBERED_CALL),
    "an added message": ([user("accord:read /a"), user("<reminder>Be brief.</reminder>")], NUMBERED_CALL),
    "a directive in a result": (
        [user("accord:read /a"), result("accord:run rm")],
        TextReply("The tool returned: accord:run rm\nok"),
    ),
    "a directive of the assistant": ([assistant("accord:read /a"), user("Hello")], TextReply(PLAIN)),
    "two prompts in one message": ([prompts("accord:slow", "accord:read /a")], NUMBERED_CALL),
    "a marker in the newer of two prompts": ([prompts("accord:slow", "accord-marker-2")], TextReply(PLAIN)),
    "the last directive of a message": ([user("accord:refuse\naccord:read /a")], NUMBERED_CALL),
}


@pytest.mark.parametrize("name", REPLIES)
def test_each_prompt_has_its_reply(name: str):
    messages, expected = REPLIES[name]
    reply = reply_to(*messages)
    assert (called(reply) or reply) == expected


def test_slow_is_slow():
    reply = reply_to(user("accord:slow"))
    assert isinstance(reply, TextReply)
    assert reply.pause_s * reply.text.count(" ") == pytest.approx(120, rel=0.01)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("directive", ["read /a", "write /a b", "run ls", "call read_file"])
def test_a_missing_tool_is_named(directive: str):
    name = directive.partition(" ")[0]
    assert reply_to(user(f"accord:{directive}"), tools=[]) == TextReply(f"no tool for {name}", missing_tool=name)


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_an_answer_in_json_satisfies_its_schema():
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    reply = reply_to(user("accord:slow"), response_format=form)
    assert isinstance(reply, TextReply)
    assert json.loads(reply.text) == {"city": "ok"}
    reply = reply_to(user("Name this conversation"), response_format={"type": "json_object"})
    assert isinstance(reply, TextReply)
    assert "title" in json.loads(reply.text)


SIDE_PROMPTS = [
    "You are a title generator. You output ONLY a thread title.",  # OpenCode
    "Generate a short, descriptive title (3-7 words) for a conversation",  # Hermes
    "You name coding-agent sessions so the user can find one in a narrow sidebar.",  # Vibe
    "Summarize this conversation in at most 5 words.",
]


@pytest.mark.parametrize("system", SIDE_PROMPTS)
def test_a_request_for_a_title_or_a_summary_follows_no_directive(system: str):
    messages = [{"role": "system", "content": system}, user("accord:slow")]
    assert reply_to(*messages, tools=[]) == TextReply(SIDE_ANSWER)
    assert reply_to(*messages) != TextReply(SIDE_ANSWER)


def test_long_instructions_that_mention_titles_are_no_request_for_one():
    system = {"role": "system", "content": "You are an assistant. " * 20 + "Write a title for each file."}
    assert reply_to(system, user("Hello"), tools=[]) == TextReply(PLAIN)


ANSWER: Any = {"type": "function", "function": {"name": "respond_in_schema", "parameters": CITY}}
FINISH: Any = {
    "type": "function",
    "function": {
        "name": "attempt_completion",
        "parameters": {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]},
    },
}


def test_a_demanded_tool_is_called():
    by_name = {"type": "function", "function": {"name": "respond_in_schema"}}
    assert called(reply_to(user("Hello"), tools=[READ, ANSWER], tool_choice=by_name)) == (
        "respond_in_schema",
        {"city": "ok"},
    )
    assert called(reply_to(user("accord:run ls"), tools=[ANSWER], tool_choice="required")) == (
        "respond_in_schema",
        {"city": "ok"},
    )


def test_an_agent_that_ends_turns_by_a_tool_gets_the_answer_there():
    assert called(reply_to(user("Hello"), tools=[READ, FINISH])) == ("attempt_completion", {"result": PLAIN})
    assert called(reply_to(user("accord:read /a"), tools=[READ, FINISH], tool_choice="required")) == NUMBERED_CALL
