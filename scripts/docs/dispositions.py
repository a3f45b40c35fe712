"""docs/dispositions.md: what becomes of each field of a model API. Its example is answered by the real code."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from accord.apis.chat.codec import ChatCodec
from accord.backends.model_options import dialect_names, load_dialect
from accord.backends.scripted import ScriptedBackend
from accord.core.work.emulation.choose import preset_config
from accord.core.work.fields import TABLE, FieldRow
from accord.core.work.groups import BackendGroup
from accord.core.work.plan import PlanConfig
from accord.errors import RefusedError
from accord.ports import EvidenceSource, SystemClock
from accord.run import Dispatcher
from accord.run.costs import RunCosts
from accord.run.model_call import ModelCall
from accord.run.model_calls import ModelCalls
from accord.servers.http.model_calls import accord_member, label_headers
from accord.wire.disposition import SERVED, Api, Disposition, FieldPolicy
from accord.wire.keys import Payer

REQUEST_ID: Final = "0b54d3a2-6b3e-4f0c-9a55-3f1f0c7f7f10"
SHOWN: Final = ("accord-served-by", "accord-dispositions", "accord-receipt")
REQUEST: Final[dict[str, Any]] = {
    "model": "claude",
    "messages": [{"role": "user", "content": "Name a city, as JSON."}],
    "temperature": 0.2,
    "seed": 7,
    "response_format": {"type": "json_object"},
}
MANIFEST: Final = {"streaming": "native", "temperature": "native", "json_mode": "unsupported"}
TITLES: Final[Mapping[Api, str]] = {
    Api.CHAT: "Chat completions",
    Api.RESPONSES: "Responses",
    Api.MESSAGES: "Messages",
}
PATHS: Final[Mapping[Api, str]] = {
    Api.CHAT: "POST /v1/chat/completions",
    Api.RESPONSES: "POST /v1/responses",
    Api.MESSAGES: "POST /v1/messages",
}

INTRODUCTION: Final = """\
<!-- Written by `make docs` from src/accord/core/work/field_table.py. Do not edit. -->

# What becomes of each field

Clients send fields that not every backend has. For every field of every model API and every kind of backend, Accord
does one of four things, and always the same:

| disposition | meaning |
|---|---|
| native | the backend gets the field, or what it means in its own API |
| emulated | Accord does it: the answer is what was asked for, in another way |
| dropped | the backend does not get it, and the answer is still what was asked for; always labelled |
| refused | without it the answer would not be what was asked for: status 400, before any backend gets the request |

Whether a field may be dropped depends on its kind. **Tuning** (`seed`, `user`, `verbosity`) is dropped with a label.
A **contract** (content, tools, a schema, `n`) is native, emulated or refused, never dropped. A value that asks for
nothing, such as `null` or `"store": false`, is no use of the field.

## An example

A chat completions request to `claude`, a backend that speaks the Messages API and has no JSON mode:

```json
{request}
```

The answer has these headers:

```
{headers}
```

and this member in its body, which the first event of a stream has, too:

```json
{member}
```

`temperature` is not listed: it was native. With the policy `strict` nothing is dropped. It is set for one request
with the header `Accord-Policy: strict` or with `"accord": {{"policy": "strict"}}` in the body, or for all requests of
a key; the same request is then refused:

> {refusal}

## How it is decided

1. The table below says what the API of the backend can carry.
2. If the field needs a capability, the backend's manifest decides whether the model has it: if not, tuning is
   dropped, and a contract is emulated if an emulation is configured under `[emulation]` and refused otherwise.
3. An endpoint that answers 400 and names a tuning field gets the request again without it, labelled `learned`. That is
   kept for a while (see "What an endpoint refused" in [backends.md](backends.md)). A limit, such as `max_tokens`, is
   never left out.
4. Of several backends, requests go to one that has the fewest losses; after a failure, everything is decided again
   for the next one.

5. What the API of the backend requires and the request does not set, Accord chooses: the model's maximum as limit of
   the answer, an effort, a first message of the user. It is labelled `assumed`, with the choice as reason, and stands
   in no table.

[answers.md](answers.md) has the same for the parts of answers.

`GET /v1/capabilities` has the table and, for each backend of the running service, what becomes of each field now,
under `model_apis`. `GET /v1/models` and `GET /v1/model/info` list what each model can do.

## The tables

The columns are the API that the backend speaks; `acp` are ACP agents, `other` are scripts and backends written in
Python. `native*` is native only where the client and the backend speak the same API; inside of messages and tools,
only in a request that is passed on as it came, for which nothing is emulated. `[]` in a name is any item of a list;
`*` is every field that is not listed. *Capability* is what the model must have, too.
"""


@dataclass(slots=True)
class ExampleBackend(ScriptedBackend):
    """The backend of the example: a script in the place of a model behind the Messages API."""

    model: str | None = "claude-sonnet-4-5"
    api_name: str = Api.MESSAGES

    @property
    def evidence(self) -> Mapping[str, EvidenceSource]:
        """None is needed."""
        return {}


async def answer_example(policy: FieldPolicy) -> ModelCall:
    """Answer the request of the example; raises `RefusedError` if it is refused."""
    backend = ExampleBackend("claude", [['{"city": "Berlin"}']], MANIFEST)
    config = PlanConfig(emulation=preset_config(["json_mode"]))
    calls = ModelCalls(Dispatcher([backend], config=config), lambda _: BackendGroup(("claude",)), SystemClock())
    request, costs = ChatCodec().read_request(REQUEST), RunCosts(None, Payer(), calls.dispatcher)
    call = ModelCall(request, REQUEST_ID, "", "", datetime(2026, 1, 1, tzinfo=UTC), 0.0, costs, policy=policy)
    await (await calls.answer(call)).close()
    return call


def refused_example() -> str:
    """The message with which the request of the example is refused under the strict policy."""
    try:
        asyncio.run(answer_example(FieldPolicy.STRICT))
    except RefusedError as error:
        return error.message
    raise AssertionError("the example is to be refused")


def introduction() -> str:
    """The text before the tables."""
    call = asyncio.run(answer_example(FieldPolicy.LABELLED))
    headers = [(name.decode(), value.decode()) for name, value in label_headers(call, Api.CHAT)]
    return INTRODUCTION.format(
        request=json.dumps(REQUEST, indent=2),
        headers="\n".join(f"{name}: {value}" for name, value in headers if name in SHOWN),
        member=json.dumps({"accord": accord_member(call)}, indent=2),
        refusal=refused_example(),
    )


def table_lines(api: Api) -> Iterator[str]:
    """The table of one API as lines of markdown."""
    yield f"### {TITLES[api]}"
    yield ""
    yield f"`{PATHS[api]}`"
    yield ""
    yield f"| field | kind | {' | '.join(Api)} | capability | note |"
    yield "|---" * (len(Api) + 4) + "|"
    for row in TABLE[api].values():
        cells = (f"{row.cells[kind].value}{'*' * (kind in row.only_unchanged)}" for kind in Api)
        capability = f"`{row.capability}`" if row.capability else ""
        name = row.name.replace("|", "\\|")
        yield f"| `{name}` | {row.kind.value} | {' | '.join(cells)} | {capability} | {note_of(row)} |"


def note_of(row: FieldRow) -> str:
    """What else is to be said of a field: the values that ask for nothing, and the note of the table."""
    neutral = ", ".join(f"`{json.dumps(value)}`" for value in row.neutral)
    return "; ".join(text for text in (f"{neutral} asks for nothing" if neutral else "", row.note, row.reason) if text)


def dialect_lines() -> Iterator[str]:
    """What becomes of the fields of chat completions at each dialect, where that differs from its API's column."""
    yield "### Dialects of chat completions"
    yield ""
    yield "A backend of one of these kinds has the column `chat`, but for what its servers lack or name otherwise."
    yield "The same follows for fields of the other APIs that become one of these."
    yield ""
    yield "| kind | other names | dropped | refused | emulated | capabilities that it lacks |"
    yield "|---|---|---|---|---|---|"
    for name in dialect_names():
        codec = load_dialect(name)()
        lacking = {row.name: codec.column.cell(row) for row in TABLE[Api.CHAT].values() if codec.column.lacks_row(row)}
        fields = ("DROPPED", "REFUSED", "EMULATED")
        cells = [[row for row, cell in lacking.items() if cell is Disposition[each]] for each in fields]
        renames = [f"`{ours}` → `{theirs}`" for ours, theirs in codec.dialect.renames.items()]
        lists = [[f"`{row}`" for row in each] for each in (*cells, sorted(codec.dialect.unsupported))]
        yield f"| `{name}` | {' | '.join(', '.join(each) for each in (renames, *lists))} |"


def page() -> str:
    """The whole page."""
    tables = [*map(table_lines, SERVED), dialect_lines()]
    return "\n".join([introduction(), *("\n".join(lines) + "\n" for lines in tables)])
