"""Verifying JWTs with the keys of a real provider on loopback: which are accepted and which are not."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from accord.servers.http.authentication import EXPIRED, TokenAuthenticator
from accord.servers.http.oidc import NO_ALGORITHM, NO_KEY, NOT_COMPLETE, NOT_READABLE, NOT_SIGNED, NOT_YET
from tests.servers.clock import START, ManualClock, run
from tests.servers.provider import AUDIENCE, Provider, a_provider, oidc, private_key, public_jwk, refused

NOW = int(START.timestamp())


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        ("rsa-1", "RS256"),
        ("rsa-1", "RS384"),
        ("rsa-1", "RS512"),
        ("rsa-1", "PS256"),
        ("rsa-1", "PS512"),
        ("p256-1", "ES256"),
        ("p384-1", "ES384"),
        ("ed-1", "EdDSA"),
    ],
)
def test_a_valid_token_identifies_its_user(key: str, algorithm: str):
    async def ask() -> None:
        async with a_provider() as provider:
            provider.keys = [public_jwk(name) for name in ("rsa-1", "p256-1", "p384-1", "ed-1")]
            keys = oidc(provider)
            assert await keys.user_of(provider.token(key=key, algorithm=algorithm)) == "ada"
            assert (
                await keys.user_of(provider.token({"aud": ["other", AUDIENCE]}, key=key, algorithm=algorithm)) == "ada"
            )

    run(ask())


def test_a_valid_jwt_authenticates_its_user():
    async def ask() -> None:
        async with a_provider() as provider:
            authenticator = TokenAuthenticator(None, oidc(provider), [], ManualClock())
            headers = {b"authorization": b"Bearer " + provider.token().encode()}
            assert (await authenticator.authenticate(headers)).id == "ada"

    run(ask())


OTHER_ISSUER = "The token is from another issuer"
OTHER_AUDIENCE = "The token is for another audience"
NO_USER = "The token's claim sub does not name a user"


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"iss": "https://evil.example"}, OTHER_ISSUER),
        ({"iss": None}, NOT_COMPLETE),
        ({"aud": "another"}, OTHER_AUDIENCE),
        ({"aud": ["another"]}, OTHER_AUDIENCE),
        ({"aud": []}, NOT_COMPLETE),
        ({"aud": None}, NOT_COMPLETE),
        ({"exp": None}, NOT_COMPLETE),
        ({"exp": NOW - 30}, EXPIRED),
        ({"exp": NOW - 9999}, EXPIRED),
        ({"exp": "soon"}, NOT_READABLE),
        ({"exp": True}, NOT_READABLE),
        ({"exp": float("nan")}, NOT_READABLE),
        ({"exp": float("inf")}, NOT_READABLE),
        ({"exp": 10**400}, NOT_READABLE),
        ({"nbf": NOW + 31}, NOT_YET),
        ({"nbf": "later"}, NOT_READABLE),
        ({"sub": None}, NO_USER),
        ({"sub": ""}, NO_USER),
        ({"sub": 7}, NO_USER),
        ({"sub": ["ada"]}, NO_USER),
        ({"sub": "a\0b"}, NO_USER),
        ({"sub": "a" * 513}, NO_USER),
    ],
)
def test_a_token_with_wrong_claims_is_refused_with_the_reason(claims: dict[str, Any], sentence: str):
    async def ask() -> None:
        async with a_provider() as provider:
            assert await refused(oidc(provider), raw_signed(provider, claims)) == sentence

    run(ask())


def raw_signed(provider: Provider, claims: dict[str, Any]) -> str:
    """Signed as it is: the library would not sign some of these, but a careless provider may."""
    body = json.loads(base64.urlsafe_b64decode(provider.token().split(".")[1] + "=="))
    kept = {name: value for name, value in {**body, **claims}.items() if value is not None}
    signing_input = f"{part({'alg': 'ES256', 'kid': 'p256-1'})}.{part(kept)}"
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(signing_input.encode(), private_key("p256-1"))
    return f"{signing_input}.{part(signature)}"


@pytest.mark.parametrize("claims", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"nbf": None}, {"iat": None}])
def test_clocks_may_differ_by_half_a_minute(claims: dict[str, Any]):
    async def ask() -> None:
        async with a_provider() as provider:
            assert await oidc(provider).user_of(provider.token(claims)) == "ada"

    run(ask())


def test_a_token_ends_with_our_clock_not_with_its_first_use():
    async def ask() -> None:
        async with a_provider() as provider:
            clock = ManualClock()
            keys = oidc(provider, clock)
            assert await keys.user_of(provider.token()) == "ada"
            clock.elapsed_s = 330
            assert await refused(keys, provider.token()) == EXPIRED

    run(ask())


def forged_signature(provider: Provider) -> str:
    return provider.token(key="rsa-1", secret=private_key("rsa-2"))


def changed_claims(provider: Provider) -> str:
    head, _, signature = provider.token().split(".")
    other = provider.token({"sub": "root"}).split(".")[1]
    return f"{head}.{other}.{signature}"


def algorithm_none(provider: Provider) -> str:
    _, body, _ = provider.token().split(".")
    return f"{part({'alg': 'none', 'kid': 'rsa-1'})}.{body}."


def signed_with_the_public_key(provider: Provider) -> str:
    """The confusion attack: the public key, which is not secret, used as a shared secret."""
    _, body, _ = provider.token().split(".")
    public = private_key("rsa-1").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signing_input = f"{part({'alg': 'HS256', 'kid': 'rsa-1'})}.{body}"
    return f"{signing_input}.{part(hmac.new(public, signing_input.encode(), hashlib.sha256).digest())}"


def signed_for_another_kind_of_key(provider: Provider) -> str:
    return provider.token(key="p256-1", headers={"kid": "rsa-1"}, algorithm="ES256")


def without_signature(provider: Provider) -> str:
    return provider.token().rpartition(".")[0] + "."


def critical_extension(provider: Provider) -> str:
    return provider.token(headers={"crit": ["exp"], "exp": 1})


def nested_header(provider: Provider) -> str:
    return f"{part(b'[' * 5000)}.{provider.token().partition('.')[2]}"


def header_that_is_a_list(provider: Provider) -> str:
    return f"{part([])}.{provider.token().partition('.')[2]}"


def three_letters(_: Provider) -> str:
    return "a.b.c"


def two_dots(_: Provider) -> str:
    return ".."


def own_key_in_the_header(provider: Provider) -> str:
    return provider.token(key="rsa-2", headers={"kid": "rsa-1", "jwk": public_jwk("rsa-2")})


@pytest.mark.parametrize(
    ("attack", "sentence"),
    [
        (forged_signature, NOT_SIGNED),
        (changed_claims, NOT_SIGNED),
        (without_signature, NOT_SIGNED),
        (own_key_in_the_header, NOT_SIGNED),
        (algorithm_none, NO_ALGORITHM),
        (signed_with_the_public_key, NO_ALGORITHM),
        (signed_for_another_kind_of_key, NO_KEY),
        (critical_extension, NOT_READABLE),
        (nested_header, NOT_READABLE),
        (header_that_is_a_list, NOT_READABLE),
        (three_letters, NOT_READABLE),
        (two_dots, NOT_READABLE),
    ],
)
def test_no_attack_on_the_signature_gets_in(attack: Callable[[Provider], str], sentence: str):
    async def ask() -> None:
        async with a_provider() as provider:
            keys = oidc(provider)
            assert await refused(keys, attack(provider)) == sentence
            assert await keys.user_of(provider.token()) == "ada"

    run(ask())


def test_another_claim_can_name_the_user():
    async def ask() -> None:
        async with a_provider() as provider:
            keys = oidc(provider, user_claim="preferred_username")
            assert await keys.user_of(provider.token({"preferred_username": "lovelace"})) == "lovelace"
            assert "preferred_username" in await refused(keys, provider.token())

    run(ask())


def test_without_the_library_the_error_names_what_to_install():
    script = "import sys; sys.modules['jwt'] = None; import accord.servers.http.oidc"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    expected = "[server.oidc] needs jwt, which is not installed: pip install 'accord-agents[oidc]'"
    assert f"MissingExtraError: {expected}" in done.stderr
