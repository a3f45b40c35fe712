"""Explain what is wrong with a configuration: unknown keys, secrets, values of the wrong type.

Gives key paths and messages; `read.py` adds the lines. No message repeats a value, since it may be a secret.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from accord.config.locate import KeyPath
from accord.config.model import (
    BackendConfig,
    CircuitConfig,
    Config,
    EmulationChoices,
    GroupConfig,
    LimitsConfig,
    OidcConfig,
    PriceConfig,
    QueueConfig,
    ServerConfig,
    StoreConfig,
)
from accord.core.vocabulary import check_name, closest
from accord.wire.capability import CAPABILITY_NAME
from accord.wire.emulation import EmulationStrategy

ANY: Final = "*"
"""Matches any key or index of a path."""

TABLES: Final[Mapping[KeyPath, type[BaseModel]]] = {
    (): Config,
    ("backends", ANY): BackendConfig,
    ("groups", ANY): GroupConfig,
    ("circuit",): CircuitConfig,
    ("backends", ANY, "price"): PriceConfig,
    ("emulation",): EmulationChoices,
    ("limits",): LimitsConfig,
    ("server",): ServerConfig,
    ("server", "oidc"): OidcConfig,
    ("store",): StoreConfig,
    ("queue",): QueueConfig,
}
"""The model of each table: its fields are the known keys."""

STRATEGIES: Final[KeyPath] = ("emulation", "strategies", ANY)
OVERRIDES: Final[KeyPath] = ("backends", ANY, "overrides", ANY)
CAPABILITIES: Final[tuple[KeyPath, ...]] = (OVERRIDES, STRATEGIES)
"""Where keys are names of capabilities."""
LEVELS: Final = 'expected "native", "emulated", "unsupported" or { restricted = { reason = "…" } }'

SECRET_WORDS: Final = frozenset(
    "key api_key apikey api-key access_key secret_key secret token access_token auth_token bearer_token password "
    "passwd authorization x-api-key x-goog-api-key credentials".split()
)
NAMES_VARIABLES: Final = "header_env"
"""An option whose values are names of environment variables, as that of `key_env` is, and never secrets."""
KEY_ADVICE: Final = (
    "secrets do not belong in this file: put the key in an environment variable and name that variable in key_env"
)
URL_ADVICE: Final = (
    "the address may contain a password: put it in an environment variable and name that variable in url_env"
)

MESSAGES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "missing": lambda _: "is missing",
    "enum": lambda context: f"expected one of {_join_words(context['expected'])}",
    "literal_error": lambda context: f"expected one of {_join_words(context['expected'])}",
    "int_type": lambda _: "expected a whole number",
    "float_type": lambda _: "expected a number",
    "finite_number": lambda _: "expected a finite number",
    "bool_type": lambda _: "expected true or false",
    "string_type": lambda _: "expected text",
    "string_too_short": lambda _: "expected text that is not empty",
    "capability_name": lambda _: f"expected {CAPABILITY_NAME}",
    "greater_than": lambda context: f"expected a number greater than {context['gt']:g}",
    "greater_than_equal": lambda context: f"expected a number of at least {context['ge']:g}",
    "less_than_equal": lambda context: f"expected a number of at most {context['le']:g}",
    "dict_type": lambda _: "expected a table",
    "model_type": lambda _: "expected a table",
    "model_attributes_type": lambda _: "expected a table",
    "list_type": lambda _: "expected an array, [ … ]",
    "array_of_tables": lambda _: "expected an array of tables, [[…]]",
    "union_tag_invalid": lambda context: f"expected a type that is one of {_join_words(context['expected_tags'])}",
    "union_tag_not_found": lambda _: f"expected a type that is one of {', '.join(EmulationStrategy.kinds)}",
}
"""Our message for each type of pydantic error, and for `backends`; validators of `model.py` bring their own."""


def find_unknown_keys(data: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield every key that is not known, with a suggestion, and every secret that must not be in the file."""
    known = _known_keys(path, data)
    for key, value in data.items():
        place = (*path, key)
        if advice := _secret_advice(place, value):
            yield place, advice
        elif known is not None and key not in known:
            near = closest(key, known)
            yield place, f"unknown key; did you mean {near}?" if near else f"unknown key; use one of {', '.join(known)}"
        elif misspelled := _misspelled_capability(place):
            yield place, misspelled
        else:
            for inner_place, inner in _tables(place, value):
                yield from find_unknown_keys(inner, inner_place)


def _tables(place: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield the tables in a value: itself, or those of an array."""
    if isinstance(value, dict):
        yield place, cast("dict[str, Any]", value)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _tables((*place, index), item)


def _known_keys(path: KeyPath, table: Mapping[str, Any]) -> list[str] | None:
    """Return the keys that a table may have, or None where any key is allowed."""
    if _matches(path, STRATEGIES):
        model = EmulationStrategy.kinds.get(str(table.get("type")))
    else:
        model = next((model for pattern, model in TABLES.items() if _matches(path, pattern)), None)
    return None if model is None else list(model.model_fields)


def _matches(path: KeyPath, pattern: KeyPath) -> bool:
    return len(path) == len(pattern) and all(wanted in (ANY, part) for part, wanted in zip(path, pattern, strict=True))


def _misspelled_capability(place: KeyPath) -> str | None:
    """Suggest the capability that was meant, if this key is almost the name of one."""
    if not any(_matches(place, pattern) for pattern in CAPABILITIES):
        return None
    unknown = check_name(str(place[-1]))
    return str(unknown) if unknown and unknown.is_misspelling else None


def _secret_advice(place: KeyPath, value: Any) -> str | None:
    """Say what to do with this value if it is a secret."""
    word = str(place[-1]).lower()
    if place[0] == "backends" and word in SECRET_WORDS and isinstance(value, str) and NAMES_VARIABLES not in place:
        return KEY_ADVICE
    if place[0] in ("store", "queue") and (word in SECRET_WORDS or word in ("url", "dsn")):
        return URL_ADVICE
    return None


def explain_errors(error: ValidationError, data: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Return one message for each key that pydantic rejected."""
    messages: dict[KeyPath, str] = {}
    for details in error.errors(include_url=False, include_input=False):
        if details["type"] == "extra_forbidden":
            continue  # `find_unknown_keys` reports it, with a suggestion
        path = _path_in_file(details, data)
        if _matches(path[: len(OVERRIDES)], OVERRIDES):
            messages[path[: len(OVERRIDES)]] = LEVELS  # pydantic has an error for each member of the union
        else:
            is_backends = path == ("backends",) and details["type"] == "list_type"
            make = MESSAGES.get("array_of_tables" if is_backends else details["type"])
            messages.setdefault(path, make(details.get("ctx", {})) if make else details["msg"])
    return list(messages.items())


def _path_in_file(details: ErrorDetails, data: Any) -> KeyPath:
    """Return the key as it is in the file: without the names of union members that pydantic puts between."""
    at = details.get("ctx", {}).get("at")  # a validator of a whole table says which of its keys is wrong
    if isinstance(at, str):
        at = [int(part) if part.isdigit() else part for part in at.split(".")]
    parts = [*details["loc"], *(at or ())]
    path: KeyPath = ()
    for number, part in enumerate(parts, 1):
        inside: Any = data
        if isinstance(inside, dict) and part in inside:
            data = cast("dict[Any, Any]", inside)[part]
        elif isinstance(inside, list) and isinstance(part, int) and part < len(cast("list[Any]", inside)):
            data = cast("list[Any]", inside)[part]
        elif number < len(parts) or details["type"] != "missing":
            continue
        path = (*path, part)
    return path


def _join_words(quoted: str) -> str:
    return quoted.replace("'", "").replace(" or ", ", ")
