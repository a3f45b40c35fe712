"""A law of the queue: users take turns, whatever the order of their requests."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.stores.sqlite import SqliteStore
from tests.laws import examples
from tests.stores.test_contract_queue import must_claim, put_in


@settings(max_examples=examples(15), deadline=None)
@given(owners=st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_users_take_turns_whatever_the_order_of_their_requests(
    owners: list[str], tmp_path_factory: pytest.TempPathFactory
):
    """A law: while several users wait, none gets a second turn before each has had one more."""
    order = asyncio.run(_order_of(owners, tmp_path_factory))
    left = {owner: owners.count(owner) for owner in owners}
    given_out = dict.fromkeys(left, 0)
    for owner in order:
        others = [given_out[other] for other in left if left[other] > given_out[other]]
        assert given_out[owner] == min(others)
        given_out[owner] += 1


async def _order_of(owners: list[str], folders: pytest.TempPathFactory) -> list[str]:
    store = SqliteStore(folders.mktemp("queue") / "q.sqlite3")
    await store.open()
    try:
        for number, owner in enumerate(owners):
            await put_in(store, f"r{number}", owner=owner)
        return [(await must_claim(store)).turn.owner for _ in owners]
    finally:
        await store.close()
