"""What `effective` says of a field agrees with what planning and labelling make of a request that uses it."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from accord.backends.scripted import ScriptedBackend
from accord.core.work.dispositions import effective
from accord.core.work.emulation.choose import preset_config
from accord.core.work.fields import COLUMNS, TABLE, FieldRow
from accord.core.work.groups import BackendGroup
from accord.core.work.plan import PlanConfig
from accord.errors import RefusedError
from accord.ports import SystemClock
from accord.run import Dispatcher
from accord.run.costs import RunCosts
from accord.run.model_call import ModelCall
from accord.run.model_calls import ModelCalls
from accord.servers.http.model_calls import SERVED_APIS
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.disposition import Api, Disposition
from accord.wire.emulation import EmulationConfig
from accord.wire.keys import Payer
from tests.servers.model_apis.examples import field_of, request_for

LEVELS: list[Any] = [None, "native", "emulated", {"restricted": {"reason": "limited"}}, "unsupported"]
CONFIGS = {"defaults": EmulationConfig(), "preset": preset_config()}
ROWS = [row for rows in TABLE.values() for row in rows.values()]
PARSERS = {each.api: each.read_request for each in SERVED_APIS}


@dataclass(slots=True)
class BackendOfKind(ScriptedBackend):
    """A script that counts as a backend of this kind."""

    api_name: str = Api.OTHER


def calls_for(row: FieldRow, kind: Api, level: Any, config: PlanConfig) -> ModelCalls:
    """What answers requests with one backend that has everything, but the row's capability at this level."""
    manifest: dict[str, Any] = dict.fromkeys(KNOWN_CAPABILITIES, "native")
    if row.capability is not None:
        manifest.pop(row.capability)
        manifest.pop({"image_input": "vision", "tool_use": "function_calling"}.get(row.capability, ""), None)
        if level is not None:
            manifest[row.capability] = level
    backend = BackendOfKind("b", [['{"a": 1}']], manifest, api_name=kind)
    return ModelCalls(Dispatcher([backend], config=config), lambda _: BackendGroup(("b",)), SystemClock())


async def disposition_of(calls: ModelCalls, row: FieldRow, kind: Api) -> Disposition:
    """What becomes of the field in a real call."""
    request = PARSERS[row.api](request_for(row.api, row.name, "b", kind))
    call = ModelCall(request, "r", "u", "", datetime.now(UTC), 0.0, RunCosts(None, Payer(), calls.dispatcher))
    refused: list[str] = []
    try:
        await (await calls.answer(call)).close()
    except RefusedError as error:
        refused = error.details["fields"]
    if field_of(row.name) in refused:
        return Disposition.REFUSED
    return next((each.disposition for each in call.labels if each.field == field_of(row.name)), Disposition.NATIVE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.api.value}-{row.name}")
def test_what_is_reported_of_a_field_is_what_becomes_of_it(row: FieldRow):
    async def compare() -> None:
        for kind in Api:
            for name, emulation in CONFIGS.items():
                for level in LEVELS if row.capability else [None]:
                    calls = calls_for(row, kind, level, PlanConfig(emulation=emulation))
                    reported = effective(row, COLUMNS[kind], calls.dispatcher.candidate("b"), calls.plan_config())
                    real = await disposition_of(calls, row, kind)
                    assert reported.disposition is real, (kind.value, name, level, reported)

    asyncio.run(asyncio.wait_for(compare(), 30))
