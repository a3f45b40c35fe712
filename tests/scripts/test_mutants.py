"""The small changes that `make test-mutants` makes: each kind is found, named by its place, and made alone."""

import ast
import tomllib
from pathlib import Path

import pytest
from scripts.mutants.mutate import mutants_of, mutated

ROOT = Path(__file__).parents[2]
SOURCE_FOLDER = ROOT / "src"
EQUIVALENTS = ROOT / "scripts" / "mutants" / "equivalents.toml"

SOURCE = """
from typing import Final

TABLE: Final = {"a": 1, "b": 2}

class Box:
    def put(self, item: int | None = None) -> bool:
        if self.is_open(item) and item is not None:
            self.items.append(item)
            return True
        return self.again(item)
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("m.py::<module>: drop 'a'", "TABLE: Final = {'b': 2}"),
        ("m.py::<module>: 2 -> 3", "TABLE: Final = {'a': 1, 'b': 3}"),
        ("m.py::Box.put: item is not None -> item is None", "if self.is_open(item) and item is None:"),
        (
            "m.py::Box.put: self.is_open(item) and item is not None -> self.is_open(item) or item is not None",
            "if self.is_open(item) or item is not None:",
        ),
        ("m.py::Box.put: drop self.items.append(item)", "pass"),
        ("m.py::Box.put: True -> False", "return False"),
        ("m.py::Box.put: return self.again(item) -> return None", "return None"),
    ],
)
def test_each_kind_of_change_is_made_alone(name: str, line: str):
    (mutant,) = [mutant for mutant in mutants_of("m.py", SOURCE) if mutant.name == name]
    before, after = (
        [each.strip() for each in text.splitlines()]
        for text in (ast.unparse(ast.parse(SOURCE)), mutated(SOURCE, mutant))
    )
    assert [each for each in after if each not in before] == [line]


def test_annotations_are_left_alone():
    assert not [mutant for mutant in mutants_of("m.py", SOURCE) if "int" in mutant.change]


def test_every_listed_equivalent_is_a_change_that_can_be_made():
    listed = [each["name"] for each in tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))["mutant"]]
    paths = {name.partition("::")[0] for name in listed}
    possible = {
        mutant.name for path in paths for mutant in mutants_of(path, (SOURCE_FOLDER / path).read_text(encoding="utf-8"))
    }
    assert [name for name in listed if name not in possible] == []
