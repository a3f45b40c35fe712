"""Identities from an OpenID Connect provider: whose a JWT is, by the provider's own keys. Needs `accord-agents[oidc]`.

It decides whether a token is believed: signed by a key of the issuer with an algorithm that this key is for, meant for
us, and good at this moment (RFC 7519, 8725). Which keys there are is told by `keys.py`. It fetches nothing itself.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from accord.config import OidcConfig
from accord.errors import RefusedError
from accord.ports import Clock
from accord.servers.identity import EXPIRED, unauthenticated
from accord.servers.keys import FETCH_TIMEOUT_S, Key, KeyRing, jwt
from accord.wire.session import Id

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


class OidcKeys:
    """Knows whose JWTs are, by the keys of one issuer."""

    def __init__(self, config: OidcConfig, clock: Clock, *, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        self._config: Final = config
        self._clock: Final = clock
        self._ring: Final = KeyRing(config, clock, timeout_s=timeout_s)

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
    if not isinstance(algorithm, str) or algorithm not in KeyRing.ALGORITHMS:
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
