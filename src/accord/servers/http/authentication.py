"""Authentication: finds the token in the headers, verifies Accord's own tokens, and passes JWTs to their verifier.

It decides who a caller is, not what the caller may do: `service.begin_turn` compares the identity with the request. It
knows nothing of HTTP but two headers. No message repeats any part of a token.
"""

import re
from collections.abc import Sequence
from typing import Final, Protocol

from accord.errors import ErrorCode, RefusedError
from accord.ports import Channel, Clock, TokenStore
from accord.servers.http.rates import RateLimits
from accord.servers.service import ANONYMOUS, Caller, Headers
from accord.wire.session import TokenRecord, looks_like_token, token_digest

MAX_TOKEN_CHARS: Final = 8192
RECHECK_S: Final = 5.0
"""How long a valid token is not looked up again, which is also how long it may work after it was revoked."""
MAX_CACHED: Final = 1024

MISSING: Final = (
    "This service requires a token; send the header `Authorization: Bearer <token>`, or `x-api-key: <token>`"
)
MALFORMED: Final = "The Authorization header is malformed; send the word Bearer, a space and one token"
MALFORMED_KEY: Final = "The x-api-key header is malformed; send one token and nothing else"
TOO_LONG: Final = f"The token is longer than {MAX_TOKEN_CHARS} characters; send one that this service issued"
UNKNOWN: Final = "The token is not known to this service, or it was revoked; ask the operator for a new one"
EXPIRED: Final = "The token has expired; get a new one"

# RFC 6750: the scheme in any letter case, then a token68. A repeated header has a comma, so it does not match.
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)[ \t]*", re.IGNORECASE)
_API_KEY: Final = re.compile(rb"[ \t]*([A-Za-z0-9._~+/-]+=*)[ \t]*")
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


class IdentityVerifier(Protocol):
    """Verifies tokens of one kind, such as the JWTs of an identity provider (`oidc.OidcVerifier`)."""

    async def user_of(self, token: str) -> str:
        """The user of this token.

        Raises `RefusedError`: `UNAUTHENTICATED`, or `UNAVAILABLE` if the token cannot be verified now.
        """
        ...


def unauthenticated(message: str) -> RefusedError:
    """The error for a caller who cannot be identified."""
    return RefusedError(message, ErrorCode.UNAUTHENTICATED, {"scheme": "Bearer"})


def request_token(headers: Headers) -> str:
    """The token of a request, from `Authorization` or from `x-api-key`, which clients of Anthropic's API send.

    Raises `RefusedError` if there is none. A client may send a key of another service in one of the two, because it is
    set in the user's environment; then the one that has the form of our tokens counts.
    """
    bearer, api_key = headers.get(b"authorization", b""), headers.get(b"x-api-key", b"")
    if not api_key:
        if not bearer:
            raise unauthenticated(MISSING)
        return _read_token(bearer, _BEARER, MALFORMED)
    other = _read_token(api_key, _API_KEY, MALFORMED_KEY)
    token = _read_token(bearer, _BEARER, MALFORMED) if bearer else other
    return other if looks_like_token(other) and not looks_like_token(token) else token


def _read_token(value: bytes, shape: re.Pattern[bytes], malformed: str) -> str:
    if len(value) > MAX_TOKEN_CHARS + len(b"Bearer "):
        raise unauthenticated(TOO_LONG)
    found = shape.fullmatch(value)
    if found is None:
        raise unauthenticated(malformed)
    return found[1].decode("ascii")


class TokenVerifier:
    """Verifies Accord's own tokens. Those found in the store are cached for seconds; unknown ones are not cached."""

    def __init__(self, tokens: TokenStore, clock: Clock, recheck_s: float = RECHECK_S) -> None:
        self._tokens: Final = tokens
        self._clock: Final = clock
        self._recheck_s: Final = recheck_s
        self._checked_at: float | None = None
        self._is_required = False
        self._cache: Final[dict[str, tuple[TokenRecord, float]]] = {}
        """Tokens by their digest, each with the time until which it need not be looked up again."""

    async def is_required(self) -> bool:
        """Whether callers need a token: true for good once any was added, noticed within seconds."""
        now = self._clock.monotonic()
        if not self._is_required and (self._checked_at is None or now - self._checked_at >= self._recheck_s):
            self._is_required = await self._tokens.requires_tokens()
            self._checked_at = now
        return self._is_required

    async def record_of(self, token: str) -> TokenRecord:
        """The record of this token; raises `RefusedError` if it is unknown or has expired."""
        record = await self._find(token_digest(token)) if looks_like_token(token) else None
        if record is None:
            raise unauthenticated(UNKNOWN)
        if record.is_expired(self._clock.now()):
            raise unauthenticated(EXPIRED)
        return record

    async def _find(self, digest: str) -> TokenRecord | None:
        # Taken before the lookup: a token that is revoked during it must not be cached for longer than any other.
        now = self._clock.monotonic()
        cached = self._cache.get(digest)
        if cached is not None and now < cached[1]:
            return cached[0]
        self._cache.pop(digest, None)
        record = await self._tokens.token_by_digest(digest)
        if record is not None:
            if len(self._cache) >= MAX_CACHED:
                del self._cache[next(iter(self._cache))]  # the oldest
            self._cache[record.digest] = record, now + self._recheck_s
        return record


class TokenAuthenticator:
    """Authenticate the token of a request; apply the rate limits of the service and of the key.

    Without an identity provider, a service is open as long as its store has never had a token: every caller is
    anonymous. Adding the first token closes it within `recheck_s`, without a restart; revoking the last one does not
    open it again. Without a store as well, it is always open.
    """

    def __init__(  # noqa: PLR0913 - the parts that are handed in
        self,
        tokens: TokenStore | None,
        oidc: IdentityVerifier | None,
        rates: Sequence[str] | None,
        clock: Clock,
        *,
        recheck_s: float = RECHECK_S,
        channel: Channel | None = None,
    ) -> None:
        self._tokens: Final = None if tokens is None else TokenVerifier(tokens, clock, recheck_s)
        self._oidc: Final = oidc
        self._rates: Final = RateLimits(rates, clock, channel=channel)

    async def authenticate(self, headers: Headers) -> Caller:
        """Identify the caller; raises `RefusedError` with `UNAUTHENTICATED` if that fails."""
        if self._oidc is None and (self._tokens is None or not await self._tokens.is_required()):
            return ANONYMOUS
        token = request_token(headers)
        if self._oidc is not None and _JWT.fullmatch(token):
            return Caller(await self._oidc.user_of(token))
        if self._tokens is None:
            raise unauthenticated(UNKNOWN)
        record = await self._tokens.record_of(token)
        return Caller(record.user, record)

    async def count_request(self, caller: Caller, address: str) -> None:
        """Count a request of this caller; raises `RefusedError` with `RATE_LIMIT_EXCEEDED` above the rate limit."""
        await self._rates.count_request(caller.id, address, caller.key)

    async def count_key_request(self, caller: Caller) -> None:
        """Count a request by the rates of the caller's key alone."""
        if caller.key is not None:
            await self._rates.count_key_request(caller.key)
