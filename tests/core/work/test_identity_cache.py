"""A result is cached as long as its objects are unchanged, and the cache is bounded."""

from itertools import count

from accord.core.work.negotiate import IdentityCache


def test_the_same_objects_and_the_same_key_give_the_cached_result():
    cache, numbers = IdentityCache[int](), count()
    items = [1]
    results = [cache.get_or_compute((items,), (items,), lambda: next(numbers), key=key) for key in ("a", "a", "b", "a")]
    assert results == [0, 0, 1, 0]


def test_a_changed_object_is_computed_again():
    cache, numbers = IdentityCache[int](), count()
    items = [1]
    assert cache.get_or_compute((items,), (items,), lambda: next(numbers)) == 0
    items.append(2)
    assert cache.get_or_compute((items,), (items,), lambda: next(numbers)) == 1


def test_an_equal_object_is_computed_separately():
    cache, numbers = IdentityCache[int](), count()
    assert [cache.get_or_compute((items,), (items,), lambda: next(numbers)) for items in ([1], [1])] == [0, 1]


def test_the_oldest_result_is_evicted_first():
    cache, numbers = IdentityCache[int](size=2), count()
    assert [cache.get_or_compute((), (), lambda: next(numbers), key=key) for key in "abcbca"] == [0, 1, 2, 1, 2, 3]
