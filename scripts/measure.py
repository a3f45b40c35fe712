"""Print how the source is cut and worded: `python -m scripts.measure [PACKAGE] [--list]`.

Static figures are read from the syntax trees. The last ones come from real turns of the relay agent on an echo backend,
run twice in this process: the first warms up, the second is traced. `--list` names what was counted.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parent.parent / "src" / "accord"
GENERATED: Final = "with its descriptions; do not edit"
"""What the docstring of a generated module says; these are not counted."""
SMALL_LINES: Final = 25
SHORT_LINES: Final = 5
DIALECT: Final = frozenset("told said heard met shown asked own tell tells hear hears whose whom".split())
"""Words that STYLE.md asks to replace where they are a whole identifier, or a part of one."""


@dataclass
class Module:
    """One source file, parsed."""

    name: str
    path: Path
    tree: ast.Module
    code_lines: int
    comment_lines: int
    imports: set[str] = field(default_factory=set[str])


def read_modules(folder: Path) -> list[Module]:
    """Parse every module below a folder that was written by hand."""
    found: list[Module] = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if GENERATED in text:
            continue
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(text)
        code, comments = count_lines(text, tree)
        found.append(Module(name, path, tree, code, comments))
    return found


def count_lines(text: str, tree: ast.Module) -> tuple[int, int]:
    """Count the lines that hold code, and those that hold a comment; docstrings are neither."""
    documented = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    comments: set[int] = set()
    silent = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documented), len(comments)


def find_imports(modules: list[Module]) -> None:
    """Note for each module which other modules of the package it imports."""
    names = {module.name for module in modules}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    module.imports.add(full if full in names else node.module)
            elif isinstance(node, ast.Import):
                module.imports.update(alias.name for alias in node.names)
        module.imports &= names
        module.imports.discard(module.name)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Every identifier that is defined or used, as often as it occurs."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case _:
                pass


def single_use(modules: list[Module]) -> list[tuple[str, int]]:
    """Private functions and methods that are used exactly once in their module, with their length in lines."""
    found: list[tuple[str, int]] = []
    for module in modules:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        for function in functions(module.tree):
            is_private = function.name.startswith("_") and not function.name.startswith("__")
            if is_private and uses[function.name] == 1 and not function.decorator_list:
                length = (function.end_lineno or function.lineno) - function.lineno + 1
                found.append((f"{module.name}.{function.name}", length))
    return found


def duplicate_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Names of classes, at the top of a module, that are defined in more than one module."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module.name)
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def dialect(modules: list[Module]) -> Counter[str]:
    """How often each word of the dialect is an identifier, or a part of one."""
    found: Counter[str] = Counter()
    for module in modules:
        for name in identifiers(module.tree):
            for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name):
                if word.lower() in DIALECT:
                    found[word.lower()] += 1
    return found


def print_listed(title: str, lines: Iterable[str]) -> None:
    """Print a list under its title."""
    print(f"\n{title}")
    for line in lines:
        print(f"  {line}")


def print_turns() -> None:
    """Trace real turns, and print what they pass through."""
    from scripts.traced_turns import (  # noqa: PLC0415 - loads the whole package
        trace_json_turn,
        trace_relayed_call,
        trace_streamed_word,
    )

    turn, word, call = trace_json_turn(), trace_streamed_word(), trace_relayed_call()
    print(f"a JSON turn: functions, modules, layers     {len(turn.functions)}, {len(turn.modules)}, {turn.switches}")
    print(f"a streamed word: functions, generators      {len(word.functions)}, {word.generators}")
    print(f"a relayed call: functions, modules, layers  {len(call.functions)}, {len(call.modules)}, {call.switches}")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Print how the source is cut and worded.")
    parser.add_argument("package", nargs="?", default="", help="a part of the package, such as core/work")
    parser.add_argument("--list", action="store_true", help="name what was counted")
    parser.add_argument("--static", action="store_true", help="trace no turns")
    arguments = parser.parse_args()
    everything = read_modules(SOURCE)
    find_imports(everything)
    chosen = SOURCE / arguments.package
    modules = [module for module in everything if module.path.is_relative_to(chosen) or module.path == chosen]
    if not modules:
        sys.exit(f"measure: there is no package {arguments.package} below {SOURCE.name}/")
    importers = Counter(name for module in everything for name in module.imports)
    lines = sum(module.code_lines for module in modules)
    per_thousand = 1000 / max(lines, 1)
    small = [module for module in modules if module.code_lines < SMALL_LINES]
    lonely = [m for m in modules if importers[m.name] == 1 and m.path.name != "__init__.py"]
    once = single_use(modules)
    doubles = duplicate_classes(modules)
    words = dialect(modules)
    comments = sum(module.comment_lines for module in modules)
    private = sum(1 for m in modules for f in functions(m.tree) if re.match(r"_(?!_)", f.name))
    print(f"code lines                                  {lines}")
    print(f"source files, per 1,000 code lines          {len(modules)}, {len(modules) * per_thousand:.1f}")
    print(f"files under {SMALL_LINES} code lines                   {len(small)}")
    print(f"modules with exactly one importer           {len(lonely)}")
    short = sum(1 for _, length in once if length <= SHORT_LINES)
    print(f"private functions used once, per 1,000      {len(once)} of {private}, {len(once) * per_thousand:.1f}")
    print(f"  of these with at most {SHORT_LINES} lines             {short}")
    print(f"class names defined more than once          {len(doubles)}")
    print(f"comment lines                               {comments}, {100 * comments / max(lines, 1):.1f} %")
    print(f"dialect words in identifiers                {sum(words.values())}")
    if not arguments.static and not arguments.package:
        print_turns()
    if arguments.list:
        print_listed("Files under 25 code lines", (f"{m.code_lines:3} {m.name}" for m in small))
        print_listed("Modules with exactly one importer", (m.name for m in lonely))
        print_listed("Private functions used once", (f"{length:3} {name}" for name, length in sorted(once)))
        print_listed("Classes defined more than once", (f"{name}: {', '.join(p)}" for name, p in doubles.items()))
        print_listed("Dialect words", (f"{count:4} {word}" for word, count in words.most_common()))


if __name__ == "__main__":
    main()
