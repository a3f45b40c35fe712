"""Fields that no work order has, as another API has them."""

from hashlib import sha256
from typing import Any

import pytest

from accord.apis.chat.read_request import parse_chat
from accord.apis.messages.read_request import parse_request
from accord.apis.responses.read_request import parse
from accord.core.work.fields import place_of
from accord.core.work.translated import put_field, translated_value
from accord.wire.disposition import Api

BASES: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "Hello"}]},
    Api.RESPONSES: {"input": "Hello"},
    Api.MESSAGES: {"max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]},
}
READERS = {Api.CHAT: parse_chat, Api.RESPONSES: parse, Api.MESSAGES: parse_request}
LONG = "user_" + "0" * 64
TOWN = {"city": "Ulm", "country": "DE"}
CASES: list[tuple[Api, Api, dict[str, Any], dict[str, Any]]] = [
    (Api.CHAT, Api.RESPONSES, {"verbosity": "low"}, {"text": {"verbosity": "low"}}),
    (Api.RESPONSES, Api.CHAT, {"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    (Api.CHAT, Api.MESSAGES, {"user": "u"}, {"metadata": {"user_id": "u"}}),
    (Api.CHAT, Api.MESSAGES, {"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
    (Api.CHAT, Api.RESPONSES, {"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
    (Api.MESSAGES, Api.CHAT, {"metadata": {"user_id": "u"}}, {"user": "u"}),
    (Api.MESSAGES, Api.RESPONSES, {"metadata": {"user_id": "u"}}, {"safety_identifier": "u"}),
    (Api.MESSAGES, Api.CHAT, {"metadata": {"user_id": LONG}}, {"user": sha256(LONG.encode()).hexdigest()}),
    (Api.CHAT, Api.MESSAGES, {"user": LONG}, {"metadata": {"user_id": LONG}}),
    (Api.CHAT, Api.MESSAGES, {"service_tier": "default"}, {"service_tier": "standard_only"}),
    (Api.CHAT, Api.RESPONSES, {"service_tier": "default"}, {"service_tier": "default"}),
    (Api.CHAT, Api.RESPONSES, {"service_tier": "flex"}, {"service_tier": "flex"}),
    (Api.CHAT, Api.MESSAGES, {"service_tier": "flex"}, {}),
    (Api.MESSAGES, Api.RESPONSES, {"service_tier": "standard_only"}, {"service_tier": "default"}),
    (Api.RESPONSES, Api.CHAT, {"prompt_cache_options": {"ttl": "30m", "prewarm": True}}, {"prompt_cache_options": {"ttl": "30m"}}),
    (
        Api.CHAT,
        Api.RESPONSES,
        {"web_search_options": {"user_location": {"type": "approximate", "approximate": TOWN}}},
        {"tools": [{"type": "web_search", "user_location": {"type": "approximate", **TOWN}}]},
    ),
    (Api.CHAT, Api.GEMINI, {"user": "u", "prompt_cache_key": "k"}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "kind", "adds", "expected"), CASES)
def test_each_field_goes_where_the_other_api_has_it(
    api: Api, kind: Api, adds: dict[str, Any], expected: dict[str, Any]
):
    request = READERS[api]({"model": "m", **BASES[api], **adds})
    parameters: dict[str, Any] = {}
    for name in request.fields:
        if place := place_of(api, name, kind):
            put_field(parameters, place, translated_value(request, name, kind))
    assert {name: value for name, value in parameters.items() if name not in BASES[api]} == expected
