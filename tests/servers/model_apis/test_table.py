"""The table of fields, line by line, by what a service does: a real request for each row to each kind of backend.

Every backend declares all that its API can carry; what it cannot is emulated by the preset. `scripted` and `plain` are
of the kind `other`; `plain` lacks what the table calls emulated there.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import pytest

from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import ModelApi
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec
from accord.backends.model import Endpoint, ModelBackend, RetryPolicy
from accord.backends.scripted import ScriptedBackend
from accord.backends.upstream_aiohttp import AiohttpUpstream
from accord.core.work.emulation.choose import PRESET, preset_config
from accord.core.work.evidence import Evidence
from accord.core.work.fields import TABLE, FieldRow
from accord.ports import SystemClock
from accord.servers.http.model_calls import PATHS
from accord.wire.capability import KNOWN_CAPABILITIES
from accord.wire.disposition import SERVED, Api, Disposition, FieldClass
from accord.wire.manifest import SupportLevel
from accord.wire.routes import DISPOSITIONS_HEADER
from tests.servers.model_apis.examples import EXAMPLES, field_of, request_for
from tests.servers.model_apis.in_process import model_application
from tests.servers.model_apis.meanings import MEANINGS, is_part
from tests.servers.model_apis.recorder import MODEL, TEXT, Recorder, recording
from tests.servers.transports import served

KINDS: Final = {
    "chat": Api.CHAT,
    "responses": Api.RESPONSES,
    "messages": Api.MESSAGES,
    "gemini": Api.GEMINI,
    "scripted": Api.OTHER,
    "plain": Api.OTHER,
}
"""The backends, and the column of each."""
ROWS: Final = [row for rows in TABLE.values() for row in rows.values()]
LACKED: Final = {row.capability for row in ROWS if row.cells[Api.OTHER] is Disposition.EMULATED} - {None}
CONTINUED: Final = "previous_response_id"
LIMIT_S: Final = 50.0
DECLARED: Final = {"responses": {"file_input": Evidence(SupportLevel.NATIVE, "operator")}}
"""What an operator has to declare, because the backend itself can only write PDF files; requests are passed on."""


@dataclass(slots=True)
class Outcome:
    """What came back to the client, and what the backend got."""

    status: int
    labels: dict[str, str]
    body: Any
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])


def backends(address: str, lacking: Collection[str] = (), model: str = MODEL) -> list[Any]:
    """One backend of each kind, whose models have everything but these capabilities."""
    has, lacks = Evidence(SupportLevel.NATIVE, "test"), Evidence(SupportLevel.UNSUPPORTED, "test")
    facts = {name: lacks if name in lacking else has for name in KNOWN_CAPABILITIES}
    apis: list[tuple[str, ModelApi, str]] = [
        ("chat", ChatCodec(max_tokens_field="max_tokens", top_k=True, reasoning_field="reasoning_content"), "/v1"),
        ("responses", ResponsesCodec(), "/v1"),
        ("messages", MessagesCodec(), ""),
        ("gemini", GeminiCodec(), "/v1beta"),
    ]
    made: list[Any] = [
        ModelBackend(
            name,
            api,
            Endpoint(f"{address}{path}", model, "a-key"),
            AiohttpUpstream(),
            SystemClock(),
            declared=DECLARED.get(name),
            facts=facts,
            retries=RetryPolicy(times=0),
        )
        for name, api, path in apis
    ]
    everything = {name: level.level.root for name, level in facts.items()}
    plain = {name: level for name, level in everything.items() if name not in LACKED | {"function_calling"}}
    return [*made, ScriptedBackend("scripted", [[TEXT]], everything), ScriptedBackend("plain", [[TEXT]], plain)]


@asynccontextmanager
async def serving(recorder: Recorder, lacking: Collection[str] = ()) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """A real service with these backends; gives its address, and the backends by name."""
    made = backends(recorder.address, lacking)
    async with served(model_application(made, emulation=preset_config(PRESET))) as address:
        try:
            yield address, {each.name: each for each in made}
        finally:
            for backend in made:
                if isinstance(backend, ModelBackend):
                    await backend.aclose()


async def post(client: aiohttp.ClientSession, api: Api, body: dict[str, Any]) -> Outcome:
    async with client.post(PATHS[api], json=body) as response:
        text = await response.text()
    header = response.headers.get(DISPOSITIONS_HEADER, "")
    labels = dict(each.split("=") for each in header.split(", ") if each)
    return Outcome(response.status, labels, text if body.get("stream") else json.loads(text))


async def collect() -> dict[tuple[Api, str, str], Outcome]:
    """Send every request, one after the other, so that each outcome has its own record."""
    outcomes: dict[tuple[Api, str, str], Outcome] = {}
    async with (
        recording() as recorder,
        serving(recorder) as (address, by_name),
        aiohttp.ClientSession(address) as client,
    ):
        for backend in KINDS:
            for row in ROWS:
                body = request_for(row.api, row.name, backend, KINDS[backend])
                if row.name == CONTINUED:
                    first = await post(client, row.api, {"model": backend, "input": "zq-earlier"})
                    body[CONTINUED] = first.body["id"]
                recorder.sent.clear()
                scripted = by_name[backend]
                if isinstance(scripted, ScriptedBackend):
                    scripted.orders.clear()
                outcome = outcomes[row.api, row.name, backend] = await post(client, row.api, body)
                outcome.sent = [*recorder.sent]
                if isinstance(scripted, ScriptedBackend):
                    outcome.sent = [("", order.model_dump(mode="json", exclude_none=True)) for order in scripted.orders]
    return outcomes


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[Api, str, str], Outcome]:
    return asyncio.run(asyncio.wait_for(collect(), LIMIT_S))


def expected(row: FieldRow, backend: str) -> Disposition:
    """The cell of the table, but for what depends on whether a backend in Python has the capability.

    If it has, nothing is emulated; if Accord emulates it, settings of it are dropped.
    """
    cell = row.cells[KINDS[backend]]
    if backend == "scripted" and cell is Disposition.EMULATED and row.capability:
        return Disposition.NATIVE
    if cell is Disposition.EMULATED and KINDS[backend] is row.api:  # it is passed on as it came
        return Disposition.NATIVE
    if backend == "plain" and row.capability in LACKED and row.kind is FieldClass.TUNING:
        return Disposition.DROPPED
    return cell


@pytest.mark.parametrize("api", SERVED)
def test_every_row_has_an_example_and_every_example_a_row(api: Api):
    assert EXAMPLES[api].keys() == TABLE[api].keys()


@pytest.mark.parametrize("backend", KINDS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.api.value}-{row.name}")
def test_each_field_becomes_what_the_table_says(
    outcomes: dict[tuple[Api, str, str], Outcome], row: FieldRow, backend: str
):
    outcome, cell = outcomes[row.api, row.name, backend], expected(row, backend)
    if cell is Disposition.REFUSED:
        check_refused(row, outcome)
        return
    assert outcome.status == 200, outcome.body
    assert outcome.sent
    label = outcome.labels.get(field_of(row.name))
    assert label == (None if cell is Disposition.NATIVE else cell.value), outcome.labels
    check_body_label(row, outcome, cell)
    if cell is Disposition.NATIVE:
        check_arrived(row, outcome, backend)
    elif cell is Disposition.DROPPED:
        trace = EXAMPLES[row.api][row.name].trace
        assert trace
        assert trace not in json.dumps(outcome.sent)


def check_refused(row: FieldRow, outcome: Outcome) -> None:
    assert outcome.status == 400, (outcome.labels, outcome.body)
    assert not outcome.sent
    assert field_of(row.name) in outcome.body["error"]["message"]
    assert field_of(row.name) in outcome.body["accord"]["details"]["fields"]


def check_body_label(row: FieldRow, outcome: Outcome, cell: Disposition) -> None:
    """The body says what the header says; in a stream, the first event does."""
    if isinstance(outcome.body, str):
        lines = (line.removeprefix("data: ") for line in outcome.body.splitlines() if line.startswith("data: "))
        body = json.loads(next(lines))
    else:
        body = outcome.body
    found = {each["field"]: each["disposition"] for each in body["accord"]["dispositions"]}
    assert found.get(field_of(row.name), "native") == cell.value


def check_arrived(row: FieldRow, outcome: Outcome, backend: str) -> None:
    """What the field means is in the request of the backend."""
    example, kind = EXAMPLES[row.api][row.name], KINDS[backend]
    path, sent = outcome.sent[-1]
    if check := KEPT_BY_ACCORD.get(row.name if row.api is Api.RESPONSES else ""):
        check(outcome, sent)
    elif kind.value == row.api.value:
        assert is_part(example.adds, sent)
    else:
        assert is_part(MEANINGS[example.means][kind], sent), sent
        if example.means == "stream" and kind is Api.GEMINI:
            assert path.endswith(":streamGenerateContent")


def check_continued(_: Outcome, sent: dict[str, Any]) -> None:
    assert "zq-earlier" in json.dumps(sent)
    assert CONTINUED not in sent


def check_not_stored(_: Outcome, sent: dict[str, Any]) -> None:
    assert sent.get("store") in (None, False)


def check_metadata(outcome: Outcome, sent: dict[str, Any]) -> None:
    """Accord repeats it, unless the endpoint gets the request as it is and does so itself."""
    assert {"k": "zq-kept"} in (outcome.body.get("metadata"), sent.get("metadata"))


KEPT_BY_ACCORD: Final = {CONTINUED: check_continued, "store": check_not_stored, "metadata": check_metadata}
"""Fields of the responses API that Accord itself does, whatever the backend."""
