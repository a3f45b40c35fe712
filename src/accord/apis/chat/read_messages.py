"""The messages of a chat completions request as a conversation. Pure.

Whatever a conversation cannot hold is reported as a field. Calls in the older form (`function_call`) become tool calls.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from accord.apis.openai.parts import decoded_text, read_data_url, read_signature
from accord.apis.shapes import as_list, as_name, as_object, as_text, invalid_field
from accord.core.work.derive import PDF
from accord.core.work.fields import TABLE, Api
from accord.wire.conversation import (
    AudioPart,
    Conversation,
    ConversationMessage,
    ImagePart,
    MessagePart,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
    text_message,
)
from accord.wire.message import only_json

Body = dict[str, Any]

AUDIO_TYPES: Final[Mapping[str, str]] = MappingProxyType({"mp3": "audio/mpeg", "wav": "audio/wav"})
TEXT_KINDS: Final = frozenset({"text", "refusal"})

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        "system": Role.SYSTEM,
        "developer": Role.SYSTEM,
        "user": Role.USER,
        "assistant": Role.ASSISTANT,
        "tool": Role.TOOL,
        "function": Role.TOOL,
    }
)

MEMBERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "system": frozenset({"role", "content"}),
        "developer": frozenset({"role", "content"}),
        "user": frozenset({"role", "content"}),
        "assistant": frozenset(
            "role content refusal reasoning_content reasoning thinking_blocks tool_calls function_call".split()
        ),
        # The name of a tool's message repeats that of the call.
        "tool": frozenset({"role", "content", "tool_call_id", "name"}),
        "function": frozenset({"role", "content", "name"}),
    }
)
"""The members of a message that have a place in a conversation; others are reported."""

_BREAKPOINT: Final = "prompt_cache_breakpoint"
_CONTENT: Final = "messages[].content[]"
_DETAIL: Final = TABLE[Api.CHAT][f"{_CONTENT}.image_url.detail"]
_decode: Final = msgspec.json.Decoder().decode


class ChatMessageParser:
    """Reads messages, and adds the rows of the table that they use to `fields`."""

    __slots__ = ("_fields", "_has_begun", "_index", "_older_calls", "_role")

    def __init__(self, fields: dict[str, None]) -> None:
        self._fields: Final = fields
        self._index = 0
        self._has_begun = False
        self._role = ""
        self._older_calls: Final[dict[str, str]] = {}

    def read(self, value: Any) -> Conversation:
        """The conversation; raises `RefusedError` with the field for messages that the API would not take."""
        given = as_list(value, "messages")
        if not given:
            raise invalid_field("messages", "a list of at least one message", None)
        return Conversation.model_validate({"messages": [self._message(*each) for each in enumerate(given)]})

    def _message(self, index: int, value: Any) -> ConversationMessage | Body:
        self._index = index
        message = as_object(value, f"messages[{index}]")
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise invalid_field(self._at("role"), f"one of {', '.join(ROLES)}", role)
        self._role = role
        if (
            len(message) == 2
            and role in ("user", "assistant")
            and (text := message.get("content"))
            and isinstance(text, str)
        ):
            self._has_begun = True
            return text_message(ROLES[role], text)
        if len(message) > 2 or "content" not in message:  # most have a role and content only
            self._report_members(message, role)
        parts: list[MessagePart]
        match role:
            case "system" | "developer":
                parts = self._content(message.get("content"), only_text=True)
                if self._has_begun and parts:
                    self._fields["messages[].system"] = None
                return ConversationMessage(role=Role.SYSTEM, content=parts)
            case "tool" | "function":
                parts = [self._tool_result(message, role)]
            case "assistant":
                parts = self._assistant_parts(message)
            case _:
                parts = self._content(message.get("content"))
        self._has_begun = True
        return ConversationMessage(role=ROLES[role], content=parts)

    def _at(self, member: str) -> str:
        return f"messages[{self._index}].{member}"

    def _report_members(self, message: Body, role: str) -> None:
        for name, value in message.items():
            if name not in MEMBERS[role] and value is not None and value != []:  # SDKs repeat an answer's empty lists
                self._fields[f"messages[].{name}"] = None

    def _content(self, value: Any, *, only_text: bool = False) -> list[MessagePart]:
        if isinstance(value, str):
            return [TextPart(text=value)] if value else []
        if value is None:
            return []
        if not isinstance(value, list):
            raise invalid_field(self._at("content"), "text or a list of parts", value)
        return [
            part
            for place, each in enumerate(cast("list[Any]", value))
            for part in self._parts(as_object(each, self._at(f"content[{place}]")), f"content[{place}]", only_text)
        ]

    def _parts(self, part: Body, place: str, only_text: bool) -> Iterator[MessagePart]:
        kind = as_name(part.get("type"), self._at(f"{place}.type"))
        read = PART_READERS.get(kind)
        if read is None or (only_text and kind not in TEXT_KINDS):
            self._fields[f"{_CONTENT}.other"] = None
            return
        made = read(self, part.get(kind), self._at(f"{place}.{kind}"))
        if len(part) > 2:
            made = self._further_members(part, kind, made)
        if made is not None:
            yield made

    def _further_members(self, part: Body, kind: str, made: MessagePart | None) -> MessagePart | None:
        place = f"messages[{self._role}].content[]" if self._role == "assistant" else _CONTENT
        for name, value in part.items():
            if name not in ("type", kind) and value is not None:
                self._fields[f"{place if name == _BREAKPOINT else _CONTENT}.{name}"] = None
        cache_control: Any = part.get("cache_control")
        if cache_control is None:
            cache_control = part.get(_BREAKPOINT) or None
        if made is None or not isinstance(cache_control, dict):
            return made
        return made.model_copy(update={"cache_control": cast("Body", cache_control)})

    def read_text(self, value: Any, at: str) -> MessagePart | None:
        """A text; an empty one is no part, because some APIs refuse it."""
        text = as_text(value, at)
        return TextPart(text=text) if text else None

    def read_refusal(self, value: Any, at: str) -> MessagePart | None:
        """A refusal, as text."""
        self._fields["messages[].refusal"] = None
        return TextPart(text=as_text(value, at))

    def read_image(self, value: Any, at: str) -> MessagePart | None:
        """An image with its data, or by its address."""
        self._fields[f"{_CONTENT}.image_url"] = None
        image: Body = {"url": value} if isinstance(value, str) else as_object(value, at)
        url, detail = as_text(image.get("url"), f"{at}.url"), image.get("detail")
        wanted = detail if _DETAIL.asks(detail) else None
        if wanted is not None:
            self._fields[f"{_CONTENT}.image_url.detail"] = None
            as_text(wanted, f"{at}.detail")
        if url[:5].lower() == "data:":
            media_type, data = read_data_url(url, f"{at}.url")
            return ImagePart(media_type=media_type, data=data, detail=wanted)
        if url[:8].lower().startswith(("http://", "https://")):
            self._fields[f"{_CONTENT}.image_url.address"] = None
            return ImagePart(media_type="", data="", uri=url, detail=wanted)
        raise invalid_field(f"{at}.url", "a data URL, or an address that begins with https:// or http://", url)

    def read_audio(self, value: Any, at: str) -> MessagePart | None:
        """Audio."""
        self._fields[f"{_CONTENT}.input_audio"] = None
        audio = as_object(value, at)
        audio_format = as_name(audio.get("format"), f"{at}.format").lower()
        media_type = AUDIO_TYPES.get(audio_format, f"audio/{audio_format}")
        return AudioPart(media_type=media_type, data=as_name(audio.get("data"), f"{at}.data"))

    def read_file(self, value: Any, at: str) -> MessagePart | None:
        """A file with its data, or by the id that it got when it was uploaded to the endpoint."""
        file = as_object(value, at)
        given: Any = file.get("file_data")
        if given is None:
            file_id = as_name(file.get("file_id"), f"{at}.file_data")
            self._fields[f"{_CONTENT}.file.file_id"] = None
            return ResourcePart(uri="", media_type=PDF, data="", file_id=file_id)
        data, name = as_name(given, f"{at}.file_data"), as_text(file.get("filename") or "", f"{at}.filename")
        media_type = PDF  # the only kind of file that the API takes without naming it
        if data[:5].lower() == "data:":
            media_type, data = read_data_url(data, f"{at}.file_data")
        # A name is not an address: what would be read as a part of one is escaped.
        uri = "".join(f"%{ord(each):02X}" if each in "%?#/" else each for each in name)
        if media_type.startswith("text/") and (text := decoded_text(data)) is not None:
            return ResourcePart(uri=uri, media_type=media_type, text=text)
        self._fields[f"{_CONTENT}.file"] = None
        return ResourcePart(uri=uri, media_type=media_type, data=data)

    def _assistant_parts(self, message: Body) -> list[MessagePart]:
        parts: list[MessagePart] = [*self._reasoning(message)]
        parts += self._content(message.get("content"), only_text=True)
        if refusal := message.get("refusal"):
            parts.append(cast("MessagePart", self.read_refusal(refusal, self._at("refusal"))))
        if calls := message.get("tool_calls"):
            listed = enumerate(as_list(calls, self._at("tool_calls")))
            parts += (part for place, each in listed for part in self._tool_calls(each, f"tool_calls[{place}]"))
        if call := message.get("function_call"):
            self._fields["messages[].function_call"] = None
            given = as_object(call, self._at("function_call"))
            call_id = self._older_calls[str(given.get("name"))] = f"function_call_{self._index}"
            parts.append(self._call(call_id, given, "function_call", None))
        return parts

    def _reasoning(self, message: Body) -> Iterator[MessagePart]:
        """Earlier reasoning: in blocks with signatures, or its text alone."""
        if blocks := message.get("thinking_blocks"):
            self._fields["messages[].thinking_blocks"] = None
            for place, each in enumerate(as_list(blocks, self._at("thinking_blocks"))):
                at = self._at(f"thinking_blocks[{place}]")
                block = as_object(each, at)
                if block.get("type") == "redacted_thinking":
                    data = as_name(block.get("data"), f"{at}.data")
                    yield ThinkingPart(text="", signature=data, redacted=True)
                else:
                    signature = as_text(block.get("signature") or "", f"{at}.signature")
                    if not signature:
                        self._fields["messages[].reasoning_content"] = None
                    text = as_text(block.get("thinking"), f"{at}.thinking")
                    yield ThinkingPart(text=text, signature=signature or None)
        elif reasoning := message.get("reasoning_content") or message.get("reasoning"):
            self._fields["messages[].reasoning_content"] = None
            yield ThinkingPart(text=as_text(reasoning, self._at("reasoning_content")))

    def _tool_calls(self, value: Any, place: str) -> Iterator[MessagePart]:
        call = as_object(value, self._at(place))
        if call.get("type", "function") == "custom":
            self._fields["messages[].tool_calls"] = self._fields["messages[].tool_calls[].custom"] = None
            custom = as_object(call.get("custom"), self._at(f"{place}.custom"))
            yield ToolUsePart(
                id=as_name(call.get("id"), self._at(f"{place}.id")),
                name=as_name(custom.get("name"), self._at(f"{place}.custom.name")),
                input={"input": as_text(custom.get("input"), self._at(f"{place}.custom.input"))},
                custom=True,
            )
            return
        self._fields["messages[].tool_calls"] = None
        call_id = as_name(call.get("id"), self._at(f"{place}.id"))
        function = as_object(call.get("function"), self._at(f"{place}.function"))
        yield self._call(call_id, function, f"{place}.function", call.get("extra_content"))

    def _call(self, call_id: str, function: Body, place: str, extra: Any) -> MessagePart:
        name = as_name(function.get("name"), self._at(f"{place}.name"))
        text = as_text(function.get("arguments") or "", self._at(f"{place}.arguments"))
        try:
            arguments: Any = only_json(_decode(text)) if text.strip() else {}
        except (ValueError, RecursionError):
            # A model's broken call, which agents send back with an error as its result: kept as an object with a text.
            self._fields["messages[].tool_calls[].function.arguments"] = None
            arguments = {"arguments": text}
        return ToolUsePart(id=call_id, name=name, input=arguments, signature=read_signature(extra))

    def _tool_result(self, message: Body, role: str) -> MessagePart:
        if role == "tool":
            call_id = as_name(message.get("tool_call_id"), self._at("tool_call_id"))
        else:
            self._fields["messages[].function_call"] = None
            name = as_name(message.get("name"), self._at("name"))
            call_id = self._older_calls.get(name, name)
        content = self._content(message.get("content"))
        if len(content) > 1:
            self._fields["messages[tool].content[].texts"] = None
        return ToolResultPart(tool_use_id=call_id, content=content)


PART_READERS: Final[Mapping[str, Callable[[ChatMessageParser, Any, str], MessagePart | None]]] = MappingProxyType(
    {
        "text": ChatMessageParser.read_text,
        "refusal": ChatMessageParser.read_refusal,
        "image_url": ChatMessageParser.read_image,
        "input_audio": ChatMessageParser.read_audio,
        "file": ChatMessageParser.read_file,
    }
)
"""Kinds of content that a conversation can hold; what they hold is the member of the same name."""
