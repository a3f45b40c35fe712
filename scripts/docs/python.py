"""docs/reference/python.md: every public name of `accord`, with its signature as it is written in the source."""

import ast
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from scripts.docs.markdown import anchor, code, first_paragraph, head, table
from scripts.docs.messages import definitions_of_messages
from scripts.docs.source import AnyFunction, call_text, module_body, parameters_of

import accord
from accord.wire.message import Message, Value

INTRODUCTION: Final = """
Every name of `accord.__all__`. What is not here, and what begins with `_`, may change at any time. Names are imported
when they are first used, so that `import accord` is fast.
"""
ABOUT_MESSAGES: Final = """
A message is made with its fields as keywords, `Identity(id="user_123", name="Alice")`, and cannot be changed. Where a
message is expected, a dict will do as well. All of them are pydantic models, and most have these methods:
"""
MESSAGE_METHODS: Final = ("parse", "to_json", "dump")
GROUPS: Final[Mapping[str, str]] = {
    "accord.agent": "Agents",
    "accord.core.work.plan": "Planning",
    "accord.core.work.negotiate": "Planning",
    "accord.core.work.emulation.engine": "Emulation",
    "accord.core.prompt.validator": "Content",
    "accord.core.output.adapter": "Adaptation",
    "accord.wire.contract": "Schemas",
    "accord.errors": "Errors",
}
"""The group of each module; all others have messages."""


def page() -> str:
    """The whole page."""
    groups: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    tables: dict[str, list[list[str]]] = {"Messages": [], "Enumerations": []}
    for name in accord.__all__:
        public = getattr(accord, name)
        if isinstance(public, type) and issubclass(public, Enum):
            values = ", ".join(code(each.value) for each in public)
            tables["Enumerations"].append([code(name), first_paragraph(public.__doc__), values])
        elif isinstance(public, type) and issubclass(public, BaseModel | Value):
            tables["Messages"].append([code(name), first_paragraph(public.__doc__), _fields_of(name)])
        else:
            groups[GROUPS[public.__module__]].append(name)
    parts = [head("Python", "src/accord/__init__.py", INTRODUCTION)]
    for title, names in groups.items():
        parts.append(f"- [{title}]({anchor(title)}): {', '.join(f'[{name}]({anchor(name)})' for name in names)}")
    parts += [*(f"- [{title}]({anchor(title)})" for title in tables), ""]
    for title, names in groups.items():
        parts += [f"## {title}\n", *(part for name in names for part in _section(name, getattr(accord, name)))]
    parts += [
        "## Messages\n",
        ABOUT_MESSAGES.lstrip(),
        table(["method", "meaning"], _methods(Message, MESSAGE_METHODS)),
    ]
    parts += [table(["message", "meaning", "fields"], tables["Messages"]), "## Enumerations\n"]
    return "\n".join([*parts, table(["name", "meaning", "values"], tables["Enumerations"])])


def _fields_of(name: str) -> str:
    schema = definitions_of_messages()[name]
    fields = schema.get("properties") or schema.get("discriminator", {}).get("mapping") or ["root"]
    return f"[{', '.join(map(code, fields))}](messages.md{anchor(name)})"


def _section(name: str, public: Any) -> Iterator[str]:
    yield f"### {name}\n"
    node = module_body(public.__module__)[name]
    if isinstance(node, ast.ClassDef):
        call = call_text(name, _constructor(public))
    else:
        call = call_text(name, parameters_of(node), node.returns)
    yield f"```python\n{call}\n```\n"
    yield first_paragraph(public.__doc__) + "\n"
    if isinstance(public, type) and (rows := [*_methods(public)]):
        yield table(["method", "meaning"], rows)


def _constructor(kind: type) -> list[str]:
    """The parameters of a class: those of the `__init__` that it has or inherits, or the fields of a dataclass."""
    for base in kind.__mro__:
        if base.__module__.startswith("accord."):
            body = module_body(base.__module__)[base.__name__].body
            for node in body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    return parameters_of(node)
            if "__dataclass_fields__" in vars(base):
                return [_field(node) for node in body if isinstance(node, ast.AnnAssign)]
    return []


def _field(node: ast.AnnAssign) -> str:
    text = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if node.value is None:
        return text
    value = ast.unparse(node.value)
    return f"{text} = {'…' if value.startswith('field(') else value}"


def _methods(kind: type, only: Collection[str] = ()) -> Iterator[list[str]]:
    """The public methods and properties that the class itself defines, or only some of them."""
    for node in module_body(kind.__module__)[kind.__name__].body:
        if not isinstance(node, AnyFunction) or node.name.startswith("_") or (only and node.name not in only):
            continue
        is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
        call = f"{node.name}({', '.join(parameters_of(node, with_types=False))})"
        is_awaited = isinstance(node, ast.AsyncFunctionDef) and not any(
            isinstance(each, ast.Yield) for each in ast.walk(node)
        )
        shown = node.name if is_property else f"await {call}" if is_awaited else call
        yield [code(shown), first_paragraph(ast.get_docstring(node))]
