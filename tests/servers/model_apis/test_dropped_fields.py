"""What is sent to a backend with a field that is dropped is what is sent without the field, to the last member.

Every tuning row of the table to every kind of backend, by what a service does: once where only the table drops fields,
once where the models lack every setting that a field may need.
"""

import asyncio
import json
import re
from typing import Any, Final, cast

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import UnsupportedByApiError
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.request_readers import READERS, order_without
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.scripted import ScriptedBackend
from accord.core.work.dispositions import without_fields
from accord.core.work.fields import FieldRow
from accord.wire.disposition import Api, Disposition, FieldClass, FieldRecord
from accord.wire.work import WorkOrder
from tests.servers.model_apis.examples import BASES, EXAMPLES, field_of, request_for
from tests.servers.model_apis.recorder import recording
from tests.servers.model_apis.test_table import KINDS, LIMIT_S, ROWS, Outcome, post, serving

REQUIRED: Final = (Api.MESSAGES, "max_tokens")
"""No request is without it."""
TUNING: Final = [row for row in ROWS if row.kind is FieldClass.TUNING and (row.api, row.name) != REQUIRED]
LACKING: Final = {row.capability for row in TUNING if row.capability} - {"tool_use"}
"""The capabilities that settings need. Without tools, what is about them would not be sent at all."""
MARKER: Final = re.compile("_[0-9a-f]{12}")
"""What emulated calls are told apart by from text that looks like them: it is random."""


def without(row: FieldRow, body: dict[str, Any]) -> dict[str, Any]:
    """The request without this field; what has no place of its own is found by its trace."""
    trace = EXAMPLES[row.api][row.name].trace
    shorter = without_fields(body, [row.name])
    return shorter if trace not in json.dumps(shorter) else cast("dict[str, Any]", cut(shorter, trace))


def cut(value: Any, trace: str) -> Any:
    """The value without the innermost members that have the trace, and without what is then empty."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        has = {name for name, each in members.items() if trace in json.dumps({name: each})}
        shorter = {name: cut(each, trace) if name in has else each for name, each in members.items()}
        # What tells an object apart goes with the whole object.
        return {} if "type" in has else {name: each for name, each in shorter.items() if name not in has or each}
    if isinstance(value, list):
        items = [(each, cut(each, trace) if trace in json.dumps(each) else each) for each in cast("list[Any]", value)]
        return [shorter for each, shorter in items if shorter and (not is_named(each) or is_named(shorter))]
    return None


def is_named(item: Any) -> bool:
    """Whether this is a block like `{"type": "thinking", "thinking": …}`, which is nothing without that member."""
    return isinstance(item, dict) and cast("dict[str, Any]", item).get("type") in item


async def collect(lacking: frozenset[str]) -> dict[tuple[Api, str, str], tuple[Outcome, Outcome]]:
    """The outcomes of every request with its field and without it."""
    outcomes: dict[tuple[Api, str, str], tuple[Outcome, Outcome]] = {}
    async with (
        recording() as recorder,
        serving(recorder, lacking) as (address, by_name),
        aiohttp.ClientSession(address) as client,
    ):

        async def send(row: FieldRow, body: dict[str, Any]) -> Outcome:
            scripted = by_name[body["model"]]
            recorder.sent.clear()
            if isinstance(scripted, ScriptedBackend):
                scripted.orders.clear()
            outcome = await post(client, row.api, body)
            orders = scripted.orders if isinstance(scripted, ScriptedBackend) else []
            outcome.sent = [*recorder.sent, *(("", json.loads(MARKER.sub("", order.to_json()))) for order in orders)]
            return outcome

        for backend, kind in KINDS.items():
            for row in TUNING:
                body = request_for(row.api, row.name, backend, kind)
                outcome = await send(row, body)
                if outcome.labels.get(field_of(row.name)) == "dropped":
                    outcomes[row.api, row.name, backend] = outcome, await send(row, without(row, body))
    return outcomes


@pytest.mark.parametrize("lacking", [frozenset[str](), frozenset(LACKING)], ids=["by the table", "by the models"])
def test_what_is_sent_with_a_dropped_field_is_what_is_sent_without_it(lacking: frozenset[str]):
    outcomes = asyncio.run(asyncio.wait_for(collect(lacking), LIMIT_S))
    assert len(outcomes) > 100
    for place, (with_field, without_field) in outcomes.items():
        assert with_field.status == without_field.status == 200, (place, without_field.body)
        assert with_field.sent == without_field.sent, place


def top_level(row: FieldRow) -> bool:
    """Whether the example of this row adds settings only, so that it can be combined with others."""
    adds = EXAMPLES[row.api][row.name].adds
    return bool(adds) and adds.keys().isdisjoint({"messages", "input", "stream"}) and row.is_read


SETTINGS: Final = {api: [row for row in TUNING if row.api is api and top_level(row)] for api in READERS}
CODECS: Final = (ChatCodec(top_k=True), ResponsesCodec(), MessagesCodec(), GeminiCodec())


def written(order: WorkOrder) -> list[Any]:
    """What every API is sent for an order, or what it cannot carry."""
    bodies: list[Any] = []
    for codec in CODECS:
        try:
            bodies.append(codec.write_request(order, "m").body)
        except UnsupportedByApiError as error:
            bodies.append(error.capability)
    return bodies


@given(st.data())
def test_of_any_settings_one_that_is_dropped_leaves_no_trace(data: st.DataObject):
    api = data.draw(st.sampled_from(list(READERS)))
    rows = data.draw(st.lists(st.sampled_from(SETTINGS[api]), min_size=1, max_size=6, unique_by=lambda row: row.name))
    dropped, *others = rows
    adds = EXAMPLES[api][dropped.name].adds
    kept = {name: value for row in others for name, value in EXAMPLES[api][row.name].adds.items() if name not in adds}
    base = {"model": "m", **BASES[api], **kept}
    with_field = READERS[api]({**base, **adds})
    label = FieldRecord(field=dropped.name, disposition=Disposition.DROPPED, reason="")
    shorter = without_fields({**base, **adds}, [dropped.name])
    assert written(order_without(with_field, [label])) == written(READERS[api](shorter).order)
    if dropped.name in adds and len(adds) == 1:
        assert written(order_without(with_field, [label])) == written(READERS[api](base).order)
