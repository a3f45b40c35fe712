"""docs/reference/settings.md: every key of accord.toml, from the models of `accord.config`."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel
from scripts.docs.commands import options_of
from scripts.docs.markdown import code, first_paragraph, head, table
from scripts.docs.messages import definitions_of_messages
from scripts.docs.schema_text import type_text
from scripts.docs.source import attribute_texts

from accord.config.check import ANY, TABLES
from accord.config.model import KEY_PREFIX, QUEUE_URL_VARIABLE, STORE_URL_VARIABLE, Config
from accord.config.read import CONFIG_VARIABLE, VARIABLES
from accord.config.trust import STATE_VARIABLE

FLAGS: Final[Mapping[tuple[str, ...], tuple[str, str]]] = {
    ("server", "host"): ("serve", "--host"),
    ("server", "port"): ("serve", "--port"),
    ("server", "workers"): ("serve", "--workers"),
    ("store", "kind"): ("serve", "--store"),
    ("store", "path"): ("serve", "--store"),
    ("queue", "kind"): ("serve", "--queue"),
    ("queue", "turns"): ("worker", "--turns"),
}
"""The option that overrides a key, and a command that has it."""

OTHER_VARIABLES: Final[Mapping[str, str]] = {
    CONFIG_VARIABLE: "The configuration to read if no `--config` is given.",
    STATE_VARIABLE: "The folder of the session store and of what is trusted, instead of the user's state folder.",
    STORE_URL_VARIABLE: "The address of PostgreSQL, unless `store.url_env` names another variable.",
    QUEUE_URL_VARIABLE: "The address of NATS, unless `queue.url_env` names another variable.",
    f"{KEY_PREFIX}<BACKEND>": "The key of a backend, whose name is in capitals with `_` for other characters than "
    "letters and digits; it counts before `key_env`.",
}

INTRODUCTION: Final = """
Every key of `accord.toml`. [configuration.md](../configuration.md) is the guide: which file is read, trust, groups of
backends, limits, reload. `accord config init` writes a file with all keys and their defaults as comments;
`accord config check` says what is in effect and where each value came from.

A variable overrides the file, and an option overrides both. An unknown key is an error. Seconds may have fractions.
"""


def page() -> str:
    """The whole page."""
    for command, option in FLAGS.values():
        if option not in options_of(command):
            raise LookupError(f"accord {command} has no {option}: correct FLAGS in {__file__}")
    schema = Config.model_json_schema()
    definitions = {**definitions_of_messages(), **schema["$defs"], "Config": schema}
    parts = [head("Settings", "src/accord/config/", INTRODUCTION)]
    for path, model in TABLES.items():
        parts.append(f"## {_title(path)}\n")
        if path:
            parts.append(f"{first_paragraph(model.__doc__).partition('. ')[0].removesuffix('.')}.\n")
        rows = _rows(path, model, definitions)
        parts.append(table(["key", "type", "default", "variable", "option", "description"], rows))
    variables = ([code(name), text] for name, text in OTHER_VARIABLES.items())
    parts += ["## Other variables\n", table(["variable", "description"], variables)]
    return "\n".join(parts)


def _title(path: tuple[str | int, ...]) -> str:
    if not path:
        return "Top level"
    names = [str(part) for part in path]
    if names[:2] == ["backends", ANY]:
        rest = names[2:]
        return f"[backends.{'.'.join(rest)}]" if rest else "[[backends]]"
    return f"[{'.'.join('NAME' if part == ANY else part for part in names)}]"


def _rows(path: tuple[str | int, ...], model: type[BaseModel], definitions: Mapping[str, Any]) -> Iterator[list[str]]:
    texts = attribute_texts(model)
    schema = definitions[model.__name__]
    variables = {key: name for name, (key, _, _) in VARIABLES.items()}
    tables = {str(below[len(path)]) for below in TABLES if len(below) > len(path) and below[: len(path)] == path}
    for key, each in schema["properties"].items():
        if key in tables:
            continue  # it has a section of its own
        full = (*map(str, path), key)
        option, variable = FLAGS.get(full, ("", ""))[1], variables.get(full, "")
        yield [
            code(key),
            type_text(each, definitions, "messages.md"),
            "required" if key in schema.get("required", ()) else _default(each),
            code(variable) if variable else "",
            code(option) if option else "",
            re.sub(r"docs/(\w+\.md)", r"[\1](../\1)", texts[key]),
        ]


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else code(json.dumps(default))
