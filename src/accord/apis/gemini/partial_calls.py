"""A call of the Gemini API whose arguments come in pieces, each with the JSON path of its place. Pure."""

import re
from typing import Any, Final, cast

import msgspec

from accord.apis.codec import MalformedAnswerError, encode
from accord.wire.message import MAX_DEPTH
from accord.wire.work import ToolCallPiece

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]'"]+)|\[(?P<index>\d{1,6})\]|\['(?P<single>[^'\\]*)'\]|\["(?P<double>[^"\\]*)"\]"""
)


class GeminiPartialArg(msgspec.Struct, rename="camel"):
    """A value, or a part of a text that may continue."""

    json_path: str
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: str | None = None
    will_continue: bool | None = None


class GeminiCall(msgspec.Struct, rename="camel"):
    """A tool call, or a part of one."""

    name: str | None = None
    id: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[GeminiPartialArg] | None = None
    will_continue: bool | None = None

    @property
    def is_partial(self) -> bool:
        """Whether this is not the whole call."""
        return bool(self.will_continue or self.partial_args)


class PartialCall:
    """A call that is not complete."""

    __slots__ = ("_arguments", "_path", "_text", "id", "name", "signature")

    def __init__(self, call_id: str, name: str) -> None:
        self.id: Final = call_id
        self.name: Final = name
        self.signature: str | None = None
        self._arguments: Final[dict[str, Any]] = {}
        self._path = ""
        self._text: list[str] = []
        """The parts of the text at `_path` that continues."""

    def add(self, call: GeminiCall, signature: str | None) -> None:
        """Add what this part of the call has."""
        if (call.id or self.id, call.name or self.name) != (self.id, self.name):
            raise MalformedAnswerError("a tool call begins in the middle of another")
        self.signature = signature or self.signature
        self._arguments.update(call.args or {})
        for each in call.partial_args or ():
            self._add_argument(each)

    def _add_argument(self, part: GeminiPartialArg) -> None:
        if self._text and part.json_path != self._path:
            self._end_text()
        if part.null_value is not None:
            _set_value(self._arguments, part.json_path, None)
        elif (value := part.number_value if part.bool_value is None else part.bool_value) is not None:
            _set_value(self._arguments, part.json_path, value)
        else:
            self._path = part.json_path
            self._text.append(part.string_value or "")
            if not part.will_continue:
                self._end_text()

    def _end_text(self) -> None:
        _set_value(self._arguments, self._path, "".join(self._text))
        self._text = []

    def arguments(self) -> dict[str, Any]:
        """The arguments so far."""
        if self._text:
            self._end_text()
        return self._arguments

    def cut_piece(self) -> ToolCallPiece:
        """The call, which was cut off."""
        text = encode(self.arguments()).decode()
        return ToolCallPiece(id=self.id, name=self.name, input=text, signature=self.signature, cut=True)


def _set_value(arguments: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at this path, and make the objects and lists that lead to it."""
    keys = _read_path(path)
    place: Any = arguments
    for key, below in zip(keys, [*keys[1:], None], strict=True):
        inner: Any = value if below is None else [] if isinstance(below, int) else {}
        if isinstance(key, str) and isinstance(place, dict):
            members = cast("dict[str, Any]", place)
            place = members.setdefault(key, inner) if below is not None else members.update({key: inner})
        elif isinstance(key, int) and isinstance(place, list) and key <= len(cast("list[Any]", place)):
            items = cast("list[Any]", place)
            if key == len(items):
                items.append(inner)
            elif below is None:
                items[key] = inner
            place = items[key]
        else:
            raise MalformedAnswerError("an argument of a tool call has no place")


def _read_path(path: str) -> list[str | int]:
    keys: list[str | int] = []
    place = 1
    while place < len(path) and (step := _STEP.match(path, place)) is not None:
        keys.append(int(step["index"]) if step["index"] else step["name"] or step["single"] or step["double"] or "")
        place = step.end()
    if not 0 < len(keys) <= MAX_DEPTH or place < len(path) or not path.startswith("$"):
        raise MalformedAnswerError("the place of an argument of a tool call cannot be read")
    return keys
