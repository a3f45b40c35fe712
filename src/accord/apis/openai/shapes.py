"""Check the shapes of a request's members by hand, with an error that names the field. Pure.

Messages never quote what was sent: they say which field, what was expected, and what kind of value came.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from accord.apis.codec import invalid_member
from accord.apis.openai.parts import split_data_url
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


def as_list(value: Any, field: str) -> list[Any]:
    """The value as a list."""
    if not isinstance(value, list):
        raise invalid_field(field, "a list", value)
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


def read_data_url(url: str, at: str) -> tuple[str, str]:
    """The media type and the base64 data of a data URL."""
    if (parts := split_data_url(url)) is None:
        raise invalid_field(at, "a data URL in base64, such as data:image/png;base64,…", url)
    return parts
