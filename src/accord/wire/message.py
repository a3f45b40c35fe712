"""The base classes of every message: parsing, serialising, and tagged unions.

Free-form objects hold only JSON values, and absent optional members are left out. There are two ways to parse, with the
same rules: pydantic's `model_validate_json` raises pydantic's error, `parse` raises `InvalidMessageError`, which never
quotes the peer's data.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from math import isfinite
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, Union, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import (
    CoreSchema,
    ErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
    core_schema,
)

from accord.errors import InvalidMessageError, NotSerialisableError, Problem, UsageError

MAX_PROBLEMS: Final = 20
MAX_FIELD_CHARS: Final = 120

MAX_DEPTH: Final = 200

_QUOTED = re.compile(r"'([^']*)'")


def only_json(value: Any) -> Any:
    """Return the value if it is valid JSON: pydantic's parser accepts NaN and Infinity."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 2):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(cast("dict[Any, Any]", each).values())
            elif isinstance(each, list | tuple):
                inner.extend(cast("Iterable[Any]", each))
            elif isinstance(each, float) and not isfinite(each):
                raise PydanticCustomError("json_number", "Numbers should be finite: JSON has no NaN and no Infinity")
        if not inner:
            return value
        level = inner
    raise PydanticCustomError("json_depth", "Objects should not be nested more than {limit} deep", {"limit": MAX_DEPTH})


FreeObject = Annotated[dict[str, Any], AfterValidator(only_json)]
"""An object of any shape; every member is kept."""

FreeValue = Annotated[Any, AfterValidator(only_json)]
"""Any JSON value."""


class _InUtc:
    """Reads a time with its zone, from text or from a `datetime`, and converts it to UTC."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # pydantic takes the text of a number for seconds since 1970; here it is no time.
        dated = core_schema.str_schema(pattern="^[0-9]{4}-", strict=True)
        # UTC is read in compiled code alone; any other zone is then converted.
        utc, other = core_schema.datetime_schema(tz_constraint=0), core_schema.datetime_schema(tz_constraint="aware")
        converted = core_schema.no_info_after_validator_function(_to_utc, other)
        text = [core_schema.chain_schema([dated, utc]), core_schema.chain_schema([dated, converted])]
        moment = core_schema.chain_schema(
            [core_schema.is_instance_schema(datetime), core_schema.union_schema([utc, converted], mode="left_to_right")]
        )
        return core_schema.json_or_python_schema(
            json_schema=_explained(core_schema.union_schema([*text], mode="left_to_right")),
            python_schema=_explained(core_schema.union_schema([moment, *text], mode="left_to_right")),
            serialization=core_schema.simple_ser_schema("datetime"),
        )


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("utc_time", NO_TIME) from None


def _explained(schema: CoreSchema) -> CoreSchema:
    return core_schema.custom_error_schema(schema, custom_error_type="utc_time", custom_error_message=NO_TIME)


NO_TIME: Final = "Expected a time with its zone, such as 2023-10-27T10:00:00Z"

UtcTime = Annotated[datetime, _InUtc(), WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time. It must have a zone on input, and is written as UTC."""


class StrictTypes:
    """A model or dataclass whose text, numbers and booleans are not converted into each other."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        _refuse_conversions(handler.resolve_ref_schema(schema))
        return schema


class DeferredBuild(StrictTypes):
    """A model whose validator is built on first use, so that importing stays fast, and whose types are strict.

    pydantic's `defer_build` is set only while the class is made. If it stayed, every `TypeAdapter` of the class would
    be deferred as well, and FastAPI, which silences pydantic's warnings while it makes one, would show them.
    """

    model_config: ClassVar[ConfigDict]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # pydantic reads the setting from this dict after this call and before `__pydantic_init_subclass__`.
        if "model_config" in cls.__dict__:
            cls.model_config["defer_build"] = True

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.model_config["defer_build"] = False


def _refuse_conversions(node: Any) -> None:
    """Make text, numbers and booleans strict in this schema: none of them is read from another one.

    pydantic's own strict mode would also refuse the text of an enum, a UUID or a time, a tuple for a list and a dict
    for a model, if they come from Python.
    """
    if isinstance(node, list | tuple):
        for item in cast("Iterable[Any]", node):
            _refuse_conversions(item)
    elif isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        if schema.get("type") in ("str", "int", "float", "bool"):
            schema.setdefault("strict", True)
        for key, inner in schema.items():
            if key not in ("metadata", "serialization", "config"):
                _refuse_conversions(inner)


WIRE_FORM: Final = "wire form"
"""The context in which messages are serialised to be sent."""


class Message(DeferredBuild, BaseModel, frozen=True):
    """A frozen message that ignores unknown members."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def parse(cls, raw: bytes | str) -> Self:
        """Parse a message; raises `InvalidMessageError` naming each field and what was expected."""
        try:
            return cls.__pydantic_validator__.validate_json(raw)
        except ValidationError as error:
            raise invalid_message(cls.__name__, error) from None

    def to_json(self) -> str:
        """Serialise the message as JSON text, without absent optional fields."""
        try:
            return self.__pydantic_serializer__.to_json(self, exclude_none=True, context=WIRE_FORM).decode()
        except PydanticSerializationError as error:
            raise NotSerialisableError(f"A {type(self).__name__} holds a value that is not JSON: {error}") from None

    def dump(self) -> dict[str, Any]:
        """Convert the message to plain JSON values, without absent optional fields."""
        return self.__pydantic_serializer__.to_python(self, mode="json", exclude_none=True, context=WIRE_FORM)


class Value(StrictTypes):
    """The base of frozen dataclasses that are parts of messages: pydantic reads, writes and describes them there.

    Accord makes them without validation.
    """

    __slots__ = ()

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """Validate plain JSON values as those of a message are; raises pydantic's error."""
        return _adapter(cls).validate_python(value)

    def to_json(self) -> str:
        """Serialise the value as JSON text, without absent optional fields."""
        return _adapter(type(self)).dump_json(self, exclude_none=True, context=WIRE_FORM).decode()

    def dump(self) -> dict[str, Any]:
        """Convert the value to plain JSON values, without absent optional fields."""
        return _adapter(type(self)).dump_python(self, mode="json", exclude_none=True, context=WIRE_FORM)


_adapter: Final = cache(TypeAdapter[Any])


class SparseMessage(Message, frozen=True):
    """A message whose wire form, `to_json` and `dump`, leaves out the members in `sparse` that were not set.

    `model_dump` has every member; `model_fields_set` says which were set.
    """

    sparse: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _serialise(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo):
        fields: dict[str, Any] = handler(self)
        if info.context is WIRE_FORM:
            for name in self.sparse:
                # What was added to a list or an object since is written.
                if name not in self.model_fields_set and not (
                    isinstance(fields.get(name), list | dict) and fields[name]
                ):
                    fields.pop(name, None)
        return fields


class WrittenAsText:
    """Serialises an enum member as the text that it is; going through the enum costs four times as much."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return {**schema, "serialization": core_schema.simple_ser_schema("str")}  # pyright: ignore[reportReturnType]


class Tagged(Message, frozen=True):
    """The base of a tagged union: one field, the tag, names the kind. Calling the base builds that kind.

    As a type, the base is the union: it validates, nests and documents as pydantic's compiled tagged union of the kinds
    given to `close_union`.
    """

    tag: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, type["Tagged"]]] = {}
    other: ClassVar[type["Tagged"] | None] = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if "kinds" not in cls.__dict__:
            return super().__get_pydantic_core_schema__(source, handler)
        union = Union[tuple(cls.kinds.values())]  # noqa: UP007 - the members are known at run time only
        schema = handler.generate_schema(Annotated[union, Field(discriminator=cls.tag)])
        # The value already has its kind; letting the union search for it again costs several times as much.
        return {**schema, "serialization": core_schema.simple_ser_schema("any")}  # pyright: ignore[reportReturnType]

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the tag as required: its default is only for calls in Python, which name the kind already."""
        schema = handler(core_schema)
        if "kinds" not in cls.__dict__ and cls.tag:
            kind = handler.resolve_ref_schema(schema)
            tag = next(name for name in (to_camel(cls.tag), cls.tag) if name in kind["properties"])
            kind["properties"][tag].pop("default", None)
            kind["required"] = [tag, *(name for name in kind.get("required", []) if name != tag)]
        return schema


def close_union(
    base: type[Tagged], tag: str, kinds: Mapping[str, type[Tagged]], *, other: type[Tagged] | None = None
) -> None:
    """Define the kinds of a union, and the kind of unknown tags, `other`, if the union is open."""
    base.tag, base.kinds, base.other = tag, dict(kinds), other
    # Only calls on the base select a kind. The kinds get Python's own __new__ before the base gets `_new_kind`: if they
    # inherited that, every parsed message would cost a Python call.
    for kind in (*kinds.values(), *([other] if other else [])):
        kind.__new__ = object.__new__  # pyright: ignore[reportAttributeAccessIssue]
    base.__new__ = _new_kind  # pyright: ignore[reportAttributeAccessIssue]


def _new_kind(base: type[Tagged], **fields: object) -> Tagged:
    """Make an empty instance of the kind that the tag names; without one, of the base, whose validation fails."""
    named = fields.get(base.tag)
    return object.__new__(base.kinds.get(named, base.other or base) if isinstance(named, str) else base)


ModelT = TypeVar("ModelT", bound=BaseModel | Value)


def as_model(kind: type[ModelT], given: object, argument: str, example: str) -> ModelT:
    """Return the value if it is of this kind, else validate it as a dict.

    Raises `UsageError` for anything else, naming the argument and the expected form, and `InvalidMessageError` for a
    dict of another shape.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        kinds = f"{kind.__name__} or a dict such as {example}"
        raise UsageError(f"{argument}: expected {kinds}, not {type(given).__name__}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise invalid_message(kind.__name__, error) from None


def invalid_message(name: str, error: ValidationError) -> InvalidMessageError:
    """Convert pydantic's error: the same problems, without the peer's data."""
    found = error.errors(include_url=False, include_input=False)
    return InvalidMessageError(name, [_problem(details) for details in found[:MAX_PROBLEMS]])


def _problem(details: ErrorDetails) -> Problem:
    path = ".".join(str(part) for part in details["loc"]) or "(the message)"
    if len(path) > MAX_FIELD_CHARS:
        path = path[:MAX_FIELD_CHARS] + "…"
    return Problem(field=path, expected=_expected(details))


def _expected(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    if details["type"] == "union_tag_invalid":
        # pydantic quotes the tag that was sent; only the expected tags are named here.
        return f"'{_tag_name(context)}' should be one of {', '.join(_QUOTED.findall(context['expected_tags']))}"
    if details["type"] == "union_tag_not_found":
        return f"'{_tag_name(context)}' is missing"
    return details["msg"]


def _tag_name(context: Mapping[str, Any]) -> str:
    """Return the tag as it is spelled on the wire; pydantic lists all its aliases, that one last."""
    return _QUOTED.findall(context["discriminator"])[-1]
