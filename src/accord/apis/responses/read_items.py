"""The responses API: the items of a request's input become messages of a conversation. Pure.

Items of the assistant that follow on each other (reasoning, text, calls) are one message, as are results of tools:
other APIs take parallel calls and their results only together. What a message has no part for is left out, and noted as
a row of the table of fields.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from accord.apis.codec import invalid_member
from accord.apis.openai.parts import TEXT_MEMBER, decoded_text, read_data_url, read_signature
from accord.apis.responses.tools import TOOL_ITEMS, joined_name, read_tools
from accord.apis.shapes import as_list, as_object, as_text
from accord.core.work.derive import PDF, capability_for_part
from accord.core.work.fields import asks_for_more
from accord.wire.conversation import (
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from accord.wire.message import only_json
from accord.wire.work import ToolSpec

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.SYSTEM}
)
_ITEM: Final = frozenset({"type", "id", "status"})
MESSAGE_MEMBERS: Final = _ITEM | {"role", "content"}
CALL_MEMBERS: Final = _ITEM | {"call_id", "name", "namespace", "arguments", "input", "extra_content"}
RESULT_MEMBERS: Final = _ITEM | {"call_id", "name", "namespace", "output"}
REASONING_MEMBERS: Final = _ITEM | {"summary", "content", "encrypted_content"}
SETTINGS_MEMBERS: Final = _ITEM | {"role", "tools", "reasoning"}
BREAKPOINT: Final = "prompt_cache_breakpoint"
TEXT_MEMBERS: Final = frozenset({"type", "text", BREAKPOINT})
REFUSAL_MEMBERS: Final = frozenset({"type", "refusal"})
IMAGE_MEMBERS: Final = frozenset({"type", "image_url", "file_id", "detail", BREAKPOINT})
FILE_MEMBERS: Final = frozenset({"type", "filename", "file_data", "file_id", "file_url", BREAKPOINT})
FILES_ELSEWHERE: Final = (("file_id", "input[].input_file.file_id"), ("file_url", "input[].input_file.address"))
FURTHER: Final = "input[].member"
PDF_IN_BASE64: Final = "JVBERi"
TEXT_TYPES: Final = ("text/", "application/json", "application/xml")
UNTYPED: Final = "application/octet-stream"
_decode: Final = msgspec.json.Decoder().decode


class ItemReader:
    """The conversation of one request while its items are read.

    `used` are the rows of the table that the items use, `tools` the tools that they define, and `effort` is the effort
    that the last of them sets.
    """

    __slots__ = ("_has_calls", "_has_text", "_parts", "_role", "effort", "messages", "tools", "used")

    def __init__(self, used: dict[str, None]) -> None:
        self.used: Final = used
        self.messages: Final[list[ConversationMessage]] = []
        self.tools: Final[list[ToolSpec]] = []
        self.effort: str | None = None
        self._role: Role | None = None
        self._parts: list[MessagePart] = []
        self._has_text = False
        self._has_calls = False

    def read(self, item: dict[str, Any], field: str) -> None:
        """Add one item; `field` is its place in the request."""
        kind = item.get("type")
        if kind is None:  # both short forms of the API have no type
            kind = "message" if "role" in item else "item_reference"
        if not isinstance(kind, str):
            raise invalid_member(f"{field}.type", 'the type of an item, such as "message"')
        match kind:
            case "message":
                self._message(item, field)
            case "function_call" | "custom_tool_call":
                self._call(item, field, kind)
            case "function_call_output" | "custom_tool_call_output":
                self._result(item, field, kind)
            case "reasoning":
                self._reasoning(item, field)
            case "additional_tools" | "configuration_update":
                self._settings(item, field, kind)
            case _:
                self.used["input[].item_reference" if kind == "item_reference" else "input[].other"] = None

    def _message(self, item: dict[str, Any], field: str) -> None:
        role = ROLES.get(name) if isinstance(name := item.get("role"), str) else None
        if role is None:
            raise invalid_member(f"{field}.role", "user, assistant, system or developer")
        self._note(item, MESSAGE_MEMBERS)
        parts = self._content(item.get("content"), f"{field}.content")
        if role is Role.ASSISTANT:
            self._open_reply().extend(parts)
            self._has_text = True
        else:
            self._role = None
            if role is Role.SYSTEM and parts and any(each.role is not Role.SYSTEM for each in self.messages):
                self.used["input[].system"] = None
            self.messages.append(ConversationMessage(role=role, content=parts))

    def _reasoning(self, item: dict[str, Any], field: str) -> None:
        self.used["input[].reasoning"] = None
        self._note(item, REASONING_MEMBERS)
        texts: list[str] = []
        for name in ("summary", "content"):
            for place, part in enumerate(as_list(item.get(name) or [], f"{field}.{name}")):
                at = f"{field}.{name}[{place}]"
                texts.append(_text(as_object(part, at), "text", at))
        signature = as_text(item.get("encrypted_content") or "", f"{field}.encrypted_content")
        text = "\n\n".join(texts)
        if not signature:
            form = "text" if item.get("content") else "summary" if text else "reference"
            self.used[f"input[].reasoning.{form}"] = None
        if signature or text:
            redacted: dict[str, Any] = {} if text else {"redacted": True}
            self._open_reply().append(ThinkingPart(text=text, signature=signature or None, **redacted))

    def _call(self, item: dict[str, Any], field: str, kind: str) -> None:
        self.used[f"input[].{kind}"] = None
        self._note(item, CALL_MEMBERS)
        if kind == "function_call":
            arguments = _read_arguments(_text(item, "arguments", field))
        else:
            arguments = {TEXT_MEMBER: _text(item, "input", field)}
        name = joined_name(item.get("namespace"), _text(item, "name", field))
        signature = read_signature(item.get("extra_content"))
        call_id = _text(item, "call_id", field)
        custom: dict[str, Any] = {} if kind == "function_call" else {"custom": True}
        part = ToolUsePart(id=call_id, name=name, input=arguments, signature=signature, **custom)
        self._group(Role.ASSISTANT).append(part)
        self._has_calls = True

    def _result(self, item: dict[str, Any], field: str, kind: str) -> None:
        self.used[f"input[].{kind.removesuffix('_output')}"] = None
        self._note(item, RESULT_MEMBERS)
        content = self._content(item.get("output"), f"{field}.output")
        if any(capability_for_part(part) is not None for part in content):
            self.used["input[].function_call.media"] = None
        elif len(content) > 1:
            self.used["input[].function_call.texts"] = None
        part = ToolResultPart(tool_use_id=_text(item, "call_id", field), content=content)
        self._group(Role.TOOL).append(part)

    def _settings(self, item: dict[str, Any], field: str, kind: str) -> None:
        """Read an item that changes the request, as Codex sends them: further tools, or the effort from now on."""
        self.used[f"input[].{kind}"] = None
        self._note(item, SETTINGS_MEMBERS)
        if kind == TOOL_ITEMS:
            self.tools.extend(read_tools(item.get("tools"), f"{field}.tools", self.used))
            return
        reasoning = item.get("reasoning")
        if isinstance(reasoning, dict):
            held = cast("dict[str, Any]", reasoning)
            self.effort = held.get("effort") and _text(held, "effort", f"{field}.reasoning")
            self._note(held, frozenset({"effort"}))

    def _open_reply(self) -> list[MessagePart]:
        """Return the parts of the assistant's message that text or reasoning belongs to.

        Text after text is a message of its own, unless calls still wait for their results: those must follow at once.
        """
        if self._role is Role.ASSISTANT and self._has_text and not self._has_calls:
            self._role = None
        return self._group(Role.ASSISTANT)

    def _group(self, role: Role) -> list[MessagePart]:
        """Return the parts of the last message if it is of this role and still open, else of a new one."""
        if self._role is not role:
            message = ConversationMessage(role=role, content=[])
            self._role, self._parts = role, message.content
            self._has_text = self._has_calls = False
            self.messages.append(message)
        return self._parts

    def _note(self, members: dict[str, Any], listed: frozenset[str]) -> None:
        if asks_for_more(members, listed):
            self.used[FURTHER] = None

    def _content(self, content: Any, field: str) -> list[MessagePart]:
        if isinstance(content, str):
            return [TextPart(text=content)]
        parts: list[MessagePart] = []
        for place, part in enumerate(as_list(content or [], field, "text or a list of parts")):
            at = f"{field}[{place}]"
            read = self._part(as_object(part, at), at)
            if read is not None:
                parts.append(read)
        return parts

    def _part(self, part: dict[str, Any], field: str) -> MessagePart | None:
        read = self._read_part(part, field)
        mark = part.get(BREAKPOINT)
        if read is None or not mark or not isinstance(mark, dict):
            return read
        if not str(part["type"]).startswith("input_"):  # the API has no such point in what the assistant said
            self.used[FURTHER] = None
            return read
        self.used[f"input[].{BREAKPOINT}"] = None
        return read.model_copy(update={"cache_control": cast("dict[str, Any]", mark)})

    def _read_part(self, part: dict[str, Any], field: str) -> MessagePart | None:
        match part.get("type"):
            case "input_text" | "output_text" | "text":
                self._note(part, TEXT_MEMBERS)
                return TextPart(text=_text(part, "text", field))
            case "refusal":
                self.used["input[].refusal"] = None
                self._note(part, REFUSAL_MEMBERS)
                return TextPart(text=_text(part, "refusal", field))
            case "input_image":
                return self._image(part, field)
            case "input_file":
                return self._file(part, field)
            case str():
                self.used["input[].other"] = None
                return None
            case _:
                raise invalid_member(f"{field}.type", 'the type of a part, such as "input_text"')

    def _image(self, part: dict[str, Any], field: str) -> MessagePart | None:
        self.used["input[].input_image"] = None
        self._note(part, IMAGE_MEMBERS)
        detail, url = part.get("detail"), part.get("image_url")
        detail = None if detail == "auto" else detail
        if detail is not None:
            as_text(detail, f"{field}.detail")
            self.used["input[].input_image.detail"] = None
        if not url and part.get("file_id"):
            self.used["input[].input_image.file_id"] = None
            return None
        if not isinstance(url, str) or not url:
            raise invalid_member(f"{field}.image_url", "a data URL or the address of an image")
        if url.startswith("data:"):
            media_type, data = read_data_url(url, f"{field}.image_url")
            return ImagePart(media_type=media_type, data=data, detail=detail)
        self.used["input[].input_image.address"] = None
        return ImagePart(media_type="", data="", uri=url, detail=detail)

    def _file(self, part: dict[str, Any], field: str) -> MessagePart | None:
        self._note(part, FILE_MEMBERS)
        data, name = part.get("file_data"), as_text(part.get("filename") or "", f"{field}.filename")
        if data is None:
            for member, row in FILES_ELSEWHERE:
                if given := part.get(member):
                    self.used[row] = None
                    place = as_text(given, f"{field}.{member}")
                    address, file_id = ("", place) if member == "file_id" else (place, None)
                    return ResourcePart(uri=address, media_type=PDF, data="", file_id=file_id)
        if not isinstance(data, str):
            raise invalid_member(f"{field}.file_data", "a data URL")
        media_type = PDF if data.startswith(PDF_IN_BASE64) else UNTYPED
        if data.startswith("data:"):
            media_type, data = read_data_url(data, f"{field}.file_data")
        if media_type.startswith(TEXT_TYPES) and (text := decoded_text(data)) is not None:
            self.used["input[].input_file.text"] = None
            return ResourcePart(uri=name, media_type=media_type, text=text)
        self.used["input[].input_file" if media_type == PDF else "input[].input_file.other"] = None
        return ResourcePart(uri=name, media_type=media_type, data=data)


def _text(held: dict[str, Any], name: str, field: str) -> str:
    return as_text(held.get(name), f"{field}.{name}")


def _read_arguments(text: str) -> Any:
    """Return the arguments of an earlier call; text that a model wrote and that is not JSON is kept as text."""
    if not text.strip():
        return {}
    try:
        return only_json(_decode(text))
    except (ValueError, RecursionError):
        return text
