"""Model names mean backends; weights decide which of equally good ones is first."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.core.work.groups import BackendGroup, UnresolvedModel, count_equal, draw_first, model_names, resolve_model
from accord.wire.manifest import NegotiationResult
from accord.wire.plan import Offer, Shortfall

MODELS = {"first": "m-large", "second": "m-large", "spare": "m-small", "own": None}
GROUPS = {
    "acme/chat": BackendGroup(("second", "first"), {"first": 3.0, "second": 1.0}),
    "m-small": BackendGroup(("own",)),
}

names = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True)
weights = st.dictionaries(st.sampled_from("abcdefg"), st.floats(0.001, 1e6))
draws = st.floats(0.0, 1.0, exclude_max=True)


@pytest.mark.parametrize(
    ("name", "backends"),
    [
        ("first", "first"),
        ("own", "own"),
        ("acme/chat", "second first"),
        ("auto", "first second spare own"),
        ("m-large", "first second"),
        ("m-small", "own"),  # a group counts before the model of that id
    ],
)
def test_each_name_means_these_backends_in_this_order(name: str, backends: str):
    found = resolve_model(name, MODELS, GROUPS)
    assert isinstance(found, BackendGroup)
    assert list(found.backends) == backends.split()


def test_a_group_called_auto_replaces_the_built_in_one():
    group = BackendGroup(("spare",))
    assert resolve_model("auto", MODELS, {"auto": group}) is group


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("m-lrge", 'unknown model "m-lrge"; did you mean m-large?'),
        ("acme/chta", 'unknown model "acme/chta"; did you mean acme/chat?'),
        ("?", 'unknown model "?"; known are acme/chat, m-small, first, second, spare, own, m-large, auto'),
    ],
)
def test_an_unknown_name_gets_the_closest_one_or_all(name: str, says: str):
    assert resolve_model(name, MODELS, GROUPS) == UnresolvedModel(name, says)


def test_each_listed_name_can_be_resolved():
    for name in model_names(MODELS, GROUPS):
        assert isinstance(resolve_model(name, MODELS, GROUPS), BackendGroup)


@given(names, weights, draws)
def test_drawing_moves_one_name_to_the_front_and_keeps_the_others_in_order(
    given_names: list[str], given_weights: dict[str, float], draw: float
):
    first, *others = draw_first(given_names, given_weights, lambda: draw)
    assert others == [name for name in given_names if name != first]
    if set(given_names) & given_weights.keys():
        assert first in given_weights
    else:
        assert [first, *others] == given_names


def test_each_name_is_first_as_often_as_its_weight_says():
    places = [place / 400 for place in range(400)]
    drawn = Counter(draw_first("abc", {"a": 3.0, "b": 1.0}, lambda at=at: at)[0] for at in places)
    assert drawn == {"a": 300, "b": 100}


def offer(name: str, *, tried: int = 0, losses: int = 0) -> Offer:
    return Offer(
        backend=name,
        negotiation=NegotiationResult(),
        tried=["seed_determinism"] * tried,
        losses=[Shortfall(capability="top_k", reason="declared unsupported")] * losses,
    )


@pytest.mark.parametrize(
    ("offers", "equal"),
    [
        ([], 0),
        ([offer("a")], 1),
        ([offer("a"), offer("b"), offer("c", tried=1)], 2),
        ([offer("a", tried=1), offer("b", tried=1)], 2),
        ([offer("a", tried=1), offer("b", losses=1)], 1),
    ],
)
def test_offers_with_as_few_compromises_as_the_first_are_equal(offers: list[Offer], equal: int):
    assert count_equal(offers) == equal
