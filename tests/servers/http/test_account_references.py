"""What is in the provider's account is named by the operator and keys with that rule only, over HTTP with real keys."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from accord.backends.scripted import ScriptedBackend
from accord.servers.http.authentication import TokenAuthenticator
from accord.stores.sqlite import SqliteStore
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START, ManualClock, run
from tests.servers.model_apis.in_process import model_application
from tests.servers.transports import served

PLAIN, ALLOWED, ADMIN, DENIED = (f"accord_{letter * 43}" for letter in "abcd")
RULES = {
    PLAIN: None,
    ALLOWED: KeyRules(account_references=True),
    ADMIN: KeyRules(is_admin=True),
    DENIED: KeyRules(is_admin=True, account_references=False),
}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
Json = dict[str, Any]


def chat(part: Json, **members: Any) -> Json:
    return {"messages": [{"role": "user", "content": [part]}], **members}


def response(*items: Json, **members: Any) -> Json:
    return {"input": [{"role": "user", "content": "hi"}, *items], **members}


def message(part: Json, **members: Any) -> Json:
    return {"max_tokens": 5, "messages": [{"role": "user", "content": [part]}], **members}


HI = {"type": "text", "text": "hi"}
REFERENCES: list[tuple[str, Json, str]] = [
    (CHAT, chat({"type": "file", "file": {"file_id": "file-1"}}), "messages[0].content[0].file.file_id"),
    (CHAT, {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio"),
    (CHAT, chat({"type": "image_url", "image_url": {"url": "gs://b/i.png"}}), "messages[0].content[0].image_url.url"),
    (CHAT, chat(HI, extra_body={"google": {"cached_content": "c"}}), "extra_body.google.cached_content"),
    (CHAT, chat(HI, data_sources=[{"type": "azure_search"}]), "data_sources"),
    (CHAT, chat(HI, assistant_id="asst_1"), "assistant_id"),
    (CHAT, chat(HI, thread_id="thread_1"), "thread_id"),
    (RESPONSES, response({"type": "item_reference", "id": "msg_1"}), "input[1].id"),
    (RESPONSES, response({"id": "msg_1"}), "input[1].id"),
    (RESPONSES, response({"type": "image_generation_call", "id": "ig_1"}), "input[1].id"),
    (
        RESPONSES,
        response({"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}),
        "input[1].content[0].file_id",
    ),
    (RESPONSES, response({"type": "code_interpreter_call", "container_id": "c"}), "input[1].container_id"),
    (RESPONSES, response(prompt={"id": "pmpt_1"}), "prompt"),
    (RESPONSES, response(tools=[{"type": "file_search", "vector_store_ids": ["vs_1"]}]), "tools[0].vector_store_ids"),
    (RESPONSES, response(tools=[{"type": "code_interpreter", "container": "cntr_1"}]), "tools[0].container"),
    (
        RESPONSES,
        response(tools=[{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}}]),
        "tools[0].container.file_ids",
    ),
    (
        RESPONSES,
        response(tools=[{"type": "image_generation", "input_image_mask": {"file_id": "file-1"}}]),
        "tools[0].input_image_mask.file_id",
    ),
    (RESPONSES, response(conversation="conv_1"), "conversation"),
    (MESSAGES, message(HI, container="container_1"), "container"),
    (MESSAGES, message(HI, container={"id": "container_1"}), "container"),
    (
        MESSAGES,
        message(HI, container={"skills": [{"type": "custom", "skill_id": "s"}]}),
        "container.skills[0].skill_id",
    ),
    (
        MESSAGES,
        message({"type": "image", "source": {"type": "file", "file_id": "file_1"}}),
        "messages[0].content[0].source.file_id",
    ),
    (MESSAGES, message({"type": "container_upload", "file_id": "file_1"}), "messages[0].content[0].file_id"),
    (
        f"{MESSAGES}/count_tokens",
        message({"type": "container_upload", "file_id": "f"}),
        "messages[0].content[0].file_id",
    ),
]
SCHEMA: Json = {"type": "object", "properties": {"file_id": {"type": "string"}, "container": {"type": "string"}}}
FUNCTION: Json = {"name": "read", "parameters": SCHEMA}
OWN_OBJECTS: list[tuple[str, Json]] = [
    (CHAT, chat(HI, tools=[{"type": "function", "function": FUNCTION}], metadata={"file_id": "mine"})),
    (CHAT, chat({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}})),
    (RESPONSES, response(tools=[{"type": "function", **FUNCTION}])),
    (RESPONSES, response(tools=[{"type": "code_interpreter", "container": {"type": "auto"}}])),
    (MESSAGES, message(HI, tools=[{"name": "read", "input_schema": SCHEMA}])),
    (
        MESSAGES,
        {
            "max_tokens": 5,
            "messages": [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {"file_id": "x"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "seen"}]},
            ],
        },
    ),
]


@asynccontextmanager
async def gateway(folder: Path) -> AsyncGenerator[tuple[str, aiohttp.ClientSession]]:
    store = SqliteStore(folder / "accord.db")
    await store.open()
    for number, (token, rules) in enumerate(RULES.items()):
        made: Json = {"token_id": f"k{number}", "user": f"u{number}", "digest": token_digest(token)}
        await store.put_token(TokenRecord(**made, created_at=START, rules=rules))
    able = {"streaming": "native", "tool_use": "native", "image_input": "native"}
    authenticator = TokenAuthenticator(store, None, [], ManualClock())
    application = model_application([ScriptedBackend("m", [["well"]], able)], authenticator=authenticator)
    async with served(application) as address, aiohttp.ClientSession(address) as session:
        yield address, session
    await store.close()


async def send(session: aiohttp.ClientSession, path: str, body: Json, token: str) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {token}"}
    async with session.post(path, json={"model": "m", **body}, headers=headers) as answer:
        return answer.status, await answer.text()


def test_only_the_operator_and_keys_with_the_rule_name_what_is_in_the_account(tmp_path: Path):
    async def check() -> None:
        async with gateway(tmp_path) as (_, session):
            for path, body, member in REFERENCES:
                for token in (PLAIN, DENIED):
                    status, text = await send(session, path, body, token)
                    assert status == 403, (path, body, text)
                    assert f"{member}: it names something in the provider's account" in text
                    assert "accord keys set ID --account-references" in text
                for token in (ALLOWED, ADMIN):
                    status, text = await send(session, path, body, token)
                    assert status != 403, (path, body, text)

    run(check())


@pytest.mark.parametrize(("path", "body"), OWN_OBJECTS)
def test_a_clients_own_objects_are_no_references(tmp_path: Path, path: str, body: Json):
    async def check() -> None:
        async with gateway(tmp_path) as (_, session):
            status, text = await send(session, path, body, PLAIN)
            assert status == 200, text

    run(check())
