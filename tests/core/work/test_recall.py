"""Answers are remembered as long as nothing that was asked about has changed, and never too many of them."""

from itertools import count

from accord.core.work.negotiate import Recall


def test_the_same_objects_and_the_same_words_have_the_same_answer():
    recall, found = Recall[int](), count()
    thing = [1]
    answers = [recall.answer((thing,), (thing,), lambda: next(found), said=said) for said in ("a", "a", "b", "a")]
    assert answers == [0, 0, 1, 0]


def test_an_object_that_was_changed_is_a_new_question():
    recall, found = Recall[int](), count()
    thing = [1]
    assert recall.answer((thing,), (thing,), lambda: next(found)) == 0
    thing.append(2)
    assert recall.answer((thing,), (thing,), lambda: next(found)) == 1


def test_an_equal_object_is_still_another_one():
    recall, found = Recall[int](), count()
    assert [recall.answer((thing,), (thing,), lambda: next(found)) for thing in ([1], [1])] == [0, 1]


def test_the_oldest_answer_is_forgotten_first():
    recall, found = Recall[int](size=2), count()
    assert [recall.answer((), (), lambda: next(found), said=said) for said in "abcbca"] == [0, 1, 2, 1, 2, 3]
