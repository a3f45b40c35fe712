"""The task that every client does (read a file through a tool, then answer) and what a scripted model replies to it.

Pure: the forms of the APIs are in `chat.py`, `responses.py` and `messages.py`.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import PurePath
from typing import Any, Final

NOTE: Final = "note.txt"
CONTENT: Final = "The code word is heliotrope."
PROMPT: Final = f"Read the file {NOTE} in the current folder and tell me what it says."
GREETING: Final = "Hello there."
PREFIX: Final = "The file says: "


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one tool. `arguments` is a JSON object, or the text that a freeform tool takes."""

    name: str
    arguments: Mapping[str, Any] | str

    @property
    def text(self) -> str:
        """The arguments as an API sends them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of the endpoint, which a prompt such as `fail with 429` requests."""

    status: HTTPStatus

    @property
    def message(self) -> str:
        """What the endpoint says about it."""
        return f"Scripted: {self.status.phrase}"


Reply = str | ToolCall


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What decides the reply: the request's texts, tools and schema, whichever API it came in."""

    model: str
    text: str
    """Everything the user wrote, in one text."""
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The schema of each tool, by its name."""
    result: str | None = None
    """What the tool returned, if this request brings the result of a call."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the answer has to follow."""
    tool_choice: str | None = None
    """The one tool that must be called."""
    stream: bool = False


# How each client's own tool is called so that it reads a file: the name of the tool, and its arguments.
READERS: Final[Mapping[str, Callable[[str], Mapping[str, Any] | str]]] = {
    "Read": lambda path: {"file_path": path},  # Claude Code
    "exec_command": lambda path: {"cmd": f"cat {path}"},  # Codex
    "exec": lambda path: f"text(await tools.exec_command({{cmd: {json.dumps(f'cat {path}')}}}))",  # Codex, own models
    "read": lambda path: {"filePath": path},  # opencode
    "read_file": lambda path: {"path": path},  # the programs in tests/peers/clients
}


SCALARS: Final[Mapping[Any, Any]] = {"integer": 1, "number": 1, "boolean": True, "null": None}


FAILURE: Final = re.compile(r"\bfail with (\d{3})\b")


def failure_in(request: ModelRequest) -> Failure | None:
    """Return the failure that a prompt requests."""
    found = FAILURE.search(request.text)
    return Failure(HTTPStatus(int(found[1]))) if found else None


def reply_to(request: ModelRequest, folder: PurePath) -> Reply:
    """Choose the reply of a scripted model whose client works in this folder."""
    if request.result is not None:
        return PREFIX + request.result
    # A single tool that reads nothing is how several clients request structured output.
    form = request.tool_choice or (next(iter(request.tools)) if len(request.tools) == 1 else None)
    if form and form in request.tools and form not in READERS:
        return ToolCall(form, _instance(request.tools[form]))
    if request.schema is not None:
        return json.dumps(_instance(request.schema))
    # A gateway may put the name of a namespace before the name of a tool.
    plain = {name.rpartition("__")[2]: name for name in request.tools}
    reader = next((name for name in READERS if name in plain), None)
    if reader and NOTE in request.text:
        name, arguments = plain[reader], READERS[reader](str(folder / NOTE))
        # A freeform tool has no schema; where it was made a function, its text is a member.
        return ToolCall(name, {"input": arguments} if isinstance(arguments, str) and request.tools[name] else arguments)
    return GREETING


def _instance(schema: Mapping[str, Any]) -> Any:
    """Return the smallest value that a plain schema accepts: its required members, its first choice."""
    return _value(schema, schema.get("$defs", {}))


def _value(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _value(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], definitions)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _value(schema["properties"][name], definitions) for name in schema.get("required", ())}
    if kind == "array":
        return [_value(schema["items"], definitions)]
    return SCALARS.get(kind, "Paris")
