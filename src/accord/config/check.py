"""Says what is wrong with a configuration in the operator's words: unknown keys, secrets, values of the wrong kind.

Finds keys and sentences; where they stand is not known here. No sentence repeats a value, which may be a secret.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from accord.config.locate import KeyPath
from accord.config.model import (
    BackendConfig,
    Config,
    EmulationChoices,
    LimitsConfig,
    OidcConfig,
    ServerConfig,
    StoreConfig,
)
from accord.core.vocabulary import check_name, closest
from accord.wire.emulation import EmulationStrategy

ANY: Final = "*"

TABLES: Final[Mapping[KeyPath, type[BaseModel]]] = {
    (): Config,
    ("backends", ANY): BackendConfig,
    ("emulation",): EmulationChoices,
    ("limits",): LimitsConfig,
    ("server",): ServerConfig,
    ("server", "oidc"): OidcConfig,
    ("store",): StoreConfig,
}
"""Which keys are known in which table."""

STRATEGIES: Final[KeyPath] = ("emulation", "strategies", ANY)
OVERRIDES: Final[KeyPath] = ("backends", ANY, "overrides", ANY)
CAPABILITIES: Final[tuple[KeyPath, ...]] = (OVERRIDES, STRATEGIES)
"""Keys that are names of capabilities."""
LEVELS: Final = 'expected "native", "emulated", "unsupported" or { restricted = { reason = "…" } }'

SECRET_WORDS: Final = frozenset(
    "key api_key apikey api-key access_key secret_key secret token access_token auth_token bearer_token password "
    "passwd authorization x-api-key x-goog-api-key credentials".split()
)
NAMES_VARIABLES: Final = "header_env"
"""An option in which every value is the name of a variable, as that of `key_env` is."""
KEY_ADVICE: Final = (
    "secrets do not stand in the file: put it in an environment variable and name that variable in key_env"
)
URL_ADVICE: Final = (
    "the address may hold a password: put it in an environment variable and name that variable in url_env"
)

SENTENCES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "missing": lambda _: "is missing",
    "enum": lambda context: f"expected one of {_words(context['expected'])}",
    "literal_error": lambda context: f"expected one of {_words(context['expected'])}",
    "int_type": lambda _: "expected a whole number",
    "float_type": lambda _: "expected a number",
    "finite_number": lambda _: "expected a finite number",
    "bool_type": lambda _: "expected true or false",
    "string_type": lambda _: "expected text",
    "string_too_short": lambda _: "expected text that is not empty",
    "string_too_long": lambda context: f"expected a name of at most {context['max_length']} characters",
    "string_pattern_mismatch": lambda _: "expected a snake_case name",
    "greater_than": lambda context: f"expected a number greater than {context['gt']:g}",
    "greater_than_equal": lambda context: f"expected a number of at least {context['ge']:g}",
    "less_than_equal": lambda context: f"expected a number of at most {context['le']:g}",
    "dict_type": lambda _: "expected a table",
    "model_type": lambda _: "expected a table",
    "model_attributes_type": lambda _: "expected a table",
    "list_type": lambda _: "expected an array of tables, [[…]]",
    "union_tag_invalid": lambda context: f"expected a type that is one of {_words(context['expected_tags'])}",
    "union_tag_not_found": lambda _: f"expected a type that is one of {', '.join(EmulationStrategy.kinds)}",
}
"""pydantic's findings in the operator's words; a validator of ours brings its own."""


def stray_keys(data: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Every key that nobody reads, with the one that was probably meant, and every secret."""
    return list(_strays(data, ()))


def _strays(table: Mapping[str, Any], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    known = _known(path, table)
    for key, value in table.items():
        place = (*path, key)
        if advice := _secret(place, value):
            yield place, advice
        elif known is not None and key not in known:
            yield place, _unknown(key, known)
        elif misspelled := _misspelled(place):
            yield place, misspelled
        else:
            for inner_place, inner in _tables(place, value):
                yield from _strays(inner, inner_place)


def _tables(place: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    if isinstance(value, dict):
        yield place, cast("dict[str, Any]", value)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _tables((*place, index), item)


def _known(path: KeyPath, table: Mapping[str, Any]) -> list[str] | None:
    """The keys of a table, or None where any will do."""
    if _fits(path, STRATEGIES):
        kind = EmulationStrategy.kinds.get(str(table.get("type")))
        return None if kind is None else list(kind.model_fields)
    model = next((model for pattern, model in TABLES.items() if _fits(path, pattern)), None)
    return None if model is None else list(model.model_fields)


def _fits(path: KeyPath, pattern: KeyPath) -> bool:
    return len(path) == len(pattern) and all(wanted in (ANY, part) for part, wanted in zip(path, pattern, strict=True))


def _misspelled(place: KeyPath) -> str | None:
    """What capability was meant, if this key should be one and nearly is."""
    if not any(_fits(place, pattern) for pattern in CAPABILITIES):
        return None
    unknown = check_name(str(place[-1]))
    return str(unknown) if unknown and unknown.is_misspelling else None


def _unknown(key: str, known: list[str]) -> str:
    near = closest(key, known)
    return f"unknown key; did you mean {near}?" if near else f"unknown key; known here are {', '.join(known)}"


def _secret(place: KeyPath, value: Any) -> str | None:
    """Why this may not stand in the file, if it holds a secret."""
    word = str(place[-1]).lower()
    by_variable = NAMES_VARIABLES in place
    if place[:1] == ("backends",) and word in SECRET_WORDS and isinstance(value, str) and not by_variable:
        return KEY_ADVICE
    if place[:1] == ("store",) and (word in SECRET_WORDS or word in ("url", "dsn")):
        return URL_ADVICE
    return None


def mistakes_of(error: ValidationError, data: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """What pydantic found, as keys of the file and sentences, one for each key."""
    told: dict[KeyPath, str] = {}
    for details in error.errors(include_url=False, include_input=False):
        if details["type"] == "extra_forbidden":
            continue  # told by `stray_keys`, with what was meant
        path = _path(details, data)
        if _fits(path[: len(OVERRIDES)], OVERRIDES):
            told[path[: len(OVERRIDES)]] = LEVELS  # pydantic would tell what each member of the union misses
        else:
            told.setdefault(path, _sentence(details))
    return list(told.items())


def _path(details: ErrorDetails, data: Any) -> KeyPath:
    """The key as it stands in the file: without the names of union members that pydantic puts in between."""
    parts = [*details["loc"], *_named(details)]
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


def _named(details: ErrorDetails) -> list[str | int]:
    at = details.get("ctx", {}).get("at")
    return [int(part) if part.isdigit() else part for part in at.split(".")] if at else []


def _sentence(details: ErrorDetails) -> str:
    sentence = SENTENCES.get(details["type"])
    return sentence(details.get("ctx", {})) if sentence else details["msg"]


def _words(quoted: str) -> str:
    return quoted.replace("'", "").replace(" or ", ", ")
