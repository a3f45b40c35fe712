"""The tool calls of one chat answer, while their pieces arrive. Pure.

A piece of a call has an index; servers omit the index or the id, send a call at once, give every call index 0, or
repeat the name.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import msgspec

from accord.apis.codec import MalformedAnswerError
from accord.apis.openai.parts import arguments_text, parse_arguments
from accord.wire.work import ToolCallDelta, ToolCallPiece

FUNCTION_CALL: Final = -1
"""The index of the one call that the older form of an answer has."""


class _PartialCall:
    __slots__ = ("id", "is_complete", "is_custom", "is_streamed", "name", "signature", "texts")

    def __init__(self, *, is_custom: bool) -> None:
        self.id = ""
        self.name = ""
        self.signature: str | None = None
        self.is_custom: Final = is_custom
        self.texts: Final[list[str]] = []
        self.is_streamed = False
        """Whether its start was returned."""
        self.is_complete = False
        """Whether the whole call was returned."""

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def has_whole_arguments(self) -> bool:
        """Whether nothing can follow but white space."""
        if self.is_custom or not self.texts or not self.texts[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(msgspec.json.decode(self.text), dict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False


class CallReader:
    """Reads the calls of one answer; with `streams`, each is returned as it arrives, too, not only when complete."""

    __slots__ = ("_by_index", "_calls", "_ids", "_streams")

    def __init__(self, *, streams: bool) -> None:
        self._streams: Final = streams
        self._calls: Final[list[_PartialCall]] = []
        self._by_index: Final[dict[int, _PartialCall]] = {}
        self._ids: Final[set[str]] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(  # noqa: PLR0913 - the members of a piece of a call
        self,
        index: int | None,
        call_id: str | None,
        name: str | None,
        text: str,
        signature: str | None = None,
        *,
        is_custom: bool = False,
    ) -> list[ToolCallDelta | ToolCallPiece]:
        """Return the pieces that this piece of a call completes."""
        call, pieces = self._find(index, call_id, name, has_text=bool(text)), list[ToolCallDelta | ToolCallPiece]()
        if call is None:
            pieces += self._complete_ready()
            call = self._begin(index, is_custom=is_custom)
        if call.is_complete and (text.strip() or signature):
            raise MalformedAnswerError("a call goes on after its end")
        call.name = call.name or name or ""
        if not call.is_streamed:
            call.id = call.id or call_id or ""
        call.signature = call.signature or signature
        if text:
            call.texts.append(text)
        return [*pieces, *self._stream(call, text)]

    def _complete_ready(self) -> list[ToolCallPiece]:
        """The last call, if nothing can come of it any more: an API with one call at a time goes on with the next."""
        last = self._calls[-1] if self._streams and self._calls else None
        if last is None or last.is_complete or not last.has_whole_arguments():
            return []
        return [self._complete(last, is_cut=False)]

    def _stream(self, call: _PartialCall, text: str) -> Iterator[ToolCallDelta]:
        """The start of a call, as soon as it is known, and this text of its arguments."""
        if not call.is_streamed:
            # Some APIs have the signature of a call in its start only.
            if not self._streams or not call.name or call.signature is not None:
                return
            self._identify(call)
            call.is_streamed, text = True, call.text
            yield ToolCallDelta(id=call.id, name=call.name, custom=call.is_custom)
        if text and not call.is_complete:
            yield ToolCallDelta(id=call.id, name=call.name, text=text, custom=call.is_custom)

    def finish(self, *, is_cut: bool) -> list[ToolCallPiece]:
        """Return the calls that are not complete yet; `is_cut`: the answer was cut off, perhaps in one of them."""
        calls = [call for call in self._calls if not call.is_complete]
        return [self._complete(call, is_cut=is_cut) for call in calls if call.name or not is_cut]

    def _find(self, index: int | None, call_id: str | None, name: str | None, *, has_text: bool) -> _PartialCall | None:
        """The call that this is a piece of, or None if it begins one."""
        last = self._calls[-1] if self._calls else None
        call = last if index is None else self._by_index.get(index)
        if call is None or not name:
            return call
        if call_id and call.id:
            is_other = call_id != call.id
        else:
            is_other = index is None and (name != call.name or has_text) and call.has_whole_arguments()
        return None if is_other else call

    def _begin(self, index: int | None, *, is_custom: bool) -> _PartialCall:
        call = _PartialCall(is_custom=is_custom)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _identify(self, call: _PartialCall) -> None:
        """Give the call an id of its own, if the endpoint gave none, or that of another call."""
        if not call.id or call.id in self._ids:
            call.id = f"call_{uuid4().hex}"
        self._ids.add(call.id)

    def _complete(self, call: _PartialCall, *, is_cut: bool) -> ToolCallPiece:
        if not call.name:
            raise MalformedAnswerError("a call names no tool")
        text, is_last = call.text, call is self._calls[-1]
        arguments: Any = text
        if call.is_custom:
            is_cut = is_cut and is_last
        elif not (is_cut and is_last and not text.strip()):  # nothing of the arguments has come, which may mean none
            try:
                arguments, is_cut = parse_arguments(text), False
            except MalformedAnswerError:
                if not is_cut:
                    raise
        if not call.is_streamed:
            self._identify(call)
        call.is_complete = True
        return ToolCallPiece(
            id=call.id,
            name=call.name,
            input=arguments,
            signature=call.signature,
            custom=call.is_custom,
            cut=is_cut,
        )


def arguments_of(value: Any) -> str:
    """The arguments of a call as text; some servers send the value itself."""
    if value is None:
        return ""
    return value if isinstance(value, str) else arguments_text(value)
