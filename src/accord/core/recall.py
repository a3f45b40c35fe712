"""Remembers answers to questions that are asked again with the very same objects and the same words.

A key is the identity of the objects, which costs nothing to compute, what else was said, by its value, and a copy of
what the objects held: an object that was changed since is a new question. Bounded, oldest out first. Knows nothing of
what is asked.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

AnswerT = TypeVar("AnswerT")


class Recall(Generic[AnswerT]):
    """The answers to the last questions."""

    __slots__ = ("_answers", "_size")

    def __init__(self, size: int = 256) -> None:
        self._size: Final = size
        # The objects are kept beside their answer, so that an identity cannot come to mean another object.
        self._answers: Final[dict[Hashable, tuple[tuple[Any, ...], tuple[Any, ...], AnswerT]]] = {}

    def answer(
        self, asked: tuple[Any, ...], held: tuple[Any, ...], find: Callable[[], AnswerT], said: Hashable = None
    ) -> AnswerT:
        """The answer for these objects, which hold this; found now if it is not remembered."""
        key = (said, *map(id, asked))
        known = self._answers.get(key)
        if known is not None and known[1] == held:
            return known[2]
        answer = find()
        self._answers[key] = (asked, tuple(map(_copy, held)), answer)
        if len(self._answers) > self._size:
            self._answers.pop(next(iter(self._answers)), None)
        return answer


def _copy(held: Any) -> Any:
    return held.copy()
