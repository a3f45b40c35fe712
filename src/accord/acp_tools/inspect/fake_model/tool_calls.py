"""Choose the tool of an agent that reads a file, writes a file or runs a command, and write its arguments. Pure.

Agents name their tools and the properties of these differently. A tool is chosen by its name (`NAMES`), then as an
editor whose `command` is `view` or `create`, then by the properties of its schema. The last resort is a shell.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from accord.acp_tools.inspect.fake_model.schema_values import schema_value
from accord.acp_tools.json_values import Json, as_list, as_object
from accord.wire.work import ToolSpec


class Action(StrEnum):
    """What a prompt of the inspector can have done by a tool."""

    READ = "read"
    WRITE = "write"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class ToolInput:
    """The values that go into the arguments: `text` is what is written to the file."""

    path: str = ""
    text: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class ChosenCall:
    """A call of a tool."""

    tool: ToolSpec
    arguments: Mapping[str, Any]


NAMES: Final[Mapping[Action, Sequence[str]]] = {
    # Claude: Read; Gemini CLI, Qwen, Cline: read_file; pi, OpenCode: read; Kiro: fs_read; Copilot: view
    Action.READ: (
        "read readfile readtextfile fsread fsreadtextfile viewfile view openfile fileread readmanyfiles readfiles "
        "cat getfile"
    ).split(),
    # Claude: Write; Gemini CLI, Qwen: write_file; pi, OpenCode: write; Cline: write_to_file; Kiro: fs_write
    Action.WRITE: (
        "write writefile writetofile writetextfile fswrite fswritetextfile createfile filewrite savefile savetofile "
        "newfile create"
    ).split(),
    # Claude, OpenCode, pi: Bash; Gemini CLI, Qwen: run_shell_command; Codex: exec_command; Cline: execute_command
    Action.RUN: (
        "bash shell execcommand runshellcommand shellcommand localshell executecommand executebash runcommand "
        "runcommands runterminalcmd runinterminal terminal executeshellcommand executeshell launchprocess shellexec "
        "execbash cmd run execute"
    ).split(),
}
"""Names of tools in lower case without `_`, `-` and the names of servers before them; the best first."""

PATHS: Final = frozenset(
    (
        "path paths filepath filepaths absolutepath abspath file files filename targetfile target relativepath relpath "
        "relativeworkspacepath uri"
    ).split()
)
CONTENTS: Final = frozenset(
    "content contents text filetext filecontent filecontents newcontent newtext data body codeedit".split()
)
COMMANDS: Final = frozenset("command commands cmd cmds commandline argv script shellcommand".split())
ANSWERS: Final = frozenset("answer input message response result summary text".split())
"""Names of properties, in the same spelling."""
PROGRAM: Final = "input"
"""The only property of a tool that takes text, not JSON: a program, or a patch."""

EDITOR_COMMANDS: Final[Mapping[Action, Sequence[str]]] = {
    Action.READ: ("view", "read"),
    Action.WRITE: ("create", "write", "overwrite"),
    Action.RUN: (),
}
"""Values of the `command` of an editor: str_replace_editor of OpenHands, text_editor of Goose, Anthropic's own."""

WORDS: Final[Mapping[Action, re.Pattern[str]]] = {
    Action.READ: re.compile(r"\b(?:read|view|show|open|display|cat)", re.IGNORECASE),
    Action.WRITE: re.compile(r"\b(?:write|create|save|overwrite)", re.IGNORECASE),
    Action.RUN: re.compile(r"\b(?:run|exec|shell|command|terminal)", re.IGNORECASE),
}
"""What the name or the description of a tool says that is found by its properties only."""

PATIENCE: Final = 30_000
"""Time limits are in seconds or milliseconds; this is enough in either."""


def choose_call(action: Action, given: ToolInput, tools: Sequence[ToolSpec]) -> ChosenCall | None:
    """The call of one of these tools that does this; None if none of them can."""
    for tool in _candidates(action, tools):
        return ChosenCall(tool, _arguments(action, given, tool))
    if action is Action.WRITE and (patch := _named("applypatch", tools)):
        return _patch(patch, given)
    if action is not Action.RUN:
        return choose_call(Action.RUN, ToolInput(command=_shell_command(action, given)), tools)
    if (tool := _named("exec", tools)) and [*_property_names(tool.input_schema)] == [PROGRAM]:
        # Codex with its own models takes a program
        return ChosenCall(tool, {PROGRAM: f"text(await tools.exec_command({{cmd: {json.dumps(given.command)}}}))"})
    return None


def call_by_name(name: str, arguments: Json, tools: Sequence[ToolSpec]) -> ChosenCall | None:
    """The call of the tool with this name, or with a name that ends in it; required properties are filled in."""
    wanted = _spelling(name)
    exact = [tool for tool in tools if tool.name == name]
    ending = [tool for tool in tools if _spelling(tool.name).endswith(wanted)]
    for tool in [*exact, *ending]:
        filled = as_object(schema_value(tool.input_schema, lambda key, _: arguments.get(key), prefers_null=True))
        return ChosenCall(tool, {**filled, **arguments})
    return None


def finishing_call(tool: ToolSpec, answer: str) -> ChosenCall:
    """The call of a tool that takes the answer, with the smallest arguments that its schema accepts."""

    def choose(name: str, schema: Json) -> str | None:
        return answer if _spelling(name) in ANSWERS and schema.get("type") == "string" else None

    return ChosenCall(tool, schema_value(tool.input_schema, choose))


def plain_name(name: str) -> str:
    """The name without the server or namespace before it, in lower case and without separators."""
    return _spelling(re.split(r"__|[./:]", name)[-1])


def _spelling(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _named(name: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    return next((tool for tool in tools if plain_name(tool.name) == name), None)


def _candidates(action: Action, tools: Sequence[ToolSpec]) -> Iterator[ToolSpec]:
    usable = [tool for tool in tools if _fits(action, tool)]
    for name in NAMES[action]:
        yield from (tool for tool in usable if plain_name(tool.name) == name)
    yield from (tool for tool in usable if _editor_command(action, tool))
    for tool in usable:
        if WORDS[action].search(re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", tool.name)):
            yield tool
    yield from (tool for tool in usable if WORDS[action].search(tool.description))


def _fits(action: Action, tool: ToolSpec) -> bool:
    """Whether the tool has the properties that this needs, and none that say that it does something else."""
    names = set(_property_names(tool.input_schema))
    has_path, has_content = bool(names & PATHS), bool(names & CONTENTS)
    if _editor_command(action, tool):
        return has_path
    has_command = bool(names & COMMANDS) and not _has_fixed_commands(tool)
    match action:
        case Action.READ:
            return (
                has_path
                and not has_content
                and not has_command
                and not names & {"pattern", "query", "oldstring", "oldstr"}
            )
        case Action.WRITE:
            return has_path and has_content and not names & {"oldstring", "oldstr", "oldtext", "insertline"}
        case Action.RUN:
            return has_command


def _property_names(schema: Json) -> Iterator[str]:
    for name, child in as_object(schema.get("properties")).items():
        yield _spelling(name)
        yield from _property_names(as_object(as_object(child).get("items")))


def _editor_command(action: Action, tool: ToolSpec) -> str | None:
    fixed = as_list(as_object(as_object(tool.input_schema.get("properties")).get("command")).get("enum"))
    return next((command for command in EDITOR_COMMANDS[action] if command in fixed), None)


def _has_fixed_commands(tool: ToolSpec) -> bool:
    return "enum" in as_object(as_object(tool.input_schema.get("properties")).get("command"))


def _arguments(action: Action, given: ToolInput, tool: ToolSpec) -> Mapping[str, Any]:
    editor_command = _editor_command(action, tool)

    def choose(name: str, schema: Json) -> Any:
        spelled = _spelling(name)
        if editor_command and name == "command":
            return editor_command
        if spelled in PATHS and given.path:
            return _in_type(given.path, schema)
        if spelled in CONTENTS and action is Action.WRITE:
            return given.text
        if spelled in COMMANDS and given.command:
            return _in_type(given.command, schema, argv=not spelled.endswith("s"))
        is_required = name in as_list(tool.input_schema.get("required")) and "default" not in schema
        if spelled.startswith("timeout") and is_required:
            return min(PATIENCE, schema.get("maximum") or PATIENCE)
        return None

    return schema_value(tool.input_schema, choose, prefers_null=True)


def _in_type(value: str, schema: Json, *, argv: bool = False) -> Any:
    """The value as text or, where the schema has a list of texts, as a list of it or of the words of a command."""
    if "array" not in str(schema.get("type")).lower() or "properties" in as_object(schema.get("items")):
        return value
    return ["bash", "-lc", value] if argv else [value]


def _shell_command(action: Action, given: ToolInput) -> str:
    path = shlex.quote(given.path)
    return f"cat {path}" if action is Action.READ else f"printf %s {shlex.quote(given.text)} > {path}"


def _patch(tool: ToolSpec, given: ToolInput) -> ChosenCall:
    patch = f"*** Begin Patch\n*** Add File: {given.path}\n+{given.text}\n*** End Patch\n"
    name = next(iter(as_object(tool.input_schema.get("properties"))), PROGRAM)
    return ChosenCall(tool, {name: patch})
