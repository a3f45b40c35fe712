"""What ACP messages share: camelCase outside, snake_case inside, and how malformed or unknown values are read."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, StrictBool, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from accord.wire.message import FreeObject, FreeValue, Message, Tagged

_CONFIG = ConfigDict(
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
    """A message or a part of one; unknown members are kept."""

    model_config = _CONFIG
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    meta: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, alias="_meta", description="Additional members of a client or an agent, which are passed on."
    )


class AcpTagged(Tagged, frozen=True):
    """A tagged union; unknown members are kept."""

    model_config = _CONFIG
    __pydantic_extra__: dict[str, FreeValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    meta: Annotated[FreeObject | None, AbsentIfMalformed()] = Field(
        default=None, alias="_meta", description="Additional members of a client or an agent, which are passed on."
    )


# The schema marks where a malformed part counts as its default and where a malformed item is skipped; the types below
# implement those marks. Unions are open: an unknown kind is kept whole, while an error in a known kind is reported for
# that kind. Known kinds are read in compiled code.

T = TypeVar("T")
WordT = TypeVar("WordT")


class DefaultIfMalformed:
    """Reads a malformed part as the result of `make` (`x-deserialize-default-on-error`, where that is not null)."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make: Final = make

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(
            handler(source), default_factory=self._make, default_factory_takes_data=False, on_error="default"
        )


class EmptyIfMalformed:
    """Reads a malformed list as an empty one; an absent list is still an error."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        listed = core_schema.with_default_schema(handler(source), default_factory=list, on_error="default")
        # A default at the top level would also be used for an absent field; one level down it is not.
        return core_schema.lax_or_strict_schema(listed, listed)


class SkipIfMalformed:
    """Leaves a malformed item out of its list (the schema's `x-deserialize-skip-invalid-items`)."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), on_error="omit")


Flag = Annotated[StrictBool, DefaultIfMalformed(bool)]
"""True or false; everything else ("true", 1, {}, null) is false."""

ListOrAbsent = Annotated[list[Annotated[T, SkipIfMalformed()]] | None, AbsentIfMalformed()]
"""An optional list: absent if it is no list, without its malformed items if it is."""

ListOrEmpty = Annotated[list[Annotated[T, SkipIfMalformed()]], EmptyIfMalformed()]
"""A required list: empty if it is no list, without its malformed items if it is."""

NullIsEmpty = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]
"""A list whose items must be valid; null counts as empty (`x-deserialize-default-on-null`)."""

Open = Annotated[WordT | str, Field(union_mode="left_to_right")]
"""A word of an open vocabulary: known, or any other text."""

LenientStr = Annotated[str | None, AbsentIfMalformed()]
"""An optional text."""

Count = Annotated[int, Field(strict=True, ge=0)]
"""A whole number from 0; never text that looks like one."""

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A number that JSON has."""


class Supported(AcpMessage, frozen=True):
    """An object whose presence declares support: `{}` is enough, and its members are kept."""


Declared = Annotated[Supported | None, AbsentIfMalformed()]
"""A capability that `{}` declares; null and malformed values mean unsupported."""


def known_or_other(known: CoreSchema, other: CoreSchema, tag: str, kinds: Mapping[str, Any]) -> CoreSchema:
    """Make a union that reads the known kinds in compiled code and keeps others whole."""
    label = to_camel(tag)

    def named(value: Any) -> Any:
        if isinstance(value, Mapping):
            return value.get(label, value.get(tag))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return getattr(value, tag, None)

    def read(value: Any, keep: core_schema.ValidatorFunctionWrapHandler) -> Any:
        # Reached only when no known kind could be read. An error without lines leaves exactly those of the known kind.
        kind = named(value)
        if not isinstance(kind, str) or kind in kinds:
            raise ValidationError.from_exception_data("known kind", [])
        return keep(value)

    fallback = core_schema.no_info_wrap_validator_function(read, other)
    # The value already has its kind; trying one kind after the other would cost several times as much.
    written = core_schema.simple_ser_schema("any")
    return core_schema.union_schema([(known, label), fallback], mode="left_to_right", serialization=written)


class OpenTagged(AcpTagged, frozen=True):
    """A tagged union that is open to unknown kinds."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        known = super().__get_pydantic_core_schema__(source, handler)
        other = cls.__dict__.get("other")
        if other is None:
            return known
        return known_or_other(known, handler.generate_schema(other), cls.tag, cls.kinds)
