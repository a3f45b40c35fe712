"""Tools that a model API itself defines and its client runs: a shell, an editor. Pure.

A request names such a tool by its type only. An order does not have it, because another API has no tool of the kind;
what answers in the API itself, such as the fake model, may call it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from accord.core.work.fields import ModelRequest
from accord.wire.disposition import Api
from accord.wire.work import ToolSpec

LOCAL_SHELL: Final = "local_shell"

SCHEMAS: Final[Mapping[Api, Mapping[str, Mapping[str, Any]]]] = MappingProxyType(
    {
        Api.MESSAGES: {
            "bash_": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
            "text_editor_": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
                    "path": {"type": "string"},
                    "file_text": {"type": "string"},
                },
                "required": ["command", "path"],
            },
        },
        Api.RESPONSES: {
            LOCAL_SHELL: {
                "type": "object",
                "properties": {"command": {"type": "array", "items": {"type": "string"}}},
                "required": ["command"],
            }
        },
    }
)
"""The input of each tool, by the beginning of its type."""


def client_tools(request: ModelRequest) -> list[ToolSpec]:
    """The tools of a request that its API defines and its client runs."""
    tools: list[ToolSpec] = []
    schemas = SCHEMAS.get(request.api, {})
    for tool in request.body.get("tools") or () if schemas else ():
        tool_type = str(tool.get("type"))
        schema = next((schema for prefix, schema in schemas.items() if tool_type.startswith(prefix)), None)
        if schema is not None:
            tools.append(ToolSpec(name=str(tool.get("name") or tool_type), input_schema=dict(schema)))
    return tools
