"""The responses API: definitions and choice of tools, and the names under which a work order has them. Pure.

A work order knows functions only. A custom tool, whose input is text, becomes a function with one text, `input`; the
tools of a namespace become functions under joined names. `special_tools` is the way back: for each tool that a work
order has in another form, how calls of it are written in an answer. Tools that an endpoint runs itself are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec

from accord.apis.client_tools import LOCAL_SHELL
from accord.apis.codec import invalid_member
from accord.apis.openai.parts import TEXT_MEMBER, custom_tool
from accord.apis.shapes import as_flag, as_list, as_name, as_object, as_text
from accord.core.work.fields import asks_for_more
from accord.wire.work import ToolChoice, ToolSpec

_TEXT_START: Final = re.compile(rf'\s*\{{\s*"{TEXT_MEMBER}"\s*:\s*"')
_CHARACTERS: Final = re.compile(r'(?:[^"\\\x00-\x1f]|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])*')
_HALF_A_PAIR: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_decode: Final = msgspec.json.Decoder(str).decode

FUNCTION_MEMBERS: Final = frozenset({"type", "name", "description", "parameters", "strict"})
CUSTOM_MEMBERS: Final = frozenset({"type", "name", "description", "format"})
NAMESPACE_MEMBERS: Final = frozenset({"type", "name", "description", "tools"})
TOOL_ITEMS: Final = "additional_tools"
"""The type of an input item that holds tools."""


def joined_name(namespace: Any, name: str) -> str:
    """Return the name that a work order has for a tool of a namespace; without one, its own."""
    if not namespace or not isinstance(namespace, str):
        return name
    return f"{namespace}{name}" if namespace.endswith("_") else f"{namespace}__{name}"


@dataclass(frozen=True, slots=True)
class SpecialTool:
    """A tool that a work order has in another form: its own name, its namespace, and whether it takes text."""

    name: str
    namespace: str | None = None
    is_custom: bool = False
    is_shell: bool = False
    """It is the local shell, whose calls have no arguments but an action."""


class PartialText:
    """Reads the text of a call of the function that stands for a custom tool, while its arguments arrive."""

    __slots__ = ("_has_begun", "_rest")

    def __init__(self) -> None:
        self._has_begun = False
        self._rest = ""

    def feed(self, arguments: str) -> str:
        """Return what more of the text these characters complete; nothing, if it is not where it is expected."""
        self._rest += arguments
        if not self._has_begun:
            if (start := _TEXT_START.match(self._rest)) is None:
                return ""
            self._rest, self._has_begun = self._rest[start.end() :], True
        characters = cast("re.Match[str]", _CHARACTERS.match(self._rest))[0]
        if _HALF_A_PAIR.search(characters):  # the other half comes with the next ones
            characters = characters[:-6]
        self._rest = self._rest[len(characters) :]
        try:
            return _decode(f'"{characters}"')
        except msgspec.DecodeError:  # half a pair alone; the complete call will not be JSON, either
            return ""


def special_tools(body: Mapping[str, Any]) -> dict[str, SpecialTool]:
    """Return the tools of a parsed request that its order has in another form or not at all, by their names there."""
    found: dict[str, SpecialTool] = {}
    for tool in _listed_tools(body):
        if tool.get("type") == LOCAL_SHELL:
            found[LOCAL_SHELL] = SpecialTool(LOCAL_SHELL, is_shell=True)
        is_namespace = tool.get("type") == "namespace"
        namespace = tool["name"] if is_namespace else None
        for each in tool["tools"] if is_namespace else (tool,):
            is_custom = each.get("type") == "custom"
            if is_namespace or is_custom:
                name = each["name"]
                found[joined_name(namespace, name)] = SpecialTool(name, namespace, is_custom)
    return found


def _listed_tools(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools") or ()
    items = body.get("input")
    if isinstance(items, list):
        for item in cast("list[dict[str, Any]]", items):
            if item.get("type") == TOOL_ITEMS:
                yield from item["tools"]


def read_tools(value: Any, field: str, used: dict[str, None]) -> list[ToolSpec]:
    """Return the functions of a list of tools, and note the rows that it uses."""
    specs: list[ToolSpec] = []
    for place, tool in enumerate(as_list(value, field, "a list of tools")):
        at = f"{field}[{place}]"
        specs += _read_tool(as_object(tool, at), at, used)
    return specs


def _read_tool(tool: dict[str, Any], field: str, used: dict[str, None]) -> list[ToolSpec]:
    match tool.get("type"):
        case "function":
            return [_function(tool, field, used)]
        case "custom":
            return [_custom(tool, field, used)]
        case "namespace":
            return _namespace(tool, field, used)
        case str(kind):
            used["tools[].web_search" if kind.startswith("web_search") else "tools[].hosted"] = None
            return []
        case _:
            raise invalid_member(f"{field}.type", 'the type of a tool, such as "function"')


def _namespace(tool: dict[str, Any], field: str, used: dict[str, None]) -> list[ToolSpec]:
    namespace = _name(tool, field)
    used["tools[].namespace"] = None
    if asks_for_more(tool, NAMESPACE_MEMBERS):
        used["tools[].other"] = None
    specs = read_tools(tool.get("tools"), f"{field}.tools", used)
    specs = [replace(spec, name=joined_name(namespace, spec.name)) for spec in specs]
    if specs and (description := _description(tool, field)):
        # Once is enough for the model to read it, and each repetition would cost tokens.
        first = "\n\n".join(text for text in (description, specs[0].description) if text)
        specs[0] = replace(specs[0], description=first)
    return specs


def _function(tool: dict[str, Any], field: str, used: dict[str, None]) -> ToolSpec:
    parameters, strict = tool.get("parameters"), tool.get("strict")
    used["tools"] = None
    if strict:
        used["tools[].strict"] = None
    if asks_for_more(tool, FUNCTION_MEMBERS):
        used["tools[].other"] = None
    return ToolSpec(
        name=_name(tool, field),
        description=_description(tool, field),
        input_schema={} if parameters is None else as_object(parameters, f"{field}.parameters"),
        strict=None if strict is None else as_flag(strict, f"{field}.strict"),
    )


def _custom(tool: dict[str, Any], field: str, used: dict[str, None]) -> ToolSpec:
    used["tools"] = None
    used["tools[].custom"] = None
    if asks_for_more(tool, CUSTOM_MEMBERS):
        used["tools[].other"] = None
    match tool.get("format"):
        case None | {"type": "text"} | {"type": "grammar", "syntax": str(), "definition": str()}:
            pass
        case _:
            raise invalid_member(
                f"{field}.format", "a format of type text, or of type grammar with syntax and definition"
            )
    return custom_tool(_name(tool, field), _description(tool, field), tool.get("format"))


def _name(tool: dict[str, Any], field: str) -> str:
    return as_name(tool.get("name"), f"{field}.name")


def _description(tool: dict[str, Any], field: str) -> str:
    return as_text(tool.get("description") or "", f"{field}.description")


def read_choice(value: Any, tools: list[ToolSpec], used: dict[str, None]) -> tuple[ToolChoice | None, list[ToolSpec]]:
    """Return the choice of tools, and the tools that it leaves; note the rows that it uses."""
    match value:
        case None | "auto":
            return None, tools
        case "none" | "required":
            used["tool_choice"] = None
            return ToolChoice(mode=value), tools
        case {"type": "function" | "custom", "name": str(name)}:
            used["tool_choice"] = None
            chosen = joined_name(cast("dict[str, Any]", value).get("namespace"), name)
            return ToolChoice(mode="tool", name=chosen), tools
        case {"type": "allowed_tools", "tools": list()}:
            return _read_allowed(cast("dict[str, Any]", value), tools, used)
        case {"type": str(kind)} if kind not in ("function", "custom", "allowed_tools"):
            used["tool_choice.hosted"] = None
            return None, tools
        case _:
            raise invalid_member(
                "tool_choice", 'auto, none, required, or an object such as {"type": "function", "name": …}'
            )


def _read_allowed(
    value: dict[str, Any], tools: list[ToolSpec], used: dict[str, None]
) -> tuple[ToolChoice | None, list[ToolSpec]]:
    used["tool_choice.allowed_tools"] = None
    mode = value.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise invalid_member("tool_choice.mode", "auto or required")
    names: set[str] = set()
    for place, tool in enumerate(value["tools"]):
        match tool:
            case {"type": "function" | "custom", "name": str(name)}:
                names.add(joined_name(cast("dict[str, Any]", tool).get("namespace"), name))
            case {"type": "namespace", "name": str(name)}:
                prefix = joined_name(name, "")
                names.update(spec.name for spec in tools if spec.name.startswith(prefix))
            case {"type": str()}:
                used["tools[].hosted"] = None
            case _:
                raise invalid_member(f"tool_choice.tools[{place}]", "a tool by its type and name")
    choice = ToolChoice(mode="required") if mode == "required" else None
    return choice, [spec for spec in tools if spec.name in names]
