"""Values for every member of a type of an SDK, each of which is recognised wherever it comes out again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from inspect import isclass
from itertools import count
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel

FIRST_COUNT: Final = 7_000_000
"""Sampled numbers are higher than any that an answer has otherwise."""
MAX_DEPTH: Final = 12
PLAIN_VALUES: Final = frozenset(
    {"completed", "assistant", "stop", "end_turn", "default", "standard", "auto", "client", "text"}
)
"""Values that a sample avoids, since they say what is usual."""


def variants_of(annotation: Any) -> list[Any]:
    """The types that an annotation allows, without None."""
    if hasattr(annotation, "__value__"):
        return variants_of(annotation.__value__)
    if isinstance(annotation, TypeVar):
        return [str]
    origin = get_origin(annotation)
    if origin in {Union, UnionType}:
        each = [variant for part in get_args(annotation) for variant in variants_of(part)]
        return [variant for variant in dict.fromkeys(each) if variant is not NoneType]
    return variants_of(get_args(annotation)[0]) if hasattr(annotation, "__metadata__") else [annotation]


def is_model(variant: Any) -> bool:
    return isclass(variant) and issubclass(variant, BaseModel)


@cache
def members_of(model: type[BaseModel]) -> dict[str, Any]:
    """The members of a type by the names that they have in JSON, each with its annotation."""
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


@dataclass(slots=True)
class Samples:
    """Makes samples; no two strings or numbers are the same."""

    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def text(self) -> str:
        return f"zq{next(self.numbers):06}"  # eight letters, which are valid base64, too

    def integer(self) -> int:
        return FIRST_COUNT + 1_000 * next(self.numbers)

    def named(self, name: str, variant: Any) -> Any:
        """A sample of a leaf; some strings have a form, which only their name says."""
        if variant is bool:
            return True
        if variant is int:
            return self.integer()
        if variant is float:
            return self.integer() + 0.5
        if variant is datetime or name == "expires_at":
            return f"2031-01-01T00:00:{next(self.numbers) % 60:02}Z"
        if name in {"arguments", "args"}:
            return f'{{"a":"{self.text()}"}}'
        return f"https://{self.text()}.example/" if name in {"url", "image_url", "file_url"} else self.text()

    def all_of(self, annotation: Any, name: str = "", path: tuple[Any, ...] = ()) -> list[Any]:
        """Samples that together have every variant of this type, with all members."""
        variants = variants_of(annotation)
        if len(variants) > 1 and str in variants and any(get_origin(each) is Literal for each in variants):
            variants = [str]
        samples: list[Any] = []
        for variant in variants:
            if variant in path or len(path) > MAX_DEPTH:
                continue
            samples += self._variant(variant, name, (*path, variant) if is_model(variant) else path)
            if sum(map(is_model, path)) > 3 and samples:  # definitions of tools repeat themselves
                break
        return samples

    def _variant(self, variant: Any, name: str, path: tuple[Any, ...]) -> list[Any]:
        origin, arguments = get_origin(variant), get_args(variant)
        if is_model(variant):
            return self.objects(variant, path)
        if origin is Literal:
            if name == "status" and "completed" in arguments:
                return ["completed"]  # another status is an end of its own
            values = [value for value in arguments if value not in PLAIN_VALUES] or [*arguments]
            return values[:1]
        if origin is list:
            inner = self.all_of(arguments[0], name, path)
            if inner and all(isinstance(each, dict) and "type" in each for each in inner):
                return [[each] for each in inner]
            return [inner[:1]] if inner else []
        if origin is dict:
            inner = [self.text()] if arguments[1] is object else self.all_of(arguments[1], name, path)
            return [{"zqkey": inner[0]}] if inner else []
        return [self.text() if variant in {object, Any} else self.named(name, variant)]

    def objects(self, model: type[BaseModel], path: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """Objects of this type: the first has all members, and each other one has another variant of one of them."""
        options = {
            name: samples
            for name, annotation in members_of(model).items()
            if (samples := self.all_of(annotation, name, path or (model,)))
        }
        first = {name: samples[0] for name, samples in options.items()}
        others = [{**first, name: sample} for name, samples in options.items() for sample in samples[1:]]
        return [first, *others]


def leaves_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value that is no object and no list, with its path; the `type` of an item is a part of the path."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        tag = members.get("type")
        inner = (*path, tag) if isinstance(tag, str) and path else path
        for name, each in members.items():
            if name != "type" or not path:
                yield from leaves_of(each, (*inner, name))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from leaves_of(each, path)
    elif value is not None and value != "":
        yield path, value
