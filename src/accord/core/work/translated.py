"""Write fields of one model API as another API has them, where no work order has a place for them. Pure.

`TRANSLATED` in `field_table.py` says which field goes where; this module says how its value is written there.
"""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.core.work.fields import OPENAI, ModelRequest, values_at
from accord.wire.disposition import Api

Json = dict[str, Any]

MAX_ID_CHARS: Final = 64
"""The longest id of a user that every endpoint of OpenAI's APIs takes."""
DEFAULT: Final = "default"
STANDARD: Final = "standard_only"
"""The tier without priority, in OpenAI's word and in Anthropic's."""
ONLY_RESPONSES: Final = frozenset({"comparison_response_id", "prewarm"})
"""Options of a cache that chat completions do not have."""


def translated_value(request: ModelRequest, name: str, kind: Api) -> Any:
    """The value of this field of the request, as a backend of this kind takes it."""
    value = (values_at(request.body, name) or values_at(request.body, name.rpartition(".")[0]))[0]
    write = _WRITERS.get(name) if kind is not request.api else None
    return value if write is None else write(value, kind)


def put_field(parameters: dict[str, Any], place: str, value: Any) -> None:
    """Put a value at its place among the parameters of an order; lists grow by it. Changes no value in them."""
    first, _, rest = place.partition(".")
    if not rest:
        parameters[first] = [*parameters.get(first, ()), *value] if isinstance(value, list) else value
        return
    inner = dict(cast("dict[str, Any]", parameters.get(first) or {}))
    put_field(inner, rest, value)
    parameters[first] = inner


def _user_id(value: Any, kind: Api) -> Any:
    is_long = isinstance(value, str) and len(value) > MAX_ID_CHARS and kind in OPENAI
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest() if is_long else value


def _tier(value: Any, kind: Api) -> Any:
    if value in (DEFAULT, STANDARD):
        return DEFAULT if kind in OPENAI else STANDARD
    return value


def _cache_options(value: Any, kind: Api) -> Any:
    if kind is not Api.CHAT or not isinstance(value, dict):
        return value
    return {name: option for name, option in cast("dict[str, Any]", value).items() if name not in ONLY_RESPONSES}


def _web_search(value: Any, kind: Api) -> list[dict[str, Any]]:  # noqa: ARG001 - as every writer
    """The options of a search as the tool that the responses API has for it."""
    options = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    location = options.get("user_location")
    if isinstance(location, dict) and isinstance(place := cast("Json", location).get("approximate"), dict):
        options["user_location"] = {"type": "approximate", **cast("Json", place)}
    return [{"type": "web_search", **options}]


_WRITERS: Final[Mapping[str, Callable[[Any, Api], Any]]] = MappingProxyType(
    {
        "metadata.user_id": _user_id,
        "prompt_cache_options": _cache_options,
        "service_tier": _tier,
        "service_tier.default": _tier,
        "web_search_options": _web_search,
    }
)
"""The fields whose values are written in another way than they came."""
