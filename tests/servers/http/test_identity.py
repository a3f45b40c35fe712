"""Authentication: a valid token in a well-formed header is accepted, and nothing else."""

import pytest

from accord.errors import ErrorCode, RefusedError, StoreError
from accord.ports import TokenStore
from accord.servers.http import authentication as identity
from accord.servers.http.authentication import (
    EXPIRED,
    MALFORMED,
    MALFORMED_KEY,
    MISSING,
    TOO_LONG,
    UNKNOWN,
    TokenAuthenticator,
    request_token,
)
from accord.servers.service import Authenticator, Caller, check_model_allowed
from accord.stores.memory import MemoryStore
from accord.wire.keys import KeyRules
from accord.wire.session import TokenRecord, token_digest
from tests.servers.clock import START, ManualClock, run

TOKEN = "accord_" + "a" * 43
OTHER = "accord_" + "b" * 43
JWT = "eyJhbGciOiJub25lIn0.e30."


class CountingStore(MemoryStore):
    """A store that counts lookups of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0

    async def token_by_digest(self, digest: str) -> TokenRecord | None:
        self.lookups += 1
        return await super().token_by_digest(digest)


class Voucher:
    """Says of every JWT that it is grace's."""

    async def user_of(self, token: str) -> str:
        assert token == JWT
        return "grace"


async def a_store(*tokens: str, user: str = "ada", good_s: float | None = None) -> CountingStore:
    store = CountingStore()
    await store.open()
    clock = ManualClock()
    clock.elapsed_s = good_s or 0
    until = None if good_s is None else clock.now()
    for token in tokens:
        record = TokenRecord(
            token_id=token[-9:], user=user, digest=token_digest(token), created_at=START, expires_at=until
        )
        await store.put_token(record)
    return store


async def authenticated_user(authenticator: Authenticator, value: str) -> str | None:
    return (await authenticator.authenticate({b"authorization": value.encode()})).id


async def refused(authenticator: Authenticator, value: str) -> str:
    with pytest.raises(RefusedError) as caught:
        await authenticated_user(authenticator, value)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert caught.value.details == {"scheme": "Bearer"}
    return caught.value.message


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN}", f"Bearer {TOKEN} \t"])
def test_a_token_identifies_its_user(value: str):
    async def ask() -> None:
        assert (
            await authenticated_user(TokenAuthenticator(await a_store(TOKEN), None, [], ManualClock()), value) == "ada"
        )

    run(ask())


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", MISSING),
        (" ", MALFORMED),
        ("Bearer", MALFORMED),
        ("Bearer ", MALFORMED),
        (TOKEN, MALFORMED),
        (f"Basic {TOKEN}", MALFORMED),
        (f"Bearer{TOKEN}", MALFORMED),
        (f"Bearer\t{TOKEN}", MALFORMED),
        (f"Bearer {TOKEN}, Bearer {TOKEN}", MALFORMED),
        (f"Bearer {TOKEN},{OTHER}", MALFORMED),
        (f"Bearer {TOKEN} {OTHER}", MALFORMED),
        (f"Bearer {TOKEN}\n", MALFORMED),
        (f'Bearer "{TOKEN}"', MALFORMED),
        (f"Bearer {TOKEN}é", MALFORMED),
        (f"Bearer {TOKEN}\0", MALFORMED),
        ("Bearer " + "a" * 8193, TOO_LONG),
        ("Bearer " + "a" * 8192, UNKNOWN),
        (f"Bearer {OTHER}", UNKNOWN),
        (f"Bearer {TOKEN}=", UNKNOWN),
        (f"Bearer {TOKEN.upper()}", UNKNOWN),
        (f"Bearer {TOKEN[:-1]}", UNKNOWN),
        (f"Bearer {token_digest(TOKEN)}", UNKNOWN),
        (f"Bearer {JWT}", UNKNOWN),
    ],
)
def test_anything_else_is_refused_with_a_sentence_that_helps_and_repeats_nothing(value: str, sentence: str):
    async def ask() -> None:
        assert await refused(TokenAuthenticator(await a_store(TOKEN), None, [], ManualClock()), value) == sentence

    run(ask())
    assert "accord_" not in sentence


def test_without_the_header_the_error_asks_for_a_token():
    with pytest.raises(RefusedError, match="Authorization: Bearer <token>"):
        request_token({b"x-authorization": b"Bearer x"})


@pytest.mark.parametrize(
    ("bearer", "api_key", "user"),
    [
        (None, TOKEN, "ada"),
        (None, f" {TOKEN}\t", "ada"),
        (f"Bearer {TOKEN}", TOKEN, "ada"),
        ("", TOKEN, "ada"),
        (None, "", MISSING),
        (None, f"Bearer {TOKEN}", MALFORMED_KEY),
        (None, f"{TOKEN},{TOKEN}", MALFORMED_KEY),
        (None, f"{TOKEN}\n", MALFORMED_KEY),
        (None, "a" * 9000, TOO_LONG),
        (None, OTHER, UNKNOWN),
        (f"Bearer {OTHER}", TOKEN, UNKNOWN),
        (f"Bearer {TOKEN}", OTHER, "ada"),
        (f"Bearer {TOKEN}", "sk-of-another-service", "ada"),
        ("Bearer sk-of-another-service", TOKEN, "ada"),
        ("Bearer sk-of-another-service", "sk-too", UNKNOWN),
        (f"Basic {TOKEN}", TOKEN, MALFORMED),
    ],
)
def test_a_token_is_also_accepted_as_an_api_key(bearer: str | None, api_key: str, user: str):
    async def ask() -> None:
        headers = {b"x-api-key": api_key.encode()}
        if bearer is not None:
            headers[b"authorization"] = bearer.encode()
        authenticator = TokenAuthenticator(await a_store(TOKEN), None, [], ManualClock())
        if user == "ada":
            assert (await authenticator.authenticate(headers)).id == user
        else:
            with pytest.raises(RefusedError) as caught:
                await authenticator.authenticate(headers)
            assert (caught.value.message, caught.value.code) == (user, ErrorCode.UNAUTHENTICATED)

    run(ask())


def test_a_caller_has_the_record_of_the_key_with_its_rules():
    async def ask() -> None:
        clock, store, rules = ManualClock(), await a_store(TOKEN), KeyRules(models=["gpt-*"])
        authenticator = TokenAuthenticator(store, Voucher(), [], clock)
        headers = {b"authorization": f"Bearer {TOKEN}".encode()}
        assert (await authenticator.authenticate(headers)).key == (await store.tokens())[0]
        await store.set_token_rules(TOKEN[-9:], rules)
        clock.elapsed_s = 5
        caller = await authenticator.authenticate(headers)
        assert caller.key is not None
        assert caller.key.rules == rules
        assert await authenticator.authenticate({b"authorization": f"Bearer {JWT}".encode()}) == Caller("grace")

    run(ask())


def a_key(rules: KeyRules | None, name: str = "k") -> TokenRecord:
    return TokenRecord(token_id=name, user="ada", digest=token_digest(name), created_at=START, rules=rules)


def test_a_key_may_request_the_models_that_its_rules_allow():
    for key in (None, a_key(None), a_key(KeyRules()), a_key(KeyRules(models=["gpt-*"]))):
        check_model_allowed(Caller("ada", key), "gpt-4o")
    with pytest.raises(RefusedError, match=r"This key may not use this model; it allows gpt-\*, auto") as caught:
        check_model_allowed(Caller("ada", a_key(KeyRules(models=["gpt-*", "auto"]))), "claude-x")
    assert caught.value.code is ErrorCode.FORBIDDEN
    assert caught.value.details == {"field": "model", "allowed": ["gpt-*", "auto"]}


def test_a_key_has_its_own_rates_besides_those_of_the_service():
    async def ask() -> None:
        clock = ManualClock()
        authenticator: Authenticator = TokenAuthenticator(None, None, ["4/minute"], clock)
        slow = Caller("ada", a_key(KeyRules(rates=["1/minute", "1/minute", "9/hour"])))
        other = Caller("ada", a_key(KeyRules(rates=["2/minute"]), "k2"))

        async def refused_limit(caller: Caller) -> str:
            with pytest.raises(RefusedError) as caught:
                await authenticator.count_request(caller, "192.0.2.1")
            assert caught.value.code is ErrorCode.RATE_LIMIT_EXCEEDED
            return caught.value.details["limit"]

        await authenticator.count_request(slow, "192.0.2.1")
        for _ in range(5):  # refused requests count for neither rate
            assert await refused_limit(slow) == "1/minute"
        for _ in range(2):
            await authenticator.count_request(other, "192.0.2.1")
        assert await refused_limit(other) == "2/minute"
        await authenticator.count_request(Caller("ada"), "192.0.2.1")
        assert await refused_limit(Caller("ada")) == "4/minute"
        clock.elapsed_s = 60
        await authenticator.count_request(slow, "192.0.2.1")

    run(ask())


@pytest.mark.parametrize(("at_s", "good"), [(0, True), (59.9, True), (60, False), (3600, False)])
def test_an_expired_token_is_refused_as_such(at_s: float, good: bool):
    async def ask() -> None:
        clock = ManualClock()
        clock.elapsed_s = at_s
        authenticator = TokenAuthenticator(await a_store(TOKEN, good_s=60), None, [], clock)
        if good:
            assert await authenticated_user(authenticator, f"Bearer {TOKEN}") == "ada"
        else:
            assert await refused(authenticator, f"Bearer {TOKEN}") == EXPIRED

    run(ask())


def test_a_token_expires_on_time_even_while_it_is_cached():
    async def ask() -> None:
        clock, store = ManualClock(), await a_store(TOKEN, good_s=2)
        authenticator = TokenAuthenticator(store, None, [], clock)
        await authenticated_user(authenticator, f"Bearer {TOKEN}")
        clock.elapsed_s = 2
        assert await refused(authenticator, f"Bearer {TOKEN}") == EXPIRED
        assert store.lookups == 1

    run(ask())


def test_a_good_token_is_looked_up_once_in_five_seconds():
    async def ask() -> None:
        clock, store = ManualClock(), await a_store(TOKEN)
        authenticator = TokenAuthenticator(store, None, [], clock)
        for moment in (0, 1, 4.9, 5, 9.9):
            clock.elapsed_s = moment
            assert await authenticated_user(authenticator, f"Bearer {TOKEN}") == "ada"
        assert store.lookups == 2

    run(ask())


def test_a_revoked_token_is_refused_after_five_seconds():
    async def ask() -> None:
        clock, store = ManualClock(), await a_store(TOKEN)
        authenticator = TokenAuthenticator(store, None, [], clock)
        await authenticated_user(authenticator, f"Bearer {TOKEN}")
        await store.revoke_token(TOKEN[-9:])
        clock.elapsed_s = 5
        assert await refused(authenticator, f"Bearer {TOKEN}") == UNKNOWN

    run(ask())


def test_a_token_that_was_unknown_is_good_as_soon_as_it_is_made():
    async def ask() -> None:
        store = await a_store(OTHER)
        authenticator = TokenAuthenticator(store, None, [], ManualClock())
        assert await refused(authenticator, f"Bearer {TOKEN}") == UNKNOWN
        made = (await (await a_store(TOKEN)).tokens())[0]
        await store.put_token(made)
        assert await authenticated_user(authenticator, f"Bearer {TOKEN}") == "ada"

    run(ask())


def test_a_malformed_token_never_reaches_the_store():
    async def ask() -> None:
        store = await a_store(TOKEN)
        for value in ("x", JWT, "accord_short", "sk-" + "a" * 43):
            await refused(TokenAuthenticator(store, None, [], ManualClock()), f"Bearer {value}")
        assert store.lookups == 0

    run(ask())


def test_the_token_cache_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(identity, "MAX_CACHED", 2)

    async def ask() -> None:
        three = ["accord_" + letter * 43 for letter in "abc"]
        store = await a_store(*three)
        authenticator = TokenAuthenticator(store, None, [], ManualClock())
        for token in (*three, *three[1:]):
            await authenticated_user(authenticator, f"Bearer {token}")
        assert store.lookups == 3
        await authenticated_user(authenticator, f"Bearer {three[0]}")
        assert store.lookups == 4

    run(ask())


def test_a_failing_store_is_unavailable_not_unauthenticated():
    async def ask() -> None:
        store = await a_store(TOKEN)
        await store.close()
        with pytest.raises(StoreError) as caught:
            await authenticated_user(TokenAuthenticator(store, None, [], ManualClock()), f"Bearer {TOKEN}")
        assert caught.value.code is ErrorCode.UNAVAILABLE

    run(ask())


@pytest.mark.parametrize(
    ("value", "has_tokens", "who"),
    [(JWT, True, "grace"), (JWT, False, "grace"), (TOKEN, True, "ada"), (TOKEN, False, None), (OTHER, True, None)],
)
def test_a_jwt_goes_to_the_provider_and_a_token_to_the_store(value: str, has_tokens: bool, who: str | None):
    async def ask() -> None:
        store: TokenStore | None = await a_store(TOKEN) if has_tokens else None
        authenticator = TokenAuthenticator(store, Voucher(), [], ManualClock())
        if who is None:
            assert await refused(authenticator, f"Bearer {value}") == UNKNOWN
        else:
            assert await authenticated_user(authenticator, f"Bearer {value}") == who

    run(ask())


@pytest.mark.parametrize("value", ["", f"Bearer {TOKEN}", "nonsense"])
def test_without_tokens_every_caller_is_anonymous(value: str):
    async def ask() -> None:
        assert (
            await TokenAuthenticator(None, None, [], ManualClock()).authenticate({b"authorization": value.encode()})
            == Caller()
        )

    run(ask())


def test_the_first_token_closes_an_open_service_within_five_seconds_and_for_good():
    async def ask() -> None:
        clock, store = ManualClock(), await a_store()
        authenticator = TokenAuthenticator(store, None, [], clock)
        assert await authenticator.authenticate({}) == Caller()
        await store.put_token((await (await a_store(TOKEN)).tokens())[0])
        clock.elapsed_s = 5
        assert await refused(authenticator, "") == MISSING
        assert await authenticated_user(authenticator, f"Bearer {TOKEN}") == "ada"
        await store.revoke_token(TOKEN[-9:])
        for clock.elapsed_s in (10, 1000):
            assert await refused(authenticator, "") == MISSING
        assert await refused(TokenAuthenticator(store, None, [], clock), "") == MISSING

    run(ask())


def test_a_service_that_cannot_ask_its_store_is_not_open():
    async def ask() -> None:
        store = await a_store()
        await store.close()
        with pytest.raises(StoreError):
            await TokenAuthenticator(store, None, [], ManualClock()).authenticate({})

    run(ask())


def test_requests_are_counted_by_user_or_else_by_address():
    async def ask() -> None:
        authenticator: Authenticator = TokenAuthenticator(None, None, ["1/minute"], ManualClock())
        for caller, address in [(Caller("ada"), "192.0.2.1"), (Caller(), "192.0.2.1"), (Caller(), "192.0.2.2")]:
            await authenticator.count_request(caller, address)
            with pytest.raises(RefusedError) as caught:
                await authenticator.count_request(caller, address)
            assert caught.value.code is ErrorCode.RATE_LIMIT_EXCEEDED
            assert caught.value.details == {"retry_after": 60, "limit": "1/minute"}

    run(ask())
