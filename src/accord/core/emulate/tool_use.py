"""Lets a model without tools call tools: they are described in the prompt, and its calls are read out of its text.

Text up to the first call goes on as it comes; from there on all is held until the answer is complete, so that no call
is made of an answer that is then asked for again. A call that cannot be read, names no known tool or has arguments
that do not fit the tool's schema is asked for again with what is wrong. Ids are `call_1`, `call_2` and so on, through
the whole conversation. The format itself is `tool_format.py`'s.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accord.core.emulate.fit_schema import MAX_FINDINGS, Finding, SchemaFit
from accord.core.emulate.inject import prompted, saying, withheld
from accord.core.emulate.shape import DEFAULT_RETRIES, AnswerReader, AskAgain, Done, PassingReader, Prepared, Verdict
from accord.core.emulate.tool_format import OPENING, BrokenCall, WrittenCall, read_calls, tools_prompt, written_out
from accord.core.emulate.watch import MarkWatch
from accord.wire.answer import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece, WorkPiece
from accord.wire.attempt import Effect, EffectKind
from accord.wire.capability import Capability
from accord.wire.conversation import Conversation, ToolResultPart, ToolUsePart
from accord.wire.emulation import EmulationStrategy, PostProcessing
from accord.wire.work import ToolSpec, WorkOrder

CORRECTION: Final = (
    "Nothing has been called yet, because of this:\n{problems}\n"
    "Write every call that you want to make again, correctly. "
    "The user has seen what you wrote before the first call; do not repeat that."
)

_ID: Final = re.compile(r"call_([1-9][0-9]{0,8})")
_LABEL = PostProcessing(detail="Describe tools in the prompt and parse calls from text response")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Describes tools, and reads calls."""

    max_retries: int = DEFAULT_RETRIES
    capability: str = Capability.TOOL_USE
    strategy: EmulationStrategy = _LABEL

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with its tools, and all that was called and answered before, as text."""
        _fits(order.tools)
        history = _history(order.conversation)
        effects: list[Effect] = []
        if history:
            order = saying(order, written_out(order.conversation.messages))
            effects.append(_effect(EffectKind.TOOL_HISTORY_WRITTEN_OUT, history))
        if order.tools:
            order = prompted(order, tools_prompt(order.tools))
            effects.append(_effect(EffectKind.TOOLS_DESCRIBED, len(order.tools)))
        return Prepared(withheld(order, Capability.TOOL_USE), tuple(effects))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Reads calls of the order's tools, if it has any."""
        return _CallReader(_fits(order.tools), _next_number(order.conversation)) if order.tools else PassingReader()


class _CallReader:
    def __init__(self, fits: Mapping[str, SchemaFit], number: int) -> None:
        self._fits, self._number = fits, number
        self._watch = MarkWatch([OPENING])
        self._before: list[str] = []
        self._held: list[str] | None = None
        self._native: list[AnyPiece] = []

    def feed(self, piece: AnyPiece) -> list[AnyPiece]:
        if isinstance(piece, TextPiece):
            return self._feed_text(piece.text)
        if self._held is None:
            return [*self._passed(self._watch.flush()), piece]
        if isinstance(piece, ThinkingPiece | WorkPiece):
            return [piece]
        self._native.append(piece)
        return []

    def _feed_text(self, text: str) -> list[AnyPiece]:
        if self._held is not None:
            self._held.append(text)
            return []
        before, found = self._watch.feed(text)
        if found:
            self._held = [OPENING, found.after]
        return self._passed(before)

    def finish(self, end: EndPiece) -> Verdict:
        if self._held is None:
            return Done(end, tuple(self._passed(self._watch.flush())))
        held = "".join(self._held)
        pieces: list[AnyPiece] = []
        findings: list[Finding] = []
        calls = 0
        for item in read_calls(held):
            if isinstance(item, str):
                pieces += [TextPiece(text=item)] if item.strip() else []
                continue
            calls += 1
            findings += [
                Finding(f"call {calls} {found.message}", f"call {calls} {found.record}")
                for found in self._findings(item)
            ]
            if isinstance(item, WrittenCall):
                name, arguments = item.name, item.arguments
                pieces.append(ToolCallPiece(id=f"call_{self._number + calls - 1}", name=name, input=arguments))
        if findings := findings[:MAX_FINDINGS]:
            correction = CORRECTION.format(problems="\n".join(f"- {found.message}" for found in findings))
            return AskAgain("".join(self._before) + held, correction, tuple(found.record for found in findings))
        ended = end.model_copy(update={"reason": "tool_use"})
        return Done(ended, (*pieces, *self._native), (_effect(EffectKind.CALLS_FOUND, calls),))

    def _findings(self, call: WrittenCall | BrokenCall) -> list[Finding]:
        if isinstance(call, BrokenCall):
            return [call.finding]
        fit = self._fits.get(call.name)
        if fit is None:
            known = f"not one of: {', '.join(self._fits)}"
            return [Finding(f'names the tool "{call.name[:60]}", which is {known}', f"names a tool that is {known}")]
        arguments: object = call.arguments
        if not isinstance(arguments, dict):
            sentence = 'should have a JSON object as its "arguments"'
            return [Finding(sentence, sentence)]
        of = f"of {call.name}, arguments"
        return [Finding(f"{of} {each.message}", f"{of} {each.record}") for each in fit.findings(call.arguments)]

    def _passed(self, text: str) -> list[AnyPiece]:
        if not text:
            return []
        self._before.append(text)
        return [TextPiece(text=text)]


def _fits(tools: Sequence[ToolSpec]) -> dict[str, SchemaFit]:
    return {tool.name: SchemaFit(tool.input_schema, name=f"input_schema of the tool {tool.name}") for tool in tools}


def _history(conversation: Conversation) -> int:
    parts = (part for message in conversation.messages for part in message.content)
    return sum(isinstance(part, ToolUsePart | ToolResultPart) for part in parts)


def _next_number(conversation: Conversation) -> int:
    """One more than the highest number that a call of this conversation has."""
    parts = (part for message in conversation.messages for part in message.content)
    ids = (_ID.fullmatch(part.id) for part in parts if isinstance(part, ToolUsePart))
    return max((int(found[1]) for found in ids if found), default=0) + 1


def _effect(kind: EffectKind, count: int) -> Effect:
    return Effect(capability=Capability.TOOL_USE, kind=kind, count=count)
