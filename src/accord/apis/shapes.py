"""Check the shapes of a request's members by hand, with an error that names the field. Pure.

Messages never quote what was sent: they say which field, what was expected, and what kind of value came.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.apis.codec import invalid_member
from accord.errors import RefusedError

_KINDS: Final[Mapping[type, str]] = MappingProxyType(
    {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
)


def invalid_field(field: str, expected: str, value: Any) -> RefusedError:
    """The error for a field whose value is not what the API takes."""
    actual = "nothing" if value is None else _KINDS.get(cast("type[object]", type(value)), "another value")
    return invalid_member(field, f"{expected}, got {actual}")


def as_object(value: Any, field: str) -> dict[str, Any]:
    """The value as an object."""
    if not isinstance(value, dict):
        raise invalid_field(field, "an object", value)
    return cast("dict[str, Any]", value)


def as_list(value: Any, field: str, expected: str = "a list") -> list[Any]:
    """The value as a list."""
    if not isinstance(value, list):
        raise invalid_field(field, expected, value)
    return cast("list[Any]", value)


def as_text(value: Any, field: str) -> str:
    """The value as text."""
    if not isinstance(value, str):
        raise invalid_field(field, "text", value)
    return value


def as_name(value: Any, field: str) -> str:
    """The value as text that is not empty."""
    if not value or not isinstance(value, str):
        raise invalid_field(field, "text that is not empty", value)
    return value


def as_flag(value: Any, field: str) -> bool:
    """The value as a boolean."""
    if not isinstance(value, bool):
        raise invalid_field(field, "true or false", value)
    return value


def as_number(value: Any, field: str) -> float:
    """The value as a number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise invalid_field(field, "a number", value)
    return value


def as_whole_number(value: Any, field: str, *, least: int | None = None, most: int | None = None) -> int:
    """The value as a whole number within these limits."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or (least is not None and value < least)
        or (most is not None and value > most)
    ):
        limits = (("least", least), ("most", most))
        bounds = " and ".join(f"at {name} {limit}" for name, limit in limits if limit is not None)
        raise invalid_field(field, f"a whole number of {bounds}" if bounds else "a whole number", value)
    return value
