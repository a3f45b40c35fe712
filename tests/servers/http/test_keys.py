"""Which keys of a provider are used, how often they are fetched, and what happens if the provider fails."""

import asyncio
from typing import Any

import pytest

from accord.errors import ErrorCode
from accord.servers.http.oidc import MAX_DOCUMENT_BYTES, NO_KEY, NOT_REACHED, BadDocumentError, jwks_address
from tests.servers.clock import START, ManualClock, run
from tests.servers.provider import a_provider, oidc, public_jwk, refused

NOW = int(START.timestamp())
ONE_FETCH = ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    "document",
    [
        {"use": "enc"},
        {"alg": "PS256"},
        {"alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": None},
        {"kty": ["RSA"]},
        {"n": "!"},
        {"n": None},
        {"e": 7},
        {"kid": "another"},
        {"kid": 7},
    ],
)
def test_a_key_that_is_not_for_this_is_not_used_and_spoils_no_other(document: dict[str, Any]):
    async def ask() -> None:
        async with a_provider() as provider:
            provider.keys = [{**public_jwk("rsa-1"), **document}, None, [], public_jwk("p256-1")]
            keys = oidc(provider)
            assert await refused(keys, provider.token()) == NO_KEY
            assert await keys.user_of(provider.token(key="p256-1", algorithm="ES256")) == "ada"

    run(ask())


def test_a_key_that_is_too_short_is_not_accepted():
    async def ask() -> None:
        async with a_provider() as provider:
            provider.keys = [public_jwk("short-1")]
            with pytest.warns(UserWarning, match="bits"):
                token = provider.token(key="short-1")
            assert await refused(oidc(provider), token) == "The token is not accepted"

    run(ask())


@pytest.mark.parametrize(
    ("names", "believed"), [(["rsa-1"], True), (["rsa-1", "p256-1"], True), (["rsa-1", "rsa-2"], False)]
)
def test_a_token_that_names_no_key_can_only_mean_the_one_that_fits(names: list[str], believed: bool):
    async def ask() -> None:
        async with a_provider() as provider:
            provider.keys = [public_jwk(name) for name in names]
            token = provider.token(headers={"kid": None})
            if believed:
                assert await oidc(provider).user_of(token) == "ada"
            else:
                assert await refused(oidc(provider), token) == NO_KEY

    run(ask())


HTTPS = "https://id.example"


@pytest.mark.parametrize(
    ("issuer", "document"),
    [
        (HTTPS, {"issuer": HTTPS, "jwks_uri": "http://id.example/keys"}),
        (HTTPS, {"issuer": HTTPS + "/", "jwks_uri": "https://id.example/keys"}),
        (HTTPS, {"issuer": HTTPS, "jwks_uri": "file:///keys"}),
        (HTTPS, {"issuer": HTTPS, "jwks_uri": ["https://id.example/keys"]}),
        (HTTPS, {"issuer": HTTPS}),
        (HTTPS, {}),
    ],
)
def test_a_discovery_document_that_cannot_be_trusted_is_not_used(issuer: str, document: dict[str, Any]):
    with pytest.raises(BadDocumentError):
        jwks_address(document, issuer)


def test_the_keys_of_an_issuer_may_be_on_another_host():
    elsewhere = "https://keys.example/jwks"
    assert jwks_address({"issuer": HTTPS, "jwks_uri": elsewhere}, HTTPS) == elsewhere


def test_an_address_of_the_keys_spares_the_discovery():
    async def ask() -> None:
        async with a_provider() as provider:
            assert await oidc(provider, jwks_url=f"{provider.issuer}/keys").user_of(provider.token()) == "ada"
            assert provider.requests == ["/keys"]

    run(ask())


# How often the provider is requested


def test_keys_are_kept_for_ten_minutes():
    async def ask() -> None:
        async with a_provider() as provider:
            clock = ManualClock()
            keys, token = oidc(provider, clock), provider.token({"exp": NOW + 9999})
            for moment in (0, 1, 599, 600, 601):
                clock.elapsed_s = moment
                assert await keys.user_of(token) == "ada"
            assert provider.requests == ONE_FETCH * 2

    run(ask())


def test_rotated_keys_are_found_but_unknown_ones_do_not_cause_many_fetches():
    async def ask() -> None:
        async with a_provider() as provider:
            clock = ManualClock()
            keys = oidc(provider, clock)
            await keys.user_of(provider.token())
            rotated = provider.token(key="rsa-2")
            provider.keys = [public_jwk("rsa-2")]
            for moment in (0, 30, 59):
                clock.elapsed_s = moment
                assert await refused(keys, rotated) == NO_KEY
            assert provider.requests == ONE_FETCH
            clock.elapsed_s = 60
            assert await keys.user_of(rotated) == "ada"
            assert await refused(keys, provider.token()) == NO_KEY
            for number in range(20):
                assert await refused(keys, provider.token(headers={"kid": f"made up {number}"})) == NO_KEY
            assert provider.requests == ONE_FETCH * 2

    run(ask())


def test_concurrent_requests_share_one_fetch():
    async def ask() -> None:
        async with a_provider() as provider:
            keys, token = oidc(provider), provider.token()
            assert await asyncio.gather(*(keys.user_of(token) for _ in range(50))) == ["ada"] * 50
            assert provider.requests == ONE_FETCH

    run(ask())


def test_a_client_that_disconnects_does_not_cancel_the_fetch_for_others():
    async def ask() -> None:
        async with a_provider() as provider:
            provider.answering.clear()
            keys, token = oidc(provider), provider.token()
            first, second = (asyncio.create_task(keys.user_of(token)) for _ in range(2))
            await provider.was_asked_for_keys.wait()
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            provider.answering.set()
            assert await second == "ada"
            assert provider.requests == ONE_FETCH

    run(ask())


# A provider that does not answer as it should


def test_a_provider_that_is_down_is_unavailable_not_unauthenticated():
    async def ask() -> None:
        async with a_provider() as provider:
            token = provider.token()
        assert await refused(oidc(provider), token, ErrorCode.UNAVAILABLE) == NOT_REACHED

    run(ask())


def test_a_provider_that_never_answers_is_given_up():
    async def ask() -> None:
        async with a_provider() as provider:
            provider.answering.clear()
            keys = oidc(provider, timeout_s=0.05)
            assert await refused(keys, provider.token(), ErrorCode.UNAVAILABLE) == NOT_REACHED

    run(ask())


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": 500},
        {"status": 404},
        {"raw_keys": b"<html>"},
        {"raw_keys": b"[]"},
        {"raw_keys": b"{}"},
        {"raw_keys": b'{"keys": {}}'},
        {"raw_keys": b"[" * 100_000},
        {"raw_keys": b"\xff"},
        {"raw_keys": b'{"keys": []}' + b" " * MAX_DOCUMENT_BYTES},
        {"discovery": {"issuer": "https://evil.example"}},
        {"discovery": {"issuer": None}},
        {"discovery": {"jwks_uri": None}},
        {"discovery": {"jwks_uri": "ftp://127.0.0.1/keys"}},
        {"discovery": {"jwks_uri": "http://[/"}},
    ],
    ids=str,
)
def test_an_invalid_answer_of_the_provider_is_unavailable_not_unauthenticated(wrong: dict[str, Any]):
    async def ask() -> None:
        async with a_provider() as provider:
            vars(provider).update(wrong)
            assert await refused(oidc(provider), provider.token(), ErrorCode.UNAVAILABLE) == NOT_REACHED

    run(ask())


def test_a_redirect_is_not_followed():
    async def ask() -> None:
        async with a_provider() as provider:
            keys = oidc(provider, jwks_url=f"{provider.issuer}/elsewhere")
            assert await refused(keys, provider.token(), ErrorCode.UNAVAILABLE) == NOT_REACHED
            assert provider.requests == ["/elsewhere"]

    run(ask())


def test_a_failed_provider_is_not_requested_again_for_seconds():
    async def ask() -> None:
        async with a_provider() as provider:
            clock = ManualClock()
            keys = oidc(provider, clock)
            provider.status = 503
            for moment in (0, 1, 4.9):
                clock.elapsed_s = moment
                await refused(keys, provider.token(), ErrorCode.UNAVAILABLE)
            assert len(provider.requests) == 1
            provider.status, clock.elapsed_s = 200, 5
            assert await keys.user_of(provider.token()) == "ada"

    run(ask())


def test_a_failed_refresh_does_not_affect_tokens_with_known_keys():
    async def ask() -> None:
        async with a_provider() as provider:
            clock = ManualClock()
            keys = oidc(provider, clock)
            await keys.user_of(provider.token())
            provider.status, clock.elapsed_s = 503, 60
            await refused(keys, provider.token(key="rsa-2"), ErrorCode.UNAVAILABLE)
            await refused(keys, provider.token(key="rsa-2"), ErrorCode.UNAVAILABLE)
            assert await keys.user_of(provider.token()) == "ada"
            assert len(provider.requests) == 3

    run(ask())
