"""Every small change that can be made to a module, as data. Pure: reads a syntax tree, runs nothing.

A mutant is named by its place and its change, not by a line number, so that the list of equivalent mutants stays true
while the file changes elsewhere.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

MODULE: Final = "<module>"

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip

_SHOWN_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    path: str
    """The module, below `src`."""
    function: str
    """The qualified name of the innermost function around the change, or `<module>`."""
    kind: str
    line: int
    change: str
    node: int
    """Which node of `ast.walk` is changed, and how, if there are several ways."""
    way: int = 0

    @property
    def name(self) -> str:
        """What identifies this mutant while lines come and go."""
        return f"{self.path}::{self.function}: {self.change}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of this module."""
    tree = ast.parse(source)
    functions = dict(_functions(tree, []))
    skipped = set(_skipped(tree))
    found: list[Mutant] = []
    seen: Counter[tuple[str, str]] = Counter()
    for number, node in enumerate(ast.walk(tree)):
        if node in skipped:
            continue
        for way, (kind, after) in enumerate(_changes(node)):
            change = f"{_shown(node)} -> {_shown(after)}" if after is not None else f"drop {_shown(node)}"
            if kind in ("row", "case"):
                change = f"drop {_shown(_parts(node)[way])}"
            function = functions.get(node, MODULE)
            seen[function, change] += 1
            if (again := seen[function, change]) > 1:
                change = f"{change} ({again})"
            found.append(Mutant(path, function, kind, getattr(node, "lineno", 0), change, number, way))
    return found


def mutated(source: str, mutant: Mutant) -> str:
    """The module's source with this one change."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[mutant.node]
    after = list(_changes(node))[mutant.way][1]
    return ast.unparse(ast.fix_missing_locations(_Replace(node, after or ast.Pass()).visit(tree)))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:  # noqa: C901 - one case a kind
    """The kinds of change that this node allows, each with what stands in its place; None where it is dropped."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            yield "comparison", ast.Compare(node.left, [_COMPARED[type(op)]()], node.comparators)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "negation", node.operand
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.UnaryOp | ast.Compare):
            changed = deepcopy(node)
            changed.test = ast.UnaryOp(ast.Not(), test)
            yield "negation", changed
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "statement", None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", None
        case ast.Dict() | ast.Set() | ast.List() | ast.Tuple() | ast.Match():
            yield from _without_one(node)
        case _:
            return


def _without_one(node: ast.Dict | ast.Set | ast.List | ast.Tuple | ast.Match) -> Iterator[tuple[str, ast.AST]]:
    """A table with one row less, for each row of it; a match with one case less."""
    if isinstance(node, ast.Tuple | ast.List) and not isinstance(node.ctx, ast.Load):
        return
    for row in range(len(parts) if len(parts := _parts(node)) > 1 else 0):
        changed = deepcopy(node)
        match changed:
            case ast.Dict():
                del changed.keys[row], changed.values[row]
            case ast.Match():
                del changed.cases[row]
            case _:
                del changed.elts[row]
        yield ("case" if isinstance(node, ast.Match) else "row"), changed


def _parts(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Dict():
            return [key or value for key, value in zip(node.keys, node.values, strict=True)]
        case ast.Match():
            return [case.pattern for case in node.cases]
        case ast.Set() | ast.List() | ast.Tuple():
            return list(node.elts)
        case _:
            return []


def _functions(node: ast.AST, outer: list[str]) -> Iterator[tuple[ast.AST, str]]:
    """Every node in a function, with the function's qualified name as Python has it."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = ".".join([*outer, child.name])
                for inside in child.body:
                    yield from ((each, name) for each in ast.walk(inside))
                yield from _functions(child, [*outer, child.name, "<locals>"])
            case ast.ClassDef():
                yield from _functions(child, [*outer, child.name])
            case _:
                yield from _functions(child, outer)


def _skipped(tree: ast.Module) -> Iterator[ast.AST]:  # noqa: C901 - one case a reason
    """Nodes whose change would say nothing of the tests: annotations, exported names, what only type checkers read."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(annotation=part) | ast.arg(annotation=ast.expr() as part):
                yield from ast.walk(part)
            case ast.FunctionDef(returns=ast.expr() as part) | ast.AsyncFunctionDef(returns=ast.expr() as part):
                yield from ast.walk(part)
            case ast.Subscript(slice=ast.Tuple() as part):
                yield part
            case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
                yield from ast.walk(node)
            case ast.Assign(value=ast.Subscript() | ast.BinOp(op=ast.BitOr()) as part):
                yield from ast.walk(part)  # names of types
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from ast.walk(node)
            case ast.keyword(arg="frozen" | "slots" | "kw_only"):
                yield from ast.walk(node)
            case ast.Call(func=ast.Name(id="assert_never" | "TypeVar")):
                yield from ast.walk(node)
            case ast.ClassDef(bases=bases) if any(_is_protocol(base) for base in bases):
                yield from ast.walk(node)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, part]):
                yield from ast.walk(part)
            case _:
                pass


def _is_protocol(base: ast.expr) -> bool:
    return "Protocol" in ast.unparse(base)


def _shown(node: ast.AST) -> str:
    text = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If) else " ".join(ast.unparse(node).split())
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


class _Replace(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, node: ast.AST, by: ast.AST) -> None:
        self._node = node
        self._by = by

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, or what stands in its place."""
        return self._by if node is self._node else self.generic_visit(node)
