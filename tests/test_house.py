"""The house rules: what every file of the project keeps to."""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import accord
from tests.slow import SLOW

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("src", "tests", "scripts", "bench", "examples") for path in (ROOT / folder).rglob("*.py")
)
BANNED = re.compile(r"(?:^|_)(?:utils?|helpers?|common|misc|managers?|processors?|v2)(?:_|$)")
MAX_LINES = 900
GENERATED = [*(ROOT / "src/accord/acp").glob("schema_*.py")]
"""What the protocol's schemas decide: long, and with one name for what two versions have."""
HEAVY = {
    "aiohttp",
    "alembic",
    "anyio",
    "asyncpg",
    "httpx",
    "jsonschema_rs",
    "nats",
    "PIL",
    "rich",
    "sqlalchemy",
    "starlette",
    "typer",
    "uvicorn",
}


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_module_opens_by_saying_what_it_is():
    assert [named(path) for path in SOURCES if not text(path).startswith('"""')] == []


def test_no_file_is_too_long_to_be_one_subject():
    lengths = {named(path): len(text(path).splitlines()) for path in SOURCES if path not in GENERATED}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_public_text_refers_to_what_users_cannot_read():
    texts = [
        *(path for path in SOURCES if path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "examples")),
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
    private = re.compile(r"[Dd]ecisions? \d+|\bDESIGN\b")
    assert [named(path) for path in texts if private.search(text(path))] == []


def words(path: Path) -> Iterator[str]:
    yield path.stem
    for name in re.findall(r"^ *class (\w+)", text(path), re.MULTILINE):
        yield re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def test_no_name_says_nothing():
    assert [
        (named(path), word) for path in SOURCES if path not in GENERATED for word in words(path) if BANNED.search(word)
    ] == []


def test_the_public_names_are_sorted_and_each_has_its_home():
    homes = vars(accord)["_MODULES"]
    assert accord.__all__ == sorted(set(accord.__all__))
    assert list(homes) == accord.__all__
    assert dir(accord) == accord.__all__
    for name in accord.__all__:
        assert getattr(accord, name).__module__.startswith(homes[name].rpartition(".")[0])


def test_type_checkers_see_the_same_public_names():
    module = tree(ROOT / "src/accord/__init__.py")
    imports = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node.level == 0]
    seen = {
        alias.name: node.module for node in imports for alias in node.names if (node.module or "").startswith("accord")
    }
    assert seen == vars(accord)["_MODULES"]


def test_the_version_is_that_of_the_installed_package():
    assert accord.__version__ == version("accord-agents")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        accord.nonsense  # noqa: B018


def loaded_after(statement: str) -> set[str]:
    script = f"import json, sys; {statement}; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_importing_accord_pulls_in_nothing_heavy():
    assert loaded_after("import accord") & (HEAVY | {"pydantic"}) == set()


def test_using_every_public_name_pulls_in_no_server_client_or_database():
    assert loaded_after("from accord import *") & HEAVY == set()


def test_the_command_line_loads_no_server_client_or_database_before_a_command_needs_one():
    assert loaded_after("import accord.cli.app") & HEAVY == {"typer"}


def test_every_law_follows_the_number_of_examples_that_is_asked_for():
    fixed = [
        (named(path), keyword.value.lineno)
        for path in SOURCES
        if "max_examples" in text(path)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "max_examples" and isinstance(keyword.value, ast.Constant)
    ]
    assert fixed == []


def test_every_line_of_the_slow_tests_names_what_is_there():
    unknown = [
        name
        for name in SLOW
        if not (ROOT / name.partition("::")[0]).exists()
        or ("::" in name and f"def {name.partition('::')[2]}(" not in text(ROOT / name.partition("::")[0]))
    ]
    assert unknown == []


PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "src")]
ROUTES = re.compile(r"/(?:v1|health|metrics|openapi\.json|docs|page)(?:/|[\"']|$)")
CODES = re.compile(r"-32_?\d{3}")
OTHER_SERVICES = ("src/accord/apis/", "src/accord/backends/")
"""Where paths of other services are spelled."""


def test_no_class_name_is_defined_twice_in_the_package():
    homes: dict[str, list[str]] = {}
    for path in set(PACKAGE) - set(GENERATED):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(named(path))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def constants(path: Path, pattern: re.Pattern[str]) -> Iterator[ast.Constant]:
    """Every literal of a module that is no docstring; none of a module whose text does not have the pattern."""
    if not pattern.search(text(path)):
        return
    documentation = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield node


def test_paths_of_the_service_are_spelled_in_the_routes_table_only():
    allowed = ("src/accord/wire/routes.py", *OTHER_SERVICES)
    spelled = [
        (named(path), node.value)
        for path in PACKAGE
        if not named(path).startswith(allowed)
        for node in constants(path, ROUTES)
        if isinstance(node.value, str) and ROUTES.match(node.value)
    ]
    assert spelled == []


def test_json_rpc_codes_are_spelled_in_errors_only():
    codes = [
        (named(path), node.value)
        for path in PACKAGE
        if named(path) != "src/accord/errors.py"
        for node in constants(path, CODES)
        if isinstance(node.value, int) and 32_000 <= node.value <= 32_999
    ]
    assert codes == []


POSSESSIVE_GROUP = re.compile(r"(?:^|(?<![\\(])\))(?:[*+?]|\{[\d,]+\})\+|\(\?>")
PATTERNS_OF_THE_PACKAGE = """
import importlib, json, pkgutil, re, sys, accord
compile, patterns = re._compiler.compile, []
def record(pattern, flags=0):
    if sys._getframe(3).f_globals["__name__"].startswith("accord."):
        patterns.append([pattern if isinstance(pattern, str) else pattern.decode("latin-1"), int(flags)])
    return compile(pattern, flags)
re._compiler.compile = record
for module in pkgutil.walk_packages(accord.__path__, "accord."):
    if not module.name.endswith(("__main__", "migrations.env")):
        importlib.import_module(module.name)
print(json.dumps(patterns))
"""


def has_possessive_group(parsed: Any) -> bool:
    """Whether a pattern as Python parsed it has a possessive quantifier or an atomic group around more than one set."""
    if isinstance(parsed, str) or not hasattr(parsed, "__getitem__"):
        return False
    parts = list(parsed)
    if str(parts[:1]) == "[ATOMIC_GROUP]":
        return True
    if str(parts[:1]) == "[POSSESSIVE_REPEAT]":
        repeated = list(parts[1][2])
        return len(repeated) > 1 or str(repeated[0][0]) not in ("IN", "LITERAL", "NOT_LITERAL", "ANY")
    return any(has_possessive_group(part) for part in parts)


def test_no_pattern_has_a_possessive_group_which_python_before_3_11_5_matches_wrongly():
    done = subprocess.run([sys.executable, "-c", PATTERNS_OF_THE_PACKAGE], stdout=-1, check=True, timeout=60)
    parse = importlib.import_module("re._parser").parse
    patterns = json.loads(done.stdout)
    assert len(patterns) > 100
    assert [pattern for pattern, flags in patterns if has_possessive_group(parse(pattern, flags))] == []


def test_no_part_of_a_pattern_has_a_possessive_group():
    parts = [
        (named(path), node.value)
        for path in SOURCES
        for node in constants(path, re.compile(r"[*+?}]\+|\(\?>"))
        if isinstance(node.value, (str, bytes)) and POSSESSIVE_GROUP.search(str(node.value))
    ]
    assert parts == []
