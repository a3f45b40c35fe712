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
from accord.core.emulate.quotation import Quotation
from accord.core.emulate.shape import DEFAULT_RETRIES, AnswerReader, AskAgain, Done, PassingReader, Prepared, Verdict
from accord.core.emulate.tool_format import BrokenCall, Tags, WrittenCall, read_calls, tools_prompt, written_out
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

NO_MARKER: Final = "a call lacks the marker of this question"
UNMARKED: Final = Tags()

_ID: Final = re.compile(r"call_([1-9][0-9]{0,8})")
_LABEL = PostProcessing(detail="Describe tools in the prompt and parse calls from text response")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Describes tools, and reads calls. `marker` is new for every question; see `tool_format.py`."""

    max_retries: int = DEFAULT_RETRIES
    marker: str = ""
    capability: str = Capability.TOOL_USE
    strategy: EmulationStrategy = _LABEL

    def prepare(self, order: WorkOrder) -> Prepared:
        """The order with its tools, and all that was called and answered before, as text."""
        _fits(order.tools)
        tags, history = Tags(self.marker), _history(order.conversation)
        effects: list[Effect] = []
        if history or order.tools:
            messages, escaped = written_out(order.conversation.messages, tags)
            order = saying(order, messages)
            counts = {EffectKind.TOOL_HISTORY_WRITTEN_OUT: history, EffectKind.MARKUP_ESCAPED: escaped}
            effects += [_effect(kind, count) for kind, count in counts.items() if count]
        if order.tools:
            order = prompted(order, tools_prompt(order.tools, tags))
            effects.append(_effect(EffectKind.TOOLS_DESCRIBED, len(order.tools)))
        return Prepared(withheld(order, Capability.TOOL_USE), tuple(effects))

    def reader(self, order: WorkOrder) -> AnswerReader:
        """Reads calls of the order's tools, if it has any."""
        if not order.tools:
            return PassingReader()
        return _CallReader(_fits(order.tools), _next_number(order.conversation), Tags(self.marker))


class _CallReader:
    def __init__(self, fits: Mapping[str, SchemaFit], number: int, tags: Tags) -> None:
        self._fits, self._number, self._tags = fits, number, tags
        # Models that were trained on the bare form may write it; such a call is held, and asked for again.
        self._watch = MarkWatch([*{tags.opening(), UNMARKED.opening()}])
        self._quotation = Quotation()
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
        passed: list[AnyPiece] = []
        while True:
            before, found = self._watch.feed(text)
            passed += self._passed(before)
            if found is None:
                return passed
            if not self._quotation.is_open:
                self._held = [found.mark, found.after]
                return passed
            passed += self._passed(found.mark)
            text = found.after

    def finish(self, end: EndPiece) -> Verdict:
        if self._held is None:
            return Done(end, tuple(self._passed(self._watch.flush())))
        held = "".join(self._held)
        pieces: list[AnyPiece] = []
        findings = self._unmarked(held) if self._tags != UNMARKED else []
        calls = 0
        for item in read_calls(held, self._tags, self._quotation):
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
        if not calls:
            return Done(end, (TextPiece(text=held), *self._native))
        ended = end.model_copy(update={"reason": "tool_use"})
        return Done(ended, (*pieces, *self._native), (_effect(EffectKind.CALLS_FOUND, calls),))

    def _unmarked(self, held: str) -> list[Finding]:
        """Calls of known tools that lack the marker: a mistake or a quotation, and in no case a call."""
        before = Quotation()
        before.feed("".join(self._before))
        found = [item for item in read_calls(held, UNMARKED, before) if isinstance(item, WrittenCall)]
        sentence = f"should begin with {self._tags.opening()} and end with {self._tags.closing()}"
        return [Finding(f"the call of {call.name} {sentence}", NO_MARKER) for call in found if call.name in self._fits]

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
        self._quotation.feed(text)
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
