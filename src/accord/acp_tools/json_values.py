"""Read JSON of any shape: what does not have the expected type counts as empty."""

from typing import Any, Final, cast

Json = dict[str, Any]
_EMPTY: Final[Json] = {}


def as_object(value: object) -> Json:
    """The value if it is a JSON object; otherwise an empty one, which must not be changed."""
    return cast("Json", value) if isinstance(value, dict) else _EMPTY


def as_list(value: object) -> list[Any]:
    """The value if it is a list; otherwise an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is text; otherwise an empty text."""
    return value if isinstance(value, str) else ""
