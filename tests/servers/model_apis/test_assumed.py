"""What nobody set and an API requires is chosen by Accord, and labelled: in header, body, receipt and metrics."""

import asyncio
import json
from typing import Any, Final
from urllib.request import Request, urlopen

import aiohttp
import pytest

from accord.apis.messages.codec import FIRST_LINE, NO_FIRST_MESSAGE, MessagesCodec
from accord.backends.facts import shipped_catalogue
from accord.backends.facts.limits import output_limit
from accord.backends.model import ModelBackend
from accord.run.costs import RunCosts
from accord.run.dispatch import Dispatcher, WorkRecord
from accord.run.limits import RunTimer
from accord.run.record import work_content
from accord.wire.disposition import Api, Disposition
from accord.wire.keys import Payer
from accord.wire.work import WorkOrder
from tests.servers.model_apis.examples import BASES
from tests.servers.model_apis.recorder import recording
from tests.servers.model_apis.served import PATHS, ServedModels
from tests.servers.model_apis.test_table import backends, post, serving

HELLO: Final = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}
LIMIT: Final = "the API requires it: the model's maximum, 128,000"
EFFORT: Final = "reasoning is asked for without an effort, which the API takes: medium"


def ask(served: ServedModels, api: str, body: dict[str, Any]) -> tuple[str | None, Any, dict[str, Any]]:
    """The label in the header, the body of the answer, and what the endpoint got."""
    request = Request(  # noqa: S310 - loopback
        f"{served.address}{PATHS[api]}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urlopen(request, timeout=20) as reply:  # noqa: S310 - loopback
        answer = json.load(reply)
        return reply.headers.get("accord-dispositions"), answer, served.upstream.requests[-1].body


def fetch(served: ServedModels, path: str) -> str:
    with urlopen(f"{served.address}{path}", timeout=20) as reply:  # noqa: S310 - loopback
        return reply.read().decode()


CHOSEN: Final[list[tuple[str, str, dict[str, Any], str, str, dict[str, Any]]]] = [
    # The client's API, the backend's, what is asked for; then the field, the reason, and what is sent.
    ("chat", "messages", {}, "max_tokens", LIMIT, {"max_tokens": 128_000}),
    ("responses", "messages", {}, "max_output_tokens", LIMIT, {"max_tokens": 128_000}),
]


@pytest.mark.parametrize(("api", "backend", "adds", "field", "reason", "sent"), CHOSEN)
def test_a_choice_is_labelled_everywhere(  # noqa: PLR0917 - a row of the table
    served: ServedModels, api: str, backend: str, adds: dict[str, Any], field: str, reason: str, sent: dict[str, Any]
):
    header, answer, body = ask(served, api, {"model": backend, **BASES[Api(api)], **adds})
    assert header == f"{field}=assumed"
    record = {"field": field, "disposition": "assumed", "reason": reason}
    assert answer["accord"]["dispositions"] == [record]
    assert {name: body.get(name) for name in sent} == sent
    receipt = json.loads(fetch(served, answer["accord"]["receipt"]))
    assert receipt["work"][0]["dispositions"] == [record]
    series = f'accord_dispositions_total{{api="{api}",disposition="assumed",field="{field}"}}'
    assert series in fetch(served, "/metrics")


@pytest.mark.parametrize(
    ("api", "field", "adds"),
    [
        ("chat", "messages", {"messages": [{"role": "assistant", "content": "Yes?"}], "max_tokens": 50}),
        ("chat", "messages", {"messages": [{"role": "system", "content": "Say hello."}], "max_tokens": 50}),
        ("responses", "input", {"input": [{"role": "assistant", "content": "Yes?"}], "max_output_tokens": 50}),
    ],
)
def test_a_first_message_of_the_user_is_labelled(served: ServedModels, api: str, field: str, adds: dict[str, Any]):
    header, answer, body = ask(served, api, {"model": "messages", **BASES[Api(api)], **adds})
    assert header == f"{field}=assumed"
    assert answer["accord"]["dispositions"] == [{"field": field, "disposition": "assumed", "reason": NO_FIRST_MESSAGE}]
    assert body["messages"][0] == {"role": "user", "content": [{"type": "text", "text": FIRST_LINE}]}


MESSAGES: Final[list[tuple[list[tuple[str, dict[str, Any]]], bool]]] = [
    # The messages of an order, and whether a first one of the user has to be chosen.
    ([("system", {"type": "text", "text": "Be brief."}), ("user", {"type": "text", "text": "Hello"})], False),
    ([("user", {"type": "image", "media_type": "image/png", "data": "AA=="})], False),
    ([("tool", {"type": "tool_result", "tool_use_id": "1", "content": []})], False),
    ([("user", {"type": "audio", "media_type": "audio/wav", "data": "AA=="})], False),  # is refused
    ([("user", {"type": "text", "text": " "}), ("assistant", {"type": "text", "text": "Yes?"})], True),
    ([("user", {"type": "text", "text": ""})], True),
    ([], True),
]


@pytest.mark.parametrize(("messages", "is_chosen"), MESSAGES)
def test_a_first_message_is_chosen_where_none_of_the_user_is_written(
    messages: list[tuple[str, dict[str, Any]]], *, is_chosen: bool
):
    listed = [{"role": role, "content": [part]} for role, part in messages]
    order = WorkOrder.model_validate({"conversation": {"messages": listed}, "parameters": {"max_tokens": 5}})
    assert MessagesCodec().assumed(order) == ({"conversation": NO_FIRST_MESSAGE} if is_chosen else {})


@pytest.mark.parametrize(
    ("api", "backend", "adds"),
    [
        ("chat", "messages", {"max_completion_tokens": 50}),
        ("responses", "messages", {"max_output_tokens": 50}),
        ("messages", "messages", {}),
        ("chat", "responses", {}),
        ("messages", "chat", {}),
    ],
)
def test_nothing_is_chosen_that_is_given_or_not_required(
    served: ServedModels, api: str, backend: str, adds: dict[str, Any]
):
    header, answer, _ = ask(served, api, {"model": backend, **BASES[Api(api)], **adds})
    assert (header, answer["accord"]["dispositions"]) == (None, [])


@pytest.mark.parametrize(
    ("adds", "labels"),
    [
        ({"thinking": {"type": "adaptive"}}, {"thinking": "assumed"}),
        ({"thinking": {"type": "disabled"}}, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, {}),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, {}),
    ],
)
def test_an_effort_is_chosen_only_where_thinking_is_asked_for_without_one(adds: dict[str, Any], labels: dict[str, str]):
    asyncio.run(asyncio.wait_for(check_effort(adds, labels), 20))


async def check_effort(adds: dict[str, Any], labels: dict[str, str]) -> None:
    async with recording() as recorder, serving(recorder) as (address, _), aiohttp.ClientSession(address) as client:
        for backend in ("chat", "responses", "messages", "gemini", "scripted"):
            body = {"model": backend, **BASES[Api.MESSAGES], "max_tokens": 4096, **adds}
            outcome = await post(client, Api.MESSAGES, body)
            assert outcome.status == 200
            assert outcome.labels == (labels if backend in ("chat", "responses") else {})
            reasons = {each["reason"] for each in outcome.body["accord"]["dispositions"]}
            assert reasons == ({EFFORT} if outcome.labels else set[str]())


def test_the_record_of_an_agents_question_says_what_was_chosen():
    asyncio.run(asyncio.wait_for(check_records(), 20))


async def check_records() -> None:
    async with recording() as recorder:
        made = {each.name: each for each in backends(recorder.address)}
        for name, dispositions in (("messages", ["max_tokens"]), ("chat", ["thinking"]), ("gemini", list[str]())):
            dispatcher, record = Dispatcher([made[name]]), WorkRecord()
            order = WorkOrder.model_validate({"conversation": HELLO, "thinking": True})
            async for _ in dispatcher.answer(order, record, RunTimer(), RunCosts(None, Payer(), dispatcher)):
                pass
            assert [each.field for each in record.dispositions or ()] == dispositions
            assert {each.disposition for each in record.dispositions or ()} <= {Disposition.ASSUMED}
            content = work_content(record, dispatcher).members
            assert [each["field"] for each in content.get("dispositions", ())] == dispositions
        for each in made.values():
            if isinstance(each, ModelBackend):
                await each.aclose()


OPTIONS: Final[list[tuple[dict[str, Any], dict[str, Any], int, str]]] = [
    ({}, {}, 8192, "8,192, since the model's maximum is not known"),
    ({"output_limit": 64000}, {}, 64000, "the model's maximum, 64,000"),
    ({"output_limit": 64000, "max_tokens": 500}, {}, 500, "max_tokens of this backend, 500"),
    ({"max_tokens": 500, "thinking_budget": 2000}, {"thinking": True}, 2500, "max_tokens of this backend, 2,500"),
    ({"thinking_budget": 2000}, {"thinking": True}, 10192, "10,192, since the model's maximum is not known"),
    ({"thinking_budget": 2000, "output_limit": 4096}, {"thinking": True}, 4096, "the model's maximum, 4,096"),
    ({"max_tokens": 4000, "thinking_budget": 2000, "output_limit": 4096}, {"thinking": True}, 4096, "max_tokens of this backend, 4,096"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "members", "tokens", "reason"), OPTIONS)
def test_the_limit_is_the_operators_or_the_models_or_a_guess(
    options: dict[str, Any], members: dict[str, Any], tokens: int, reason: str
):
    codec, order = MessagesCodec(**options), WorkOrder.model_validate({"conversation": HELLO, **members})
    assert codec.request_body(order, "m")["max_tokens"] == tokens
    assert codec.assumed(order) == {"max_tokens": f"the API requires it: {reason}"}
    limited = order.model_copy(update={"parameters": {"max_tokens": 7000}})
    assert codec.assumed(limited) == {}


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-7-sonnet-20250219", 64_000),
        ("claude-opus-4-0", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-opus-4-5-20251101", 64_000),
        ("claude-sonnet-4-20250514", 64_000),
        ("claude-sonnet-4-6", 64_000),
        ("claude-opus-4-6-20260205", 128_000),
        ("us.anthropic.claude-opus-5-5-v1:0", 128_000),
        ("anthropic/Claude-Haiku-5-5", 128_000),
        ("claude-fable-5-1", 128_000),
        ("claude-mythos-5", None),
        ("gpt-4o", None),
    ],
)
def test_models_of_the_messages_api_have_their_limit(model: str, tokens: int | None):
    assert output_limit(model) == tokens


def test_most_models_of_the_api_have_a_limit():
    names = [each.model for each in shipped_catalogue().all_models() if each.provider == "anthropic"]
    without = {name for name in names if output_limit(name) is None}
    assert without <= {
        "claude-fable-5",
        "claude-mythos-5",
        "claude-mythos-5-1",
        "claude-mythos-preview",
        "claude-opus-4-8",
    }
    assert len(names) > 30
