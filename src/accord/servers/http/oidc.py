"""Verifies JWTs of an OpenID Connect provider with the provider's public keys. Needs `accord-agents[oidc]`.

A token is accepted if a key of the issuer has signed it with an algorithm that this key is for, if it was issued for
us, and if it is valid at this moment (RFC 7519, RFC 8725). Keys are fetched when they are needed, by one task at a
time, and kept for minutes. Symmetric algorithms and `none` are in no table here, so that a public key can never be
used as a shared secret.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout
from pydantic import TypeAdapter, ValidationError

from accord.config import OidcConfig
from accord.errors import ErrorCode, MissingExtraError, RefusedError
from accord.extras import install_command, naming_extra
from accord.ports import Clock
from accord.servers.http.authentication import EXPIRED, unauthenticated
from accord.wire.session import Id

with naming_extra("[server.oidc]"):
    import jwt
    from jwt.algorithms import has_crypto
if not has_crypto:
    raise MissingExtraError(f"[server.oidc] needs cryptography, which is not installed: {install_command('oidc')}")

FETCH_TIMEOUT_S: Final = 5.0
MAX_AGE_S: Final = 600.0
"""How long keys are used before they are fetched again."""
UNKNOWN_MAX_AGE_S: Final = 60.0
"""The same if the wanted key is not among them: the provider may have new ones."""
RETRY_S: Final = 5.0
"""How long after a failed fetch the next one is made."""
MAX_DOCUMENT_BYTES: Final = 256 * 1024
DISCOVERY: Final = "/.well-known/openid-configuration"
LEEWAY_S: Final = 30
MAX_SECONDS: Final = 1e12
REQUIRED: Final = ("iss", "aud", "exp")

NOT_REACHED: Final = "The token cannot be verified now: the identity provider does not answer; try again later"
NOT_READABLE: Final = "The token is not a valid JWT"
NOT_SIGNED: Final = "The token's signature does not match the identity provider's key"
NO_ALGORITHM: Final = "The token is signed with an algorithm that is not accepted"
NO_KEY: Final = "The token is signed with a key that the identity provider does not list"
NOT_COMPLETE: Final = f"The token lacks one of the claims {', '.join(REQUIRED)}"
NOT_YET: Final = "The token is not valid yet"
NOT_ACCEPTED: Final = "The token is not accepted"

# The first matching entry applies.
MESSAGES: Final[Mapping[type[Exception], str]] = {
    jwt.InvalidSignatureError: NOT_SIGNED,
    jwt.InvalidAlgorithmError: NO_ALGORITHM,
    jwt.InvalidIssuerError: "The token is from another issuer",
    jwt.InvalidAudienceError: "The token is for another audience",
    jwt.MissingRequiredClaimError: NOT_COMPLETE,
    jwt.DecodeError: NOT_READABLE,
}

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Accepted algorithms by the key's type and curve.
ALGORITHMS: Final[Mapping[tuple[str, str | None], Sequence[str]]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}

_USER: Final[TypeAdapter[str]] = TypeAdapter(Id)

LOGGER: Final = logging.getLogger(__name__)


class BadDocumentError(Exception):
    """The provider sent a document that cannot be used."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key and the algorithms that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    material: Any


class OidcVerifier:
    """Verifies the JWTs of one issuer."""

    def __init__(self, config: OidcConfig, clock: Clock, *, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._keys: Final = ProviderKeys(config, clock, timeout_s=timeout_s)

    async def user_of(self, token: str) -> str:
        """The user of this token.

        Raises `RefusedError`: `UNAUTHENTICATED`, or `UNAVAILABLE` if there are no keys to verify it with.
        """
        # Nothing of the header is trusted yet; it only selects the key.
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise unauthenticated(NOT_READABLE) from None
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in ProviderKeys.ALGORITHMS:
            raise unauthenticated(NO_ALGORITHM)
        key = await self._keys.find(kid if isinstance(kid, str) else None, algorithm)
        if key is None:
            raise unauthenticated(NO_KEY)
        claims = self._verified_claims(token, key, algorithm)
        name = self._config.user_claim
        try:
            return _USER.validate_python(claims.get(name), strict=True)
        except ValidationError:
            raise unauthenticated(f"The token's claim {name} does not name a user") from None

    def _verified_claims(self, token: str, key: PublicKey, algorithm: str) -> dict[str, Any]:
        """The claims, after signature, issuer, audience and times were verified."""
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.material,
                algorithms=[algorithm],
                issuer=self._config.issuer,
                audience=self._config.audience,
                # Times are checked below, by our clock. `sub` and `jti` need not be what this library expects.
                options={
                    "require": [*REQUIRED],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            messages = (message for kind, message in MESSAGES.items() if isinstance(error, kind))
            raise unauthenticated(next(messages, NOT_ACCEPTED)) from None
        now = self._clock.now().timestamp()
        if now >= _seconds(claims["exp"]) + LEEWAY_S:
            raise unauthenticated(EXPIRED)
        if "nbf" in claims and now < _seconds(claims["nbf"]) - LEEWAY_S:
            raise unauthenticated(NOT_YET)
        return claims


def _seconds(value: Any) -> float:
    """A NumericDate. Infinity and NaN are refused: such a token would never expire."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_SECONDS:
        raise unauthenticated(NOT_READABLE)
    return value


class ProviderKeys:
    """The public keys of one provider. Knows nothing of tokens."""

    ALGORITHMS: ClassVar = frozenset(name for names in ALGORITHMS.values() for name in names)

    def __init__(self, config: OidcConfig, clock: Clock, *, timeout_s: float) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._timeout_s: Final = timeout_s
        self._keys: Sequence[PublicKey] = ()
        self._fetched_at: float | None = None
        self._failed_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key of this id; an unknown one makes the keys be fetched again, unless that was done lately."""
        for max_age_s, retry_s in ((MAX_AGE_S, RETRY_S), (UNKNOWN_MAX_AGE_S, UNKNOWN_MAX_AGE_S)):
            keys = await self._current_keys(max_age_s, retry_s)
            matching = [key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
            # A token that names no key can only mean the single one that matches.
            if matching and (kid is not None or len(matching) == 1):
                return matching[0]
        return None

    async def _current_keys(self, max_age_s: float, retry_s: float) -> Sequence[PublicKey]:
        if self._is_within(self._fetched_at, max_age_s):
            return self._keys
        if self._is_within(self._failed_at, retry_s):
            raise _unavailable()
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        # Shielded: a client that disconnects must not cancel the fetch for the others that wait for it.
        await asyncio.shield(self._fetching)
        if self._failed_at is not None:
            raise _unavailable()
        return self._keys

    def _is_within(self, moment: float | None, seconds: float) -> bool:
        return moment is not None and self._clock.monotonic() - moment < seconds

    async def _fetch(self) -> None:
        """Fetch the keys. A failure is recorded and logged, not raised: the waiting requests may be gone."""
        config, total = self._config, ClientTimeout(total=self._timeout_s)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                ClientSession(timeout=total, auto_decompress=False) as session,
            ):
                address = config.jwks_url
                if not address:
                    discovery = await _fetch_document(session, config.issuer.rstrip("/") + DISCOVERY)
                    address = jwks_address(discovery, config.issuer)
                keys = (await _fetch_document(session, address)).get("keys")
            if not isinstance(keys, list):
                raise BadDocumentError("a document without keys")
            # Keys that cannot be used, such as those for encryption, may be listed, too.
            parsed = [_parse_key(key) for key in cast("list[Any]", keys)]
            self._keys = [key for key in parsed if key is not None]
            self._fetched_at, self._failed_at = self._clock.monotonic(), None
        except (ClientError, OSError, ValueError, RecursionError, BadDocumentError) as error:  # OSError: timeouts too
            self._failed_at = self._clock.monotonic()
            reason = str(error) or type(error).__name__
            LOGGER.warning("The keys of %s cannot be fetched: %s", config.issuer, reason)
        finally:
            self._fetching = None


def _unavailable() -> RefusedError:
    return RefusedError(NOT_REACHED, ErrorCode.UNAVAILABLE, {"retry_after": int(RETRY_S)})


def jwks_address(discovery: Mapping[str, Any], issuer: str) -> str:
    """The address of this issuer's keys, from its discovery document."""
    if discovery.get("issuer") != issuer:
        raise BadDocumentError("the discovery document is of another issuer")
    address = discovery.get("jwks_uri")
    # Keys of an https issuer are not fetched over plain http, where anyone on the path could replace them.
    safe = ("https",) if urlsplit(issuer).scheme == "https" else ("https", "http")
    if not isinstance(address, str) or urlsplit(address).scheme not in safe:
        raise BadDocumentError("the discovery document has no usable jwks_uri")
    return address


async def _fetch_document(session: ClientSession, address: str) -> dict[str, Any]:
    """The JSON object at this address. Redirects are not followed: their target is not what the operator configured."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with session.get(address, headers=headers, allow_redirects=False) as response:
        if response.status != 200:
            raise BadDocumentError(f"status {response.status}")
        body = bytearray()
        async for chunk in response.content.iter_chunked(MAX_DOCUMENT_BYTES):
            body += chunk
            if len(body) > MAX_DOCUMENT_BYTES:
                raise BadDocumentError(f"a document of more than {MAX_DOCUMENT_BYTES} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise BadDocumentError("a document that is not an object")
    return cast("dict[str, Any]", document)


def _parse_key(value: Any) -> PublicKey | None:
    """One key of the provider's list; None if it cannot be used."""
    if not isinstance(value, dict):
        return None
    jwk = cast("dict[str, Any]", value)
    kind, curve, named = jwk.get("kty"), jwk.get("crv"), jwk.get("alg")
    possible = next((names for (kty, crv), names in ALGORITHMS.items() if kty == kind and crv in (None, curve)), ())
    algorithms = frozenset(name for name in possible if named in (None, name))
    if not algorithms or jwk.get("use", "sig") != "sig":
        return None
    try:
        material: Any = jwt.PyJWK(jwk, algorithm=min(algorithms)).key
    except Exception:  # noqa: BLE001 - a key that the libraries reject does not affect the others
        return None
    kid = jwk.get("kid")
    return PublicKey(kid if isinstance(kid, str) else None, algorithms, material)
