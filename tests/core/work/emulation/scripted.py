"""What the tests of emulation share: orders, a scripted backend, and answers cut anywhere."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from accord.core.work.emulation.base import Accepted, AnswerResult, Emulation
from accord.core.work.emulation.run import EmulationRun
from accord.wire.conversation import Conversation, ConversationMessage, TextPart
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, WorkOrder

Backend = Callable[[WorkOrder], Iterator[AnyPiece]]


def talk(*turns: tuple[str, str]) -> Conversation:
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns]
    return Conversation.model_validate({"messages": messages})


HELLO = talk(("user", "Hello"))


def texts_of(message: ConversationMessage) -> list[str]:
    return [part.text for part in message.content if isinstance(part, TextPart)]


def system_text(order: WorkOrder) -> str:
    return "".join(
        text for message in order.conversation.messages if message.role == "system" for text in texts_of(message)
    )


def pieces(*texts: str) -> list[AnyPiece]:
    return [TextPiece(text=text) for text in texts]


def joined(answer: Iterable[AnyPiece]) -> str:
    return "".join(piece.text for piece in answer if isinstance(piece, TextPiece))


def merged(answer: Iterable[AnyPiece]) -> list[AnyPiece]:
    """The answer with neighbouring pieces of one kind joined: what a reader of it sees."""
    out: list[AnyPiece] = []
    for piece in answer:
        last = out[-1] if out else None
        if isinstance(piece, TextPiece) and isinstance(last, TextPiece):
            out[-1] = TextPiece(text=last.text + piece.text)
        elif isinstance(piece, ThinkingPiece) and isinstance(last, ThinkingPiece):
            out[-1] = ThinkingPiece(text=last.text + piece.text)
        else:
            out.append(piece)
    return out


@dataclass(frozen=True)
class Reading:
    """What one reader made of one answer."""

    out: list[AnyPiece]
    result: AnswerResult


def read(emulation: Emulation, order: WorkOrder, answer: Iterable[AnyPiece], end: EndPiece | None = None) -> Reading:
    """The outcome of one answer, whatever pieces it went on in."""
    reader = emulation.reader(order)
    out = [passed for piece in answer for passed in reader.feed(piece)]
    result = reader.finish(end or EndPiece())
    if isinstance(result, Accepted):
        out += result.pieces
        result = Accepted(result.end, (), result.effects)
    return Reading(merged(out), result)


def scripted(*answers: Iterable[AnyPiece]) -> tuple[Backend, list[WorkOrder]]:
    """A backend that gives these answers in turn, and the list of the orders that it was sent."""
    left = iter(answers)
    orders: list[WorkOrder] = []

    def backend(order: WorkOrder) -> Iterator[AnyPiece]:
        orders.append(order)
        yield from next(left)

    return backend, orders


def text_answer(*texts: str) -> list[AnyPiece]:
    """A whole answer."""
    return [*pieces(*texts), EndPiece()]


def run(turn: EmulationRun, backend: Backend) -> Iterator[AnyPiece]:
    """The loop that any caller needs, and all of it."""
    while to_send := turn.next_order():
        for piece in backend(to_send):
            yield from turn.feed(piece)
        yield from turn.finish()


def cut(text: str, places: Iterable[int]) -> list[AnyPiece]:
    """The text in pieces, cut at these places."""
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return pieces(*(text[start:stop] for start, stop in pairwise(edges)))


PLACES = st.lists(st.integers(0, 200), max_size=12)
