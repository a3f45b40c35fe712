"""docs/reference/messages.md: every message, from the JSON Schemas of the models and the golden files of the tests."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from scripts.docs.markdown import anchor, code, head, table
from scripts.docs.schema_text import is_inline, type_text
from tests.wire import test_golden

from accord.acp.schema_parts import PromptCapabilities
from accord.wire.contract import MESSAGES
from accord.wire.conversation import MessagePart
from accord.wire.emulation import EmulationStrategy
from accord.wire.manifest import CapabilityManifest, ReportedSupport
from accord.wire.work import WorkOrder

Json = dict[str, Any]

MODELS: Final[tuple[type[BaseModel], ...]] = (
    *MESSAGES,
    PromptCapabilities,
    WorkOrder,
    EmulationStrategy,
    ReportedSupport,
    MessagePart,
)
"""What is published, and unions that are only parts of it."""

EXAMPLES: Final[Mapping[str, type[BaseModel]]] = {
    **test_golden.GOLDEN_CASES,
    **test_golden.LENIENT_CASES,
    "capability_manifest": CapabilityManifest,
}
"""The message of each golden file."""
GOLDEN: Final = Path(test_golden.__file__).parent / "golden"
GROUPS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "Requests and answers": (
        "CAP, the Client Agent Protocol: what a client sends and gets.",
        ("wire.request", "wire.service", "wire.problem"),
    ),
    "Streams": ("The packets of an answer, and the events in them.", ("wire.packet", "wire.event")),
    "Content": (
        "ACP, the Agent Client Protocol: the blocks of a prompt. Its other messages are in [acp.md](../acp.md).",
        ("acp.schema_parts",),
    ),
    "Capabilities": (
        "ABP, the Agent Backplane protocol: what backends declare, what work requires, and how the two compare.",
        ("wire.manifest", "wire.emulation"),
    ),
    "Plans": ("Which backend does the work, or why none can.", ("wire.plan",)),
    "Conversations": ("What is sent to a backend.", ("wire.conversation", "wire.work")),
    "Receipts": (
        "What was decided for a turn, and what its client got.",
        ("wire.receipt", "wire.adaptation", "wire.agent_work"),
    ),
    "Model APIs": ("What becomes of the fields of a request.", ("wire.disposition",)),
    "Keys and usage": ("The admin API.", ("wire.keys",)),
    "Inspection": ("The report of `accord inspect`.", ("wire.inspection",)),
    "Errors": ("The codes that messages carry; [errors.md](errors.md) says what each means.", ("errors",)),
}
"""The groups of the page: what each is about, and the modules whose messages it has."""

INTRODUCTION: Final = """
Every message that a client, a backend or another program exchanges with Accord. All of them are JSON; `accord schemas
FOLDER` writes their JSON Schemas.

- A field that is not *required* may be absent. Absent fields are not written.
- Unknown fields are ignored, unless a message says otherwise.
- A time has a zone on input and is written as UTC: `2023-10-27T10:00:00Z`.
- The examples are the golden files of the tests: each is read and written again without loss.
"""


@cache
def definitions_of_messages() -> Mapping[str, Json]:
    """The JSON Schema of every message and of every part of one, by name."""
    found, schemas = models_json_schema([(model, "validation") for model in MODELS])
    definitions: dict[str, Json] = {**schemas["$defs"]}
    for (model, _), schema in found.items():
        if "oneOf" in schema:  # a union has no definition of its own, only references to its kinds
            definitions[model.__name__] = {**schema, "description": model.__doc__}
    return definitions


def page() -> str:
    """The whole page."""
    definitions = definitions_of_messages()
    shown = {name: definition for name, definition in definitions.items() if not is_inline(definition)}
    parts = [head("Messages", "src/accord/wire/ and tests/wire/golden/", INTRODUCTION)]
    contents: list[str] = []
    for title, (about, modules) in GROUPS.items():
        names = _names_in(modules, shown)
        contents.append(f"- [{title}]({anchor(title)}): {', '.join(f'[{name}]({anchor(name)})' for name in names)}")
        parts += [f"## {title}\n", f"{about}\n"]
        parts += [part for name in names for part in _section(name, shown.pop(name), definitions)]
    if shown:
        raise LookupError(f"Messages without a group in {__file__}: {', '.join(shown)}")
    return "\n".join([parts[0], *contents, "", *parts[1:]])


def _names_in(modules: tuple[str, ...], shown: Mapping[str, Json]) -> list[str]:
    """The messages of these modules: first those that are sent on their own, then their parts, as in the source."""
    names: list[str] = []
    for module in modules:
        place = f"accord.{module}"
        members = vars(import_module(place)).items()
        names += [name for name, each in members if name in shown and getattr(each, "__module__", "") == place]
    whole = [model.__name__ for model in MESSAGES]
    return sorted(names, key=lambda name: whole.index(name) if name in whole else len(whole))


def _section(name: str, schema: Json, definitions: Mapping[str, Json]) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{_prose(schema.get('description', ''))}\n"
    if "oneOf" in schema:
        tag = schema["discriminator"]["propertyName"]
        kinds = {value: reference.rpartition("/")[2] for value, reference in schema["discriminator"]["mapping"].items()}
        rows = ([code(value), f"[{kind}]({anchor(kind)})"] for value, kind in kinds.items())
        yield table([f"`{tag}`", "message"], rows)
    elif "enum" in schema:
        yield f"One of {', '.join(code(each) for each in schema['enum'])}.\n"
    elif "properties" in schema:
        required = set(schema.get("required", ()))
        rows = (
            [code(field), type_text(each, definitions), _default(field, each, required), each.get("description", "")]
            for field, each in schema["properties"].items()
        )
        yield table(["field", "type", "default", "description"], rows)
        if schema.get("additionalProperties") is False:
            yield "An unknown field is an error.\n"
    else:
        yield f"Its JSON: {type_text(schema, definitions)}.\n"
    yield from examples_of(name)


def _default(field: str, schema: Json, required: set[str]) -> str:
    if field in required:
        return "required"
    default = schema.get("default")
    return "" if default is None else code(json.dumps(default))


def examples_of(name: str) -> Iterator[str]:
    """The golden files of a message, each after its name."""
    for file, model in EXAMPLES.items():
        if model.__name__ == name:
            yield f"`{file}.json`:\n"
            yield f"```json\n{(GOLDEN / f'{file}.json').read_text(encoding='utf-8').strip()}\n```\n"


def _prose(docstring: str) -> str:
    """A docstring as paragraphs."""
    return "\n\n".join(" ".join(each.split()) for each in docstring.split("\n\n"))
