"""The ground every message stands on: how it is read, how it is written, how a union is told apart.

It decides the house's JSON manners (no NaN in, no NaN out, absent optionals left out) and must not know any
particular message. Reading has two doors with one rule: pydantic's `model_validate_json`, which raises
pydantic's error for pydantic's users, and `parse`, which raises ours for everything that a peer sends.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, Self, Union

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, PydanticSerializationError

from accord.errors import InvalidMessageError, NotSerialisableError, Problem

MAX_PROBLEMS_TOLD: Final = 20
MAX_FIELD_CHARS: Final = 120

_QUOTED = re.compile(r"'([^']*)'")


class Message(BaseModel, frozen=True):
    """A frozen message that ignores what it does not know and is built on first use (imports stay cheap)."""

    model_config = ConfigDict(extra="ignore", defer_build=True, ser_json_inf_nan="constants")

    @classmethod
    def parse(cls, raw: bytes | str) -> Self:
        """The message in these bytes; raises `InvalidMessageError` naming each field and what was expected."""
        try:
            return cls.model_validate_json(raw)
        except ValidationError as error:
            raise invalid_message(cls.__name__, error) from None

    @classmethod
    def model_validate_json(
        cls,
        json_data: str | bytes | bytearray,
        *,
        strict: bool | None = None,
        extra: Literal["allow", "ignore", "forbid"] | None = None,
        context: Any = None,
        by_alias: bool | None = None,
        by_name: bool | None = None,
    ) -> Self:
        """The message in this JSON text, as pydantic reads it, except that NaN and Infinity are not JSON."""
        if isinstance(json_data, str):
            if "NaN" in json_data or "Infinity" in json_data:
                _refuse_constants(cls.__name__, json_data)
        elif b"NaN" in json_data or b"Infinity" in json_data:
            _refuse_constants(cls.__name__, json_data)
        return cls.__pydantic_validator__.validate_json(
            json_data, strict=strict, extra=extra, context=context, by_alias=by_alias, by_name=by_name
        )

    def to_json(self) -> str:
        """The message as JSON text, without its absent optional fields."""
        try:
            text = self.__pydantic_serializer__.to_json(self, exclude_none=True, by_alias=True).decode()
        except PydanticSerializationError as error:
            msg = f"A {type(self).__name__} holds what JSON cannot carry: {error}"
            raise NotSerialisableError(msg) from None
        if "NaN" in text or "Infinity" in text:
            _refuse_to_send_constants(type(self).__name__, text)
        return text

    def dump(self) -> dict[str, Any]:
        """The message as plain JSON values, without its absent optional fields."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)


class Tagged(Message, frozen=True):
    """A message whose kind is told by one field. Calling the base builds the kind that the tag names.

    The base class stands for the union: it validates, nests and documents as pydantic's compiled tagged union
    of the kinds given to `seal`.
    """

    tag: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, type["Tagged"]]] = {}

    def __new__(cls, *_: object, **fields: object) -> Self:
        """An empty instance of the kind that the tag names, for `__init__` to fill."""
        kind = cls
        if "kinds" in cls.__dict__ and isinstance(named := fields.get(cls.tag), str):
            kind = cls.kinds.get(named, cls)
        return super().__new__(kind)  # pyright: ignore[reportReturnType, reportArgumentType]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if "kinds" not in cls.__dict__:
            return handler(source)
        union = Union[tuple(cls.kinds.values())]  # noqa: UP007 - the members are known at run time only
        return handler.generate_schema(Annotated[union, Field(discriminator=cls.tag)])


def seal(base: type[Tagged], tag: str, kinds: Mapping[str, type[Tagged]]) -> None:
    """Close a union: from here on `base` stands for exactly these kinds."""
    base.tag = tag
    base.kinds = dict(kinds)
    base.model_rebuild(force=True)


def invalid_message(name: str, error: ValidationError) -> InvalidMessageError:
    """Our error for pydantic's: the same findings, never the peer's own data."""
    found = error.errors(include_url=False, include_input=False)
    return InvalidMessageError(name, [_problem(details) for details in found[:MAX_PROBLEMS_TOLD]])


def _problem(details: ErrorDetails) -> Problem:
    path = ".".join(str(part) for part in details["loc"]) or "(the message)"
    if len(path) > MAX_FIELD_CHARS:
        path = path[:MAX_FIELD_CHARS] + "…"
    return Problem(field=path, expected=_expected(details))


def _expected(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    if details["type"] == "union_tag_invalid":
        # pydantic quotes the tag that was sent; only the ones that would have been taken are told.
        return f"{context['discriminator']} should be one of {', '.join(_QUOTED.findall(context['expected_tags']))}"
    if details["type"] == "union_tag_not_found":
        return f"{context['discriminator']} is missing"
    return details["msg"]


class _ConstantFoundError(Exception):
    """Carries the first NaN or Infinity out of the standard parser."""


def _refuse_constants(name: str, raw: str | bytes | bytearray) -> None:
    if constant := _constant_in(raw):
        told = PydanticCustomError("json_number", "Numbers should be finite: {constant} is not JSON", {"constant": constant})
        raise ValidationError.from_exception_data(name, [{"type": told, "input": None}], "json", hide_input=True)


def _refuse_to_send_constants(name: str, text: str) -> None:
    if constant := _constant_in(text):
        msg = f"A {name} holds {constant}, which JSON cannot carry"
        raise NotSerialisableError(msg)


def _constant_in(raw: str | bytes | bytearray) -> str | None:
    """The first NaN or Infinity that stands outside of a string."""

    def found(constant: str) -> NoReturn:
        raise _ConstantFoundError(constant)

    try:
        json.loads(raw, parse_constant=found)
    except _ConstantFoundError as constant:
        return str(constant)
    except (ValueError, RecursionError):
        return None  # not JSON at all: the compiled parser says so better
    return None
