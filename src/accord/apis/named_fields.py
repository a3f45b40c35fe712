"""Find the fields of a request that an endpoint's error names, so that it can be repeated without them. Pure.

Most servers name the field only in a sentence, and proxies pass on the sentences of others; so one table of sentences
serves every API. Names are in the notation of `core/work/field_table.py`: `tools[].function.strict`, in small letters
with underscores, without the table that holds all settings of a request (Gemini's `generation_config`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

MAX_READ_CHARS: Final = 4_000
MAX_FIELDS: Final = 16

_Q: Final = r"\\*['\"`]"
_NAME: Final = r"[A-Za-z_$][\w$.\[\]-]{0,120}"
_NAMES: Final = rf"{_Q}?{_NAME}{_Q}?(?:,\s*{_Q}?{_NAME}{_Q}?)*"

SENTENCES: Final[Sequence[re.Pattern[str]]] = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        # pydantic's errors as Python or JSON in a sentence (vLLM, Mistral, whatever stands behind FastAPI)
        (rf"{_Q}loc{_Q}:\s*[(\[](?P<names>[^)\]]{{0,300}})[)\]]", 0),
        (r"validation errors? for \w+\s+(?P<name>[a-z_][\w.]{0,120})\s", 0),
        # Google
        (rf"Unknown name {_Q}(?P<name>{_NAME}?){_Q}(?: at {_Q}(?P<at>[\w.\[\]]+){_Q})?", 0),
        (rf"Invalid value at {_Q}(?P<name>{_NAME}?){_Q}", 0),
        (r"GenerateContentRequest\.(?P<name>[\w.\[\]]+):", 0),
        (r"has an? (?P<name>[A-Za-z_]{1,60}) value of", 0),
        # OpenAI and Azure, llama.cpp, zod
        (
            (
                r"(?:unsupported|unknown|unrecognized) (?:request )?(?:parameter|param|argument|value|key)"
                rf"(?:s|\(s\))?(?: supplied| in object)?:\s*(?P<names>{_NAMES})"
            ),
            re.IGNORECASE,
        ),
        (rf"Invalid (?:type|value) for {_Q}(?P<name>{_NAME}?){_Q}", 0),
        (rf"Additional properties are not allowed \((?P<names>{_NAMES}) (?:was|were) unexpected", 0),
        # Groq, Fireworks, Anthropic, Bedrock, xAI, LiteLLM
        (rf"property {_Q}(?P<name>{_NAME}?){_Q} is unsupported", 0),
        (rf"Extra inputs are not permitted, field: {_Q}(?P<name>{_NAME}?){_Q}", 0),
        (r"(?P<name>[A-Za-z_][\w.]{0,120}): Extra inputs are not permitted", 0),
        (r"extraneous key \[(?P<name>[^\]]*)\]", 0),
        (rf"does not support (?:the )?parameters?:? \[?(?P<names>{_NAMES})", 0),
        (rf"Argument not supported on this model: (?P<name>{_NAME})", 0),
        # decoders of Rust and Go, Cohere
        (rf"unknown field:? (?:parameter )?{_Q}(?P<name>{_NAME}?){_Q}", 0),
        # any server
        (rf"{_Q}(?P<name>{_NAME}?){_Q} (?:parameter )?(?:is|are) (?:not supported|unsupported|deprecated)", 0),
        (r"\b(?P<name>[a-z]{1,40}_[a-z_]{1,80}) (?:parameter )?(?:is|are) (?:not supported|unsupported|deprecated)", 0),
    )
)
"""The first sentence that occurs counts, with every field that it names, as often as it occurs."""

LEADING: Final = re.compile(r"`?(?P<name>[a-z_][a-z0-9_.]*)(?:`(?: |:)|: )")
"""A field at the very beginning, as Anthropic names it: "max_tokens: …", "`temperature` may only be …"."""

_PREFIXES: Final = frozenset({"body", "generation_config"})
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ROLE: Final = re.compile(r"\[\w+\]")
_SEGMENT: Final = re.compile(r"[A-Za-z_$][\w$]{0,63}")


def named_fields(
    message: str,
    *,
    param: str | None = None,
    locations: Iterable[Sequence[Any]] = (),
    leading: bool = False,
) -> tuple[str, ...]:
    """Return the fields that an error names: as its `param`, in pydantic's locations, or in its sentence.

    With `leading`, a name at the beginning of the message counts, too.
    """
    names = [field_name(re.split(r"[.\[\]]+", param or "")), *map(field_name, locations)]
    fields = _unique(names) or _unique(_in_sentence(message[:MAX_READ_CHARS]))
    if not fields and leading and (begins := LEADING.match(message)):
        fields = _unique([field_name(begins["name"].split("."))])
    return fields


def path_of(name: str) -> str:
    """Return how endpoints name the field of a row, which may be for one role only, as in `messages[assistant]`."""
    return _ROLE.sub("[]", name)


def field_name(path: Sequence[Any]) -> str:
    """Return the name of the field at this path of keys and indexes; empty if there is none."""
    name = ""
    for part in path:
        segment = str(part).strip()
        if segment.isdecimal():
            name += "[]" if name and not name.endswith("[]") else ""
        # pydantic puts its own words between, such as "typed-dict"
        elif _SEGMENT.fullmatch(segment):
            name += f".{snake}" if (snake := _HUMP.sub("_", segment).lower()) and name else snake
            name = "" if name in _PREFIXES else name
    return name


def pydantic_locations(value: Any) -> list[Sequence[Any]]:
    """Return the `loc` of each problem in a body of FastAPI, wherever the server put the list."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        tables = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]
        return [cast("list[Any]", table["loc"]) for table in tables if isinstance(table.get("loc"), list)]
    if not isinstance(value, dict):
        return []
    body = cast("Mapping[str, Any]", value)
    # Not recursive without a limit: a body may be nested as deeply as its sender likes.
    for inner in (body.get("detail"), body.get("message"), body.get("error")):
        detail = cast("Mapping[str, Any]", inner).get("detail") if isinstance(inner, dict) else inner
        if isinstance(detail, list) and (locations := pydantic_locations(cast("Any", detail))):
            return locations
    return []


def _in_sentence(message: str) -> list[str]:
    for sentence in SENTENCES:
        names: list[str] = []
        for match in sentence.finditer(message):
            parts = match.groupdict()
            if parts.get("names") is not None:
                words = [word.strip(" \\'\"`.") for word in parts["names"].split(",")]
                is_path = sentence is SENTENCES[0]
                names += [field_name(words)] if is_path else [field_name(_split(word)) for word in words]
            else:
                at, name = _split(parts.get("at") or ""), _split(parts["name"])
                names.append(field_name(at if at[-1:] == name else [*at, *name]))
        if any(names):
            return names
    return []


def _split(path: str) -> list[str]:
    return [part for part in re.split(r"[.\[\]]+", path) if part]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))[:MAX_FIELDS]
