"""What a client gets does not depend on how the bytes of an answer arrive.

A client of the same API gets the very bytes that the endpoint sent, but for the label and usage that it did not ask for.
"""

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.wire.disposition import SERVED, Api
from tests.laws import examples
from tests.servers.model_apis.answer_parts import base_answer
from tests.servers.model_apis.answer_streams import event_bytes, stream_bytes
from tests.servers.model_apis.client_view import view_of
from tests.servers.model_apis.rich_answers import RICH
from tests.servers.model_apis.scripted_upstream import ERROR_EVENTS, SOURCES, Service, with_service, without_label

ACROSS: Final = [(source, target) for source in SOURCES for target in SERVED if source is not target]
STREAMS: Final = {api: stream_bytes(api, RICH[api]()) for api in SOURCES}


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The bytes in pieces that begin at these places."""
    bounds = sorted({0, len(data), *(place % len(data) for place in places)})
    return [data[start:end] for start, end in pairwise(bounds)]


def every(data: bytes, step: int = 1) -> list[list[bytes]]:
    """The bytes in two pieces, in every way; and one byte at a time."""
    return [[data[:place], data[place:]] for place in range(0, len(data), step)] + [cut(data, range(len(data)))]


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_relayed_stream_is_what_the_endpoint_sent_wherever_it_is_cut(api: Api):
    data = b"".join(STREAMS[api])

    async def compare(service: Service) -> None:
        for parts in every(data, 23):
            answer = await service.answer(api, api, parts, stream=True)
            assert without_label(answer.content) == data, len(parts[0])

    with_service(compare)


@given(
    places=st.lists(st.integers(0, 100_000), max_size=8),
    api=st.sampled_from(SERVED),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(max_examples=examples(40))
def test_a_relayed_stream_is_what_the_endpoint_sent_however_it_is_cut_and_framed(
    places: list[int], api: Api, newline: str
):
    data = b"".join(STREAMS[api]).replace(b"\n", newline.encode())
    answer = with_service(lambda service: service.answer(api, api, cut(data, places), stream=True))
    assert without_label(answer.content) == data


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_relayed_stream_that_breaks_off_is_what_the_endpoint_sent_and_then_an_error(api: Api):
    data = b"".join(STREAMS[api])
    ends = [*accumulate(map(len, STREAMS[api]))]
    lengths = {*range(ends[0] + 1, len(data), 23), *(end - missing for end in ends[1:] for missing in (0, 1, 2))}

    async def compare(service: Service) -> None:
        for length in sorted(lengths - {len(data)}):
            answer = await service.answer(api, api, [data[:length]], stream=True)
            content = without_label(answer.content)
            is_done = (await service.receipt(answer))["outcome"]["status"] == "done"
            if is_done:  # only what follows the end of the answer is missing
                assert content == data[:length], length
                continue
            sent, mark, _ = content.partition(ERROR_EVENTS[api])
            assert mark, (length, content)
            assert view_of(answer).is_error, (length, content)  # in an event of its own
            assert data.startswith(sent.rstrip(b"\n")), (length, content)
            assert len(sent) > length - max(map(len, STREAMS[api])), (length, content)

    with_service(compare)


def test_usage_that_the_client_did_not_ask_for_is_all_that_it_does_not_get():
    events = RICH[Api.CHAT]()
    usage = [event for event in events if "usage" in event]
    kept = stream_bytes(Api.CHAT, [event for event in events if event not in usage])
    for options in (None, {}, {"include_usage": False}):
        answer = with_service(lambda service, options=options: service.answer(
            Api.CHAT, Api.CHAT, STREAMS[Api.CHAT], stream=True, stream_options=options
        ))  # fmt: skip
        assert without_label(answer.content) == b"".join(kept)
    beside = [*events[:-2], {**events[-2], "usage": events[-1]["usage"]}]
    sent = stream_bytes(Api.CHAT, beside)
    answer = with_service(lambda service: service.answer(Api.CHAT, Api.CHAT, sent, stream=True, stream_options=None))
    assert without_label(answer.content) == b"".join(sent)


@pytest.mark.parametrize("api", SERVED, ids=str)
def test_a_relayed_whole_answer_is_what_the_endpoint_sent(api: Api):
    for data in (
        json.dumps(base_answer(api), indent=4).encode(),
        json.dumps(base_answer(api), ensure_ascii=False, separators=(",", ":")).encode(),
        b" \r\n" + json.dumps({**base_answer(api), "zq": "ü \u2028 ☃ \ud83d\ude00"}).encode() + b" \n",
    ):
        answer = with_service(lambda service, data=data: service.answer(api, api, cut(data, [9, 33]), stream=False))
        assert without_label(answer.content) == data


@pytest.mark.parametrize(("source", "target"), ACROSS, ids=str)
def test_a_translated_stream_says_the_same_wherever_it_is_cut(source: Api, target: Api):
    data = b"".join(STREAMS[source])

    async def compare(service: Service) -> None:
        whole = view_of(await service.answer(source, target, [data], stream=True))
        assert not whole.is_error
        for parts in every(data, 101):
            view = view_of(await service.answer(source, target, parts, stream=True))
            assert (view.said, view.label) == (whole.said, whole.label), len(parts[0])

    with_service(compare)


@pytest.mark.parametrize(("source", "target"), ACROSS, ids=str)
def test_a_comment_or_a_ping_between_events_changes_nothing(source: Api, target: Api):
    events = STREAMS[source]
    noise = b": keep-alive\n\n" + (event_bytes({"type": "ping"}) if source is Api.MESSAGES else b"")

    async def compare(service: Service) -> None:
        quiet = view_of(await service.answer(source, target, events, stream=True))
        noisy = view_of(await service.answer(source, target, [noise + each for each in events], stream=True))
        assert (noisy.said, noisy.label) == (quiet.said, quiet.label)

    with_service(compare)
