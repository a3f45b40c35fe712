"""What only the source has: the texts below attributes, and signatures as they were written."""

import ast
from functools import cache
from importlib import import_module
from itertools import pairwise, zip_longest
from pathlib import Path

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def module_body(module: str) -> dict[str, ast.ClassDef | AnyFunction]:
    """The classes and functions of a module, by name."""
    tree = ast.parse(Path(import_module(module).__file__ or "").read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef | AnyFunction)}


def attribute_texts(kind: type) -> dict[str, str]:
    """The text below each attribute of a class, as in `port: int = 8000` and then a docstring."""
    return {
        ast.unparse(node.target): " ".join(str(ast.literal_eval(below.value)).split())
        for node, below in pairwise(module_body(kind.__module__)[kind.__name__].body)
        if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr)
    }


def parameters_of(function: AnyFunction, *, with_types: bool = True) -> list[str]:
    """The parameters of a function as they were written, without `self`."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    # Defaults belong to the last parameters.
    defaults = [*reversed([*zip_longest(reversed(named), reversed(arguments.defaults))])]
    texts = [_parameter(argument, default, with_types) for argument, default in defaults if argument is not None]
    texts = [text for text in texts if text not in ("self", "cls")]
    if arguments.vararg:
        texts.append("*" + _parameter(arguments.vararg, None, with_types))
    elif arguments.kwonlyargs:
        texts.append("*")
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    texts += [_parameter(argument, default, with_types) for argument, default in keywords]
    if arguments.kwarg:
        texts.append("**" + _parameter(arguments.kwarg, None, with_types))
    return texts


def _parameter(argument: ast.arg, default: ast.expr | None, with_types: bool) -> str:
    is_typed = with_types and argument.annotation is not None
    text = f"{argument.arg}: {ast.unparse(argument.annotation)}" if is_typed and argument.annotation else argument.arg
    if default is None:
        return text
    value = ast.unparse(default)
    return f"{text} = {value}" if is_typed else f"{text}={value}"


def call_text(name: str, parameters: list[str], returns: ast.expr | None = None) -> str:
    """A call with its parameters and its result, on one line or on one line for each."""
    result = f" -> {ast.unparse(returns)}" if returns else ""
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){result}"])
