"""The contract of every store for tokens: one test body for all of them."""

from collections.abc import Callable
from typing import Any

import pytest

from accord.errors import StoreConflictError, StoreError
from accord.ports import Store
from accord.wire.session import DeletionCounts, TokenRecord, token_digest
from tests.stores.records import at, begun


def a_token(name: str = "t1", *, user: str = "ada", seconds: float = 0, **fields: Any) -> TokenRecord:
    usual: dict[str, Any] = {"digest": token_digest(name), "created_at": at(seconds)}
    return TokenRecord(token_id=name, user=user, **{**usual, **fields})


async def test_a_token_is_found_by_its_hash_as_it_was_put(store: Store):
    for token in (a_token(), a_token("t2", label="für den Bau 🏗", expires_at=at(60))):
        await store.put_token(token)
        assert await store.token_by_digest(token.digest) == token


async def test_an_unknown_hash_finds_nothing(store: Store):
    await store.put_token(a_token())
    assert await store.token_by_digest(token_digest("another")) is None
    assert await store.token_by_digest(token_digest("t1").upper()) is None


async def test_tokens_are_listed_oldest_first_the_expired_too(store: Store):
    tokens = [a_token("t2"), a_token("t3"), a_token("t1", seconds=1, expires_at=at(2))]
    for token in reversed(tokens):
        await store.put_token(token)
    assert await store.tokens() == tokens


async def test_a_revoked_token_is_gone_and_the_others_are_not(store: Store):
    for token_id in ("t1", "t2"):
        await store.put_token(a_token(token_id))
    assert await store.revoke_token("t1")
    assert not await store.revoke_token("t1")
    assert await store.token_by_digest(token_digest("t1")) is None
    assert await store.tokens() == [a_token("t2")]


async def test_a_store_remembers_that_tokens_were_used_until_it_may_be_open_again(store: Store):
    assert not await store.requires_tokens()
    for name in ("t1", "t2"):
        await store.put_token(a_token(name, expires_at=at(0)))
        assert await store.requires_tokens()
    await store.revoke_token("t1")
    with pytest.raises(StoreConflictError, match="There are tokens; revoke them first"):
        await store.allow_open()
    await store.revoke_token("t2")
    assert await store.requires_tokens()
    await store.allow_open()
    assert not await store.requires_tokens()
    await store.put_token(a_token("t3"))
    assert await store.requires_tokens()


async def test_deleting_the_only_user_with_a_token_does_not_open_a_store(store: Store):
    await store.put_token(a_token())
    await store.delete_user("ada")
    assert await store.tokens() == []
    assert await store.requires_tokens()


@pytest.mark.parametrize("second", [a_token(digest=token_digest("x")), a_token("t2", digest=token_digest("t1"))])
async def test_neither_id_nor_hash_can_be_given_twice(store: Store, second: TokenRecord):
    await store.put_token(a_token())
    with pytest.raises(StoreConflictError, match="There is already a token of this id or hash"):
        await store.put_token(second)
    assert await store.tokens() == [a_token()]


async def test_deleting_a_user_revokes_only_that_users_tokens(store: Store):
    await begun(store)
    for token_id, user in [("t1", "ada"), ("t2", "ada"), ("t3", "eve")]:
        await store.put_token(a_token(token_id, user=user))
    assert await store.delete_user("ada") == DeletionCounts(sessions=1, turns=1, tokens=2)
    assert await store.tokens() == [a_token("t3", user="eve")]


async def test_old_tokens_do_not_expire_with_old_sessions(store: Store):
    await store.put_token(a_token())
    assert await store.expire(at(1000)) == DeletionCounts()
    assert await store.tokens() == [a_token()]


async def test_a_store_that_is_not_open_has_no_tokens_to_tell_of(new_store: Callable[[], Store]):
    store = new_store()
    for call in (
        store.put_token(a_token()),
        store.token_by_digest(""),
        store.tokens(),
        store.revoke_token("t1"),
        store.requires_tokens(),
        store.allow_open(),
    ):
        with pytest.raises(StoreError, match="not open"):
            await call
