"""Identities from an OpenID Connect provider: its keys, and the JWTs they sign. Needs `accord-agents[oidc]`."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout
from pydantic import TypeAdapter, ValidationError

from accord.config import OidcConfig
from accord.errors import ErrorCode, RefusedError, UsageError
from accord.ports import Clock
from accord.servers.http.authentication import EXPIRED, unauthenticated
from accord.wire.session import Id

# The public keys of an OpenID Connect provider: fetched when needed, by one at a time, and kept for minutes.
#
# It decides which keys are used and for which algorithms, and how often the provider is asked. It knows no token. A
# secret shared with the provider is no public key: symmetric algorithms and `none` are in no table here, so that a
# public key can never pass for one.

NEEDED: Final = "Identities of an OpenID Connect provider are configured: install accord-agents[oidc]"

try:
    import jwt
    from jwt.algorithms import has_crypto
except ImportError as error:
    raise UsageError(NEEDED) from error
if not has_crypto:
    raise UsageError(NEEDED)

FETCH_TIMEOUT_S: Final = 5.0
KEPT_S: Final = 600.0
"""How old keys may be."""
UNKNOWN_KEPT_S: Final = 60.0
"""How old they may be if the one that is looked for is not among them: the provider may have new ones."""
RETRY_S: Final = 5.0
"""How long nobody asks again after the provider did not answer."""
MAX_DOCUMENT_BYTES: Final = 256 * 1024
DISCOVERY: Final = "/.well-known/openid-configuration"
NOT_REACHED: Final = "The identity provider cannot be asked now"

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# By the key's type and curve.
USES: Final[Mapping[tuple[str, str | None], Sequence[str]]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, and what it may be used for."""

    kid: str | None
    algorithms: frozenset[str]
    material: Any


class BadDocumentError(Exception):
    """What the provider sent is not what it should be."""


class ProviderKeys:
    """One provider's keys."""

    ALGORITHMS: ClassVar = frozenset(name for names in USES.values() for name in names)

    def __init__(self, config: OidcConfig, clock: Clock, *, timeout_s: float) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._timeout_s: Final = timeout_s
        self._keys: Sequence[Key] = ()
        self._fetched_at: float | None = None
        self._failed_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The key of that name, after a second look if the provider was not asked lately."""
        for max_age_s, retry_s in ((KEPT_S, RETRY_S), (UNKNOWN_KEPT_S, UNKNOWN_KEPT_S)):
            if key := _fitting(await self._not_older(max_age_s, retry_s), kid, algorithm):
                return key
        return None

    async def _not_older(self, max_age_s: float, retry_s: float) -> Sequence[Key]:
        if self._is_within(self._fetched_at, max_age_s):
            return self._keys
        if self._is_within(self._failed_at, retry_s):
            raise _unavailable()
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch())
        # Shielded: whoever goes away does not take the answer from the others who wait for it.
        await asyncio.shield(self._fetching)
        if self._failed_at is not None:
            raise _unavailable()
        return self._keys

    def _is_within(self, moment: float | None, seconds: float) -> bool:
        return moment is not None and self._clock.monotonic() - moment < seconds

    async def _fetch(self) -> None:
        """Ask the provider; whatever comes of it is noted, so that nobody has to be there to be told."""
        try:
            async with asyncio.timeout(self._timeout_s):
                self._keys = await self._fetched()
            self._fetched_at, self._failed_at = self._clock.monotonic(), None
        except (ClientError, OSError, ValueError, RecursionError, BadDocumentError) as error:  # OSError: timeouts too
            self._failed_at = self._clock.monotonic()
            log.warning("The keys of %s cannot be had: %s", self._config.issuer, str(error) or type(error).__name__)
        finally:
            self._fetching = None

    async def _fetched(self) -> Sequence[Key]:
        config, total = self._config, ClientTimeout(total=self._timeout_s)
        async with ClientSession(timeout=total, auto_decompress=False) as session:
            address = config.jwks_url or await self._discovered(session)
            return _keys(await _document(session, address))

    async def _discovered(self, session: ClientSession) -> str:
        issuer = self._config.issuer
        return address_in(await _document(session, issuer.rstrip("/") + DISCOVERY), issuer)


def address_in(discovery: Mapping[str, Any], issuer: str) -> str:
    """Where this issuer's keys are, if the document is the issuer's."""
    if discovery.get("issuer") != issuer:
        raise BadDocumentError("the discovery document is of another issuer")
    address = discovery.get("jwks_uri")
    # The keys of an https issuer are not fetched by a way on which anybody can change them.
    safe = ("https",) if urlsplit(issuer).scheme == "https" else ("https", "http")
    if not isinstance(address, str) or urlsplit(address).scheme not in safe:
        raise BadDocumentError("the discovery document has no usable jwks_uri")
    return address


async def _document(session: ClientSession, address: str) -> dict[str, Any]:
    """The JSON object at this address, if it is not too large. Redirects are not followed: nobody vouches for them."""
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


def _keys(document: Mapping[str, Any]) -> Sequence[Key]:
    """The keys that can be used; others, such as those for encryption, may be there too."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise BadDocumentError("a document without keys")
    return [key for one in cast("list[Any]", listed) if (key := _key(one)) is not None]


def _key(told: Any) -> Key | None:
    if not isinstance(told, dict):
        return None
    one = cast("dict[str, Any]", told)
    algorithms = _algorithms(one)
    if not algorithms or one.get("use", "sig") != "sig":
        return None
    try:
        material: Any = jwt.PyJWK(one, algorithm=min(algorithms)).key
    except Exception:  # noqa: BLE001 - whatever the libraries say of one key, the others are as good as before
        return None
    kid = one.get("kid")
    return Key(kid if isinstance(kid, str) else None, algorithms, material)


def _algorithms(one: Mapping[str, Any]) -> frozenset[str]:
    kind, curve, named = one.get("kty"), one.get("crv"), one.get("alg")
    possible = next((names for (kty, crv), names in USES.items() if kty == kind and crv in (None, curve)), ())
    return frozenset(name for name in possible if named in (None, name))


def _fitting(keys: Sequence[Key], kid: str | None, algorithm: str) -> Key | None:
    """The key of that name; a token that names none can only mean the one that fits."""
    fitting = [key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
    return fitting[0] if fitting and (kid is not None or len(fitting) == 1) else None


def _unavailable() -> RefusedError:
    return RefusedError(NOT_REACHED, ErrorCode.UNAVAILABLE, {"retry_after": int(RETRY_S)})


# Identities from an OpenID Connect provider: whose a JWT is, by the provider's own keys. Needs `accord-agents[oidc]`.
#
# It decides whether a token is believed: signed by a key of the issuer with an algorithm that this key is for, meant
# for us, and good at this moment (RFC 7519, 8725). Which keys there are is told by `keys.py`. It fetches nothing
# itself.

LEEWAY_S: Final = 30
MAX_SECONDS: Final = 1e12
REQUIRED: Final = ("iss", "aud", "exp")
NOT_READABLE: Final = "The token is not a JWT that can be read"
NOT_SIGNED: Final = "The token's signature is not one of the identity provider's"
NO_ALGORITHM: Final = "The token is not signed in a way that is accepted here"
NO_KEY: Final = "The token is signed with a key that the identity provider does not have"
NOT_COMPLETE: Final = f"The token lacks one of the claims {', '.join(REQUIRED)}"
NOT_YET: Final = "The token is not valid yet"
NOT_BELIEVED: Final = "The token is not believed"

# The first that fits is told.
SENTENCES: Final[Mapping[type[Exception], str]] = {
    jwt.InvalidSignatureError: NOT_SIGNED,
    jwt.InvalidAlgorithmError: NO_ALGORITHM,
    jwt.InvalidIssuerError: "The token is of another issuer",
    jwt.InvalidAudienceError: "The token is meant for another audience",
    jwt.MissingRequiredClaimError: NOT_COMPLETE,
    jwt.DecodeError: NOT_READABLE,
}

_USER: Final[TypeAdapter[str]] = TypeAdapter(Id)


class OidcVerifier:
    """Knows whose JWTs are, by the keys of one issuer."""

    def __init__(self, config: OidcConfig, clock: Clock, *, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._ring: Final = ProviderKeys(config, clock, timeout_s=timeout_s)

    async def user_of(self, token: str) -> str:
        """Whose it is; raises `RefusedError`: `UNAUTHENTICATED`, or `UNAVAILABLE` if there are no keys to check it."""
        kid, algorithm = _header(token)
        key = await self._ring.find(kid, algorithm)
        if key is None:
            raise unauthenticated(NO_KEY)
        claims = self._claims(token, key, algorithm)
        _check_times(claims, self._clock.now())
        return self._user(claims)

    def _claims(self, token: str, key: Key, algorithm: str) -> dict[str, Any]:
        """What the token says, after the library found that our issuer says so to us."""
        try:
            return jwt.decode(
                token,
                key.material,
                algorithms=[algorithm],
                issuer=self._config.issuer,
                audience=self._config.audience,
                # Time is checked by our clock. `sub` and `jti` need not be what this library expects of them.
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
            raise _refused(error) from None

    def _user(self, claims: Mapping[str, Any]) -> str:
        name = self._config.user_claim
        try:
            return _USER.validate_python(claims.get(name), strict=True)
        except ValidationError:
            raise unauthenticated(f"The token's claim {name} does not name a user") from None


def _header(token: str) -> tuple[str | None, str]:
    """Which key the token names, if any, and its algorithm. Nothing of it is believed yet."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise unauthenticated(NOT_READABLE) from None
    kid, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ProviderKeys.ALGORITHMS:
        raise unauthenticated(NO_ALGORITHM)
    return kid if isinstance(kid, str) else None, algorithm


def _refused(error: Exception) -> RefusedError:
    fitting = (sentence for kind, sentence in SENTENCES.items() if isinstance(error, kind))
    return unauthenticated(next(fitting, NOT_BELIEVED))


def _check_times(claims: Mapping[str, Any], now: datetime) -> None:
    at = now.timestamp()
    if at >= _seconds(claims["exp"]) + LEEWAY_S:
        raise unauthenticated(EXPIRED)
    if "nbf" in claims and at < _seconds(claims["nbf"]) - LEEWAY_S:
        raise unauthenticated(NOT_YET)


def _seconds(value: Any) -> float:
    """A NumericDate. Infinity and NaN are none: they would never be over."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_SECONDS:
        raise unauthenticated(NOT_READABLE)
    return value
