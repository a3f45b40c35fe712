"""What is malformed and what is not known yet is read as the schema's marks say."""

import json
from typing import Any, Literal

import pytest
from pydantic import Field

from accord.acp.base import AcpMessage, Count, Flag, ListOrAbsent, ListOrEmpty, NullIsEmpty, Open, OpenTagged
from accord.acp.schema_parts import ToolKind
from accord.errors import InvalidMessageError
from accord.wire.message import close_union


class Pet(OpenTagged, frozen=True):
    """A union for these tests."""

    pet_kind: str


class Dog(Pet, frozen=True):
    """A known kind."""

    pet_kind: Literal["dog"] = "dog"
    bark_count: Count


class OtherPet(Pet, frozen=True):
    """Every other kind; it has to have a name."""

    name: str


close_union(Pet, "pet_kind", {"dog": Dog}, other=OtherPet)


class Zoo(AcpMessage, frozen=True):
    """Every lenient type once."""

    pet: Pet | None = None
    flag: Flag = False
    optional: ListOrAbsent[int] = None
    required: ListOrEmpty[int] = Field(default_factory=list[int])
    nullable: NullIsEmpty[int] = Field(default_factory=list[int])
    word: Open[ToolKind] | None = None


READINGS: list[tuple[dict[str, Any], str, Any]] = [
    ({"flag": 1}, "flag", False),
    ({"optional": [1, "x", {}, 2]}, "optional", [1, 2]),
    ({"optional": "x"}, "optional", None),
    ({"required": [None, 3]}, "required", [3]),
    ({"required": None}, "required", []),
    ({"nullable": None}, "nullable", []),
    ({"nullable": [4]}, "nullable", [4]),
    ({"word": "read"}, "word", ToolKind.READ),
    ({"word": "_levitate"}, "word", "_levitate"),
]


@pytest.mark.parametrize(("sent", "field", "read"), READINGS)
def test_each_mark_of_the_schema_is_applied(sent: dict[str, Any], field: str, read: Any) -> None:
    for zoo in (Zoo.parse(json.dumps(sent)), Zoo.model_validate(sent)):
        assert getattr(zoo, field) == read


@pytest.mark.parametrize("sent", [{"nullable": ["x"]}, {"nullable": 7}, {"word": 7}])
def test_other_malformed_values_are_errors(sent: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError):
        Zoo.parse(json.dumps(sent))


@pytest.mark.parametrize(
    ("pet", "kind"),
    [
        ({"petKind": "dog", "barkCount": 2, "collar": "red"}, Dog),
        ({"petKind": "cat", "name": "Tom", "lives": 9}, OtherPet),
    ],
)
def test_a_known_kind_is_read_as_itself_and_an_unknown_one_is_kept_whole(pet: dict[str, Any], kind: type[Pet]) -> None:
    read = Zoo.parse(json.dumps({"pet": pet})).pet
    assert read is not None
    assert type(read) is kind
    assert read.dump() == pet
    assert Pet.parse(json.dumps(pet)) == Pet.model_validate(pet) == read == Zoo(pet=read).pet


@pytest.mark.parametrize(
    ("pet", "fields"),
    [
        ({"petKind": "dog"}, ["pet.petKind.dog.barkCount"]),
        ({"petKind": "dog", "name": "Tom"}, ["pet.petKind.dog.barkCount"]),
        ({"petKind": "dog", "barkCount": "2"}, ["pet.petKind.dog.barkCount"]),
        ({"petKind": 7}, ["pet.petKind"]),
        ({"petKind": ["dog"]}, ["pet.petKind"]),
        ({}, ["pet.petKind"]),
        (7, ["pet.petKind"]),
    ],
)
def test_an_error_in_a_known_kind_is_reported_for_that_kind_only(pet: Any, fields: list[str]) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        Zoo.parse(json.dumps({"pet": pet}))
    assert [problem.field for problem in caught.value.problems] == fields


def test_an_error_in_an_unknown_kind_is_reported() -> None:
    with pytest.raises(InvalidMessageError, match="name: Field required"):
        Zoo.parse('{"pet":{"petKind":"cat"}}')


def test_calling_the_base_builds_the_kind_that_the_tag_names() -> None:
    assert type(Pet.model_validate({"pet_kind": "dog", "bark_count": 1})) is Dog
    build: Any = Pet
    assert build(pet_kind="dog", bark_count=1) == Dog(bark_count=1)
    assert build(pet_kind="cat", name="Tom") == OtherPet(pet_kind="cat", name="Tom")
