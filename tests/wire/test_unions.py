"""Every tagged union: each kind is listed for every tag that its annotation names."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import pytest

import accord.wire
from accord.wire.message import Tagged

for module in pkgutil.walk_packages(accord.wire.__path__, "accord.wire."):
    import_module(module.name)


def below(base: type[Tagged]) -> Iterator[type[Tagged]]:
    for kind in base.__subclasses__():
        yield kind
        yield from below(kind)


UNIONS = [base for base in below(Tagged) if base.__dict__.get("kinds")]


def tags_of(kind: type[Tagged], tag: str) -> tuple[Any, ...]:
    """The tags that this kind's own annotation names."""
    annotation = kind.model_fields[tag].annotation if tag in kind.model_fields else None
    return get_args(annotation) if get_origin(annotation) is Literal else ()


@pytest.mark.parametrize("base", UNIONS, ids=lambda base: base.__name__)
def test_every_tag_of_every_kind_is_in_its_unions_table(base: type[Tagged]):
    named = {tag: kind for kind in below(base) if not kind.__dict__.get("kinds") for tag in tags_of(kind, base.tag)}
    assert {str(tag): kind for tag, kind in base.kinds.items()} == {str(tag): kind for tag, kind in named.items()}


def test_all_unions_are_covered():
    assert len(UNIONS) >= 15
