"""`[groups.NAME]` and `[circuit]`: backends under one name, and when they are skipped; every mistake has its place."""

import pytest

from accord.assembly.parts import backend_groups
from accord.config import read_config
from accord.core.work.groups import BackendGroup
from accord.errors import ConfigError

BACKENDS = """\
[[backends]]
name = "a"
kind = "echo"
[[backends]]
name = "b"
kind = "echo"
"""


def test_groups_keep_their_order_and_weights():
    text = '[groups.any]\nbackends = ["b", "a"]\n[groups."acme/m-4.1:free@eu"]\nbackends = ["a", "b"]\nweights = { a = 3, b = 0.5 }'
    assert backend_groups(read_config(BACKENDS + text).config) == {
        "any": BackendGroup(("b", "a")),
        "acme/m-4.1:free@eu": BackendGroup(("a", "b"), {"a": 3.0, "b": 0.5}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[groups.g]", "a.toml:7:1: groups.g.backends: is missing"),
        ("groups.g = 1", "a.toml:7:1: backends[1].groups: unknown key; use one of"),
        ("[groups]\ng = 1", "a.toml:8:1: groups.g: expected a table"),
        ("[groups.g]\nbackends = []", "a.toml:8:1: groups.g.backends: expected at least one backend"),
        ('[groups.g]\nbackends = "a"', "a.toml:8:1: groups.g.backends: expected an array, [ … ]"),
        ('[groups.g]\nbackends = ["a", "a"]', "groups.g.backends[1]: expected each backend once"),
        ('[groups."g.1"]\nbackends = ["a", "c"]', "a.toml:8:18: groups.g.1.backends[1]: expected one of the backends: a, b"),
        ('[groups.a]\nbackends = ["b"]', "a.toml:7:1: groups.a: expected a name that no backend has"),
        ('[groups."g h"]\nbackends = ["b"]', "expected a name of letters, digits and . - _ / : @"),
        ('[groups.g]\nbackend = ["b"]', "groups.g.backend: unknown key; did you mean backends?"),
        ('[groups.g]\nbackends = ["a"]\nweights = { b = 1 }', "groups.g.weights.b: expected one of the group's backends: a"),
        ('[groups.g]\nbackends = ["a"]\nweights = { a = 0 }', "groups.g.weights.a: expected a number greater than 0"),
        ('[groups.g]\nbackends = ["a"]\nweights = { a = "x" }', "groups.g.weights.a: expected a number"),
    ],
)  # fmt: skip
def test_each_mistake_in_a_group_is_reported(text: str, message: str):
    with pytest.raises(ConfigError) as raised:
        read_config(BACKENDS + text, "a.toml")
    assert message in str(raised.value)


def test_circuits_have_these_settings():
    circuit = read_config("[circuit]\nfailures = 1\npause_s = 0.5\nmax_pause_s = 2").config.circuit
    assert (circuit.failures, circuit.pause_s, circuit.max_pause_s) == (1, 0.5, 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("failures = 0", "a.toml:2:1: circuit.failures: expected a number of at least 1"),
        ("pause_s = 0", "a.toml:2:1: circuit.pause_s: expected a number greater than 0"),
        ("max_pause_s = 4.9", "a.toml:2:1: circuit.max_pause_s: expected a number of at least pause_s"),
        ("pause = 3", "a.toml:2:1: circuit.pause: unknown key; did you mean pause_s?"),
    ],
)
def test_each_mistake_in_the_circuit_table_is_reported(text: str, message: str):
    with pytest.raises(ConfigError) as raised:
        read_config(f"[circuit]\n{text}", "a.toml")
    assert str(raised.value) == message
