"""The manners that ACP messages share: camelCase outside, snake_case inside, lenient where the protocol is."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from accord.wire.message import FreeObject, FreeValue, Message, Tagged

_MANNERS = ConfigDict(
    extra="allow",
    alias_generator=to_camel,
    validate_by_alias=True,
    validate_by_name=True,
    serialize_by_alias=True,
)


class AbsentIfMalformed:
    """Reads a malformed optional field as if it were absent (the schema's `x-deserialize-default-on-error`)."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), default=None, on_error="default")


class AcpMessage(Message, frozen=True):
    """A message or a part of one; keeps what it does not know."""

    model_config = _MANNERS
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    meta: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(default=None, alias="_meta")


class AcpTagged(Tagged, frozen=True):
    """A part that is told apart by one field; keeps what it does not know."""

    model_config = _MANNERS
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    meta: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(default=None, alias="_meta")
