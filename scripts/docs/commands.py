"""docs/reference/commands.md: every command with its help, from the table of commands and the options of each."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from scripts.docs.markdown import anchor, code, head, table

from accord.cli.app import COMMANDS, EPILOG, CommandRow, load_command

INTRODUCTION: Final = """
`accord COMMAND --help` prints the same. Options that are not required have a default: the value shown, or what the
description says. `accord --version` prints the version, and `accord --install-completion` sets up your shell.
"""
EXIT_STATUS: Final = re.compile(r"^  (\d+) +(.+)$", re.MULTILINE)


def page() -> str:
    """The whole page."""
    parts = [
        head("Commands", "src/accord/cli/", INTRODUCTION),
        table(["exit status", "meaning"], ([code(status), text] for status, text in EXIT_STATUS.findall(EPILOG))),
    ]
    sections = [(title, list(rows)) for title, rows in groupby(COMMANDS.values(), lambda row: row.section)]
    overview = ([f"[{row.name}]({anchor(f'accord {row.name}')})", row.summary] for _, rows in sections for row in rows)
    parts.append(table(["command", ""], overview))
    for title, rows in sections:
        parts.append(f"## {title}\n")
        parts += [part for row in rows for name, command in all_commands(row) for part in _section(name, command)]
    return "\n".join(parts)


def all_commands(row: CommandRow) -> Iterator[tuple[str, Any]]:
    """A command with its name, and those below it."""
    command: Any = load_command(row)
    yield row.name, command
    for name, inner in getattr(command, "commands", {}).items():
        yield f"{row.name} {name}", inner


def options_of(command: str) -> set[str]:
    """The options of a command, such as `--port`."""
    first, *_ = command.split()
    found = dict(all_commands(COMMANDS[first]))[command]
    return {option for each in found.params for option in each.opts}


def _section(name: str, command: Any) -> Iterator[str]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    inner = list(getattr(command, "commands", {}))
    yield f"### accord {name}\n"
    usage = [
        "accord",
        name,
        *(["[OPTIONS]"] if options else []),
        *map(_argument_name, arguments),
        *(["COMMAND"] if inner else []),
    ]
    yield f"```\n{' '.join(usage)}\n```\n"
    yield from _help_text(command.help or "")
    if arguments:
        yield table(["argument", "description"], ([code(_argument_name(each)), each.help or ""] for each in arguments))
    if options:
        rows = ([_option_name(each), _default(each), each.help or ""] for each in options)
        yield table(["option", "default", "description"], rows)
    if inner:
        links = (f"[{each}]({anchor(f'accord {name} {each}')})" for each in inner)
        yield f"Commands: {', '.join(links)}.\n"


def _help_text(text: str) -> Iterator[str]:
    """The help as Markdown: paragraphs, and indented lines as blocks."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\b\n", "\n").replace("\b", "").strip()):
        lines = paragraph.strip("\n").splitlines()
        plain = [line for line in lines if not line.startswith("  ")]
        indented = [line.removeprefix("  ") for line in lines if line.startswith("  ")]
        if plain:
            yield " ".join(plain) + "\n"
        if indented:
            yield "\n".join(["```", *indented, "```", ""])


def _argument_name(argument: Any) -> str:
    name = argument.metavar or (argument.name or "").upper()
    name = name if argument.nargs == 1 else f"{name}..."
    return name if argument.required else f"[{name}]"


def _option_name(option: Any) -> str:
    names = ", ".join(map(code, _long_first(option.opts)))
    if option.secondary_opts:
        names += f", {', '.join(map(code, option.secondary_opts))}"
    if option.is_flag:
        return names
    value = f"{names} {option.metavar or option.opts[-1].lstrip('-').replace('-', '_').upper()}"
    limits = [f"at least {option.min}"] if option.min is not None else []
    limits += [f"at most {option.max}"] if option.max is not None else []
    limits += ["repeatable"] if option.multiple and "repeatable" not in (option.help or "") else []
    return f"{value} ({', '.join(limits)})" if limits else value


def _long_first(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: not name.startswith("--"))


def _default(option: Any) -> str:
    if option.required:
        return "required"
    default = option.default
    return "" if default is None or default is False or callable(default) or default in ((), []) else code(default)
