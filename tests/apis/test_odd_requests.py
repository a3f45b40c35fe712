"""Requests with one member of another type: each is read, or refused with one of Accord's errors."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ServedApi
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.errors import AccordError
from accord.wire.conversation import ToolUsePart
from accord.wire.disposition import Api
from tests.servers.model_apis.examples import EXAMPLES, request_for

CODECS: Final[dict[Api, ServedApi]] = {
    Api.CHAT: ChatCodec(),
    Api.RESPONSES: ResponsesCodec(),
    Api.MESSAGES: MessagesCodec(),
}
ODD: Final[list[Any]] = [None, True, 1, 1.5, 10**30, "", "none", [], {}, [1], [{}], [None], [[]], {"type": "text"}]
DEEP: Final = f'{{"a":{"[" * 250}{"]" * 250}}}'


def with_odd_member(body: Any, odd: Any) -> Iterator[Any]:
    """The body once for each of its values at any depth, with something odd in its place."""
    places: Any = range(len(body)) if hasattr(body, "append") else list(body)
    for place in places:
        inner: Any = body[place]
        values = [odd, *(with_odd_member(inner, odd) if isinstance(inner, dict | list) else ())]
        for each in values:
            changed = body.copy()
            changed[place] = each
            yield changed


@pytest.mark.parametrize(("api", "row"), [(api, row) for api, rows in EXAMPLES.items() for row in rows])
def test_a_request_with_an_odd_member_is_read_or_refused(api: Api, row: str):
    for odd in ODD:
        for body in with_odd_member(request_for(api, row, "m", api), odd):
            with suppress(AccordError):
                CODECS[api].read_request(body)


def test_arguments_of_an_earlier_call_that_are_nested_too_deeply_are_kept_as_text():
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": DEEP}}
    chat = ChatCodec().read_request({"model": "m", "messages": [{"role": "assistant", "tool_calls": [called]}]})
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": DEEP}
    responses = ResponsesCodec().read_request({"model": "m", "input": [item]})
    calls = [cast("ToolUsePart", each.order.conversation.messages[0].content[0]) for each in (chat, responses)]
    assert [call.input for call in calls] == [{"arguments": DEEP}, DEEP]
