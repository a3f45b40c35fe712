"""The tool that is called, and with which arguments: tools as real agents offer them, and tools that are made up."""

from typing import Any

import jsonschema
import pytest

from accord.acp_tools.inspect.fake_model.tool_calls import (
    Action,
    ToolInput,
    call_by_name,
    choose_call,
    finishing_call,
    plain_name,
)
from accord.apis.client_tools import SCHEMAS
from accord.wire.disposition import Api
from accord.wire.work import ToolSpec

TEXT = {"type": "string"}
PATH, CONTENT, COMMAND = "/folder/note.txt", "a text", "echo hello"
INPUTS = {
    Action.READ: ToolInput(path=PATH),
    Action.WRITE: ToolInput(path=PATH, text=CONTENT),
    Action.RUN: ToolInput(command=COMMAND),
}


def tool(name: str, description: str = "", /, **properties: Any) -> ToolSpec:
    """A function whose properties are texts unless something else is given; those in capitals are optional."""
    schemas = {key.lower(): TEXT if value is str else value for key, value in properties.items()}
    required = [key for key in properties if key.islower()]
    schema = {"type": "object", "properties": schemas, "required": required}
    return ToolSpec(name=name, input_schema=schema, description=description)


def custom(name: str) -> ToolSpec:
    """A tool that takes text, as a work order has it."""
    return tool(name, input=str)


CLAUDE = [
    tool("Agent", "Launch a new agent", description=str, prompt=str),
    tool("Bash", command=str, TIMEOUT={"type": "number"}, DESCRIPTION=str),
    tool("Edit", file_path=str, old_string=str, new_string=str),
    tool("Glob", pattern=str, PATH=str),
    tool("Grep", pattern=str, PATH=str),
    tool("Read", file_path=str, OFFSET={"type": "integer", "minimum": 0}),
    tool("Write", file_path=str, content=str),
]
GEMINI = [
    tool("list_directory", dir_path=str),
    tool("read_file", file_path=str, START_LINE={"type": "integer", "minimum": 1}),
    tool("replace", file_path=str, old_string=str, new_string=str),
    tool("run_shell_command", command=str, is_background={"type": "boolean"}, DIR_PATH=str),
    tool("write_file", file_path=str, content=str),
]
LINE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
FILE = {"type": "object", "properties": {"path": TEXT, "start_line": LINE}, "required": ["path", "start_line"]}
CLINE = [
    tool("read_files", files={"type": "array", "items": FILE}),
    tool("run_commands", commands={"type": "array", "items": TEXT}),
    tool("editor", "Create, edit or overwrite a file", path=str, old_text=str, new_text=str),
]
CODEX = [
    tool("exec_command", cmd=str, YIELD_TIME_MS={"type": "number"}),
    custom("apply_patch"),
    tool("update_plan", plan={"type": "array", "items": {"type": "object"}}),
]
OLDER_CODEX = [tool("shell", command={"type": "array", "items": TEXT}, TIMEOUT_MS={"type": "number"})]
CODEX_PROGRAMS = [custom("exec"), tool("wait", cell_id=str)]
LOCAL_SHELL = [ToolSpec(name="local_shell", input_schema=dict(SCHEMAS[Api.RESPONSES]["local_shell"]))]
EDITOR_COMMANDS = {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]}
OPENHANDS = [
    tool("terminal", command=str, is_input={"type": "boolean"}, TIMEOUT={"type": "number"}),
    tool("file_editor", command=EDITOR_COMMANDS, path=str, FILE_TEXT=str, OLD_STR=str, INSERT_LINE={"type": "integer"}),
    tool("finish", message=str),
]
GOOSE = [
    tool("developer__shell", command=str),
    tool("developer__text_editor", command=EDITOR_COMMANDS, path=str, FILE_TEXT=str),
]
STRICT = [tool("view", absolute_path=str, limit={"type": ["integer", "null"]}, offset={"type": ["integer", "null"]})]
UNHEARD_OF = [
    tool("inspector", "Displays the contents of a document", path=str),
    tool(
        "scribe",
        "Creates a document with this content",
        path=str,
        content=str,
        mode={"type": "string", "enum": ["w", "a"]},
    ),
    tool("launcher", "Executes a program", commandLine=str, timeout={"type": "integer"}),
]
SHELL_READ, SHELL_WRITE = "cat /folder/note.txt", "printf %s 'a text' > /folder/note.txt"

Call = tuple[str, Any] | None
CALLS: dict[str, tuple[list[ToolSpec], Call, Call, Call]] = {
    "Claude": (
        CLAUDE,
        ("Read", {"file_path": PATH}),
        ("Write", {"file_path": PATH, "content": CONTENT}),
        ("Bash", {"command": COMMAND}),
    ),
    "Gemini CLI": (
        GEMINI,
        ("read_file", {"file_path": PATH}),
        ("write_file", {"file_path": PATH, "content": CONTENT}),
        ("run_shell_command", {"command": COMMAND, "is_background": False}),
    ),
    "Cline": (
        CLINE,
        ("read_files", {"files": [{"path": PATH, "start_line": None}]}),
        ("run_commands", {"commands": [SHELL_WRITE]}),
        ("run_commands", {"commands": [COMMAND]}),
    ),
    "Codex": (
        CODEX,
        ("exec_command", {"cmd": SHELL_READ}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Add File: {PATH}\n+{CONTENT}\n*** End Patch\n"}),
        ("exec_command", {"cmd": COMMAND}),
    ),
    "an older Codex": (
        OLDER_CODEX,
        ("shell", {"command": ["bash", "-lc", SHELL_READ]}),
        ("shell", {"command": ["bash", "-lc", SHELL_WRITE]}),
        ("shell", {"command": ["bash", "-lc", COMMAND]}),
    ),
    "Codex with programs": (
        CODEX_PROGRAMS,
        ("exec", {"input": f'text(await tools.exec_command({{cmd: "{SHELL_READ}"}}))'}),
        ("exec", {"input": f'text(await tools.exec_command({{cmd: "{SHELL_WRITE}"}}))'}),
        ("exec", {"input": f'text(await tools.exec_command({{cmd: "{COMMAND}"}}))'}),
    ),
    "the local shell": (
        LOCAL_SHELL,
        ("local_shell", {"command": ["bash", "-lc", SHELL_READ]}),
        ("local_shell", {"command": ["bash", "-lc", SHELL_WRITE]}),
        ("local_shell", {"command": ["bash", "-lc", COMMAND]}),
    ),
    "OpenHands": (
        OPENHANDS,
        ("file_editor", {"command": "view", "path": PATH}),
        ("file_editor", {"command": "create", "path": PATH, "file_text": CONTENT}),
        ("terminal", {"command": COMMAND, "is_input": False}),
    ),
    "Goose": (
        GOOSE,
        ("developer__text_editor", {"command": "view", "path": PATH}),
        ("developer__text_editor", {"command": "create", "path": PATH, "file_text": CONTENT}),
        ("developer__shell", {"command": COMMAND}),
    ),
    "strict tools": (STRICT, ("view", {"absolute_path": PATH, "limit": None, "offset": None}), None, None),
    "unknown names": (
        UNHEARD_OF,
        ("inspector", {"path": PATH}),
        ("scribe", {"path": PATH, "content": CONTENT, "mode": "w"}),
        ("launcher", {"commandLine": COMMAND, "timeout": 30_000}),
    ),
    "tools that do something else": (
        [tool("web_search", query=str), tool("glob", pattern=str, PATH=str)],
        None,
        None,
        None,
    ),
    "no tools": ([], None, None, None),
}
# `tool` writes properties in lower case; this one has a capital.
UNHEARD_OF[2].input_schema["properties"]["commandLine"] = UNHEARD_OF[2].input_schema["properties"].pop("commandline")
UNHEARD_OF[2].input_schema["required"] = ["commandLine", "timeout"]


@pytest.mark.parametrize("agent", CALLS)
def test_each_action_calls_the_tool_of_the_agent_that_does_it(agent: str):
    tools, *expected = CALLS[agent]
    for action, call in zip(Action, expected, strict=True):
        chosen = choose_call(action, INPUTS[action], tools)
        assert (chosen and (chosen.tool.name, chosen.arguments)) == call, action


@pytest.mark.parametrize("agent", CALLS)
def test_the_arguments_satisfy_the_schema_of_the_tool(agent: str):
    for action in Action:
        chosen = choose_call(action, INPUTS[action], CALLS[agent][0])
        if chosen:
            jsonschema.validate(chosen.arguments, chosen.tool.input_schema)


@pytest.mark.parametrize("name", ["read_file", "Read-File", "mcp__server__readFile", "functions.read_file"])
def test_names_are_compared_without_servers_case_and_separators(name: str):
    assert plain_name(name) == "readfile"


def test_a_tool_is_called_by_its_name_or_the_end_of_it():
    tools = [tool("mcp__notes__add", title=str, text=str), tool("other")]
    chosen = call_by_name("add", {"title": "t"}, tools)
    assert chosen
    assert (chosen.tool.name, chosen.arguments) == ("mcp__notes__add", {"title": "t", "text": "ok"})
    assert call_by_name("remove", {}, tools) is None


def test_a_tool_that_takes_the_answer_gets_it():
    assert finishing_call(OPENHANDS[2], "All done: ok").arguments == {"message": "All done: ok"}
    assert finishing_call(custom("answer"), "All done").arguments == {"input": "All done"}
