"""Authentication: reads the Authorization header, checks Accord's own tokens, and hands a JWT to its provider's checks.

It decides who a caller is, not what they may do: whether that identity fits the request is decided in `admission.py`.
It does not know HTTP beyond the one header, nor where tokens are kept. No message of it repeats what was sent.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from accord.errors import ErrorCode, RefusedError
from accord.ports import Clock, TokenStore
from accord.servers.http.rates import Rates
from accord.servers.service import ANONYMOUS, Caller, Headers
from accord.wire.session import TokenRecord, looks_like_token, token_digest

MAX_TOKEN_CHARS: Final = 8192
RECHECK_S: Final = 5.0
"""How long a good token is not looked up again, and so how long after being revoked it may still be accepted."""
MAX_REMEMBERED: Final = 1024

MISSING: Final = "A token is needed: send the header `Authorization: Bearer <token>`"
MALFORMED: Final = "The Authorization header should be the word Bearer, a space and one token"
TOO_LONG: Final = f"The token is longer than {MAX_TOKEN_CHARS} characters"
UNKNOWN: Final = "The token is not known here; it may have been revoked"
EXPIRED: Final = "The token has expired; ask for a new one"

# RFC 6750: the scheme in any letter case, then a token68. A header sent twice has a comma, so it does not match.
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)[ \t]*", re.IGNORECASE)
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


class IdentityVerifier(Protocol):
    """Someone who can tell whose a JWT is, such as `oidc.OidcVerifier`."""

    async def user_of(self, token: str) -> str:
        """Whose it is; raises `RefusedError`: `UNAUTHENTICATED`, or `UNAVAILABLE` if that cannot be found out now."""
        ...


def unauthenticated(message: str) -> RefusedError:
    """The refusal of somebody whom we do not know."""
    return RefusedError(message, ErrorCode.UNAUTHENTICATED, {"scheme": "Bearer"})


def bearer_token(headers: Headers) -> str:
    """The token that the request shows."""
    value = headers.get(b"authorization", b"")
    if not value:
        raise unauthenticated(MISSING)
    if len(value) > MAX_TOKEN_CHARS + len(b"Bearer "):
        raise unauthenticated(TOO_LONG)
    found = _BEARER.fullmatch(value)
    if found is None:
        raise unauthenticated(MALFORMED)
    return found[1].decode("ascii")


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A token that was found, and until when that is believed."""

    token: TokenRecord
    until: float


class TokenVerifier:
    """Knows Accord's own tokens. Those found are remembered for seconds; those not found never are."""

    def __init__(self, tokens: TokenStore, clock: Clock, recheck_s: float = RECHECK_S) -> None:
        self._tokens: Final = tokens
        self._clock: Final = clock
        self._recheck_s: Final = recheck_s
        self._asked_at: float | None = None
        self._is_required = False
        self._remembered: Final[dict[str, _Remembered]] = {}

    async def is_required(self) -> bool:
        """Whether callers need a token: true for good once any was added, found out within seconds."""
        now = self._clock.monotonic()
        if not self._is_required and (self._asked_at is None or now - self._asked_at >= self._recheck_s):
            self._is_required = await self._tokens.requires_tokens()
            self._asked_at = now
        return self._is_required

    async def user_of(self, token: str) -> str:
        """Whose token this is."""
        if not looks_like_token(token):
            raise unauthenticated(UNKNOWN)
        found = await self._find(token_digest(token))
        if found is None:
            raise unauthenticated(UNKNOWN)
        if found.is_expired(self._clock.now()):
            raise unauthenticated(EXPIRED)
        return found.user

    async def _find(self, digest: str) -> TokenRecord | None:
        known = self._remembered.get(digest)
        # As old as the question, not the answer: what was revoked while the store was asked is not believed for longer.
        now = self._clock.monotonic()
        if known is not None and now < known.until:
            return known.token
        self._remembered.pop(digest, None)
        found = await self._tokens.token_by_digest(digest)
        if found is not None:
            self._remember(found, now + self._recheck_s)
        return found

    def _remember(self, token: TokenRecord, until: float) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]  # the one that was put first
        self._remembered[token.digest] = _Remembered(token, until)


class TokenAuthenticator:
    """Authenticate the bearer token and apply the rate limit.

    Without an identity provider, a service is open while its store never had a token: everybody is let in, unnamed.
    Adding the first token closes it within `recheck_s`, without a restart; revoking the last one does not open it.
    Without a store as well, it is always open.
    """

    def __init__(
        self,
        tokens: TokenStore | None,
        oidc: IdentityVerifier | None,
        rates: Sequence[str] | None,
        clock: Clock,
        *,
        recheck_s: float = RECHECK_S,
    ) -> None:
        self._tokens: Final = None if tokens is None else TokenVerifier(tokens, clock, recheck_s)
        self._oidc: Final = oidc
        self._rates: Final = Rates(rates, clock)

    async def authenticate(self, headers: Headers) -> Caller:
        """Who this is; raises `RefusedError` with `UNAUTHENTICATED` for nobody we know."""
        if self._oidc is None and (self._tokens is None or not await self._tokens.is_required()):
            return ANONYMOUS
        token = bearer_token(headers)
        vouching = self._oidc if self._oidc is not None and _JWT.fullmatch(token) else self._tokens
        if vouching is None:
            raise unauthenticated(UNKNOWN)
        return Caller(await vouching.user_of(token))

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count one more request of this caller; raises `RefusedError` with `RATE_LIMIT_EXCEEDED` if too many."""
        await self._rates.take(caller.id, address)
