"""Dialects from outside: what a server lacks is never sent to it, and the label says so, whatever API the client has."""

import asyncio
import json
from typing import Final

import aiohttp
import pytest

from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.core.work.emulation.choose import PRESET, preset_config
from accord.core.work.evidence import Evidence
from accord.core.work.fields import TABLE, FieldRow, place_of
from accord.ports import SystemClock
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.disposition import Api, Disposition
from accord.wire.manifest import SupportLevel
from tests.apis.test_dialects import DIALECTS, codec
from tests.servers.model_apis.examples import EXAMPLES, field_of, request_for
from tests.servers.model_apis.in_process import model_application
from tests.servers.model_apis.recorder import MODEL, Recorder, recording
from tests.servers.model_apis.test_table import Outcome, check_body_label, check_refused, post
from tests.servers.transports import served

LIMIT_S: Final = 30.0
LACKING: Final = [
    (name, row)
    for name in DIALECTS
    for rows in TABLE.values()
    for row in rows.values()
    if codec(name).column.lacks_row(row)
]


def backend(name: str, address: str) -> ModelBackend:
    facts = {capability: Evidence(SupportLevel.NATIVE, "test") for capability in KNOWN_CAPABILITIES}
    endpoint = Endpoint(f"{address}/v1", MODEL, "a-key")
    return ModelBackend(
        name, codec(name), endpoint, AiohttpUpstream(), SystemClock(), facts=facts, retries=RetryPolicy(times=0)
    )


async def collect() -> dict[tuple[str, Api, str], Outcome]:
    outcomes: dict[tuple[str, Api, str], Outcome] = {}
    async with recording() as recorder:
        backends = [backend(name, recorder.address) for name in DIALECTS]
        async with (
            served(model_application(backends, emulation=preset_config(PRESET))) as address,
            aiohttp.ClientSession(address) as client,
        ):
            for name, row in LACKING:
                outcomes[name, row.api, row.name] = await outcome_of(client, recorder, name, row)
        for each in backends:
            await each.aclose()
    return outcomes


async def outcome_of(client: aiohttp.ClientSession, recorder: Recorder, name: str, row: FieldRow) -> Outcome:
    recorder.sent.clear()
    outcome = await post(client, row.api, request_for(row.api, row.name, name, Api.CHAT))
    outcome.sent = [*recorder.sent]
    return outcome


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, Api, str], Outcome]:
    return asyncio.run(asyncio.wait_for(collect(), LIMIT_S))


@pytest.mark.parametrize(("name", "row"), LACKING, ids=lambda each: each if isinstance(each, str) else each.name)
def test_what_a_server_lacks_is_labelled_and_never_sent(
    outcomes: dict[tuple[str, Api, str], Outcome], name: str, row: FieldRow
):
    outcome, cell = outcomes[name, row.api, row.name], codec(name).column.cell(row)
    assert cell is not Disposition.NATIVE
    if cell is Disposition.REFUSED:
        check_refused(row, outcome)
        return
    assert outcome.status == 200, outcome.body
    assert outcome.labels[field_of(row.name)] == cell.value
    check_body_label(row, outcome, cell)
    if cell is Disposition.DROPPED:
        place = row.name if row.api is Api.CHAT else str(place_of(row.api, row.name, Api.CHAT))
        trace = EXAMPLES[row.api][row.name].trace
        assert place.isidentifier() or trace
        assert all(place not in body for _, body in outcome.sent)
        assert not trace or trace not in json.dumps(outcome.sent)


def test_an_answer_that_is_wanted_several_times_is_asked_for_as_often(
    outcomes: dict[tuple[str, Api, str], Outcome],
):
    outcome = outcomes["groq", Api.CHAT, "n"]
    assert len(outcome.sent) == len(outcome.body["choices"]) > 1
