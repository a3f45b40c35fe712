"""What one turn asks of backends: each question is put with what the user sent, counted, and closed with the turn.

An agent's turn holds this object and this object holds no turn: a turn that is over is forgotten at once, without
anybody having to look for circles.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from accord.agent import Question, Turn
from accord.core.converse import converse
from accord.engine.dispatch import Account, Dispatcher
from accord.engine.limits import Patience
from accord.wire.acp.content import ContentBlock
from accord.wire.answer import AnyPiece


class Questions:
    """The questions of one turn, and what became of them."""

    __slots__ = ("_answers", "_dispatcher", "_patience", "_system", "accounts")

    def __init__(self, dispatcher: Dispatcher, system: str | None, patience: Patience) -> None:
        self.accounts: Final[list[Account]] = []
        self._answers: Final[list[AsyncGenerator[AnyPiece, None]]] = []
        self._dispatcher: Final = dispatcher
        self._system: Final = system
        self._patience: Final = patience

    def __call__(self, turn: Turn, question: Question) -> AsyncGenerator[AnyPiece, None]:
        """The answer to this question of this turn, piece by piece."""
        account = Account()
        self.accounts.append(account)
        order = converse(
            prompt=question.prompt if question.prompt is not None else turn.text,
            content=_content(turn, question),
            history=turn.history,
            system=question.system or self._system,
            tools=question.tools,
            response_schema=question.schema,
            stop_sequences=question.stop,
            thinking=question.thinking,
            stream=True,
            parameters=question.parameters,
            follow=question.follow,
            requirements=question.requirements or turn.request.payload.requirements,
        )
        answer = self._dispatcher.answer(order, account, self._patience)
        self._answers.append(answer)
        return answer

    async def close(self) -> None:
        """Close every question that the agent left open, and with it the backend's work."""
        for answer in self._answers:
            await answer.aclose()


def _content(turn: Turn, question: Question) -> Sequence[ContentBlock]:
    """What goes with the question: what the agent gave, else what the user sent if the words are the user's own."""
    if question.content is not None:
        return question.content
    return turn.content if question.prompt is None else ()
